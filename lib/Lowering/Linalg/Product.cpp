// Products of tensors that are no matrix product as they stand, and what is made of them.
#include "Core/ReducedDims.h"
#include "Linalg/Linalg.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static bool isSameType(ArrayRef<Value> tensors) {
  return llvm::all_of(
      tensors, [&](Value t) { return !t || elementType(t) == elementType(tensors.front()); });
}

//===-- Sums over given dims ------------------------------------------------------------------===//

/// Sums over pairs of dims; the result has the other dims of `a`, then those of `b`.
static Value contractDims(Call &call, Value a, Value b, ArrayRef<int64_t> aDims,
                          ArrayRef<int64_t> bDims) {
  Exprs as = shapeOf(a), bs = shapeOf(b);
  Contraction c;
  for (auto [i, j] : llvm::zip_equal(aDims, bDims)) {
    // An element of a dim of size 1 stands for all.
    c.k.push_back(as[i].isConstant(1) ? bs[j] : as[i]);
    if (!bs[j].isConstant(1) && !call.fits(c.k.back(), bs[j], "sizes that differ")) {
      call.kernels.fail("sizes that differ");
      return {};
    }
  }
  auto others = [](ArrayRef<Expr> shape, ArrayRef<int64_t> dims) {
    Exprs rest;
    for (auto [i, size] : llvm::enumerate(shape))
      if (!llvm::is_contained(dims, static_cast<int64_t>(i)))
        rest.push_back(size);
    return rest;
  };
  c.m = others(as, aDims);
  c.n = others(bs, bDims);
  size_t m = c.m.size(), k = m + c.n.size();
  auto index = [k](BodyBuilder &body, ArrayRef<Expr> shape, ArrayRef<int64_t> dims, size_t own) {
    Exprs at;
    for (auto [i, size] : llvm::enumerate(shape)) {
      auto found = llvm::find(dims, static_cast<int64_t>(i));
      if (found == dims.end())
        at.push_back(body.dim(own++));
      else
        at.push_back(size.isConstant(1) ? Expr(0) : body.dim(k + (found - dims.begin())));
    }
    return at;
  };
  auto lhs = [&](BodyBuilder &body) { return body.read(a, index(body, as, aDims, 0)); };
  auto rhs = [&](BodyBuilder &body) { return body.read(b, index(body, bs, bDims, m)); };
  c.lhs = lhs;
  c.rhs = rhs;
  return call.kernels.contract(c, call.resultType());
}

static LogicalResult lowerTensordot(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  auto wrapped = [&](unsigned key, int64_t rank) {
    SmallVector<int64_t> dims = call.args.intList(key);
    for (int64_t &dim : dims)
      dim += dim < 0 ? rank : 0;
    if (llvm::any_of(dims, [&](int64_t dim) { return dim < 0 || dim >= rank; }))
      call.kernels.fail("a dim is out of range");
    return dims;
  };
  SmallVector<int64_t> aDims = wrapped(2, rankOf(a)), bDims = wrapped(3, rankOf(b));
  if (call.kernels.failure)
    return failure();
  if (aDims.size() != bDims.size() || !isSameType({a, b}) || isBool(elementType(a)))
    return call.refuse("these dtypes or dims");
  Value result = contractDims(call, a, b, aDims, bDims);
  return result ? call.set(result) : failure();
}

static LogicalResult lowerInner(Call &call) { // over the last dims; a number scales
  Value a = call.tensor(0), b = call.tensor(1);
  if (!isSameType({a, b}) || isBool(elementType(a)))
    return call.refuse("these dtypes");
  if (rankOf(a) == 0 || rankOf(b) == 0)
    return call.pointwise({a, b}, [](BodyBuilder &, Elements x) { return x[0] * x[1]; });
  Value result = contractDims(call, a, b, {rankOf(a) - 1}, {rankOf(b) - 1});
  return result ? call.set(result) : failure();
}

