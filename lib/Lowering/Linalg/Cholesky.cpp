// Cholesky factors, and triangular systems that are given as such.
#include "Core/Loop.h"
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
struct CholeskyFactor {
  Value lower; // [batch, n, n], zero above the diagonal
  Value info;  // [batch] i32: the first minor, from 1, that is not positive; 0 without
};
} // namespace

/// A = L L^H of the triangle of A that `upper` says.
static CholeskyFactor factor(Call &call, Value matrices, bool upper) {
  Exprs shape = shapeOf(matrices);
  Type type = elementType(matrices), i32 = IntegerType::get(type.getContext(), 32);
  Value lower = upper ? conjugateTranspose(call, matrices) : matrices;
  Value info = call.kernels.full({shape[0]}, i32, 0);
  auto results = loop(call.kernels, shape[1], {lower, info}, {}, [&](const LoopStep &step) {
    Value a = step.carried[0];
    Value next = step.kernels.map(shape, type, [&](BodyBuilder &body) {
      Element k = body.read(step.number, Exprs());
      Element row = body.index(body.dim(1)), column = body.index(body.dim(2));
      Element own = body.read(a, body.ownDims());
      Element left = body.read(a, Indices{body.dim(0), body.dim(1), k});
      Element other = conjugate(body.read(a, Indices{body.dim(0), body.dim(2), k}));
      Element diagonal = body.read(a, Indices{body.dim(0), k, k});
      Element part = isComplex(type) ? real(diagonal) : diagonal, root = sqrt(part);
      Element scale = isComplex(type) ? makeComplex(root, root.constant(0)) : root;
      Element square = isComplex(type) ? makeComplex(part, part.constant(0)) : part;
      Element inColumn = select(row == k, scale, left / scale);
      Element isAfter = (column > k) & (row >= column);
      Element rest = own - left * other / square;
      return select((column == k) & (row >= k), inColumn, select(isAfter, rest, own));
    });
    Value nextInfo = step.kernels.map({shape[0]}, i32, [&](BodyBuilder &body) {
      Element k = body.read(step.number, Exprs());
      Element diagonal = body.read(a, Indices{body.dim(0), k, k});
      Element part = isComplex(type) ? real(diagonal) : diagonal;
      Element old = body.read(step.carried[1], body.ownDims()), zero = old.constant(0);
      Element fails = ~(part > part.constant(0)) & (old == zero);
      return select(fails, convert(k + k.constant(1), i32), old);
    });
    return SmallVector<Value>{next, nextInfo};
  });
  Value triangle = call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Element x = body.read(results[0], body.ownDims());
    return select(body.index(body.dim(2)) <= body.index(body.dim(1)), x, x.constant(0));
  });
  return {triangle, results[1]};
}

/// The factor and, if there are two results, which minor is not positive.
static LogicalResult lowerCholesky(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices");
  bool upper = call.args.boolean("upper");
  CholeskyFactor found = factor(call, flattenBatch(call, self), upper);
  if (!call.args.has("check_errors") || call.args.boolean("check_errors"))
    requireSuccess(call, found.info, "a matrix is not positive-definite");
  Value result = upper ? conjugateTranspose(call, found.lower) : found.lower;
  SmallVector<Value> results = {restore(call, result)};
  if (call.numResults() == 2)
    results.push_back(restore(call, found.info, 1));
  return call.set(results);
}

/// X with A X = B, where the triangle of A is its factor.
static Value solveFactor(Call &call, Value matrix, bool upper, Value rhs) {
  Value adjoint = conjugateTranspose(call, matrix);
  Value lower = upper ? adjoint : matrix, above = upper ? matrix : adjoint;
  Value x = solveTriangle(call, {lower, /*upper=*/false}, rhs);
  return solveTriangle(call, {above, /*upper=*/true}, x);
}

/// The inverses of lower triangles. What is known to be zero is not computed with, so that NaN and
/// infinities stay where they have an influence.
static Value invertLower(Call &call, Value lower) {
  Exprs shape = shapeOf(lower);
  Type type = elementType(lower);
  Value identity = identityMatrices(call, shape[0], shape[1], type);
  return loop(call.kernels, shape[1], identity, lower,
              [&](const LoopStep &step) {
                Value x = step.carried[0], matrix = step.invariants[0];
                Value next = step.kernels.map(shape, type, [&](BodyBuilder &body) {
                  Element k = body.read(step.number, Exprs());
                  Element row = body.index(body.dim(1)), column = body.index(body.dim(2));
                  Element known = body.read(x, Indices{body.dim(0), k, body.dim(2)}) /
                                  body.read(matrix, Indices{body.dim(0), k, k});
                  Element own = body.read(x, body.ownDims());
                  Element rest =
                      own - body.read(matrix, Indices{body.dim(0), body.dim(1), k}) * known;
                  Element next = select(row == k, known, select(row > k, rest, own));
                  return select(column <= k, next, own);
                });
                return SmallVector<Value>{next};
              })
      .front();
}

