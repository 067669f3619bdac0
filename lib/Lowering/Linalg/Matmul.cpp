// Matrix products, as kernel.contract.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Whether elements of this type have a sum of products.
static bool isProductType(Type type) { return !isBool(type); }

static bool sameType(ArrayRef<Value> tensors) {
  return llvm::all_of(
      tensors, [&](Value t) { return !t || elementType(t) == elementType(tensors.front()); });
}

//===-- linear --------------------------------------------------------------------------------===//

/// x[…, k] · weight[n, k] + bias[n]; the leading dims of x are m dims as they are.
static LogicalResult lowerLinear(Call &call) {
  Value x = call.tensor(0), weight = call.tensor(1), bias = call.args.optTensor(2);
  Exprs xs = shapeOf(x), ws = shapeOf(weight);
  Type type = elementType(x);
  if (!sameType({x, weight, bias}) || !isProductType(type))
    return call.refuse("these dtypes");
  if (xs.empty() || ws.empty() || ws.size() > 2 ||
      !call.fits(xs.back(), ws.back(), "shapes that have no product"))
    return call.refuse("shapes that have no product");
  Contraction c;
  c.m.assign(xs.begin(), xs.end() - 1);
  if (ws.size() == 2)
    c.n = {ws[0]};
  c.k = {xs.back()};
  if (bias && (rankOf(bias) > static_cast<int64_t>(c.m.size() + c.n.size()) ||
               (rankOf(bias) == 1 && c.n.empty())))
    return call.refuse("a bias of another shape");
  auto lhs = [&](BodyBuilder &body) {
    Exprs index = body.dims(0, c.m.size());
    index.push_back(body.dim(body.numDims() - 1));
    return body.read(x, index);
  };
  auto rhs = [&](BodyBuilder &body) {
    return body.read(weight, body.dims(c.m.size(), body.numDims()));
  };
  Exprs sizes = llvm::to_vector(llvm::concat<Expr>(c.m, c.n));
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return sum + convert(body.broadcast(bias, body.dims(0, sizes.size()), sizes), sum.type());
  };
  c.lhs = lhs;
  c.rhs = rhs;
  if (bias)
    c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, call.resultType()));
}

//===-- matmul --------------------------------------------------------------------------------===//

using Epilogue = function_ref<Element(BodyBuilder &, Element)>;

