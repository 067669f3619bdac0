// From scheduled kernels to object files, and to functions that can be called at once.
#ifndef KILN_TARGETS_CPU_CPU_H
#define KILN_TARGETS_CPU_CPU_H

#include "kiln/Codegen/ObjectCompiler.h"
#include "kiln/Sym/Expr.h"
#include <vector>

namespace llvm {
class ThreadPoolInterface;
} // namespace llvm

namespace kiln::cpu {

/// Makes the target `cpu` known (kiln/Targets/Target.h).
void registerCPUTarget();

/// A relocatable object for each kernel.func of `module` and for each function that these share;
/// `module`, whose kernels have schedules, is left as it is. The result depends on the module,
/// target and level alone. Objects refer to no symbol but each other's, memcpy, memset and memmove.
llvm::Expected<std::vector<std::unique_ptr<llvm::MemoryBuffer>>>
compileKernels(mlir::ModuleOp module, const codegen::CPUInfo &target,
               const codegen::ObjectOptions &options = {});

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
  llvm::Error add(mlir::ModuleOp module, const codegen::ObjectOptions &options = {});
  llvm::Expected<Kernel> lookup(llvm::StringRef name) const;
  /// Runs all tasks of a kernel, on `pool` if given. `buffers` are the operands, then the results;
  /// `symbols` in the order of the module's `sym.symbols`. An index out of range is an error.
  llvm::Error run(const Kernel &kernel, llvm::ArrayRef<void *> buffers,
                  llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> symbols = {},
                  llvm::ThreadPoolInterface *pool = nullptr) const;

private:
  struct Impl;
  explicit KernelJit(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_CPU_H