/// The sum of conj(x) * y along a dim.
static LogicalResult vecdot(Call &call, int64_t dim) {
  Value x = call.tensor(0), y = call.tensor(1);
  auto shape = call.kernels.broadcastShapes({x, y});
  Type common = promoteTypes(elementType(x), elementType(y));
  if (!shape || !common || isBool(common))
    return call.refuse("these dtypes or shapes");
  // The parts of complex products cancel.
  Type wide = isComplex(common) ? accumulatorType(common) : opmath(common);
  Expr extent = (*shape)[dim];
  Exprs rows = *shape;
  rows.erase(rows.begin() + dim);
  return call.set(call.kernels.map(rows, call.resultType(), [&](BodyBuilder &body) {
    return body.sum({extent}, wide, [&](BodyBuilder &inner) {
      Exprs at = inner.dims(0, rows.size());
      at.insert(at.begin() + dim, inner.dim(rows.size()));
      return conjugate(convert(inner.broadcast(x, at, *shape), wide)) *
             convert(inner.broadcast(y, at, *shape), wide);
    });
  }));
}

static LogicalResult lowerVecdot(Call &call) {
  int64_t rank = std::max(rankOf(call.tensor(0)), rankOf(call.tensor(1)));
  if (rank == 0)
    return call.refuse("0-d tensors");
  return vecdot(call, call.dim("dim", rank));
}

static LogicalResult lowerVdot(Call &call) {
  if (rankOf(call.tensor(0)) != 1 || rankOf(call.tensor(1)) != 1)
    return call.refuse("needs two vectors");
  return vecdot(call, 0);
}

/// y[.., o] = sum over i and j of a[.., i] * weight[o, i, j] * b[.., j], + bias[o].
static LogicalResult lowerBilinear(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1), weight = call.tensor(2);
  Value bias = call.args.optTensor(3);
  Exprs as = shapeOf(a), bs = shapeOf(b), ws = shapeOf(weight);
  Type type = elementType(a);
  if (!isSameType({a, b, weight, bias}) || isBool(type) || ws.size() != 3 || as.empty() ||
      as.size() != bs.size() ||
      !call.fits(ArrayRef(as).drop_back(), ArrayRef(bs).drop_back(), "shapes that do not fit") ||
      !call.fits({as.back(), bs.back()}, {ws[1], ws[2]}, "features that do not fit the weight") ||
      (bias &&
       (rankOf(bias) != 1 || !call.fits(shapeOf(bias)[0], ws[0], "a bias of another size"))))
    return call.refuse("these dtypes or shapes");
  Contraction c;
  c.m.assign(as.begin(), as.end() - 1);
  c.n = {ws[0]};
  c.k = {ws[1], ws[2]};
  size_t m = c.m.size();
  Type wide = opmath(type); // products are not rounded
  auto lhs = [&](BodyBuilder &body) {
    Exprs i = body.dims(0, m), j = i;
    i.push_back(body.dim(m + 1));
    j.push_back(body.dim(m + 2));
    return convert(body.read(a, i), wide) * convert(body.read(b, j), wide);
  };
  auto rhs = [&](BodyBuilder &body) {
    return convert(body.read(weight, body.dims(m, m + 3)), wide);
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return sum + convert(body.read(bias, Exprs{body.dim(m)}), sum.type());
  };
  c.lhs = lhs;
  c.rhs = rhs;
  if (bias)
    c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, call.resultType()));
}

//===-- Chains of matrices --------------------------------------------------------------------===//

static Value matrixProduct(Call &call, Value a, Value b, Type type) {
  int64_t rank = rankOf(a);
  Exprs as = shapeOf(a), bs = shapeOf(b);
  Contraction c;
  c.batch.assign(as.begin(), as.end() - 2);
  c.m = {as[rank - 2]};
  c.n = {bs[rank - 1]};
  c.k = {as[rank - 1]};
  auto at = [&](BodyBuilder &body, unsigned row, unsigned column) {
    Exprs index = body.dims(0, rank - 2);
    index.append({body.dim(rank - 2 + row), body.dim(rank - 2 + column)});
    return index;
  };
  auto lhs = [&](BodyBuilder &body) { return body.read(a, at(body, 0, 2)); };
  auto rhs = [&](BodyBuilder &body) { return body.read(b, at(body, 2, 1)); };
  c.lhs = lhs;
  c.rhs = rhs;
  return call.kernels.contract(c, type);
}

