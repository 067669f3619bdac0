//===- ViewDecision.h - Whether a call copies or is a view ------*- C++ -*-===//
#ifndef KILN_LIB_TRANSFORMS_TORCH_VIEWDECISION_H
#define KILN_LIB_TRANSFORMS_TORCH_VIEWDECISION_H

#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Sym/Assumptions.h"

namespace kiln::torch {

enum class Sharing { Copy, View, Maybe };

struct ViewDecision {
  Sharing sharing;
  /// With argument 0 in other strides, it could be the other way.
  bool byStrides = false;
};

/// Whether result 0 of the call shares the memory of argument 0, whose recorded strides are in
/// `torch.strides` of the call.
ViewDecision decideSharing(CallOp call, const sym::Assumptions &known);

/// The numbers of the arguments on whose places in memory the call's results depend.
llvm::ArrayRef<unsigned> getStridedArguments(CallOp call);

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_VIEWDECISION_H
