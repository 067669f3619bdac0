// Determinants, inverses and systems of linear equations, by LU factors.
#include "Linalg/Linalg.h"
#include "Pointwise/ComplexFunctions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static constexpr llvm::StringLiteral singular = "a matrix is singular";

std::optional<Exprs> lowering::commonDims(Call &call, ArrayRef<Exprs> all, const Twine &message) {
  Exprs dims;
  for (const Exprs &own : all) {
    if (own.size() > dims.size())
      dims.insert(dims.begin(), own.size() - dims.size(), Expr(1));
    for (auto [size, other] : llvm::zip(llvm::reverse(dims), llvm::reverse(own)))
      if (size.isConstant(1))
        size = other;
      else if (!other.isConstant(1) && !call.fits(size, other, message))
        return std::nullopt;
  }
  return dims;
}

std::optional<Exprs> lowering::commonBatch(Call &call, ArrayRef<Value> matrices) {
  SmallVector<Exprs> batches;
  for (Value matrix : matrices)
    batches.push_back(Exprs(batchOf(shapeOf(matrix))));
  return commonDims(call, batches, "batches that do not fit");
}

Value lowering::broadcastBatch(Call &call, Value tensor, ArrayRef<Expr> batch) {
  Exprs own = shapeOf(tensor), shape(batch);
  llvm::append_range(shape, ArrayRef(own).take_back(2));
  return flattenBatch(call, call.kernels.expand(tensor, shape));
}

//===-- Determinants --------------------------------------------------------------------------===//

namespace {
enum class Determinant { Value, Logarithm, SignAndLogarithm };
} // namespace

/// The factors that some operators give beside their results are those of the transposed matrix if
/// it lies by rows, which is not known here.
static LogicalResult setWithoutFactors(Call &call, ArrayRef<Value> given, unsigned count) {
  SmallVector<Value> results(given);
  unsigned first = results.size();
  for (unsigned i = first; i < first + count; ++i)
    if (!call.isUnused(i))
      return call.refuse("factors that depend on how a matrix lies in memory");
  results.insert(results.end(), count, Value());
  return call.set(results);
}

static LogicalResult determinant(Call &call, Determinant form) {
  Value self = call.tensor(0);
  if (!isSquare(call, self))
    return call.refuse("needs square matrices");
  Value flat = flattenBatch(call, self);
  Type type = elementType(flat), f64 = Float64Type::get(type.getContext());
  Factors factors = factorize(call, flat);
  Exprs shape = shapeOf(flat);
  Expr n = shape[1];
  auto diagonal = [&](BodyBuilder &inner) {
    return inner.read(factors.lu, Exprs{inner.dim(0), inner.dim(1), inner.dim(1)});
  };
  // The sign of the permutation.
  Value parity = call.kernels.map({shape[0]}, type, [&](BodyBuilder &body) {
    return convert(body.prod({n}, f64,
                             [&](BodyBuilder &inner) {
                               Element pivot = inner.read(factors.pivots, inner.dims(0, 2));
                               Element own = convert(inner.index(inner.dim(1) + 1), pivot.type());
                               Element one = inner.constant(f64, 1);
                               return select(pivot == own, one, -one);
                             }),
                   type);
  });
  if (form == Determinant::Value)
    return setWithoutFactors(call,
                             restore(call, call.kernels.map({shape[0]}, type,
                                                            [&](BodyBuilder &body) {
                                                              return body.read(parity,
                                                                               body.ownDims()) *
                                                                     body.prod({n}, type, diagonal);
                                                            })),
                             call.numResults() - 1);
  SmallVector<Value> results = call.kernels.map({shape[0]}, {type, f64}, [&](BodyBuilder &body) {
    Element sign = body.prod({n}, type, [&](BodyBuilder &inner) {
      Element x = diagonal(inner);
      if (isComplex(type))
        return complexes::sgn(x);
      Element zero = x.constant(0), one = x.constant(1);
      return select(isNan(x), x, select(x > zero, one, select(x < zero, -one, zero)));
    });
    Element logarithm =
        body.sum({n}, f64, [&](BodyBuilder &inner) { return lowering::log(abs(diagonal(inner))); });
    return BodyBuilder::Elements{sign * body.read(parity, body.ownDims()), logarithm};
  });
  if (form == Determinant::SignAndLogarithm)
    return setWithoutFactors(call, {restore(call, results[0]), restore(call, results[1], 1)},
                             call.numResults() - 2);
  Type wide = isComplex(type) ? type : Type(f64);
  return call.set(restore(call, call.kernels.map({shape[0]}, wide, [&](BodyBuilder &body) {
    Element sign = body.read(results[0], body.ownDims());
    if (isComplex(type))
      return complexes::log(sign) + convert(body.read(results[1], body.ownDims()), type);
    Element nan = sign.constant(std::numeric_limits<double>::quiet_NaN());
    return select(sign < sign.constant(0), nan, body.read(results[1], body.ownDims()));
  })));
}

