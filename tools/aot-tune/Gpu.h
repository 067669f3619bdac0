// An NVIDIA GPU as a machine, through the driver that models use (runtime/cuda/driver.h).
#ifndef KILN_AOT_TUNE_GPU_H
#define KILN_AOT_TUNE_GPU_H

#include "Machine.h"
#include <string>

namespace kiln::tune {

/// The first GPU. A process that has opened one must not fork.
llvm::Expected<std::unique_ptr<Machine>> openGpu();

struct GpuModel {
  std::string architecture; // `sm_90`
  std::string name;
};
/// The first GPU, which a process of its own asks about itself.
llvm::Expected<GpuModel> describeGpu();

} // namespace kiln::tune

#endif // KILN_AOT_TUNE_GPU_H
