// Calls of operators that a pass writes in place of one call.
#ifndef KILN_LIB_TRANSFORMS_TORCH_CALLBUILDER_H
#define KILN_LIB_TRANSFORMS_TORCH_CALLBUILDER_H

#include "kiln/Dialect/Torch/TorchDialect.h"

namespace kiln::torch {

inline llvm::SmallVector<sym::Expr> shapeOf(mlir::Value value) {
  return sym::getShape(llvm::cast<mlir::RankedTensorType>(value.getType()));
}
inline mlir::Type elementOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getElementType();
}

/// The operand that an argument is, if that is a tensor of floats of this rank; else null.
mlir::Value getTensor(CallOp call, mlir::Attribute argument, unsigned rank);

class CallBuilder {
public:
  CallBuilder(mlir::OpBuilder builder, CallOp origin) : b(builder), origin(origin) {}

  mlir::Value call(llvm::StringRef target, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::Attribute> args, mlir::Type type);
  /// The result has the first operand's dtype.
  mlir::Value call(llvm::StringRef target, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::Attribute> args, llvm::ArrayRef<sym::Expr> shape);
  /// Result `i` of the call is `value`.
  void replace(unsigned i, mlir::Value value);

  mlir::Attribute arg(unsigned i) { return ArgAttr::get(b.getContext(), i); }
  mlir::Attribute integer(int64_t value) { return b.getI64IntegerAttr(value); }
  mlir::Attribute real(double value) { return b.getF64FloatAttr(value); }
  /// As a list of sizes.
  mlir::Attribute sizes(llvm::ArrayRef<sym::Expr> shape);

  mlir::Value unary(llvm::StringRef target, mlir::Value x) {
    return call(target, x, arg(0), x.getType());
  }
  /// The shape is a's.
  mlir::Value add(mlir::Value a, mlir::Value c) {
    return call("aten.add.Tensor", {a, c}, {arg(0), arg(1), integer(1)}, a.getType());
  }
  mlir::Value subtract(mlir::Value a, mlir::Value c) {
    return call("aten.sub.Tensor", {a, c}, {arg(0), arg(1), integer(1)}, a.getType());
  }
  mlir::Value multiply(mlir::Value a, mlir::Value c) {
    return call("aten.mul.Tensor", {a, c}, {arg(0), arg(1)}, a.getType());
  }
  /// x * weightᵀ + bias; no bias if it is null.
  mlir::Value linear(mlir::Value x, mlir::Value weight, mlir::Value bias);

  /// Part `i` of the last dim, which has parts of `size`.
  mlir::Value part(mlir::Value x, int64_t i, int64_t size);
  mlir::Value select(mlir::Value x, int64_t i);
  mlir::Value transpose(mlir::Value x, int64_t i, int64_t j);
  mlir::Value flip(mlir::Value x) {
    return call("aten.flip.default", x, {arg(0), b.getArrayAttr(integer(0))}, x.getType());
  }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<sym::Expr> shape) {
    return call("aten.reshape.default", x, {arg(0), sizes(shape)}, shape);
  }
  mlir::Value stack(llvm::ArrayRef<mlir::Value> tensors);
  /// Along the last dim.
  mlir::Value concatenate(llvm::ArrayRef<mlir::Value> tensors);

  mlir::OpBuilder b;
  CallOp origin;

private:
  mlir::Value join(llvm::StringRef target, llvm::ArrayRef<mlir::Value> tensors, int64_t dim,
                   llvm::ArrayRef<sym::Expr> shape);
};

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_CALLBUILDER_H
