// Products of groups of rows, columns or steps, which data gives the ends of: mixtures of experts.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// A product a[m, k] · b[k, n] for each group, where one of the dims may be divided among the
/// groups.
struct Groups {
  Value a, b, ends; // no ends: a and b have a matrix for each group
  Type type, wide, index;
  Expr count;
};
} // namespace

/// The end of group `group`; negative ends would count from the back in eager mode.
static Element readEnd(Call &call, BodyBuilder &body, const Groups &groups, Expr group) {
  Element end = convert(body.read(groups.ends, Exprs{group}), groups.index);
  return call.expect(end, end >= end.constant(0), "a group that ends before the first element");
}

/// A group starts at the end of the one before it.
static Element readStart(BodyBuilder &body, const Groups &groups, Expr group) {
  Element isLater = body.index(group) > body.constant(groups.index, 0);
  Element zero = body.constant(elementType(groups.ends), 0);
  return convert(body.read(groups.ends, Indices{group - 1}, isLater, zero), groups.index);
}

/// The last group that holds each of `size` positions; -1 where none does.
static Value groupsOf(Call &call, const Groups &groups, Expr size) {
  return call.kernels.map({size}, groups.index, [&](BodyBuilder &body) {
    Element position = body.index(body.dim(0));
    return body.max({groups.count}, groups.index, [&](BodyBuilder &inner) {
      Expr group = inner.dim(1);
      Element holds = (readStart(inner, groups, group) <= position) &
                      (position < readEnd(call, inner, groups, group));
      return select(holds, inner.index(group), inner.constant(groups.index, -1));
    });
  });
}

/// Rows of `a`, or columns of `b`, have a matrix of their group on the other side; those past the
/// last group are 0.
static Value divided(Call &call, const Groups &groups, bool byRows) {
  Exprs as = shapeOf(groups.a), bs = shapeOf(groups.b);
  Expr rows = as[as.size() - 2], columns = bs.back(), steps = as.back();
  Value groupAt = groupsOf(call, groups, byRows ? rows : columns);
  return call.kernels.map({rows, columns}, groups.type, [&](BodyBuilder &body) {
    Element group = body.read(groupAt, Exprs{body.dim(byRows ? 0 : 1)});
    Element some = group >= group.constant(0);
    return body.sum({steps}, groups.wide, [&](BodyBuilder &inner) {
      Expr row = inner.dim(0), column = inner.dim(1), step = inner.dim(2);
      Element zero = inner.constant(groups.type, 0);
      Element a = byRows ? inner.read(groups.a, Exprs{row, step})
                         : inner.read(groups.a, Indices{group, row, step}, some, zero);
      Element b = byRows ? inner.read(groups.b, Indices{group, step, column}, some, zero)
                         : inner.read(groups.b, Exprs{step, column});
      // A row without a group is 0 even beside an infinity.
      Element product = convert(a, groups.wide) * convert(b, groups.wide);
      return select(some, product, product.constant(0));
    });
  });
}

/// A product for each group: of its matrices, or of its steps.
static Value batched(Call &call, const Groups &groups) {
  Exprs as = shapeOf(groups.a), bs = shapeOf(groups.b);
  Contraction c;
  c.batch = {groups.count};
  c.m = {as[as.size() - 2]};
  c.n = {bs.back()};
  c.k = {as.back()};
  auto readOperand = [&](BodyBuilder &body, Value matrix, Expr row, Expr column) {
    if (!groups.ends)
      return body.read(matrix, Exprs{body.dim(0), row, column});
    Element step = body.index(body.dim(3));
    Element holds = (readStart(body, groups, body.dim(0)) <= step) &
                    (step < readEnd(call, body, groups, body.dim(0)));
    return body.read(matrix, Indices{row, column}, holds, body.constant(groups.type, 0));
  };
  auto lhs = [&](BodyBuilder &body) {
    return readOperand(body, groups.a, body.dim(1), body.dim(3));
  };
  auto rhs = [&](BodyBuilder &body) {
    return readOperand(body, groups.b, body.dim(3), body.dim(2));
  };
  c.lhs = lhs;
  c.rhs = rhs;
  return call.kernels.contract(c, groups.type);
}

/// The dims that are not divided among the groups have to fit.
static LogicalResult lowerGroups(Call &call, Value a, Value b, Value ends) {
  Type type = elementType(a);
  Groups groups{a, b, ends, type, opmath(type), IntegerType::get(type.getContext(), 64), Expr()};
  Exprs as = shapeOf(a), bs = shapeOf(b);
  if (!isFloat(type) || type.getIntOrFloatBitWidth() < 16 || elementType(b) != type)
    return call.refuse("dtypes other than one of floating-point numbers");
  bool isStackA = as.size() == 3, isStackB = bs.size() == 3;
  if ((!isStackA && as.size() != 2) || (!isStackB && bs.size() != 2))
    return call.refuse("operands of other ranks than 2 and 3");
  if ((isStackA && isStackB) == static_cast<bool>(ends))
    return call.refuse("ends of groups, or none, for operands of these ranks");
  if (ends && (!isInt(elementType(ends)) || rankOf(ends) != 1))
    return call.refuse("ends of groups other than a row of integers");
  groups.count = ends ? shapeOf(ends)[0] : as[0];
  constexpr StringLiteral unfit = "shapes that have no product";
  if (!call.fits(as.back(), bs[bs.size() - 2], unfit) ||
      (isStackA && !call.fits(as[0], groups.count, unfit)) ||
      (isStackB && !call.fits(bs[0], groups.count, unfit)))
    return call.refuse(unfit);
  if (isStackA == isStackB)
    return call.set(batched(call, groups));
  return call.set(divided(call, groups, /*byRows=*/isStackB));
}

static LogicalResult lowerGroupedMm(Call &call) {
  if (call.args.optTensor("bias"))
    return call.refuse("a bias, which eager mode does not take either");
  return lowerGroups(call, call.tensor("self"), call.tensor("mat2"), call.args.optTensor("offs"));
}

/// The custom operator of transformers.
static LogicalResult lowerFallback(Call &call) {
  if (call.args.size() != 3 || !call.tensor(0) || !call.tensor(1) || !call.tensor(2))
    return call.refuse("other arguments than three tensors");
  return lowerGroups(call, call.tensor(0), call.tensor(1), call.tensor(2));
}

void lowering::registerGroupedMatmul(LoweringTable &table) {
  table.add("aten._grouped_mm.default", lowerGroupedMm);
  table.add("transformers.grouped_mm_fallback.default", lowerFallback);
}
