// Singular values and vectors, which the runtime computes (runtime/linalg/svd.c), and what is made
// of them: pseudo-inverses, ranks, condition numbers, norms.
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// A = U diag(values) V^H; vectors by columns.
struct Svd {
  Value values;      // [batch, k], f64, descending
  Value left, right; // [batch, …, m], [batch, …, n]
};
} // namespace

static Expr smallerSize(Call &call, Value matrices) {
  Exprs shape = shapeOf(matrices);
  return call.kernels.known().simplify(Expr::min(shape[1], shape[2]));
}

/// Singular values of [batch, m, n], and so many columns of U and V, or none.
static Svd decompose(Call &call, Value matrices,
                     std::optional<std::pair<Expr, Expr>> columns = {}) {
  Value flat = transposeMatrices(call, matrices);
  Exprs shape = shapeOf(flat);
  Expr batch = shape[0], n = shape[1], m = shape[2], k = smallerSize(call, flat);
  Type type = elementType(flat), f64 = Float64Type::get(type.getContext());
  Expr work = m * n + k * k + 3 * k + call.kernels.known().simplify(Expr::max(m, n));
  SmallVector<Type> types = {sym::getTensorType({batch, k}, f64),
                             sym::getTensorType({batch, work}, type)};
  if (columns) {
    types.push_back(sym::getTensorType({batch, columns->first, m}, type));
    types.push_back(sym::getTensorType({batch, columns->second, n}, type));
  }
  auto made = callRuntime(call, "svd", flat, types);
  return columns ? Svd{made[0], made[2], made[3]} : Svd{made[0], {}, {}};
}

/// Results U, S and V^H, or V.
static LogicalResult svd(Call &call, bool wantsVectors, bool adjoint) {
  Value self = call.tensor(0);
  if (!isMatrix(self))
    return call.refuse("this dtype");
  if (call.args.has("driver") && !call.args.isNone("driver"))
    return call.refuse("a driver, which CPUs have none of");
  Value flat = flattenBatch(call, self);
  if (!wantsVectors) // None that have elements but zeros
    return call.set({call.kernels.full(call.resultShape(0), call.resultType(0), 0),
                     restore(call, decompose(call, flat).values, 1),
                     call.kernels.full(call.resultShape(2), call.resultType(2), 0)});
  if (call.isUnused(0) && call.isUnused(2))
    return call.set({Value(), restore(call, decompose(call, flat).values, 1), Value()});
  Exprs u = call.resultShape(0), v = call.resultShape(2);
  Svd made = decompose(call, flat, std::pair(u.back(), adjoint ? v[v.size() - 2] : v.back()));
  Value right = adjoint ? conjugate(call, made.right) : transposeMatrices(call, made.right);
  return call.set({restore(call, transposeMatrices(call, made.left)), restore(call, made.values, 1),
                   restore(call, right, 2)});
}

static LogicalResult lowerSvdValues(Call &call) {
  Value self = call.tensor(0);
  if (!isMatrix(self))
    return call.refuse("this dtype");
  if (!call.args.isNone("driver"))
    return call.refuse("a driver, which CPUs have none of");
  return call.set(restore(call, decompose(call, flattenBatch(call, self)).values));
}

//===-- Values of which some are too small ----------------------------------------------------===//

namespace {
/// The threshold for singular values: the greater of `absolute` and `relative` times the largest. A
/// tensor, or a number.
struct Tolerance {
  Value absoluteTensor, relativeTensor;
  double absolute = 0, relative = 0;
  bool relativeUnlessAbsolute = false; // `relative` counts only where `absolute` is not above 0
};
} // namespace

/// The epsilon of the matrices' dtype times their larger size, as f64.
static Element defaultRelative(BodyBuilder &body, Type type, Expr m, Expr n) {
  if (isComplex(type))
    type = cast<ComplexType>(type).getElementType();
  double epsilon = type.isF64() ? 0x1p-52 : 0x1p-23;
  Expr larger = body.known().simplify(Expr::max(m, n));
  return convert(body.index(larger), Float64Type::get(type.getContext())) * epsilon;
}

/// [batch] of `tensor` broadcast to these batch dims, as f64.
static Value spreadTolerance(Call &call, Value tensor, ArrayRef<Expr> batch) {
  Value expanded = call.kernels.expand(tensor, batch);
  return call.kernels.convert(call.kernels.reshape(expanded, {sym::product(batch)}),
                              call.kernels.b().getF64Type());
}

