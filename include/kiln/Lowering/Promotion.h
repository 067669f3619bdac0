// PyTorch's type promotion (torch.result_type).
//
// Types fall in the categories bool < integer < float < complex. A tensor with dims decides the
// type unless an operand of a higher category has none (a 0-d tensor, or weaker still a Python
// number), which then only lifts the category: float32[8] * 2.5 is float32, int64[8] * 2.5 is
// float32 (the default dtype), float16[8] * float64[] is float16.
#ifndef KILN_LOWERING_PROMOTION_H
#define KILN_LOWERING_PROMOTION_H

#include "kiln/Dialect/Torch/CallArgs.h"
#include "mlir/IR/Types.h"

namespace kiln::lowering {

/// A tensor or a Python number: an argument that a Tensor or Scalar parameter accepts.
struct Operand {
  mlir::Value tensor;                  // null for a number
  std::optional<torch::Scalar> number; // set for a number

  Operand(mlir::Value tensor) : tensor(tensor) {}              // NOLINT
  Operand(torch::Scalar number) : number(std::move(number)) {} // NOLINT
};

/// The smallest type that both convert to; null for pairs that PyTorch does not promote.
mlir::Type promoteTypes(mlir::Type a, mlir::Type b);

/// The type in which an element-wise operator combines these operands, and one more tensor with dims
/// of the type `other` unless that is null; null if there is none.
mlir::Type resultType(mlir::MLIRContext *context, llvm::ArrayRef<Operand> operands,
                      mlir::Type other = {});

/// `type`, or the default float type f32 for integers and bool: what `sqrt` and true division give.
mlir::Type toFloat(mlir::Type type);

} // namespace kiln::lowering

#endif // KILN_LOWERING_PROMOTION_H
