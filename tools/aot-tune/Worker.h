// A process that measures, so that a candidate that crashes or hangs ends that process alone.
#ifndef KILN_AOT_TUNE_WORKER_H
#define KILN_AOT_TUNE_WORKER_H

#include "kiln/Tuning/Bundle.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln::tune {

struct Options {
  std::string bundle;
  int threads = 0;
  /// Kernels run on a GPU.
  bool onGpu = false;
  /// About the time for a kernel, and the most that a candidate's first run may take.
  double kernelSeconds = 2, trialSeconds = 10;
};

/// Measures all kernels. `onKernel` is called with the name of each. An error: nothing can be
/// measured here.
llvm::Expected<std::vector<tuning::KernelResult>>
measure(const tuning::Manifest &manifest, const Options &options,
        llvm::function_ref<void(llvm::StringRef)> onKernel);

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_WORKER_H
