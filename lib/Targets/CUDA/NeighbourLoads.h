//===- NeighbourLoads.h - Loads of neighbours together ----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_NEIGHBOURLOADS_H
#define KILN_LIB_TARGETS_CUDA_NEIGHBOURLOADS_H

#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Values that a region reads at some places, where these are neighbours in memory and begin at a multiple
/// of as many: it is loaded by up to 16 bytes at a time. LLVM puts loads together only where it can
/// tell from an address how aligned that is, which it cannot from one of many terms.
class NeighbourLoads {
public:
  /// `places[i]` are the values of the region's dims. Emits the loads.
  NeighbourLoads(DeviceFrame &frame, mlir::Region &region,
                 llvm::ArrayRef<llvm::SmallVector<sym::Expr>> places);

  /// Gives `body`, which emits the region, what has been loaded for place `i`.
  void set(codegen::BodyEmitter &body, size_t i) const;

private:
  mlir::Value findBase(kernel::ReadOp read,
                       llvm::ArrayRef<llvm::SmallVector<sym::Expr>> places) const;

  DeviceFrame &frame;
  llvm::SmallVector<std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>> loaded;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_NEIGHBOURLOADS_H