/// a[batch…, m, k] · b[batch…, k, n] with broadcast batch dims; a vector has no m (or n) dim. Null,
/// with a reason, if the shapes have no product.
static Value product(Call &call, Value a, Value b, Type type, Epilogue epilogue = nullptr) {
  Exprs as = shapeOf(a), bs = shapeOf(b);
  if (!sameType({a, b}) || !isProductType(elementType(a))) {
    call.kernels.fail("these dtypes");
    return {};
  }
  size_t aVector = as.size() == 1, bVector = bs.size() == 1;
  if (as.empty() || bs.empty() ||
      !call.fits(as.back(), bs[bs.size() - (bVector ? 1 : 2)], "shapes that have no product")) {
    call.kernels.fail("shapes that have no product");
    return {};
  }
  ArrayRef<Expr> aBatch = ArrayRef(as).drop_back(2 - aVector);
  ArrayRef<Expr> bBatch = ArrayRef(bs).drop_back(2 - bVector);
  Contraction c;
  size_t rank = std::max(aBatch.size(), bBatch.size());
  for (size_t i = 0; i < rank; ++i) {
    size_t fromEnd = rank - i;
    Expr x = fromEnd <= aBatch.size() ? aBatch[aBatch.size() - fromEnd] : Expr(1);
    Expr y = fromEnd <= bBatch.size() ? bBatch[bBatch.size() - fromEnd] : Expr(1);
    c.batch.push_back(x.isConstant(1) ? y : x);
  }
  // Batch dims that b does not have are rows of one larger product.
  bool rows = llvm::all_of(bBatch, [](Expr size) { return size.isConstant(1); }) &&
              aBatch.size() >= bBatch.size() && !aVector;
  if (rows)
    std::swap(c.batch, c.m);
  if (!aVector)
    c.m.push_back(as[as.size() - 2]);
  if (!bVector)
    c.n.push_back(bs.back());
  c.k = {as.back()};
  Exprs batch(rows ? ArrayRef(c.m).drop_back() : ArrayRef(c.batch));
  // Reads a matrix of `tensor` at the batch dims, then at `matrix`.
  auto readMatrix = [&](BodyBuilder &body, Value tensor, ArrayRef<Expr> matrix) {
    Exprs at = body.dims(0, rank), shape = batch;
    llvm::append_range(at, matrix);
    llvm::append_range(shape, ArrayRef(shapeOf(tensor)).take_back(matrix.size()));
    return body.broadcast(tensor, at, shape);
  };
  auto lhs = [&](BodyBuilder &body) {
    Exprs matrix;
    if (!aVector)
      matrix.push_back(body.dim(rank));
    matrix.push_back(body.dim(body.numDims() - 1));
    return readMatrix(body, a, matrix);
  };
  auto rhs = [&](BodyBuilder &body) {
    Exprs matrix = {body.dim(body.numDims() - 1)};
    if (!bVector)
      matrix.push_back(body.dim(body.numDims() - 2));
    return readMatrix(body, b, matrix);
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.kernels.contract(c, type);
}

static LogicalResult lowerMatmul(Call &call) { // matmul, mm, bmm, mv, dot, …
  Value result = product(call, call.tensor(0), call.tensor(1), call.resultType());
  return result ? call.set(result) : failure();
}

namespace {
/// beta * self + alpha * sum, with self broadcast to the result; beta = 0 ignores self.
class AddScaled {
public:
  explicit AddScaled(Call &call)
      : call(call), beta(call.args.scalar("beta")), alpha(call.args.scalar("alpha")) {
    for (const torch::Scalar &factor : {beta, alpha})
      if (!torch::asDouble(factor) && !std::holds_alternative<std::complex<double>>(factor))
        call.kernels.fail("a number that is only known when the model runs");
  }

  Element operator()(BodyBuilder &body, Element sum) const {
    sum = times(body, sum, alpha);
    if (torch::asDouble(beta) == 0)
      return sum;
    Exprs shape = call.resultShape();
    Element self = body.broadcast(call.tensor(0), body.dims(0, shape.size()), shape);
    return sum + times(body, convert(self, sum.type()), beta);
  }

private:
  Element times(BodyBuilder &body, Element x, const torch::Scalar &factor) const {
    if (torch::asDouble(factor) == 1)
      return x;
    return x * call.number(body, factor, x.type());
  }

  Call &call;
  torch::Scalar beta, alpha;
};
} // namespace

static LogicalResult lowerAddProduct(Call &call) {
  Value self = call.tensor(0);
  if (!sameType({call.tensor(1), self}) && elementType(self) != call.resultType())
    return call.refuse("these dtypes");
  Value result = product(call, call.tensor(1), call.tensor(2), call.resultType(), AddScaled(call));
  return result ? call.set(result) : failure();
}

/// Products of half precision may be asked for in f32: their sums are not rounded.
static LogicalResult lowerWithDtype(Call &call) {
  bool adds = call.args.has("beta");
  Type from = elementType(call.tensor(adds ? 1 : 0)), to = call.resultType();
  if (from != to && !(to.isF32() && (from.isF16() || from.isBF16())))
    return call.refuse("these dtypes");
  return adds ? lowerAddProduct(call) : lowerMatmul(call);
}

/// The product is summed over the batch, which is one more k dim.
static LogicalResult lowerAddbmm(Call &call) {
  Value self = call.tensor(0), a = call.tensor(1), b = call.tensor(2);
  AddScaled epilogue(call);
  Exprs as = shapeOf(a), bs = shapeOf(b);
  if (!sameType({a, b, self}) || !isProductType(elementType(a)) || as.size() != 3 ||
      bs.size() != 3 || !call.fits({as[0], as[2]}, {bs[0], bs[1]}, "shapes that have no product"))
    return call.refuse("these dtypes or shapes");
  Contraction c;
  c.m = {as[1]};
  c.n = {bs[2]};
  c.k = {as[0], as[2]};
  auto lhs = [&](BodyBuilder &body) {
    return body.read(a, Exprs{body.dim(2), body.dim(0), body.dim(3)});
  };
  auto rhs = [&](BodyBuilder &body) {
    return body.read(b, Exprs{body.dim(2), body.dim(3), body.dim(1)});
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, call.resultType()));
}

static LogicalResult lowerOuter(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  if (rankOf(a) != 1 || rankOf(b) != 1)
    return call.refuse("needs two vectors");
  Type common = lowering::resultType(call.args.op().getContext(), {a, b});
  if (!common)
    return call.refuse("dtypes that do not promote");
  return call.set(
      call.kernels.map({shapeOf(a)[0], shapeOf(b)[0]}, call.resultType(), [&](BodyBuilder &body) {
        Type wide = opmath(common);
        return convert(body.read(a, Exprs{body.dim(0)}), wide) *
               convert(body.read(b, Exprs{body.dim(1)}), wide);
      }));
}

/// A product of 8-bit integers in 32 bits.
static LogicalResult lowerIntMm(Call &call) {
  Value a = call.tensor(0), b = call.tensor(1);
  if (!isInt(elementType(a)) || !isInt(elementType(b)))
    return call.refuse("these dtypes");
  Type i32 = call.resultType();
  Value result = product(call, call.kernels.convert(a, i32), call.kernels.convert(b, i32), i32);
  return result ? call.set(result) : failure();
}

void lowering::registerMatmul(LoweringTable &table) {
  table.add("aten.linear.default", lowerLinear);
  table.add({"aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default",
             "aten.dot.default", "aten.linalg_matmul.default"},
            lowerMatmul);
  table.add({"aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default"}, lowerAddProduct);
  table.add({"aten.mm.dtype", "aten.bmm.dtype", "aten.addmm.dtype"}, lowerWithDtype);
  table.add("aten.addbmm.default", lowerAddbmm);
  table.add("aten._int_mm.default", lowerIntMm);
  table.add({"aten.outer.default", "aten.ger.default"}, lowerOuter);
}