/// From the left to the right, but for three matrices whichever order has fewer products; the first
/// may be a row, the last a column.
static LogicalResult lowerMultiDot(Call &call) {
  SmallVector<Value> matrices = call.args.tensorList(0);
  if (matrices.empty() || !isSameType(matrices) || isBool(elementType(matrices.front())))
    return call.refuse("these dtypes");
  if (matrices.size() == 1)
    return call.set(matrices.front());
  Type type = elementType(matrices.front());
  if (rankOf(matrices.front()) == 1)
    matrices.front() = call.kernels.reshape(matrices.front(), {1, shapeOf(matrices.front())[0]});
  if (rankOf(matrices.back()) == 1)
    matrices.back() = call.kernels.reshape(matrices.back(), {shapeOf(matrices.back())[0], 1});
  for (auto [i, matrix] : llvm::enumerate(matrices))
    if (rankOf(matrix) != 2 || (i && !call.fits(shapeOf(matrices[i - 1])[1], shapeOf(matrix)[0],
                                                "shapes that have no product")))
      return call.refuse("shapes that have no product");
  if (matrices.size() == 3) {
    Exprs a = shapeOf(matrices[0]), b = shapeOf(matrices[1]), c = shapeOf(matrices[2]);
    Expr left = a[0] * a[1] * b[1] + a[0] * c[0] * c[1];
    Expr right = b[0] * b[1] * c[1] + a[0] * a[1] * c[1];
    if (call.kernels.known().isLess(right, left)) {
      matrices[1] = matrixProduct(call, matrices[1], matrices[2], type);
      matrices.pop_back();
    }
  }
  Value result = matrices.front();
  for (Value matrix : ArrayRef(matrices).drop_front())
    result = matrixProduct(call, result, matrix, type);
  return call.set(call.kernels.reshape(result, call.resultShape()));
}

/// By squaring.
static LogicalResult lowerMatrixPower(Call &call) {
  Value square = call.tensor(0);
  int64_t rank = rankOf(square), exponent = call.args.integer("n");
  Type type = elementType(square);
  Exprs shape = shapeOf(square);
  if (rank < 2 || isBool(type) || (exponent < 0 && isInt(type)) ||
      !call.fits(shape[rank - 1], shape[rank - 2], "a matrix that is not square"))
    return call.refuse("this dtype, or a matrix that is not square");
  if (exponent < 0) { // powers of the inverse
    Value inverse = invertMatrices(call, flattenBatch(call, square), /*checked=*/true);
    square = call.kernels.convert(call.kernels.reshape(inverse, shape), type);
  }
  if (exponent == 0)
    return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
      return convert(body.index(body.dim(rank - 2)) == body.index(body.dim(rank - 1)), type);
    }));
  Value result;
  for (uint64_t bits = std::abs(exponent);;) {
    if (bits & 1)
      result = result ? matrixProduct(call, result, square, type) : square;
    if (!(bits >>= 1))
      break;
    square = matrixProduct(call, square, square, type);
  }
  return call.set(result);
}

//===-- Outer products ------------------------------------------------------------------------===//

/// beta * self + alpha * (a[i] * b[j]); beta = 0 ignores self.
static LogicalResult lowerAddr(Call &call) {
  Value self = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  torch::Scalar beta = call.args.scalar("beta"), alpha = call.args.scalar("alpha");
  if (rankOf(a) != 1 || rankOf(b) != 1)
    return call.refuse("needs two vectors");
  auto complexOrReal = torch::asDouble(beta);
  bool ignoresSelf = complexOrReal && *complexOrReal == 0;
  Value column = call.kernels.reshape(a, {shapeOf(a)[0], 1});
  return call.pointwise({self, column, b}, [&](BodyBuilder &body, Elements x) {
    Element product = call.number(body, alpha, x[1].type()) * x[1] * x[2];
    return ignoresSelf ? product : call.number(body, beta, x[0].type()) * x[0] + product;
  });
}