/// [batch of `from`, …] with the batch broadcast.
static Value spread(Call &call, Value tensor, ArrayRef<Expr> from, ArrayRef<Expr> to) {
  if (call.kernels.isSame(from, to))
    return tensor;
  Exprs own = shapeOf(tensor), whole(from), wide(to);
  llvm::append_range(whole, ArrayRef(own).drop_front());
  llvm::append_range(wide, ArrayRef(own).drop_front());
  Value expanded = call.kernels.expand(call.kernels.reshape(tensor, whole), wide);
  own[0] = sym::product(to);
  return call.kernels.reshape(expanded, own);
}

/// Reads atol and rtol, or what stands for them, under these names; nothing if they are no floats.
static std::optional<Tolerance> readTolerance(Call &call, StringRef absolute, StringRef relative) {
  Tolerance tolerance;
  auto given = [&](StringRef name) {
    return !name.empty() && call.args.has(name) && !call.args.isNone(name);
  };
  auto read = [&](StringRef name, Value &tensor, double &number) {
    if (!given(name))
      return true;
    if (call.args.isTensor(name)) {
      tensor = call.tensor(name);
      return !isComplex(elementType(tensor));
    }
    number = call.constantNumber(name);
    return true;
  };
  if (!read(absolute, tolerance.absoluteTensor, tolerance.absolute) ||
      !read(relative, tolerance.relativeTensor, tolerance.relative))
    return std::nullopt;
  // An operator that names only an absolute tolerance has no relative one.
  tolerance.relativeUnlessAbsolute = !relative.empty() && !given(relative);
  if (absolute.empty())
    tolerance.relativeUnlessAbsolute = false;
  return tolerance;
}

/// [batch, 1], f64: the tolerance for [batch, k] magnitudes of matrices of m rows and n columns.
static Value makeTolerance(Call &call, const Tolerance &tolerance, Value sizes,
                           ArrayRef<Expr> batch, Expr m, Expr n) {
  Type type = elementType(call.tensor(0)), f64 = call.kernels.b().getF64Type();
  Value absolute, relative;
  if (tolerance.absoluteTensor)
    absolute = spreadTolerance(call, tolerance.absoluteTensor, batch);
  if (tolerance.relativeTensor)
    relative = spreadTolerance(call, tolerance.relativeTensor, batch);
  Exprs shape = shapeOf(sizes);
  return call.kernels.map({shape[0]}, f64, [&](BodyBuilder &body) {
    Element most =
        body.max({shape[1]}, f64, [&](BodyBuilder &in) { return in.read(sizes, in.dims(0, 2)); });
    Element least =
        absolute ? body.read(absolute, body.ownDims()) : body.constant(f64, tolerance.absolute);
    Element factor =
        relative ? body.read(relative, body.ownDims()) : body.constant(f64, tolerance.relative);
    if (tolerance.relativeUnlessAbsolute)
      factor =
          select(least > least.constant(0), least.constant(0), defaultRelative(body, type, m, n));
    return maximum(least, factor * most);
  });
}

/// [batch, k] magnitudes.
static Value magnitudes(Call &call, Value values) {
  return call.kernels.map(shapeOf(values), elementType(values), [&](BodyBuilder &body) {
    return abs(body.read(values, body.ownDims()));
  });
}

static LogicalResult matrixRank(Call &call, StringRef absolute, StringRef relative) {
  Value self = call.tensor(0);
  auto tolerance = readTolerance(call, absolute, relative);
  bool hermitian = call.args.boolean("hermitian");
  if (!tolerance || !isMatrix(self) || (hermitian && !isSquare(call, self)))
    return call.refuse("these dtypes or shapes");
  Exprs own = shapeOf(self), batch = call.resultShape();
  Value flat = flattenBatch(call, self);
  Value values = hermitian ? magnitudes(call, eigenvalues(call, flat, /*upper=*/false))
                           : decompose(call, flat).values;
  values = spread(call, values, batchOf(own), batch);
  Value limit = makeTolerance(call, *tolerance, values, batch, own[own.size() - 2], own.back());
  Type i64 = call.kernels.b().getI64Type();
  Exprs shape = shapeOf(values);
  return call.set(restore(call, call.kernels.map({shape[0]}, i64, [&](BodyBuilder &body) {
    return body.sum({shape[1]}, i64, [&](BodyBuilder &in) {
      return convert(in.read(values, in.dims(0, 2)) > in.read(limit, in.dims(0, 1)), i64);
    });
  })));
}

