// One call from an exported program to a file.
#ifndef KILN_PIPELINE_COMPILE_H
#define KILN_PIPELINE_COMPILE_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Host/Debug.h"
#include "kiln/Link/Link.h"
#include "kiln/Tuning/Autotune.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <string>

namespace mlir {
class PassInstrumentation;
class TimingScope;
} // namespace mlir

namespace kiln {

/// Name and version, as in kiln_model_info.
std::string getCompilerVersion();

/// The output, in the order in which a compilation gets there: the last six need less of it.
enum class EmitKind {
  SharedObject,
  Fx,       // a Python module, and beside it a shared object with its kernels
  Object,   // relocatable; weights in a file beside it
  Assembly, // of all kernels
  LLVM,     // one LLVM module with all kernels and the host program
  Program,  // what a target that writes the program itself makes of it (kiln/Targets/Target.h)
  Json,     // the model's description
  Wrapper,  // MLIR after a stage, without the data of constants
  Kernel,
  Torch,
};

/// Remarks of passes on their decisions: each goes to `onLine`, a line each, or to a YAML file.
struct RemarkOptions {
  std::function<void(llvm::StringRef line)> onLine;
  std::string file; // "-" is standard output
  /// A regular expression for the names of the passes.
  std::string filter = ".*";
};

/// A page to look at (kiln/Report/Report.h).
struct ReportOptions {
  std::string file; // empty: there is none
  /// Another report, to stand beside this one; empty: none.
  std::string compare;
  /// The file that `aot-run --profile` has written; empty: none.
  std::string profile;
};

/// A program that becomes an entry of the model.
struct EntryOption {
  std::string name;
  std::string file; // .pt2, in which it is the only program, or has this name
};

struct CompileOptions {
  /// .pt2, whose programs are all entries. The model has its name.
  std::string input;
  /// Further entries. If `input` is a file of one of them, its programs are not entries by
  /// themselves.
  std::vector<EntryOption> entries;
  /// Buffers that the entries have in common: names, and globs of names.
  std::vector<std::string> sharedState;
  /// MLIR of the torch stage, or bytecode of it, in the place of what is in `input`.
  llvm::StringRef program;
  std::string output; // "-" is standard output, for kinds that are text
  /// Bytes of memory that the input's contents may take beyond its size (kiln/Frontend/Frontend.h).
  uint64_t maxUnpacked = uint64_t(4) << 30;
  EmitKind emit = EmitKind::SharedObject;
  /// The machine that the model runs on: the name of a registered target, or NAME{OPTIONS}
  /// (kiln/Targets/Target.h).
  std::string target = "cpu";
  /// An LLVM CPU name, a level, or `native`.
  std::string cpu = "native";
  /// The vectors ("avx512", "avx2", "none") of the CPU that has packed int4 weights; "native": those that
  /// the ranges of groups tell, or this one's.
  std::string int4Layout = "native";
  /// The processes of a group whose number the program does not say; 0: such a program is refused.
  unsigned ranks = 0;
  codegen::OptLevel level = codegen::OptLevel::O3;
  WeightsPlace weights = WeightsPlace::Embedded;
  /// Nothing of parameters and buffers is in the output: the host gives each model their values.
  bool laterWeights = false;
  /// The library that runs operators without a lowering: "torch", or "none": they are errors.
  std::string fallback = "none";
  /// Custom operators that C functions compute, SCHEMA=FUNCTION (torch::parseCustomOp).
  std::vector<std::string> customOps;
  /// Objects, archives and shared libraries that define such functions.
  std::vector<std::string> linkFiles;
  /// External code generators that may take over parts, each NAME or NAME{OPTIONS}, in order.
  std::vector<std::string> externs;
  /// Folder in which a model also looks for the libraries that it calls; empty: there is none.
  std::string libraryFolder;
  /// Schedules that are measured; a bundle takes the place of the output.
  tuning::Options tuning;
  /// Layouts of contracts, by what ChooseLayouts.cpp calls them. Set while they are measured.
  llvm::StringMap<std::string> layouts;
  /// The tensors and kernels that a run shows.
  host::DebugOptions debug;
  /// Threads; 0: one for each core.
  unsigned jobs = 0;
  /// Folder for what each stage leaves (MLIR, LLVM IR, objects); empty: nothing is kept.
  std::string saveTemps;
  /// Parent of the timers of all stages; may be null.
  mlir::TimingScope *timing = nullptr;
  /// Passes are silent unless these have a taker.
  RemarkOptions remarks;
  ReportOptions report;
  /// Makes what watches the passes of a stage, but for those of single kernels; null: nothing does.
  std::function<std::unique_ptr<mlir::PassInstrumentation>()> instrument;
  /// Told of what may be wrong with a model that is compiled all the same.
  std::function<void(llvm::StringRef text)> onWarning;
  /// Called when a stage starts.
  std::function<void(llvm::StringRef stage)> progress;
};

/// An error that is not the model's or the options' fault. `reproducer` is the file that shows it,
/// or empty: `kiln-opt --run-reproducer` runs it.
class InternalError : public llvm::ErrorInfo<InternalError> {
public:
  static char ID;
  InternalError(std::string message, std::string reproducer)
      : message(std::move(message)), reproducer(std::move(reproducer)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }
  const std::string &getReproducer() const { return reproducer; }

private:
  std::string message, reproducer;
};

/// Compiles `input` to `output`, which appears when it is complete. An error is one line; anything
/// but an InternalError is the input's fault.
llvm::Error compile(const CompileOptions &options);

/// The file for a reproducer of the stage that is running if the process crashes. Set before
/// `compile`; default: a new name in the folder for temporary files.
void setCrashReproducerPath(llvm::StringRef path);

} // namespace kiln

#endif // KILN_PIPELINE_COMPILE_H
