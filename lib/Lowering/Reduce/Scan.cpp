// Running reductions along one dim.
#include "Core/ReducedDims.h"
#include "Pointwise/ComplexFunctions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static void markAssociative(Value result) {
  result.getDefiningOp<kernel::ScanOp>().setAssociative(true);
}

/// A 0-d tensor counts as one element. `combine` is associative but for rounding.
static LogicalResult scan(Call &call, Type state, Element (*start)(ImplicitLocOpBuilder &, Type),
                          function_ref<Element(Element, Element)> combine) {
  Value self = call.tensor(0);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Exprs shape = rank == 0 ? Exprs{1} : shapeOf(self);
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{start(body.b(), state)}; };
  auto body = [&](BodyBuilder &inner) {
    return Elements{convert(inner.read(self, inner.dims(0, rank)), state)};
  };
  auto step = [&](ArrayRef<Element> a, ArrayRef<Element> b) {
    return Elements{combine(a[0], b[0])};
  };
  Value result = call.kernels.scan({shape, dim, init, body, step}, call.resultType()).front();
  markAssociative(result);
  return call.set(rank == 0 ? call.kernels.reshape(result, {}) : result);
}

static Element zero(ImplicitLocOpBuilder &b, Type type) { return constant(b, type, 0.0); }
static Element one(ImplicitLocOpBuilder &b, Type type) { return constant(b, type, 1.0); }

static LogicalResult lowerCumsum(Call &call) {
  if (isBool(call.resultType()))
    return call.refuse("a running sum in bool");
  return scan(call, accumulatorType(call.resultType()), zero, std::plus<Element>());
}

static LogicalResult lowerCumprod(Call &call) {
  if (isBool(call.resultType()))
    return call.refuse("a running product in bool");
  return scan(call, accumulatorType(call.resultType()), one, std::multiplies<Element>());
}

/// The powers of each element, from 0 on, as running products.
static LogicalResult lowerVander(Call &call) {
  Value self = call.tensor(0);
  Type state = accumulatorType(call.resultType());
  if (rankOf(self) != 1 || isBool(state))
    return call.refuse("a tensor of other than one dim");
  Expr length = shapeOf(self)[0];
  Exprs shape = {length, call.args.optSymInt("N").value_or(length)};
  bool increasing = call.args.boolean("increasing");
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{one(body.b(), state)}; };
  auto body = [&](BodyBuilder &inner) {
    Element x = convert(inner.read(self, Exprs{inner.dim(0)}), state);
    Element column = inner.index(inner.dim(1));
    return Elements{select(column == column.constant(0), x.constant(1), x)};
  };
  auto step = [](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] * b[0]}; };
  Value powers = call.kernels.scan({shape, 1, init, body, step}, call.resultType()).front();
  markAssociative(powers);
  if (increasing)
    return call.set(powers);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    return body.read(powers, Exprs{body.dim(0), shape[1] - 1 - body.dim(1)});
  }));
}

/// log(exp(x) + exp(y)), without leaving the range of either.
static LogicalResult lowerLogcumsumexp(Call &call) {
  Type type = call.resultType(), state = accumulatorType(type);
  if (isComplex(type))
    return scan(
        call, state,
        [](ImplicitLocOpBuilder &b, Type type) {
          return constant(b, type, -std::numeric_limits<double>::infinity());
        },
        complexes::logaddexp);
  if (!isFloat(type))
    return call.refuse("this dtype");
  return scan(call, state, lowest, [](Element y, Element x) {
    Element least = minimum(x, y), most = maximum(x, y);
    // Equal infinities have no difference.
    Element same = (least == most) & isInf(least);
    return select(same, x, log1p(exp(least - most)) + most);
  });
}

/// The extreme value so far and where it was last reached; NaN is more extreme than any number.
static LogicalResult extremeSoFar(Call &call, bool largest) {
  Value self = call.tensor(0);
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (isComplex(type))
    return call.refuse("an order of complex numbers");
  Exprs shape = rank == 0 ? Exprs{1} : shapeOf(self);
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) {
    Element least = largest ? lowest(body.b(), type) : highest(body.b(), type);
    return Elements{least, body.constant(i64, 0)};
  };
  auto body = [&](BodyBuilder &inner) {
    return Elements{inner.read(self, inner.dims(0, rank)), inner.index(inner.dim(dim))};
  };
  auto step = [&](ArrayRef<Element> best, ArrayRef<Element> next) {
    Element reaches = largest ? next[0] >= best[0] : next[0] <= best[0];
    Element take = isNan(next[0]) | (~isNan(best[0]) & reaches);
    return Elements{select(take, next[0], best[0]), select(take, next[1], best[1])};
  };
  SmallVector<Value> results = call.kernels.scan({shape, dim, init, body, step}, {type, i64});
  markAssociative(results.front());
  if (rank == 0)
    for (Value &result : results)
      result = call.kernels.reshape(result, {});
  return call.set(results);
}

void lowering::registerScan(LoweringTable &table) {
  table.add("aten.cumsum.default", lowerCumsum);
  table.add("aten.cumprod.default", lowerCumprod);
  table.add("aten.vander.default", lowerVander);
  table.add("aten.logcumsumexp.default", lowerLogcumsumexp);
  table.add("aten.cummax.default", [](Call &call) { return extremeSoFar(call, true); });
  table.add("aten.cummin.default", [](Call &call) { return extremeSoFar(call, false); });
}
