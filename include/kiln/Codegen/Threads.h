// Threads that share a list of things to compile.
#ifndef KILN_CODEGEN_THREADS_H
#define KILN_CODEGEN_THREADS_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <atomic>

namespace kiln::codegen {

/// Calls `work` on each of `jobs` threads (0: one for each core), at most `count`, and returns when
/// all are done. `work` keeps what a thread needs, and takes the number of the next thing from
/// `next` until that is `count`. A context without threads takes no locks: there is one job then.
void runOnThreads(mlir::MLIRContext *context, unsigned jobs, size_t count,
                  llvm::function_ref<void(std::atomic<size_t> &next)> work);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_THREADS_H
