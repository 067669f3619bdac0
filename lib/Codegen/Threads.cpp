// A pool of threads for the time that one list takes.
#include "kiln/Codegen/Threads.h"
#include "llvm/Support/ThreadPool.h"

void kiln::codegen::runOnThreads(mlir::MLIRContext *context, unsigned jobs, size_t count,
                                 llvm::function_ref<void(std::atomic<size_t> &)> work) {
  if (!jobs)
    jobs = llvm::hardware_concurrency().compute_thread_count();
  if (!context->isMultithreadingEnabled())
    jobs = 1;
  jobs = std::min<size_t>(jobs, count);
  if (!jobs)
    return;
  std::atomic<size_t> next = 0;
  if (jobs == 1)
    return work(next);
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(jobs));
  for (unsigned i = 0; i < jobs; ++i)
    pool.async([&] { work(next); });
  pool.wait();
}