/// inv(L)^H inv(L), or with the upper triangle for L^H.
static LogicalResult lowerCholeskyInverse(Call &call) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices");
  Value flat = flattenBatch(call, self);
  Exprs shape = shapeOf(flat);
  requireSuccess(call, firstZeroPivot(call, flat), "a diagonal element is zero");
  Value lower = call.args.boolean("upper") ? conjugateTranspose(call, flat) : flat;
  Value inverse = invertLower(call, lower);
  Value product = call.kernels.map(shape, elementType(flat), [&](BodyBuilder &body) {
    Element row = body.index(body.dim(1)), column = body.index(body.dim(2));
    return body.sum({shape[1]}, elementType(flat), [&](BodyBuilder &inner) {
      Element k = inner.index(inner.dim(3));
      Element left = inner.read(inverse, Exprs{inner.dim(0), inner.dim(3), inner.dim(1)});
      Element right = inner.read(inverse, Exprs{inner.dim(0), inner.dim(3), inner.dim(2)});
      Element value = conjugate(left) * right;
      return select((k >= row) & (k >= column), value, value.constant(0));
    });
  });
  return call.set(restore(call, product));
}

/// The matrices of both arguments with the batch dims of the result.
static std::optional<std::pair<Value, Value>> operands(Call &call, Value a, Value b) {
  Exprs shape = call.resultShape();
  if (!isMatrix(a) || !isMatrix(b) || elementType(a) != elementType(b) ||
      shape.size() < std::max<size_t>(rankOf(a), rankOf(b))) {
    call.kernels.fail("these dtypes or ranks");
    return std::nullopt;
  }
  auto expanded = [&](Value tensor) {
    Exprs own = shapeOf(tensor), full(batchOf(shape));
    llvm::append_range(full, ArrayRef(own).take_back(2));
    return flattenBatch(call, call.kernels.expand(tensor, full));
  };
  return std::pair(expanded(a), expanded(b));
}

static LogicalResult lowerCholeskySolve(Call &call) { // self is B
  auto both = operands(call, call.tensor(1), call.tensor(0));
  if (!both || !isSquare(call, call.tensor(1)))
    return call.refuse("needs square matrices");
  return call.set(
      restore(call, solveFactor(call, both->first, call.args.boolean("upper"), both->second)));
}

static LogicalResult lowerSolveTriangular(Call &call) { // A X = B, or X A = B
  auto both = operands(call, call.tensor(0), call.tensor(1));
  if (!both || !isSquare(call, call.tensor(0)))
    return call.refuse("needs square matrices");
  auto [matrix, rhs] = *both;
  bool upper = call.args.boolean("upper"), left = call.args.boolean("left");
  if (!left) {
    matrix = transposeMatrices(call, matrix);
    rhs = transposeMatrices(call, rhs);
  }
  Value x = solveTriangle(call, {matrix, upper == left, call.args.boolean("unitriangular")}, rhs);
  return call.set(restore(call, left ? x : transposeMatrices(call, x)));
}

/// self is B; the second result is A, broadcast.
static LogicalResult lowerTriangularSolve(Call &call) {
  auto both = operands(call, call.tensor(1), call.tensor(0));
  if (!both || !isSquare(call, call.tensor(1)))
    return call.refuse("needs square matrices");
  auto [matrix, rhs] = *both;
  bool transpose = call.args.boolean("transpose");
  Value used = transpose ? transposeMatrices(call, matrix) : matrix;
  Value x = solveTriangle(
      call, {used, call.args.boolean("upper") != transpose, call.args.boolean("unitriangular")},
      rhs);
  Value copy = call.isUnused(1) ? Value() : restore(call, matrix, 1);
  return call.set({restore(call, x), copy});
}

void lowering::registerCholesky(LoweringTable &table) {
  table.add(
      {"aten.linalg_cholesky.default", "aten.linalg_cholesky_ex.default", "aten.cholesky.default"},
      lowerCholesky);
  table.add("aten.cholesky_inverse.default", lowerCholeskyInverse);
  table.add("aten.cholesky_solve.default", lowerCholeskySolve);
  table.add("aten.linalg_solve_triangular.default", lowerSolveTriangular);
  table.add("aten.triangular_solve.default", lowerTriangularSolve);
}
