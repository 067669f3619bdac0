// Running reductions along one dim, each element reduced over those before it. That is quadratic in
// the dim, so long ones are refused.
#include "ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The longest dim worth the quadratic form.
static constexpr int64_t maxLength = 4096;

static LogicalResult cumulate(Call &call, bool multiply) {
  Value self = call.tensor(0);
  Type type = call.resultType();
  if (isFloat(type)) // as ATen's accumulator
    type = Float64Type::get(type.getContext());
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (isBool(type))
    return call.refuse("a running sum in bool");
  if (rank == 0)
    return call.set(call.kernels.convert(self, call.resultType()));
  Exprs shape = shapeOf(self);
  if (!call.kernels.known().isLessOrEqual(shape[dim], maxLength))
    return call.refuse("a dim that may be longer than " + Twine(maxLength));
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    auto element = [&](BodyBuilder &inner) {
      Exprs index = body.ownDims();
      Expr at = inner.dim(rank);
      Element before = inner.inside({index[dim] - at}, {shape[dim]});
      index[dim] = at;
      Type own = elementType(self);
      Element neutral = inner.constant(own, multiply ? 1 : 0);
      return convert(inner.read(self, index, before, neutral), type);
    };
    return multiply ? body.prod({shape[dim]}, type, element)
                    : body.sum({shape[dim]}, type, element);
  }));
}

void lowering::registerScan(LoweringTable &table) {
  table.add("aten.cumsum.default", [](Call &call) { return cumulate(call, false); });
  table.add("aten.cumprod.default", [](Call &call) { return cumulate(call, true); });
}