/// Blocks b * a[i, j, ..].
static LogicalResult lowerKron(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  size_t rank = std::max(rankOf(a), rankOf(b));
  Type common = lowering::resultType(call.args.op().getContext(), {a, b});
  if (!common)
    return call.refuse("dtypes that do not promote");
  auto padded = [&](Value tensor) {
    Exprs shape = shapeOf(tensor);
    shape.insert(shape.begin(), rank - shape.size(), Expr(1));
    return call.kernels.reshape(tensor, shape);
  };
  a = padded(a);
  b = padded(b);
  Exprs block = shapeOf(b), shape;
  for (auto [x, y] : llvm::zip_equal(shapeOf(a), block))
    shape.push_back(x * y);
  Type wide = opmath(common);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Exprs outer, inner;
    for (auto [dim, size] : llvm::zip_equal(body.ownDims(), block)) {
      outer.push_back(size.isConstant(0) ? Expr(0) : dim.floorDiv(size));
      inner.push_back(size.isConstant(0) ? Expr(0) : dim.mod(size));
    }
    return convert(body.read(a, outer), wide) * convert(body.read(b, inner), wide);
  }));
}

/// a[i+1] * b[i+2] - a[i+2] * b[i+1], indices modulo 3.
static LogicalResult lowerCross(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  auto shape = call.kernels.broadcastShapes({a, b});
  Type common = promoteTypes(elementType(a), elementType(b));
  if (!shape || !common || isBool(common))
    return call.refuse("these dtypes or shapes");
  int64_t dim = -1;
  if (!call.args.isNone("dim"))
    dim = call.dim("dim", shape->size());
  else // the first of size 3
    dim = llvm::find(*shape, Expr(3)) - shape->begin();
  if (dim >= static_cast<int64_t>(shape->size()) || !(*shape)[dim].isConstant(3))
    return call.refuse("a dim of another size than 3");
  Type wide = opmath(common);
  return call.set(call.kernels.map(*shape, call.resultType(), [&](BodyBuilder &body) {
    auto read = [&](Value tensor, int64_t ahead) {
      Exprs at = body.ownDims();
      at[dim] = (at[dim] + ahead).mod(3);
      return convert(body.broadcast(tensor, at, *shape), wide);
    };
    return read(a, 1) * read(b, 2) - read(a, 2) * read(b, 1);
  }));
}

/// Powers 0, 1, … of each element.
static LogicalResult lowerVander(Call &call) {
  Value x = call.tensor(0);
  Exprs shape = call.resultShape();
  Type type = call.resultType(), wide = accumulatorType(type); // a running product, as cumprod
  if (rankOf(x) == 0)                                          // one element
    x = call.kernels.reshape(x, {1});
  size_t rank = rankOf(x);
  if (isBool(type) || shape.size() != rank + 1)
    return call.refuse("this dtype");
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{body.constant(wide, 1)}; };
  auto body = [&](BodyBuilder &inner) {
    Element value = convert(inner.read(x, inner.dims(0, rank)), wide);
    Element isFirst = inner.index(inner.dim(rank)) == inner.constant(inner.b().getI64Type(), 0);
    return Elements{select(isFirst, value.constant(1), value)};
  };
  auto step = [&](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] * b[0]}; };
  return call.set(
      call.kernels.scan({shape, static_cast<int64_t>(rank), init, body, step}, type).front());
}

void lowering::registerProduct(LoweringTable &table) {
  table.add("aten.tensordot.default", lowerTensordot);
  table.add("aten.inner.default", lowerInner);
  table.add("aten.linalg_vecdot.default", lowerVecdot);
  table.add("aten.vdot.default", lowerVdot);
  table.add("aten.bilinear.default", lowerBilinear);
  table.add({"aten.linalg_multi_dot.default", "aten.chain_matmul.default"}, lowerMultiDot);
  table.add({"aten.linalg_matrix_power.default", "aten.matrix_power.default"}, lowerMatrixPower);
  table.add("aten.addr.default", lowerAddr);
  table.add("aten.kron.default", lowerKron);
  table.add({"aten.linalg_cross.default", "aten.cross.default"}, lowerCross);
  table.add({"aten.linalg_vander.default"}, lowerVander);
}
