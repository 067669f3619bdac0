// Losses of elements and of classes.
#include "Nn/Loss.h"
#include "Core/ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

LogicalResult lowering::reduced(Call &call, Value losses) {
  if (!losses)
    return failure();
  int64_t mode = call.args.integer("reduction");
  if (mode == None)
    return call.set(call.kernels.convert(losses, call.resultType()));
  Exprs extents = shapeOf(losses);
  Type wide = opmath(call.resultType());
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    Element sum = preciseSum(body, extents, call.resultType(), [&](BodyBuilder &inner) {
      return convert(inner.read(losses, inner.ownDims()), wide);
    });
    return mode == Sum ? sum : sum / countAs(body, sym::product(extents), sum.type());
  }));
}

Value lowering::elementwise(Call &call, Value a, Value b,
                            function_ref<Element(BodyBuilder &, Element, Element)> compute) {
  auto shape = call.kernels.broadcastShapes({a, b});
  Type type = promoteTypes(elementType(a), elementType(b));
  if (!shape || !type || isComplex(type)) {
    call.kernels.fail("these dtypes or shapes");
    return {};
  }
  Type wide = opmath(type);
  return call.kernels.map(*shape, wide, [&](BodyBuilder &body) {
    return compute(body, convert(body.broadcast(a), wide), convert(body.broadcast(b), wide));
  });
}

/// A function of arguments 0 and 1, of floats.
static Value elementwise(Call &call, function_ref<Element(BodyBuilder &, Element, Element)> loss) {
  Type type = promoteTypes(elementType(call.tensor(0)), elementType(call.tensor(1)));
  if (!type || !isFloat(type)) {
    call.kernels.fail("these dtypes");
    return {};
  }
  return elementwise(call, call.tensor(0), call.tensor(1), loss);
}

static LogicalResult lowerMse(Call &call) {
  return reduced(call, elementwise(call, [](BodyBuilder &, Element a, Element b) {
                   return (a - b) * (a - b);
                 }));
}

static LogicalResult lowerL1(Call &call) {
  return reduced(call, absoluteDifference(call, call.tensor(0), call.tensor(1)));
}

static LogicalResult lowerSmoothL1(Call &call) {
  double beta = call.args.number("beta");
  return reduced(call, elementwise(call, [&](BodyBuilder &, Element a, Element b) {
                   Element z = abs(a - b);
                   if (beta == 0)
                     return z;
                   return select(z < z.constant(beta), 0.5 * z * z / beta, z - 0.5 * beta);
                 }));
}

static LogicalResult lowerHuber(Call &call) {
  double delta = call.args.number("delta");
  return reduced(call, elementwise(call, [&](BodyBuilder &, Element a, Element b) {
                   Element z = abs(a - b);
                   return select(z <= z.constant(delta), 0.5 * z * z, delta * (z - 0.5 * delta));
                 }));
}

/// target * (log target - input), 0 where the target is 0; a target may be given as its logarithm.
static LogicalResult lowerKlDiv(Call &call) {
  bool logTarget = call.args.boolean("log_target");
  return reduced(call, elementwise(call, [&](BodyBuilder &, Element input, Element target) {
                   if (logTarget)
                     return exp(target) * (target - input);
                   Element zero = target.constant(0);
                   Element entropy = select(target == zero, zero, target * log(target));
                   return entropy - target * input;
                 }));
}

static LogicalResult lowerBce(Call &call) {
  Value weight = call.args.optTensor("weight");
  return reduced(call, elementwise(call, [&](BodyBuilder &body, Element x, Element target) {
                   auto isUnit = [](Element p) {
                     return (p >= p.constant(0)) & (p <= p.constant(1));
                   };
                   x = call.expect(x, isUnit(x), "an input outside [0, 1]");
                   target = call.expect(target, isUnit(target), "a target outside [0, 1]");
                   // Logarithms are at least -100, so that 0 * log(0) is 0.
                   Element floor = x.constant(-100);
                   Element one = maximum(log(x), floor), zero = maximum(log1p(-x), floor);
                   Element loss = (target - 1.0) * zero - target * one;
                   return weight ? loss * convert(body.broadcast(weight), loss.type()) : loss;
                 }));
}

static LogicalResult lowerBceWithLogits(Call &call) {
  Value weight = call.args.optTensor("weight"), positive = call.args.optTensor("pos_weight");
  return reduced(call, elementwise(call, [&](BodyBuilder &body, Element x, Element target) {
                   Element logSigmoid = minimum(x, x.constant(0)) - log1p(exp(-abs(x)));
                   Element loss = (1.0 - target) * x;
                   if (positive) {
                     Element p = convert(body.broadcast(positive), x.type());
                     loss = loss - ((p - 1.0) * target + 1.0) * logSigmoid;
                   } else {
                     loss = loss - logSigmoid;
                   }
                   return weight ? loss * convert(body.broadcast(weight), loss.type()) : loss;
                 }));
}

//===-- Negative log likelihood ---------------------------------------------------------------===//

