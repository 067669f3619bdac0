// LDL factors of symmetric and Hermitian matrices, and systems of equations by them, which the
// runtime computes (runtime/linalg/ldl.c).
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Results: LD, pivots and, if there are three, the numbers of zero pivots.
static LogicalResult lowerLdlFactor(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices of floats");
  ImplicitLocOpBuilder &b = call.kernels.b();
  Value lower = takeTriangle(call, flattenBatch(call, self), /*upper=*/false);
  Exprs shape = shapeOf(lower);
  auto made =
      callRuntime(call, "ldl_factor", lower,
                  {lower.getType(), sym::getTensorType({shape[0], shape[1]}, b.getI32Type()),
                   sym::getTensorType({shape[0]}, b.getI32Type())},
                  b.getBoolAttr(call.args.boolean("hermitian")));
  if (!call.args.has("check_errors") || call.args.boolean("check_errors"))
    requireSuccess(call, made[2], "a matrix is singular");
  SmallVector<Value> results = {restore(call, transposeMatrices(call, made[0])),
                                restore(call, made[1], 1)};
  if (call.numResults() == 3)
    results.push_back(restore(call, made[2], 2));
  return call.set(results);
}

static LogicalResult lowerLdlSolve(Call &call) {
  Value ld = call.tensor(0), pivots = call.tensor(1), b = call.tensor(2);
  if (!isSquare(call, ld) || !isMatrix(b) || elementType(b) != elementType(ld) ||
      !isInt(elementType(pivots)) || rankOf(pivots) + 1 != rankOf(ld))
    return call.refuse("these dtypes or ranks");
  auto batch = commonBatch(call, {ld, b});
  Exprs shape = shapeOf(ld), bs = shapeOf(b);
  if (!batch || !call.kernels.isSame(bs[bs.size() - 2], shape.back()))
    return call.refuse("shapes that do not fit");
  Value factors = transposeMatrices(call, broadcastBatch(call, ld, *batch));
  Value columns = transposeMatrices(call, broadcastBatch(call, b, *batch));
  Exprs pivotShape(*batch);
  pivotShape.push_back(shape.back());
  Value rows = flattenPivots(call, call.kernels.expand(pivots, pivotShape));
  rows = call.kernels.convert(rows, call.kernels.b().getI32Type());
  auto made = callRuntime(call, "ldl_solve", {factors, rows, columns}, columns.getType(),
                          call.kernels.b().getBoolAttr(call.args.boolean("hermitian")));
  return call.set(restore(call, transposeMatrices(call, made[0])));
}

void lowering::registerLdl(LoweringTable &table) {
  table.add({"aten.linalg_ldl_factor.default", "aten.linalg_ldl_factor_ex.default"},
            lowerLdlFactor);
  table.add("aten.linalg_ldl_solve.default", lowerLdlSolve);
}