//===-- Systems -------------------------------------------------------------------------------===//

/// Results X with A X = B (or X A = B) and, if there are two, the numbers of zero pivots, which
/// must be 0 with `checked`.
static LogicalResult solve(Call &call, Value a, Value b, bool left, bool checked) {
  if (!isSquare(call, a) || elementType(a) != elementType(b))
    return call.refuse("needs square matrices of one dtype");
  Exprs as = shapeOf(a), bs = shapeOf(b);
  // A vector, or vectors: as many as there are matrices.
  bool isVector = bs.size() == 1 ||
                  (bs.size() + 1 == as.size() && call.kernels.isSame(bs, ArrayRef(as).drop_back()));
  if (isVector && !left)
    return call.refuse("vectors on the left");
  if (isVector) {
    bs.push_back(1);
    b = call.kernels.reshape(b, bs);
  }
  auto batch = commonBatch(call, {a, b});
  if (!batch ||
      !call.fits(left ? bs[bs.size() - 2] : bs.back(), as.back(), "shapes that do not fit"))
    return call.refuse("shapes that do not fit");
  Value matrices = broadcastBatch(call, a, *batch), rhs = broadcastBatch(call, b, *batch);
  if (!left) {
    matrices = transposeMatrices(call, matrices);
    rhs = transposeMatrices(call, rhs);
  }
  Factors factors = factorize(call, matrices);
  Value info = firstZeroPivot(call, factors.lu);
  if (checked)
    requireSuccess(call, info, singular);
  Value x = solveFactors(call, factors, rhs);
  if (!left)
    x = transposeMatrices(call, x);
  SmallVector<Value> results = {restore(call, x)};
  unsigned last = call.numResults() - 1;
  for (unsigned i = 1; i < last; ++i, results.emplace_back())
    if (!call.isUnused(i))
      return call.refuse("factors that depend on how a matrix lies in memory");
  if (last > 0) // of the matrices that were given, which are fewer
    results.push_back(
        call.isUnused(last)
            ? Value()
            : restore(call, firstZeroPivot(call, factorize(call, flattenBatch(call, a)).lu), last));
  return call.set(results);
}

static LogicalResult lowerCheckErrors(Call &call) {
  Value info = call.tensor(0);
  if (!isInt(elementType(info)))
    return call.refuse("this dtype");
  requireSuccess(call, call.kernels.reshape(info, {sym::product(shapeOf(info))}),
                 (call.args.string(1) + ": a matrix has no such factors").str());
  return call.set(ValueRange());
}

static LogicalResult lowerSolve(Call &call) {
  bool checked = !call.args.has("check_errors") || call.args.boolean("check_errors");
  return solve(call, call.tensor(0), call.tensor(1), call.args.boolean("left"), checked);
}

Value lowering::invertMatrices(Call &call, Value matrices, bool checked, Value *info) {
  Exprs shape = shapeOf(matrices);
  Factors factors = factorize(call, matrices);
  Value zeros = firstZeroPivot(call, factors.lu);
  if (checked)
    requireSuccess(call, zeros, singular);
  if (info)
    *info = zeros;
  Value identity = identityMatrices(call, shape[0], shape[1], elementType(matrices));
  return solveFactors(call, factors, identity);
}

static LogicalResult lowerInverse(Call &call) {
  Value self = call.tensor(0), info;
  if (!isSquare(call, self))
    return call.refuse("needs square matrices");
  bool checked = !call.args.has("check_errors") || call.args.boolean("check_errors");
  SmallVector<Value> results = {
      restore(call, invertMatrices(call, flattenBatch(call, self), checked, &info))};
  if (call.numResults() == 2)
    results.push_back(restore(call, info, 1));
  return call.set(results);
}

