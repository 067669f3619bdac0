// Exponentials of matrices, which the runtime computes (runtime/linalg/matrix_exp.c), and their
// gradients.
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The exponential of [batch, n, n]. It is computed by rows, since the transposed matrix has the
/// transposed exponential.
static Value exponential(Call &call, Value matrices) {
  Exprs shape = shapeOf(matrices);
  Expr n = shape[1];
  Type work = sym::getTensorType({shape[0], 6 * n * n + 8 * n}, elementType(matrices));
  return callRuntime(call, "matrix_exp", matrices, {matrices.getType(), work})[0];
}

static LogicalResult lowerMatrixExp(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices of floats");
  return call.set(restore(call, exponential(call, flattenBatch(call, self))));
}

/// With A = self^H: the upper right block of the exponential of [[A, grad], [0, A]].
static LogicalResult lowerMatrixExpBackward(Call &call) {
  Value self = call.tensor(0), grad = call.tensor(1);
  if (!isSquare(call, self) || elementType(grad) != elementType(self) ||
      !call.kernels.isSame(shapeOf(self), shapeOf(grad)))
    return call.refuse("needs square matrices of floats and a gradient of their shape");
  Value a = conjugateTranspose(call, flattenBatch(call, self)), g = flattenBatch(call, grad);
  Exprs shape = shapeOf(a);
  Expr n = shape[1];
  Value both = call.kernels.map({shape[0], 2 * n, 2 * n}, elementType(a), [&](BodyBuilder &body) {
    Expr batch = body.dim(0), row = body.dim(1), column = body.dim(2);
    Element zero = body.constant(elementType(a), 0);
    return body.readPadded(a, Exprs{batch, row, column}, zero) +
           body.readPadded(a, Exprs{batch, row - n, column - n}, zero) +
           body.readPadded(g, Exprs{batch, row, column - n}, zero);
  });
  Value block = exponential(call, both);
  Value result = call.kernels.view(
      block, shape, [&](ArrayRef<Expr> dims) { return Exprs{dims[0], dims[1], dims[2] + n}; });
  return call.set(restore(call, result));
}

void lowering::registerMatrixExp(LoweringTable &table) {
  table.add({"aten.linalg_matrix_exp.default", "aten.matrix_exp.default"}, lowerMatrixExp);
  table.add("aten.matrix_exp_backward.default", lowerMatrixExpBackward);
}
