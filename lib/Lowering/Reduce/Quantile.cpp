// Quantiles: elements of sorted rows, or something between two of them.
#include "Reduce/Order.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// [Q, rows…] seen as the declared shape. Rows with NaN give NaN, unless NaN does not count.
static LogicalResult quantile(Call &call, bool ignoreNan) {
  Value self = call.tensor(0), points = call.tensor("q");
  call.require(sym::product(shapeOf(self)) - 1, "quantiles of no elements");
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  StringRef mode = call.args.string("interpolation");
  if (!isFloat(type) || (points && (elementType(points) != type || rankOf(points) > 1)))
    return call.refuse("these dtypes, or points that are no vector");
  bool isBetween = mode == "linear" || mode == "midpoint";
  if (!isBetween && mode != "lower" && mode != "higher" && mode != "nearest")
    return call.refuse("interpolation " + mode);
  int64_t dim = 0;
  if (call.args.isNone("dim"))
    self = call.kernels.reshape(self, {sym::product(shapeOf(self))});
  else
    dim = call.dim("dim", rankOf(self));
  if (rankOf(self) == 0)
    self = call.kernels.reshape(self, {1});
  SortedDim along{shapeOf(self), dim};
  Expr length = along.length();
  call.require(length - 1, "a quantile of no elements");
  Value positions = sortedPositions(call, self, along, false);
  Exprs rows = along.rows();
  Value numbers = call.kernels.map(rows, i64, [&](BodyBuilder &body) { // that are not NaN
    return body.sum({length}, i64, [&](BodyBuilder &inner) {
      Expr at = inner.dim(inner.numDims() - 1);
      return convert(~isNan(inner.read(self, along.index(inner.dims(0, rows.size()), at))), i64);
    });
  });
  Exprs shape = rows;
  shape.insert(shape.begin(), points && rankOf(points) == 1 ? shapeOf(points)[0] : Expr(1));
  Type wide = opmath(type);
  Value result = call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs row = body.dims(1, body.numDims());
    Element count = body.read(numbers, row), zero = count.constant(0);
    Element q =
        points ? convert(body.read(points, rankOf(points) ? Exprs{body.dim(0)} : Exprs()), wide)
               : body.constant(wide, call.args.number("q"));
    Element last = body.index(length - 1);
    // The first element of a row of nothing but NaN counts.
    Element most = ignoreNan ? maximum(count - count.constant(1), zero) : last;
    Element rank = q * convert(most, wide);
    if (!ignoreNan)
      rank = select(count == body.index(length), rank, convert(last, wide));
    if (mode == "lower")
      rank = floor(rank);
    else if (mode == "higher")
      rank = ceil(rank);
    else if (mode == "nearest")
      rank = roundEven(rank);
    auto valueAt = [&](Element place) {
      Indices at = indicesOf(row);
      at.push_back(place);
      return convert(body.read(self, along.index(row, body.read(positions, at))), wide);
    };
    Element below = convert(rank, i64), value = valueAt(below);
    if (!isBetween)
      return value;
    Element weight = mode == "midpoint" ? q.constant(0.5) : rank - convert(below, wide);
    Element above = valueAt(convert(ceil(rank), i64)), difference = above - value;
    return select(weight < weight.constant(0.5), value + weight * difference,
                  above - difference * (1.0 - weight));
  });
  return call.set(call.kernels.reshape(result, call.resultShape()));
}

void lowering::registerQuantile(LoweringTable &table) {
  table.add({"aten.quantile.default", "aten.quantile.scalar"},
            [](Call &call) { return quantile(call, false); });
  table.add({"aten.nanquantile.default", "aten.nanquantile.scalar"},
            [](Call &call) { return quantile(call, true); });
}