namespace {
/// Log-probabilities [N, C, …] or [C] and class numbers [N, …] or [].
struct Likelihood {
  Value logs, target, weight;
  Expr ignored;
  bool batched() const { return rankOf(logs) > 1; }

  Element isCounted(BodyBuilder &body, Element klass) const { return klass != body.index(ignored); }
  /// The weight of a class; 0 for the ignored one.
  Element weightOf(BodyBuilder &body, Element klass, Type type) const {
    Element counted = isCounted(body, klass), one = body.constant(type, 1);
    Element safe = select(counted, klass, klass.constant(0));
    Element w = weight ? convert(body.read(weight, Indices{safe}), type) : one;
    return select(counted, w, body.constant(type, 0));
  }
  Element classAt(BodyBuilder &body, ArrayRef<Expr> at) const {
    return convert(body.read(target, at), body.b().getI64Type());
  }
  /// -log p of the class at `at` (the target's index), unweighted.
  Element lossAt(BodyBuilder &body, ArrayRef<Expr> at, Element klass, Type type) const {
    Element safe = select(isCounted(body, klass), klass, klass.constant(0));
    Indices index = indicesOf(at);
    index.insert(index.begin() + (batched() ? 1 : 0), safe);
    return -convert(body.read(logs, index), type);
  }
};
} // namespace

/// Results: the loss and, if there are two, the sum of the weights.
static LogicalResult likelihood(Call &call, const Likelihood &nll) {
  Type type = elementType(nll.logs), wide = opmath(type);
  Exprs logs = shapeOf(nll.logs), shape = shapeOf(nll.target), expected = logs;
  if (logs.empty() || !isFloat(type) || !isInt(elementType(nll.target)))
    return call.refuse("these dtypes or ranks");
  expected.erase(expected.begin() + (nll.batched() ? 1 : 0));
  if (!call.fits(shape, expected, "a target of another shape") ||
      (nll.weight && (rankOf(nll.weight) != 1 || elementType(nll.weight) != type)))
    return call.refuse("a target or weights of another shape");
  int64_t mode = call.args.integer("reduction");
  auto weighted = [&](BodyBuilder &inner) {
    Exprs at = inner.ownDims();
    Element klass = nll.classAt(inner, at);
    return nll.lossAt(inner, at, klass, wide) * nll.weightOf(inner, klass, wide);
  };
  auto totalWeight = [&](BodyBuilder &body) {
    return preciseSum(body, shape, type, [&](BodyBuilder &inner) {
      return nll.weightOf(inner, nll.classAt(inner, inner.ownDims()), wide);
    });
  };
  // Ignored classes weigh nothing even where the log-probability is infinite.
  auto finite = [&](BodyBuilder &inner) {
    Element counted = nll.isCounted(inner, nll.classAt(inner, inner.ownDims()));
    return select(counted, weighted(inner), inner.constant(wide, 0));
  };
  Exprs resultShape = mode == None ? shape : Exprs();
  SmallVector<Value> results;
  results.push_back(call.kernels.map(resultShape, call.resultType(), [&](BodyBuilder &body) {
    if (mode == None)
      return finite(body);
    Element sum = preciseSum(body, shape, type, finite);
    return mode == Sum ? sum : sum / totalWeight(body);
  }));
  if (call.numResults() == 2)
    results.push_back(call.kernels.map({}, call.resultType(1), [&](BodyBuilder &body) {
      return mode == None ? body.constant(wide, 0) : totalWeight(body);
    }));
  return call.set(results);
}

static LogicalResult lowerNll(Call &call) {
  return likelihood(call, {call.tensor(0), call.tensor(1), call.args.optTensor("weight"),
                           call.args.symInt("ignore_index")});
}

/// The gradient of the log-probabilities: not 0 only where the class is.
static LogicalResult lowerNllBackward(Call &call) {
  Value gradient = call.tensor("grad_output"), self = call.tensor("self");
  Value total = call.tensor("total_weight");
  Likelihood nll{self, call.tensor("target"), call.args.optTensor("weight"),
                 call.args.symInt("ignore_index")};
  Type type = elementType(self), wide = opmath(type);
  Exprs shape = shapeOf(self), expected = shape;
  if (shape.empty() || !isFloat(type) || !isInt(elementType(nll.target)))
    return call.refuse("these dtypes or ranks");
  unsigned dim = nll.batched() ? 1 : 0;
  expected.erase(expected.begin() + dim);
  if (!call.fits(shapeOf(nll.target), expected, "a target of another shape"))
    return call.refuse("a target of another shape");
  int64_t mode = call.args.integer("reduction");
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs at = body.ownDims();
    at.erase(at.begin() + dim);
    Element klass = nll.classAt(body, at);
    Element here = (klass == body.index(body.dim(dim))) & nll.isCounted(body, klass);
    Element g =
        convert(mode == None ? body.read(gradient, at) : body.read(gradient, Exprs()), wide);
    Element x = -nll.weightOf(body, klass, wide) * g;
    if (mode == Mean)
      x = x / convert(body.read(total, Exprs()), wide);
    return select(here, x, x.constant(0));
  }));
}

