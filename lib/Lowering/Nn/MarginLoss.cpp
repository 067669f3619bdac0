// Losses of margins and of distances between embeddings.
#include "Core/ReducedDims.h"
#include "Nn/Loss.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static Element positive(Element x) { return maximum(x, x.constant(0)); }

/// max(0, x + margin), of integers as floats. Null for null.
static Value withMargin(Call &call, Value x, double margin) {
  return !x ? x : call.kernels.map(shapeOf(x), toFloat(elementType(x)), [&](BodyBuilder &body) {
    return positive(convert(body.broadcast(x), toFloat(elementType(x))) + margin);
  });
}

//===-- Of elements ---------------------------------------------------------------------------===//

/// The input where the target is 1, the margin less the input where it is -1, both for others.
static LogicalResult lowerHingeEmbedding(Call &call) {
  double margin = call.args.number("margin");
  return reduced(call, elementwise(call, call.tensor(0), call.tensor(1),
                                   [&](BodyBuilder &, Element x, Element target) {
                                     Element zero = x.constant(0);
                                     Element below = select(target != target.constant(1),
                                                            positive(margin - x), zero);
                                     return below + select(target != target.constant(-1), x, zero);
                                   }));
}

static LogicalResult lowerMarginRanking(Call &call) { // max(0, margin - target * (a - b))
  double margin = call.args.number("margin");
  Value target = call.tensor(2);
  Value difference = elementwise(call, call.tensor(0), call.tensor(1),
                                 [](BodyBuilder &, Element a, Element b) { return a - b; });
  Value product =
      difference ? elementwise(call, difference, target,
                               [](BodyBuilder &, Element x, Element target) { return -target * x; })
                 : Value();
  return reduced(call, withMargin(call, product, margin));
}

static LogicalResult lowerSoftMargin(Call &call) { // log(1 + exp(-target * x))
  Type type = elementType(call.tensor(0));
  if (!isFloat(type))
    return call.refuse("this dtype");
  return reduced(call, elementwise(call, call.tensor(0), call.tensor(1),
                                   [&](BodyBuilder &, Element x, Element target) {
                                     // Rounded to the dtype, of which it may leave the range.
                                     Element power = convert(exp(-x * target), type);
                                     return log1p(convert(power, x.type()));
                                   }));
}

/// With the terms of Stirling's approximation of log(target!) for targets above 1 if `full`.
static LogicalResult lowerPoissonNll(Call &call) {
  bool isLog = call.args.boolean("log_input"), full = call.args.boolean("full");
  double eps = call.args.number("eps");
  Value input = call.tensor(0), targets = call.tensor(1);
  Type common = promoteTypes(elementType(input), elementType(targets));
  auto shape = call.kernels.broadcastShapes({input, targets});
  if (!common || isComplex(common) || !shape)
    return call.refuse("these dtypes or shapes");
  Type wide = opmath(toFloat(common));
  return reduced(call, call.kernels.map(*shape, wide, [&](BodyBuilder &body) {
    Element x = convert(body.broadcast(input), opmath(common));
    Element target = convert(body.broadcast(targets), opmath(common));
    Element product = convert(target * x, wide); // of integers one that wraps around
    x = convert(x, wide);
    target = convert(target, wide);
    Element loss = isLog ? exp(x) - product : x - target * log(x + eps);
    if (!full)
      return loss;
    Element stirling = target * log(target) - target + 0.5 * log(target * (2 * std::numbers::pi));
    return loss + select(target <= target.constant(1), target.constant(0), stirling);
  }));
}

//===-- Of distances --------------------------------------------------------------------------===//

