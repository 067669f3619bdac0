// Eigenvalues and vectors, which the runtime computes (runtime/linalg/eigh.c, eig.c).
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Of Hermitian matrices -----------------------------------------------------------------===//

Value lowering::takeTriangle(Call &call, Value matrices, bool upper) {
  return call.kernels.map(shapeOf(matrices), elementType(matrices), [&](BodyBuilder &body) {
    Exprs column = {body.dim(0), body.dim(2), body.dim(1)};
    Element x =
        upper ? conjugate(body.read(matrices, body.ownDims())) : body.read(matrices, column);
    return select(body.index(body.dim(1)) <= body.index(body.dim(2)), x, x.constant(0));
  });
}

static SmallVector<Value> eigh(Call &call, Value matrices, bool upper, bool wantsVectors) {
  Exprs shape = shapeOf(matrices);
  Expr n = shape[1];
  Type type = elementType(matrices), f64 = Float64Type::get(type.getContext());
  SmallVector<Type> types = {sym::getTensorType({shape[0], n}, f64),
                             sym::getTensorType({shape[0], n * n + 3 * n}, type)};
  if (wantsVectors)
    types.push_back(sym::getTensorType(shape, type));
  return callRuntime(call, "eigh", takeTriangle(call, matrices, upper), types);
}

Value lowering::eigenvalues(Call &call, Value matrices, bool upper) {
  return eigh(call, matrices, upper, false)[0];
}

std::pair<Value, Value> lowering::eigenvectors(Call &call, Value matrices, bool upper) {
  auto made = eigh(call, matrices, upper, true);
  return {made[0], made[2]};
}

/// Results: the values and, if there are two, the vectors.
static LogicalResult lowerEigh(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices of floats");
  bool upper = call.args.string("UPLO").equals_insensitive("u");
  Value flat = flattenBatch(call, self);
  bool hasVectors = call.numResults() == 2;
  bool computes = !call.args.has("compute_v") || call.args.boolean("compute_v");
  if (!hasVectors || !computes || call.isUnused(1)) {
    SmallVector<Value> results = {restore(call, eigenvalues(call, flat, upper))};
    if (hasVectors)
      results.push_back(computes ? Value()
                                 : call.kernels.full(call.resultShape(1), call.resultType(1), 0));
    return call.set(results);
  }
  auto [values, vectors] = eigenvectors(call, flat, upper);
  return call.set({restore(call, values), restore(call, transposeMatrices(call, vectors), 1)});
}

//===-- Of any square matrices ----------------------------------------------------------------===//

/// Results: the values and, if there are two, the vectors; complex, whatever the matrices are.
static LogicalResult lowerEig(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices of floats");
  Value columns = transposeMatrices(call, flattenBatch(call, self));
  Exprs shape = shapeOf(columns);
  Expr n = shape[1];
  Type type = elementType(columns);
  Type complex = ComplexType::get(Float64Type::get(type.getContext()));
  SmallVector<Type> types = {sym::getTensorType({shape[0], n}, complex),
                             sym::getTensorType({shape[0], 2 * n * n + 5 * n}, type)};
  bool hasVectors = call.numResults() == 2, wantsVectors = hasVectors && !call.isUnused(1);
  if (wantsVectors)
    types.push_back(sym::getTensorType(shape, complex));
  auto made = callRuntime(call, "eig", columns, types);
  SmallVector<Value> results = {restore(call, made[0])};
  if (hasVectors)
    results.push_back(wantsVectors ? restore(call, transposeMatrices(call, made[2]), 1) : Value());
  return call.set(results);
}

void lowering::registerEigen(LoweringTable &table) {
  table.add(
      {"aten.linalg_eigh.default", "aten._linalg_eigh.default", "aten.linalg_eigvalsh.default"},
      lowerEigh);
  table.add(
      {"aten.linalg_eig.default", "aten.linalg_eigvals.default", "aten._linalg_eigvals.default"},
      lowerEig);
}