/// Cross entropy of class numbers with label smoothing: each class has a share of the target.
static LogicalResult smoothedEntropy(Call &call, const Likelihood &nll, const ReducedDims &classes,
                                     double smoothing) {
  Type type = elementType(nll.logs), wide = opmath(type);
  Exprs rows = classes.resultShape(false);
  if (!call.fits(shapeOf(nll.target), rows, "a target of another shape") ||
      (nll.weight && (rankOf(nll.weight) != 1 || elementType(nll.weight) != type)))
    return call.refuse("a target or weights of another shape");
  Value losses = call.kernels.map(rows, wide, [&](BodyBuilder &body) {
    Exprs at = body.ownDims();
    Element klass = nll.classAt(body, at), counted = nll.isCounted(body, klass);
    Element own = nll.lossAt(body, at, klass, wide) * nll.weightOf(body, klass, wide);
    Element all = body.sum(classes.extents, wide, [&](BodyBuilder &inner) {
      Element x = -convert(inner.read(nll.logs, classes.indexFromResult(inner, false)), wide);
      Expr number = inner.dim(inner.numDims() - 1);
      return nll.weight ? x * convert(inner.read(nll.weight, Exprs{number}), wide) : x;
    });
    Element share = all * smoothing / countAs(body, classes.count(), wide);
    return select(counted, own * (1 - smoothing) + share, own.constant(0));
  });
  if (call.args.integer("reduction") != Mean)
    return reduced(call, losses);
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    Element sum = preciseSum(
        body, rows, type, [&](BodyBuilder &inner) { return inner.read(losses, inner.ownDims()); });
    return sum / preciseSum(body, rows, type, [&](BodyBuilder &inner) {
             return nll.weightOf(inner, nll.classAt(inner, inner.ownDims()), wide);
           });
  }));
}

/// Cross entropy of probabilities of the classes.
static LogicalResult probabilityEntropy(Call &call, Value logs, Value target, Value weight,
                                        const ReducedDims &classes, double smoothing) {
  Type wide = opmath(elementType(logs));
  if (!call.fits(shapeOf(target), classes.shape, "a target of another shape") ||
      !isFloat(elementType(target)) || (weight && rankOf(weight) != 1))
    return call.refuse("a target or weights of another shape");
  return reduced(call, call.kernels.map(classes.resultShape(false), wide, [&](BodyBuilder &body) {
    Element count = countAs(body, classes.count(), wide);
    return -body.sum(classes.extents, wide, [&](BodyBuilder &inner) {
      Exprs at = classes.indexFromResult(inner, false);
      Element share = convert(inner.read(target, at), wide);
      if (smoothing != 0)
        share = share * (1 - smoothing) + smoothing / count;
      Element x = convert(inner.read(logs, at), wide) * share;
      Expr number = inner.dim(inner.numDims() - 1);
      return weight ? x * convert(inner.read(weight, Exprs{number}), wide) : x;
    });
  }));
}

static LogicalResult lowerCrossEntropy(Call &call) {
  Value self = call.tensor(0), target = call.tensor(1), weight = call.args.optTensor("weight");
  double smoothing = call.args.number("label_smoothing");
  Type type = elementType(self), wide = opmath(type);
  if (rankOf(self) == 0 || !isFloat(type))
    return call.refuse("these dtypes or ranks");
  ReducedDims classes(self, {rankOf(self) > 1 ? 1 : 0});
  Value logs = call.kernels.map(classes.shape, type, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner) {
      return convert(inner.read(self, classes.indexFromTensor(inner)), wide);
    };
    Element largest = body.max(classes.extents, wide, read);
    Element sum = body.sum(classes.extents, wide,
                           [&](BodyBuilder &inner) { return exp(read(inner) - largest); });
    return convert(body.broadcast(self), wide) - largest - log(sum);
  });
  if (!isInt(elementType(target)))
    return probabilityEntropy(call, logs, target, weight, classes, smoothing);
  Likelihood nll{logs, target, weight, call.args.symInt("ignore_index")};
  return smoothing == 0 ? likelihood(call, nll) : smoothedEntropy(call, nll, classes, smoothing);
}

void lowering::registerLoss(LoweringTable &table) {
  table.add("aten.mse_loss.default", lowerMse);
  table.add("aten.l1_loss.default", lowerL1);
  table.add("aten.smooth_l1_loss.default", lowerSmoothL1);
  table.add("aten.huber_loss.default", lowerHuber);
  table.add("aten.kl_div.default", lowerKlDiv);
  table.add("aten.binary_cross_entropy.default", lowerBce);
  table.add("aten.binary_cross_entropy_with_logits.default", lowerBceWithLogits);
  table.add({"aten.nll_loss.default", "aten.nll_loss_nd.default", "aten.nll_loss2d.default",
             "aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default"},
            lowerNll);
  table.add({"aten.nll_loss_backward.default", "aten.nll_loss2d_backward.default"},
            lowerNllBackward);
  table.add("aten.cross_entropy_loss.default", lowerCrossEntropy);
}