/// V diag(1 / values) U^H, of the values that count.
static LogicalResult pseudoInverse(Call &call, StringRef absolute, StringRef relative) {
  Value self = call.tensor(0);
  auto tolerance = readTolerance(call, absolute, relative);
  bool hermitian = call.args.has("hermitian") && call.args.boolean("hermitian");
  if (!tolerance || !isMatrix(self) || (hermitian && !isSquare(call, self)))
    return call.refuse("these dtypes or shapes");
  Exprs own = shapeOf(self), whole = call.resultShape();
  ArrayRef<Expr> batch = batchOf(whole);
  Value flat = flattenBatch(call, self);
  Expr k = smallerSize(call, flat);
  Svd made;
  if (hermitian) {
    auto [values, vectors] = eigenvectors(call, flat, /*upper=*/false);
    made = {values, vectors, vectors};
  } else {
    made = decompose(call, flat, std::pair(k, k));
  }
  for (Value *part : {&made.values, &made.left, &made.right})
    *part = spread(call, *part, batchOf(own), batch);
  Value sizes = hermitian ? magnitudes(call, made.values) : made.values;
  Value limit = makeTolerance(call, *tolerance, sizes, batch, own[own.size() - 2], own.back());
  Type type = elementType(made.left);
  auto lhs = [&](BodyBuilder &body) {
    Exprs at = {body.dim(0), body.dim(3)};
    Element value = body.read(made.values, at);
    Element counts = body.read(sizes, at) > body.read(limit, body.dims(0, 1));
    Element factor = select(counts, 1.0 / value, value.constant(0));
    return body.read(made.right, Exprs{body.dim(0), body.dim(3), body.dim(1)}) *
           convert(factor, type);
  };
  auto rhs = [&](BodyBuilder &body) {
    return conjugate(body.read(made.left, Exprs{body.dim(0), body.dim(3), body.dim(2)}));
  };
  Contraction c;
  c.batch = {shapeOf(made.left)[0]};
  c.m = {own.back()};
  c.n = {own[own.size() - 2]};
  c.k = {k};
  c.lhs = lhs;
  c.rhs = rhs;
  return call.set(restore(call, call.kernels.contract(c, type)));
}

//===-- Norms and condition numbers -----------------------------------------------------------===//

LogicalResult lowering::singularNorm(Call &call, SingularNorm norm, std::array<int64_t, 2> dims) {
  Value self = call.tensor(0);
  SmallVector<int64_t> perm;
  for (int64_t i = 0; i < rankOf(self); ++i)
    if (i != dims[0] && i != dims[1])
      perm.push_back(i);
  llvm::append_range(perm, dims);
  Value moved = call.kernels.permute(self, perm);
  if (!isMatrix(moved))
    return call.refuse("this dtype");
  Value values = decompose(call, flattenBatch(call, moved)).values;
  Exprs shape = shapeOf(values);
  Type f64 = elementType(values);
  if (norm == SingularNorm::Smallest)
    call.require(shape[1] - 1, "the smallest singular value of nothing");
  return call.set(restore(call, call.kernels.map({shape[0]}, f64, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &in) { return in.read(values, in.dims(0, 2)); };
    if (norm == SingularNorm::Sum)
      return body.sum({shape[1]}, f64, read);
    if (norm == SingularNorm::Smallest)
      return body.min({shape[1]}, f64, read);
    return maximum(body.max({shape[1]}, f64, read), body.constant(f64, 0));
  })));
}

/// Norms of matrices [batch, n, n]: "fro", or sums of magnitudes along rows or columns.
static Element norm(BodyBuilder &body, Value matrices, StringRef name, double order) {
  Exprs shape = shapeOf(matrices);
  Type f64 = body.b().getF64Type();
  if (name == "fro")
    return sqrt(body.sum({shape[1], shape[2]}, f64, [&](BodyBuilder &in) {
      Element x = abs(in.read(matrices, in.dims(0, 3)));
      return x * x;
    }));
  bool isInfinite = std::isinf(order);
  auto sums = [&](BodyBuilder &in) {
    return in.sum({shape[1]}, f64, [&](BodyBuilder &line) {
      Exprs at = {line.dim(0), line.dim(2), line.dim(1)};
      return abs(line.read(matrices, isInfinite ? line.dims(0, 3) : at));
    });
  };
  return order > 0 ? body.max({shape[1]}, f64, sums) : body.min({shape[1]}, f64, sums);
}