/// The inverse of a matrix whose rows are the first `ind` dims.
static LogicalResult lowerTensorInverse(Call &call) {
  Value self = call.tensor(0);
  int64_t ind = call.args.integer("ind");
  Exprs shape = shapeOf(self);
  Type type = elementType(self);
  if (ind <= 0 || ind >= rankOf(self) || !(isFloat(type) || isComplex(type)))
    return call.refuse("this dtype or ind");
  Expr rows = sym::product(ArrayRef(shape).take_front(ind));
  Expr columns = sym::product(ArrayRef(shape).drop_front(ind));
  if (!call.fits(rows, columns, "dims that make no square matrix"))
    return call.refuse("dims that make no square matrix");
  Value matrix = call.kernels.reshape(self, {1, rows, columns});
  matrix = call.kernels.convert(matrix, doublePrecision(type));
  return call.set(restore(call, invertMatrices(call, matrix, /*checked=*/true)));
}

static LogicalResult lowerTensorSolve(Call &call) {
  Value self = call.tensor(0), other = call.tensor(1);
  Type type = elementType(self);
  if (!(isFloat(type) || isComplex(type)) || elementType(other) != type)
    return call.refuse("these dtypes");
  if (auto dims = call.args.optIntList("dims"); dims && !dims->empty()) {
    SmallVector<int64_t> perm;
    for (int64_t &dim : *dims)
      dim += dim < 0 ? rankOf(self) : 0;
    for (int64_t i = 0; i < rankOf(self); ++i)
      if (!llvm::is_contained(*dims, i))
        perm.push_back(i);
    llvm::append_range(perm, *dims);
    if (static_cast<int64_t>(perm.size()) != rankOf(self))
      return call.refuse("dims that are out of range or given twice");
    self = call.kernels.permute(self, perm);
  }
  Expr count = sym::product(shapeOf(other)), all = sym::product(shapeOf(self));
  if (!call.fits(all, count * count, "dims that make no square matrix"))
    return call.refuse("dims that make no square matrix");
  Type wide = doublePrecision(type);
  Value matrix = call.kernels.convert(call.kernels.reshape(self, {1, count, count}), wide);
  Value rhs = call.kernels.convert(call.kernels.reshape(other, {1, count, 1}), wide);
  Factors factors = factorize(call, matrix);
  requireSuccess(call, firstZeroPivot(call, factors.lu), singular);
  return call.set(restore(call, solveFactors(call, factors, rhs)));
}

//===-- Factors -------------------------------------------------------------------------------===//

/// Results: LU, pivots and, if there are three, the numbers of zero pivots.
static LogicalResult lowerFactors(Call &call) {
  Value self = call.tensor(0);
  if (!isMatrix(self) || !call.args.boolean("pivot"))
    return call.refuse("this dtype, or no pivoting");
  Factors factors = factorize(call, flattenBatch(call, self));
  Value info = firstZeroPivot(call, factors.lu);
  bool checked = call.args.has("check_errors") ? call.args.boolean("check_errors")
                                               : call.numResults() == 2; // lu_factor
  if (checked)
    requireSuccess(call, info, singular);
  SmallVector<Value> results = {restore(call, factors.lu), restore(call, factors.pivots, 1)};
  if (call.numResults() == 3)
    results.push_back(restore(call, info, 2));
  return call.set(results);
}

/// P, L and U of [batch, m, n].
static SmallVector<Value> unpack(Call &call, Value lu, Value permutation) {
  Exprs shape = shapeOf(lu);
  Type type = elementType(lu);
  Expr length = call.kernels.known().simplify(Expr::min(shape[1], shape[2]));
  auto part = [&](Expr rows, Expr columns, bool lower) {
    return call.kernels.map({shape[0], rows, columns}, type, [&](BodyBuilder &body) {
      Element x = body.read(lu, body.ownDims()), zero = x.constant(0);
      Element row = body.index(body.dim(1)), column = body.index(body.dim(2));
      if (!lower)
        return select(column >= row, x, zero);
      return select(column < row, x, select(column == row, x.constant(1), zero));
    });
  };
  Value p = call.kernels.map({shape[0], shape[1], shape[1]}, type, [&](BodyBuilder &body) {
    Element row = body.read(permutation, Exprs{body.dim(0), body.dim(2)});
    return convert(row == body.index(body.dim(1)), type);
  });
  return {p, part(shape[1], length, true), part(length, shape[2], false)};
}

static LogicalResult setUnpacked(Call &call, SmallVector<Value> parts) {
  for (auto [i, part] : llvm::enumerate(parts))
    part = part ? restore(call, part, i)
                : call.kernels.full(call.resultShape(i), call.resultType(i), 0);
  return call.set(parts);
}

