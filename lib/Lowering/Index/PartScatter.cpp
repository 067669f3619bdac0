// Writes of a part of a tensor that expressions name, as maps over the whole: each element of the
// result asks where it comes from.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// `source` at `index` where all `exprs` lie in `bounds`; elsewhere `self`.
static LogicalResult
overwrite(Call &call, Value source,
          function_ref<void(BodyBuilder &, Exprs &index, Exprs &exprs, Exprs &bounds)> place) {
  Value self = call.tensor(0);
  if (elementType(source) != elementType(self))
    source = call.kernels.convert(source, elementType(self));
  return call.set(
      call.kernels.map(shapeOf(self), elementType(self), [&](BodyBuilder &body) -> Element {
        Exprs index, exprs, bounds;
        place(body, index, exprs, bounds);
        return body.read(source, index, body.inside(exprs, bounds), body.broadcast(self));
      }));
}

/// A Python index into a dim of this size, counted from its start.
static Expr fromStart(Call &call, Expr index, Expr size) {
  Expr isNegative = Expr::min(Expr::max(-index, 0), 1);
  return call.kernels.known().simplify(index + isNegative * size);
}

static LogicalResult lowerSelectScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Expr at = call.args.symInt("index");
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs rest = shapeOf(self);
  Expr size = rest[dim];
  at = fromStart(call, at, size);
  rest.erase(rest.begin() + dim);
  for (Expr bound : {at, size - at - 1})
    call.require(bound, "an index outside of the dim");
  source = call.kernels.expand(source, rest);
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    index = body.ownDims();
    index.erase(index.begin() + dim);
    exprs.push_back(body.dim(dim) - at);
    bounds.push_back(1);
  });
}

static LogicalResult lowerSliceScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs part = shapeOf(self);
  const sym::Assumptions &known = call.kernels.known();
  Expr size = part[dim], step = call.args.symInt("step");
  auto clamped = [&](torch::CallArgs::Key key, Expr missing) {
    Expr bound = fromStart(call, call.args.optSymInt(key).value_or(missing), size);
    return known.simplify(Expr::min(Expr::max(bound, Expr(0)), size));
  };
  Expr start = clamped("start", 0), end = clamped("end", size);
  if (!known.isPositive(step))
    return call.refuse("cannot tell the sign of the step");
  part[dim] = known.simplify(Expr::max((end - start).ceilDiv(step), Expr(0)));
  source = call.kernels.expand(source, part);
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    index = body.ownDims();
    Expr offset = body.dim(dim) - start;
    index[dim] = offset.floorDiv(step);
    exprs.push_back(index[dim]);
    bounds.push_back(part[dim]);
    if (!step.isConstant(1)) {
      exprs.push_back(offset.mod(step));
      bounds.push_back(1);
    }
  });
}

static LogicalResult lowerDiagonalScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), row = call.dim("dim1", rank), column = call.dim("dim2", rank);
  int64_t offset = call.args.integer("offset");
  if (rank < 2 || row == column || rankOf(source) != rank - 1)
    return call.refuse("needs two different dims and a source of one dim less");
  Exprs sizes = shapeOf(self), part;
  for (int64_t i = 0; i < rank; ++i)
    if (i != row && i != column)
      part.push_back(sizes[i]);
  int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  part.push_back(call.kernels.known().simplify(
      Expr::max(Expr::min(sizes[row] - down, sizes[column] - right), Expr(0))));
  if (!call.fits(shapeOf(source), part, "a source of another shape"))
    return call.refuse("a source of another shape");
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    for (int64_t i = 0; i < rank; ++i)
      if (i != row && i != column)
        index.push_back(body.dim(i));
    index.push_back(body.dim(row) - down);
    exprs.append({index.back(), body.dim(column) - right - index.back()});
    bounds.append({part.back(), Expr(1)});
  });
}

/// `copy`: src in self's dtype and shape.
static LogicalResult lowerCopy(Call &call) {
  Value source = call.kernels.expand(call.tensor(1), shapeOf(call.tensor(0)));
  return call.set(call.kernels.convert(source, call.resultType()));
}

void lowering::registerPartScatter(LoweringTable &table) {
  table.add("aten.select_scatter.default", lowerSelectScatter);
  table.add("aten.slice_scatter.default", lowerSliceScatter);
  table.add("aten.diagonal_scatter.default", lowerDiagonalScatter);
  table.add("aten.copy.default", lowerCopy);
}
