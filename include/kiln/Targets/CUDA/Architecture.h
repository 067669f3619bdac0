// Which GPUs code is made for.
#ifndef KILN_TARGETS_CUDA_ARCHITECTURE_H
#define KILN_TARGETS_CUDA_ARCHITECTURE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kiln::cuda {

struct Architecture {
  /// As LLVM and ptxas call it: `sm_90`.
  std::string name;
  /// 10 * major + minor of the compute capability; 0 for the emulator.
  unsigned number = 0;

  /// True of this machine in the place of a GPU: kernels are host code, which tests run
  /// (docs/cuda.md).
  bool isEmulator() const { return number == 0; }
};

/// From `sm_80,sm_90` (any order, `emulator` among them): in rising order, each once.
llvm::Expected<llvm::SmallVector<Architecture>> parseArchitectures(llvm::StringRef list);

/// The program that assembles PTX: `given` if that is not empty, otherwise $CUDA_HOME/bin/ptxas,
/// what the search path has, or the usual place; empty if there is none.
std::string findPtxas(llvm::StringRef given);

} // namespace kiln::cuda

#endif // KILN_TARGETS_CUDA_ARCHITECTURE_H
