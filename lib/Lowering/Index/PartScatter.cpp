// Writes of a part of a tensor that expressions name, and the gradients of reading one, as maps over
// the whole: each element of the result asks where it comes from.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// `source` is a part of a tensor of this shape: of `self`, or of zeros if that is null.
struct Part {
  Value self;
  Exprs shape;
  Value source;
};
} // namespace

/// The arguments of …_scatter.
static Part writtenPart(Call &call) {
  Value self = call.tensor(0);
  return {self, shapeOf(self), call.tensor(1)};
}

/// The arguments of …_backward.
static Part gradientOfPart(Call &call) {
  return {Value(), call.args.symIntList("input_sizes"), call.tensor(0)};
}

/// `source` at `index` where all `exprs` lie in `bounds`; elsewhere `self`.
static LogicalResult
overwrite(Call &call, const Part &part, Value source,
          function_ref<void(BodyBuilder &, Exprs &index, Exprs &exprs, Exprs &bounds)> place) {
  Type type = call.resultType();
  if (elementType(source) != type)
    source = call.kernels.convert(source, type);
  return call.set(call.kernels.map(part.shape, type, [&](BodyBuilder &body) -> Element {
    Exprs index, exprs, bounds;
    place(body, index, exprs, bounds);
    auto inside = body.inside(exprs, bounds);
    return body.read(source, index, inside,
                     part.self ? body.broadcast(part.self) : body.constant(type, 0));
  }));
}

/// A Python index into a dim of this size, counted from its start.
static Expr fromStart(Call &call, Expr index, Expr size) {
  Expr isNegative = Expr::min(Expr::max(-index, 0), 1);
  return call.kernels.known().simplify(index + isNegative * size);
}

static LogicalResult scatterSelect(Call &call, const Part &part) {
  int64_t rank = part.shape.size(), dim = call.dim("dim", rank);
  Expr at = call.args.symInt("index");
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs rest = part.shape;
  Expr size = rest[dim];
  at = fromStart(call, at, size);
  rest.erase(rest.begin() + dim);
  for (Expr bound : {at, size - at - 1})
    call.require(bound, "an index outside of the dim");
  Value source = call.kernels.expand(part.source, rest);
  return overwrite(call, part, source,
                   [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
                     index = body.ownDims();
                     index.erase(index.begin() + dim);
                     exprs.push_back(body.dim(dim) - at);
                     bounds.push_back(1);
                   });
}

static LogicalResult scatterSlice(Call &call, const Part &part) {
  int64_t rank = part.shape.size(), dim = call.dim("dim", rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs sizes = part.shape;
  const sym::Assumptions &known = call.kernels.known();
  Expr size = sizes[dim], step = call.args.symInt("step");
  auto clamped = [&](torch::CallArgs::Key key, Expr missing) {
    Expr bound = fromStart(call, call.args.optSymInt(key).value_or(missing), size);
    return known.simplify(Expr::min(Expr::max(bound, Expr(0)), size));
  };
  Expr start = clamped("start", 0), end = clamped("end", size);
  if (!known.isPositive(step))
    return call.refuse("cannot tell the sign of the step");
  sizes[dim] = known.simplify(Expr::max((end - start).ceilDiv(step), Expr(0)));
  Value source = call.kernels.expand(part.source, sizes);
  return overwrite(call, part, source,
                   [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
                     index = body.ownDims();
                     Expr offset = body.dim(dim) - start;
                     index[dim] = offset.floorDiv(step);
                     exprs.push_back(index[dim]);
                     bounds.push_back(sizes[dim]);
                     if (!step.isConstant(1)) {
                       exprs.push_back(offset.mod(step));
                       bounds.push_back(1);
                     }
                   });
}

static LogicalResult scatterDiagonal(Call &call, const Part &part) {
  int64_t rank = part.shape.size(), row = call.dim("dim1", rank), column = call.dim("dim2", rank);
  int64_t offset = call.args.integer("offset");
  if (rank < 2 || row == column || rankOf(part.source) != rank - 1)
    return call.refuse("needs two different dims and a source of one dim less");
  Exprs sizes = part.shape, diagonal;
  for (int64_t i = 0; i < rank; ++i)
    if (i != row && i != column)
      diagonal.push_back(sizes[i]);
  int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  diagonal.push_back(call.kernels.known().simplify(
      Expr::max(Expr::min(sizes[row] - down, sizes[column] - right), Expr(0))));
  if (!call.fits(shapeOf(part.source), diagonal, "a source of another shape"))
    return call.refuse("a source of another shape");
  return overwrite(call, part, part.source,
                   [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
                     for (int64_t i = 0; i < rank; ++i)
                       if (i != row && i != column)
                         index.push_back(body.dim(i));
                     index.push_back(body.dim(row) - down);
                     exprs.append({index.back(), body.dim(column) - right - index.back()});
                     bounds.append({diagonal.back(), Expr(1)});
                   });
}

/// `copy`: src in self's dtype and shape.
static LogicalResult lowerCopy(Call &call) {
  Value source = call.kernels.expand(call.tensor(1), shapeOf(call.tensor(0)));
  return call.set(call.kernels.convert(source, call.resultType()));
}

void lowering::registerPartScatter(LoweringTable &table) {
  using Scatter = LogicalResult(Call &, const Part &);
  auto add = [&](StringRef name, Scatter *scatter) {
    table.add(("aten." + name + "_scatter.default").str(),
              [=](Call &call) { return scatter(call, writtenPart(call)); });
    table.add(("aten." + name + "_backward.default").str(),
              [=](Call &call) { return scatter(call, gradientOfPart(call)); });
  };
  add("select", scatterSelect);
  add("slice", scatterSlice);
  add("diagonal", scatterDiagonal);
  table.add("aten.copy.default", lowerCopy);
}
