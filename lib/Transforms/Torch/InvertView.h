//===- InvertView.h - Write through a view of a tensor ----------*- C++ -*-===//
#ifndef KILN_LIB_TRANSFORMS_TORCH_INVERTVIEW_H
#define KILN_LIB_TRANSFORMS_TORCH_INVERTVIEW_H

#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::torch {

/// `source` with the elements that result `result` of `view`, a view of it, shows replaced by those
/// of `value`; null for views without an inverse.
mlir::Value invertView(mlir::ImplicitLocOpBuilder &builder, CallOp view, unsigned result,
                       mlir::Value source, mlir::Value value);

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_INVERTVIEW_H
