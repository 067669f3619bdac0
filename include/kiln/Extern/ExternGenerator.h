// External code generators: parts of a program whose code somebody else has. A generator declares
// patterns; subgraphs that one matches become functions, which the generator is handed with the
// whole module, once. docs/extern.md explains how one is written.
#ifndef KILN_EXTERN_EXTERNGENERATOR_H
#define KILN_EXTERN_EXTERNGENERATOR_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kiln::externs {

/// On an op of a marked subgraph and on the function that it becomes: `{generator, pattern}`, and
/// `group`, the number of the subgraph, on ops.
inline constexpr llvm::StringLiteral markAttrName = "kernel.extern";
/// On a function whose code there is: #kernel.extern_code.
inline constexpr llvm::StringLiteral codeAttrName = "kernel.extern_code";
/// On a module: what generators have made for it to be linked with, a list of `{name, format,
/// contents}`.
inline constexpr llvm::StringLiteral objectsAttrName = "kernel.extern_objects";

/// On a module: for each C function by its name, the signatures that it is declared with.
inline constexpr llvm::StringLiteral signaturesAttrName = "kernel.extern_signatures";

/// A subgraph that a pattern has found.
struct ExternMatch {
  /// All in one block.
  llvm::SmallVector<mlir::Operation *> ops;
  /// Results of these in the order in which the function returns them. Only these are used outside.
  llvm::SmallVector<mlir::Value> results;
};

struct ExternPattern {
  std::string name;
  /// The subgraph whose last op is `root`, of the torch or the kernel dialect. A predicate on
  /// dtypes, shapes, layouts or symbols that does not hold is a failure.
  std::function<mlir::FailureOr<ExternMatch>(mlir::Operation *root)> match;
  /// Constants that the subgraph reads become part of the function. Otherwise they are passed. No
  /// parameter or buffer is captured: these can be replaced when the model is loaded.
  bool capturesConstants = false;
  /// The function is marked `inline`: IR that is put in place of calls of it. It is outlined as any
  /// other, and shared.
  bool isInline = false;
};

class ExternGenerator {
public:
  virtual ~ExternGenerator();

  virtual llvm::StringRef getName() const = 0;
  /// The first that matches has the subgraph: larger ones come first.
  virtual llvm::ArrayRef<ExternPattern> getPatterns() const = 0;

  /// Custom operators (`lib.scale.default`) that its patterns are about and that write none of their
  /// arguments. A saved program does not say so, and other custom operators are taken to write.
  virtual std::vector<std::string> getPureOperators() const { return {}; }

  /// Compiles what it can of `functions`, which are all that its patterns have made of `module`:
  /// gives each the attribute codeAttrName, and adds objects to the module. What it leaves without
  /// goes back to where it came from. A failure is reported as an error.
  virtual mlir::LogicalResult generate(mlir::ModuleOp module,
                                       llvm::ArrayRef<mlir::func::FuncOp> functions) const = 0;
};

/// The objects that a generator has made, beside calls of libraries.
enum class ObjectFormat {
  Object, // a relocatable object of the host's
  LLVM,   // LLVM IR as text, which is compiled for the host's CPU
};

/// Links the model with an object, which defines C functions as in kiln-c/custom_op.h.
void addObject(mlir::ModuleOp module, llvm::StringRef name, ObjectFormat format,
               llvm::StringRef contents);

/// A generator before one is made.
struct ExternRegistration {
  std::string name;
  std::string summary;
  /// `options` is the text between the braces of NAME{OPTIONS}, or empty. The error is one line.
  std::function<llvm::Expected<std::unique_ptr<ExternGenerator>>(llvm::StringRef options,
                                                                 mlir::MLIRContext *context)>
      create;
  /// The only target that it has code for (kiln/Targets/Target.h); empty: any.
  std::string target = {};
};

/// Makes a generator known; once for each name, before any other thread asks.
void registerExternGenerator(ExternRegistration registration);
llvm::ArrayRef<ExternRegistration> getRegisteredExternGenerators();
/// Null if there is none; of NAME{OPTIONS}, too.
const ExternRegistration *lookupExternGenerator(llvm::StringRef spec);

/// The generators of this compiler. May be called again.
void registerExternGenerators();

/// The parts of a list of NAME or NAME{OPTIONS}, which has commas between and inside of braces.
llvm::Expected<std::vector<std::string>> splitExternList(llvm::StringRef list);

/// Names of functions by their structure, for all modules of a process that share it. A name
/// follows from the structure alone, so that modules that are compiled apart agree on it.
class SymbolCache {
public:
  /// `prefix` and a hash of the structure.
  std::string getName(llvm::StringRef prefix, llvm::StringRef structure);

private:
  std::mutex mutex;
  llvm::StringMap<std::string> names;      // by structure
  llvm::StringMap<std::string> structures; // by name
};

/// How often a generator was of use.
struct ExternCounts {
  unsigned subgraphs = 0; // that were outlined
  unsigned functions = 0; // that these became
  unsigned compiled = 0;  // that it has made code for
  unsigned slower = 0;    // of these, that own code is faster than
};

/// The generators of one compilation, in the order in which they are asked.
class ExternSession {
public:
  /// For a model that runs on `target`; empty: not known.
  static llvm::Expected<std::shared_ptr<ExternSession>>
  create(llvm::ArrayRef<std::string> specs, llvm::StringRef target, mlir::MLIRContext *context);
  /// For a pass that has none and is run alone: makes it of the pass's options, and reports why it cannot.
  static llvm::LogicalResult ensure(std::shared_ptr<ExternSession> &session,
                                    llvm::ArrayRef<std::string> specs, mlir::MLIRContext *context);

  std::vector<std::unique_ptr<ExternGenerator>> generators;
  SymbolCache symbols;
  llvm::MapVector<llvm::StringRef, ExternCounts> counts;
  /// Asked of each function that a generator has compiled, with its first call: false leaves the
  /// function to own code. Null: all are the generators'.
  std::function<bool(kernel::InvokeExternOp call, mlir::func::FuncOp function)> choose;
};

/// Parses a generator's options, a struct derived from mlir::PassPipelineOptions.
template <typename Options>
llvm::Error parseGeneratorOptions(Options &options, llvm::StringRef text) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (mlir::succeeded(options.parseFromString(text, stream)))
    return llvm::Error::success();
  return llvm::createStringError(llvm::StringRef(message).trim());
}

} // namespace kiln::externs

#endif // KILN_EXTERN_EXTERNGENERATOR_H
