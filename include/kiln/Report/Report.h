// The report of a compilation, as one page to look at (docs/report.md). The stages hand
// over what they have; nothing of it is in the page but JSON, which the page's own scripts draw.
#ifndef KILN_REPORT_REPORT_H
#define KILN_REPORT_REPORT_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBufferRef.h"
#include <string>
#include <vector>

namespace kiln::report {

/// A remark of a pass (kiln/Dialect/Kernel/Remarks.h).
struct Remark {
  /// Its function is that of the op, such as the kernel.
  std::string pass, name, function, where, text, reason;
  std::optional<double> cycles;
  bool isMissed = false;
  mlir::Location location;

  auto key() const { return std::tie(pass, where, name, text, reason, function); }
};

/// How the model was compiled.
struct Build {
  std::string model, compiler, target, cpu;
  unsigned level = 0;
  /// The machine of the kernels; null if there are no numbers for a roofline.
  const codegen::CPUModel *machine = nullptr;
};

class Report {
public:
  /// The program as it was imported, with `torch.modules` on its calls, which this removes.
  void addGraph(mlir::ModuleOp module);
  /// In any order.
  void addRemark(Remark remark) { remarks.push_back(std::move(remark)); }
  /// The host program, with its kernels scheduled and its memory planned. After all remarks.
  void addProgram(mlir::ModuleOp module, const Build &build);
  /// An object that becomes part of the output.
  void addObject(llvm::MemoryBufferRef object);
  /// The output that the objects have become.
  void addOutput(llvm::StringRef path);
  /// Times that a run has measured (readProfile).
  void addProfile(llvm::json::Value profile) { result["profile"] = std::move(profile); }

  llvm::json::Value finish() &&;

private:
  /// Steps by the numbers that profiles have for them.
  using StepNumbers = llvm::DenseMap<mlir::Operation *, int64_t>;

  void addBuild(const Build &build);
  void addKernels(mlir::ModuleOp module, const codegen::CPUModel *machine);
  void addFunctions(mlir::ModuleOp module);
  void addWeights(wrapper::ProgramOp program);
  void addFindings(mlir::ModuleOp module);
  llvm::json::Object describeStep(mlir::Operation *step, const StepNumbers &numbers);

  int64_t internModules(llvm::StringRef stack);
  int64_t internFile(llvm::StringRef path);
  /// The nodes that `location` names, in order.
  llvm::SmallVector<int64_t> findNodes(mlir::Location location) const;

  /// Texts that it borrows are the context's of the module.
  llvm::json::Object result;
  llvm::json::Array modules, files, code;
  llvm::StringMap<int64_t> moduleNumbers, fileNumbers, kernelNumbers, graphNumbers;
  /// Nodes of the program by their locations.
  llvm::DenseMap<mlir::Attribute, int64_t> nodes;
  std::vector<Remark> remarks;
};

/// The page with `report`, and beside it the report of `other` if that is not null.
std::string writePage(const llvm::json::Value &report, const llvm::json::Value &other = nullptr);

/// The report in a page that `writePage` has made. Anything else is an error that says what is wrong
/// with it.
llvm::Expected<llvm::json::Value> readPage(llvm::StringRef path);

/// Measurements of `aot-run --profile=FILE`.
llvm::Expected<llvm::json::Value> readProfile(llvm::StringRef path);

} // namespace kiln::report

#endif // KILN_REPORT_REPORT_H