static LogicalResult lowerCond(Call &call) {
  Value self = call.tensor(0);
  bool isNamed = !call.args.isNone("p") && !call.args.isNumber("p");
  StringRef name = isNamed ? call.args.string("p") : StringRef();
  double order = isNamed ? 0 : call.args.isNone("p") ? 2 : call.constantNumber("p");
  bool ofValues = name == "nuc" || std::abs(order) == 2;
  if (!isMatrix(self) || (!ofValues && !isSquare(call, self)))
    return call.refuse("this dtype or shape");
  if (!ofValues && name != "fro" && std::abs(order) != 1 && !std::isinf(order))
    return call.refuse("a norm that matrices do not have");
  Value flat = flattenBatch(call, self);
  Exprs shape = shapeOf(flat);
  Type f64 = call.kernels.b().getF64Type();
  // It is 0 for an empty matrix.
  auto unlessEmpty = [&](BodyBuilder &body, Element x) {
    Element count = body.index(shape[1] * shape[2]);
    return select(count == count.constant(0), x.constant(0), x);
  };
  if (!ofValues) {
    Value info, inverse = invertMatrices(call, flat, /*checked=*/false, &info);
    return call.set(restore(call, call.kernels.map({shape[0]}, f64, [&](BodyBuilder &body) {
      Element own = norm(body, flat, name, order), other = norm(body, inverse, name, order);
      Element failed = body.read(info, body.ownDims());
      Element infinity = other.constant(std::numeric_limits<double>::infinity());
      other = select(failed != failed.constant(0), infinity, other);
      return unlessEmpty(body, own * other);
    })));
  }
  Value values = decompose(call, flat).values;
  Expr k = shapeOf(values)[1];
  return call.set(restore(call, call.kernels.map({shape[0]}, f64, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &in) { return in.read(values, in.dims(0, 2)); };
    if (name == "nuc")
      return body.sum({k}, f64, read) *
             body.sum({k}, f64, [&](BodyBuilder &in) { return 1.0 / read(in); });
    Element most = body.max({k}, f64, read), least = body.min({k}, f64, read);
    return unlessEmpty(body, order < 0 ? least / most : most / least);
  })));
}

static LogicalResult lowerNuclearNorm(Call &call) {
  std::array<int64_t, 2> dims = {0, 1};
  if (call.args.has("dim")) {
    auto given = call.args.intList("dim");
    if (given.size() != 2)
      return call.refuse("dims of no matrix");
    for (auto [dim, value] : llvm::zip(dims, given))
      dim = value + (value < 0 ? rankOf(call.tensor(0)) : 0);
  }
  if (rankOf(call.tensor(0)) < 2 || dims[0] == dims[1])
    return call.refuse("dims of no matrix");
  return singularNorm(call, SingularNorm::Sum, dims);
}

void lowering::registerSingularValues(LoweringTable &table) {
  table.add("aten._linalg_svd.default",
            [](Call &call) { return svd(call, call.args.boolean("compute_uv"), true); });
  table.add("aten.linalg_svd.default", [](Call &call) { return svd(call, true, true); });
  table.add("aten.svd.default",
            [](Call &call) { return svd(call, call.args.boolean("compute_uv"), false); });
  table.add("aten.linalg_svdvals.default", lowerSvdValues);
  table.add({"aten.linalg_matrix_rank.atol_rtol_float", "aten.linalg_matrix_rank.atol_rtol_tensor"},
            [](Call &call) { return matrixRank(call, "atol", "rtol"); });
  table.add({"aten.linalg_matrix_rank.default", "aten.linalg_matrix_rank.tol_tensor"},
            [](Call &call) { return matrixRank(call, "tol", ""); });
  table.add({"aten.linalg_pinv.atol_rtol_float", "aten.linalg_pinv.atol_rtol_tensor"},
            [](Call &call) { return pseudoInverse(call, "atol", "rtol"); });
  table.add({"aten.linalg_pinv.default", "aten.linalg_pinv.rcond_tensor", "aten.pinverse.default"},
            [](Call &call) { return pseudoInverse(call, "", "rcond"); });
  table.add({"aten.linalg_cond.default", "aten.linalg_cond.p_str"}, lowerCond);
  table.add({"aten.nuclear_norm.default", "aten.nuclear_norm.dim"}, lowerNuclearNorm);
}