/// 1 - cos where the target is 1, max(0, cos - margin) where it is -1.
static LogicalResult lowerCosineEmbedding(Call &call) {
  constexpr double epsilon = 1e-12;
  Value a = call.tensor(0), b = call.tensor(1), target = call.tensor(2);
  double margin = call.args.number("margin");
  Type type = promoteTypes(elementType(a), elementType(b));
  int64_t rank = rankOf(a), dim = rankOf(target);
  if (!type || isComplex(type) || isComplex(elementType(target)) || rank != dim + 1 ||
      rankOf(b) != rank || dim > 1)
    return call.refuse("these dtypes or ranks");
  auto shape = call.kernels.broadcastShapes({a, b});
  if (!shape)
    return call.refuse("shapes that are not broadcast");
  Type common = opmath(type); // integers wrap around in their products, which are added up in i64
  Type sumType = isInt(common) ? Type(IntegerType::get(common.getContext(), 64)) : common;
  type = toFloat(type);
  Type wide = opmath(type);
  Exprs rows = *shape;
  Expr extent = rows[dim];
  rows.erase(rows.begin() + dim);
  Value losses = call.kernels.map(rows, type, [&](BodyBuilder &body) {
    auto sum = [&](Value x, Value y) {
      Element products = body.sum({extent}, sumType, [&](BodyBuilder &inner) {
        Exprs at = inner.dims(0, dim);
        at.push_back(inner.dim(dim));
        return convert(convert(inner.broadcast(x, at, *shape), common) *
                           convert(inner.broadcast(y, at, *shape), common),
                       sumType);
      });
      return convert(products, wide);
    };
    Element cosine = sum(a, b) / sqrt((sum(a, a) + epsilon) * (sum(b, b) + epsilon));
    Element sign = body.broadcast(target), zero = body.constant(wide, 0);
    Element same = select(sign == sign.constant(1), 1.0 - cosine, zero);
    Element other = isUnsigned(sign.type())
                        ? zero
                        : select(sign == sign.constant(-1), positive(cosine - margin), zero);
    return same + other;
  });
  return reduced(call, losses);
}

/// max(0, margin + |anchor - positive| - |anchor - negative|), of p-norms along the last dim.
static LogicalResult lowerTripletMargin(Call &call) {
  double margin = call.args.number("margin"), p = call.args.number("p");
  double eps = call.args.number("eps");
  Value anchor = call.tensor(0), positives = call.tensor(1), negatives = call.tensor(2);
  auto distance = [&](Value a, Value b) -> Value {
    Value difference = absoluteDifference(call, a, b, eps);
    if (!difference || !isFloat(elementType(difference)) || rankOf(difference) == 0) {
      call.kernels.fail("these dtypes or ranks");
      return {};
    }
    ReducedDims last(difference, {rankOf(difference) - 1});
    Type type = elementType(difference), wide = opmath(type);
    return call.kernels.map(last.resultShape(false), type, [&](BodyBuilder &body) {
      return normOf(body, last.extents, wide, p, [&](BodyBuilder &inner) {
        return convert(inner.read(difference, last.indexFromResult(inner, false)), wide);
      });
    });
  };
  Value near = distance(anchor, positives), far = distance(anchor, negatives);
  if (near && far && call.args.boolean("swap"))
    if (Value between = distance(positives, negatives))
      far = elementwise(call, far, between,
                        [](BodyBuilder &, Element a, Element b) { return minimum(a, b); });
  if (!near || !far)
    return failure();
  return reduced(call, elementwise(call, near, far, [&](BodyBuilder &, Element near, Element far) {
                   return positive(near - far + margin);
                 }));
}

//===-- Of classes ----------------------------------------------------------------------------===//

/// Rows [N, C] or one [C] of scores: the loss of each row.
static LogicalResult ofRows(Call &call, function_ref<Element(BodyBuilder &, Expr row)> loss) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  Exprs rows = shape.size() < 2 ? Exprs() : Exprs{shape[0]};
  return reduced(call, call.kernels.map(rows, elementType(self), [&](BodyBuilder &body) {
    return loss(body, rows.empty() ? Expr(0) : body.dim(0));
  }));
}