static LogicalResult lowerLu(Call &call) {
  Value self = call.tensor(0);
  if (!isMatrix(self) || !call.args.boolean("pivot"))
    return call.refuse("this dtype, or no pivoting");
  Factors factors = factorize(call, flattenBatch(call, self));
  return setUnpacked(call, unpack(call, factors.lu, factors.permutation));
}

Value lowering::flattenPivots(Call &call, Value pivots) {
  Exprs shape = shapeOf(pivots);
  return call.kernels.reshape(pivots, {sym::product(ArrayRef(shape).drop_back()), shape.back()});
}

static LogicalResult lowerLuUnpack(Call &call) {
  Value lu = call.tensor(0), pivots = call.tensor(1);
  if (!isMatrix(lu) || !isInt(elementType(pivots)) || rankOf(pivots) + 1 != rankOf(lu))
    return call.refuse("these dtypes or ranks");
  Exprs shape = shapeOf(lu);
  Expr swaps = Expr::min(shape[shape.size() - 2], shape.back());
  if (!call.fits(shapeOf(pivots).back(), swaps, "another number of pivots than of columns"))
    return call.refuse("another number of pivots than of columns");
  Value flat = flattenBatch(call, lu);
  Value rows = permutationOf(call, flattenPivots(call, pivots), shapeOf(flat)[1]);
  SmallVector<Value> parts = unpack(call, flat, rows);
  if (!call.args.boolean("unpack_pivots"))
    parts[0] = {};
  if (!call.args.boolean("unpack_data"))
    parts[1] = parts[2] = {};
  return setUnpacked(call, parts);
}

static LogicalResult lowerLuSolve(Call &call, Value lu, Value pivots, Value b, bool left,
                                  bool adjoint) {
  if (!isSquare(call, lu) || !isMatrix(b) || elementType(b) != elementType(lu) ||
      !isInt(elementType(pivots)) || rankOf(pivots) + 1 != rankOf(lu))
    return call.refuse("these dtypes or ranks");
  auto batch = commonBatch(call, {lu, b});
  Exprs shape = shapeOf(lu);
  if (!batch)
    return call.refuse("shapes that do not fit");
  Value factors = broadcastBatch(call, lu, *batch), rhs = broadcastBatch(call, b, *batch);
  Exprs pivotShape(*batch);
  pivotShape.push_back(shape.back());
  Value swaps = flattenPivots(call, call.kernels.expand(pivots, pivotShape));
  Value rows = permutationOf(call, swaps, shape.back());
  // X A = B is A^H X^H = B^H.
  if (!left) {
    rhs = conjugateTranspose(call, rhs);
    adjoint = !adjoint;
  }
  Value x = solveFactors(call, {factors, swaps, rows}, rhs, adjoint);
  return call.set(restore(call, left ? x : conjugateTranspose(call, x)));
}

void lowering::registerLinearSolve(LoweringTable &table) {
  table.add({"aten.linalg_det.default", "aten._linalg_det.default", "aten.det.default"},
            [](Call &call) { return determinant(call, Determinant::Value); });
  table.add({"aten.linalg_slogdet.default", "aten._linalg_slogdet.default", "aten.slogdet.default"},
            [](Call &call) { return determinant(call, Determinant::SignAndLogarithm); });
  table.add("aten.logdet.default",
            [](Call &call) { return determinant(call, Determinant::Logarithm); });
  table.add({"aten.linalg_solve.default", "aten.linalg_solve_ex.default",
             "aten._linalg_solve_ex.default"},
            lowerSolve);
  table.add("aten._linalg_check_errors.default", lowerCheckErrors);
  table.add({"aten.linalg_inv.default", "aten.linalg_inv_ex.default", "aten.inverse.default"},
            lowerInverse);
  table.add("aten.linalg_tensorinv.default", lowerTensorInverse);
  table.add("aten.linalg_tensorsolve.default", lowerTensorSolve);
  table.add({"aten.linalg_lu_factor.default", "aten.linalg_lu_factor_ex.default",
             "aten._lu_with_info.default"},
            lowerFactors);
  table.add("aten.linalg_lu.default", lowerLu);
  table.add("aten.lu_unpack.default", lowerLuUnpack);
  table.add("aten.linalg_lu_solve.default", [](Call &call) {
    return lowerLuSolve(call, call.tensor("LU"), call.tensor("pivots"), call.tensor("B"),
                        call.args.boolean("left"), call.args.boolean("adjoint"));
  });
  table.add("aten.lu_solve.default", [](Call &call) {
    return lowerLuSolve(call, call.tensor(1), call.tensor(2), call.tensor(0), true, false);
  });
}
