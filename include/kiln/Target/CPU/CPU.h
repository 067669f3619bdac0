// From scheduled kernels to object files, and to functions that can be called at once.
#ifndef KILN_TARGET_CPU_CPU_H
#define KILN_TARGET_CPU_CPU_H

#include "kiln/Sym/Expr.h"
#include "kiln/Target/CPU/TargetInfo.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/MemoryBuffer.h"
#include <functional>
#include <vector>

namespace llvm {
class Module;
class ThreadPoolInterface;
} // namespace llvm

namespace kiln::cpu {

struct CompileOptions {
  OptLevel level = OptLevel::O3;
  /// Threads; 0: one for each core.
  unsigned jobs = 0;
  /// Called with each optimised LLVM module, in program order, before its code is generated
  /// (`--emit=llvm`). Only then are all modules kept until the end.
  std::function<void(const llvm::Module &)> onModule = {};
  /// Parent of the timers of `--time-passes`; may be null.
  mlir::TimingScope *timing = nullptr;
};

/// Dialects, passes' dependencies and translations that the functions below need, to be appended
/// before a context is used from several threads.
void registerTranslations(mlir::DialectRegistry &registry);

/// A relocatable object for each kernel.func of `module` and for each function that these share;
/// `module` is left as it is. The kernels get a schedule if they have none. The result depends on
/// the module, target and level alone. Objects refer to no symbol but each other's, memcpy, memset
/// and memmove.
llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
compileKernels(mlir::ModuleOp module, const TargetInfo &target, const CompileOptions &options = {});

/// An object with everything in `module`, which is in the LLVM dialect; it refers to no symbol but
/// those that the module declares, memcpy, memset and memmove.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
compileToObject(mlir::ModuleOp module, const TargetInfo &target,
                const CompileOptions &options = {});

/// Kernels that run while the compiler does, for constant folding.
class KernelJit {
public:
  /// `kiln_rt_kernel` of the runtime.
  using Function = void (*)(void *const *buffers, const int64_t *symbols, int64_t task,
                            void *scratch, int32_t *error);
  struct Kernel {
    Function function;
    sym::Expr grid;
    int64_t scratchBytes;
  };

  /// For `cpu`, if this machine runs its code, otherwise for this machine.
  static llvm::Expected<std::unique_ptr<KernelJit>> create(llvm::StringRef cpu = "native");
  ~KernelJit();

  /// Compiles the kernel.funcs of `module`; their schedules are chosen for the same CPU. Names must
  /// be new to this jit.
  llvm::Error add(mlir::ModuleOp module, const CompileOptions &options = {});
  llvm::Expected<Kernel> lookup(llvm::StringRef name) const;
  /// Runs all tasks of a kernel, on `pool` if given. `buffers` are the operands, then the results;
  /// `symbols` in the order of the module's `torch.symbols`. An index out of range is an error.
  llvm::Error run(const Kernel &kernel, llvm::ArrayRef<void *> buffers,
                  llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> symbols = {},
                  llvm::ThreadPoolInterface *pool = nullptr) const;

private:
  struct Impl;
  explicit KernelJit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_CPU_H