/// The mean over other classes of max(0, margin - score[target] + score)^p * weight[target].
static LogicalResult lowerMultiMargin(Call &call) {
  Value self = call.tensor(0), target = call.tensor(1), weight = call.args.optTensor("weight");
  double p = call.constantNumber("p"), margin = call.constantNumber("margin");
  Type type = elementType(self), wide = opmath(type);
  if (rankOf(self) > 2 || !isFloat(type) || !isInt(elementType(target)) || (p != 1 && p != 2))
    return call.refuse("these dtypes, ranks or p");
  Exprs shape = shapeOf(self);
  Expr rows = shape.size() == 2 ? shape[0] : Expr(1), classes = shape.empty() ? 1 : shape.back();
  Value scores = call.kernels.reshape(self, {rows, classes});
  Value targets = call.kernels.reshape(target, {rows});
  return ofRows(call, [&](BodyBuilder &body, Expr row) {
    Element klass = body.read(targets, Exprs{row});
    Element own = convert(body.read(scores, Indices{row, klass}), wide);
    Element at = convert(klass, body.b().getI64Type());
    Element sum = body.sum({classes}, wide, [&](BodyBuilder &inner) {
      Expr other = inner.dim(inner.numDims() - 1);
      Element x = convert(inner.read(scores, Exprs{row, other}), wide);
      Element z = positive(margin - own + x);
      return select(inner.index(other) == at, x.constant(0), p == 1 ? z : z * z);
    });
    if (weight)
      sum = sum * convert(body.read(weight, Indices{klass}), wide);
    return sum / countAs(body, classes, wide);
  });
}

/// The sum over targets and classes that are none of max(0, 1 - score[target] + score), over the
/// number of classes. Targets end at the first -1.
static LogicalResult lowerMultilabelMargin(Call &call) {
  Value self = call.tensor(0), target = call.tensor(1);
  Type type = elementType(self), wide = opmath(type);
  Type i64 = IntegerType::get(type.getContext(), 64);
  if (rankOf(self) > 2 || !isFloat(type) || !isInt(elementType(target)) ||
      rankOf(self) != rankOf(target))
    return call.refuse("these dtypes or ranks");
  Exprs shape = shapeOf(self);
  Expr rows = shape.size() == 2 ? shape[0] : Expr(1), classes = shape.empty() ? 1 : shape.back();
  Value scores = call.kernels.reshape(self, {rows, classes});
  Value targets = call.kernels.reshape(target, {rows, classes});
  Value counts = call.kernels.map({rows}, i64, [&](BodyBuilder &body) {
    return body.min({classes}, i64, [&](BodyBuilder &inner) {
      Element klass = convert(inner.read(targets, inner.dims(0, 2)), i64);
      klass = call.expect(klass, (klass >= klass.constant(-1)) & (klass < inner.index(classes)),
                          "a target that is no class");
      return select(klass < klass.constant(0), inner.index(inner.dim(1)), inner.index(classes));
    });
  });
  Value isTarget = call.kernels.map({rows, classes}, type, [&](BodyBuilder &body) {
    Element klass = body.index(body.dim(1)), count = body.read(counts, Exprs{body.dim(0)});
    return body.any({classes}, [&](BodyBuilder &inner) {
      Element other = convert(inner.read(targets, Exprs{inner.dim(0), inner.dim(2)}), i64);
      return (other == klass) & (inner.index(inner.dim(2)) < count);
    });
  });
  auto losses = [&](BodyBuilder &body, Expr row) {
    Element count = body.read(counts, Exprs{row});
    Element sum = body.sum({classes, classes}, wide, [&](BodyBuilder &inner) {
      Expr i = inner.dim(inner.numDims() - 2), j = inner.dim(inner.numDims() - 1);
      Element enabled = inner.index(i) < count;
      Element klass = inner.read(targets, Exprs{row, i});
      klass = select(enabled, klass, klass.constant(0));
      Element own = convert(inner.read(scores, Indices{row, klass}), wide);
      Element x = convert(inner.read(scores, Exprs{row, j}), wide);
      Element isOther = ~isTrue(inner.read(isTarget, Exprs{row, j}));
      return select(enabled & isOther, positive(1.0 - own + x), x.constant(0));
    });
    return sum / countAs(body, classes, wide);
  };
  return ofRows(call, losses);
}

void lowering::registerMarginLoss(LoweringTable &table) {
  table.add("aten.hinge_embedding_loss.default", lowerHingeEmbedding);
  table.add("aten.margin_ranking_loss.default", lowerMarginRanking);
  table.add("aten.soft_margin_loss.default", lowerSoftMargin);
  table.add("aten.poisson_nll_loss.default", lowerPoissonNll);
  table.add("aten.cosine_embedding_loss.default", lowerCosineEmbedding);
  table.add("aten.triplet_margin_loss.default", lowerTripletMargin);
  table.add("aten.multi_margin_loss.default", lowerMultiMargin);
  table.add("aten.multilabel_margin_loss.default", lowerMultilabelMargin);
}
