// From the LLVM dialect to object files.
#ifndef KILN_CODEGEN_OBJECTCOMPILER_H
#define KILN_CODEGEN_OBJECTCOMPILER_H

#include "kiln/Codegen/CPUInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include <functional>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace kiln::codegen {

struct ObjectOptions {
  OptLevel level = OptLevel::O3;
  /// Threads; 0: one for each core.
  unsigned jobs = 0;
  /// Called with each optimised LLVM module, in program order, before its code is generated
  /// (`--emit=llvm`). Only then are all modules kept until the end.
  std::function<void(const llvm::Module &)> onModule = {};
  /// Parent of the timers of `--time-passes`; may be null.
  mlir::TimingScope *timing = nullptr;
};

/// Dialects, passes' dependencies and translations that code generation needs, to be appended
/// before a context is used from several threads.
void registerTranslations(mlir::DialectRegistry &registry);

/// Turns modules in the LLVM dialect into objects; one for each thread.
class ObjectCompiler {
public:
  ObjectCompiler(const CPUInfo &target, const ObjectOptions &options);
  ~ObjectCompiler();

  /// Optimised LLVM IR.
  llvm::Expected<std::unique_ptr<llvm::Module>> translate(mlir::ModuleOp module,
                                                          llvm::LLVMContext &context);
  /// Refers to no symbol but `known`, memcpy, memset and memmove.
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> emitObject(llvm::Module &module,
                                                                 const llvm::StringSet<> &known);

  /// The code of all functions is for this CPU.
  void prepare(llvm::Module &module);

private:
  void optimize(llvm::Module &module);

  const CPUInfo &target;
  const ObjectOptions &options;
  std::unique_ptr<llvm::TargetMachine> machine;
};

/// An object with everything in `module`, which is in the LLVM dialect; it refers to no symbol but
/// those that the module declares, memcpy, memset and memmove.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileToObject(mlir::ModuleOp module, const CPUInfo &target, const ObjectOptions &options = {});

/// The same of LLVM IR as text, which external code generators write; what it refers to is found when
/// it is linked. `name` is for messages.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileTextToObject(llvm::StringRef name, llvm::StringRef text, const CPUInfo &target,
                    const ObjectOptions &options = {});

} // namespace kiln::codegen

#endif // KILN_CODEGEN_OBJECTCOMPILER_H
