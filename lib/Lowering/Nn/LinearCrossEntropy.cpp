// The cross entropy of a linear layer's results, for which torch.nn has operators of its own: they
// cut the batch so that not all logits are in memory at once, and compute gradients on the way.
#include "Core/ReducedDims.h"
#include "Nn/Loss.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {

/// Arguments, which have no schema here.
struct LinearLoss {
  Value input, weight, target, bias, classWeight; // bias and classWeight may be null
  int64_t ignored = 0;
  Type wide;
  Expr rows() const { return shapeOf(input)[0]; }
  Expr classes() const { return shapeOf(weight)[0]; }

  Element isCounted(BodyBuilder &body, Expr row) const {
    Element klass = body.read(target, Exprs{row});
    return klass != klass.constant(ignored);
  }
  /// The class of a row, or 0 for an ignored one.
  Element classOf(BodyBuilder &body, Expr row) const {
    Element klass = body.read(target, Exprs{row});
    return select(isCounted(body, row), klass, klass.constant(0));
  }
  /// The weight of a row.
  Element weightOf(BodyBuilder &body, Expr row) const {
    Element counts = body.constant(wide, 1);
    if (classWeight)
      counts = convert(body.read(classWeight, Indices{classOf(body, row)}), wide);
    return select(isCounted(body, row), counts, body.constant(wide, 0));
  }
};

} // namespace

/// Reads the first five arguments and `ignore_index`, the argument of that number.
static std::optional<LinearLoss> getLoss(Call &call, unsigned ignoreIndex) {
  torch::CallArgs &args = call.args;
  auto isTensor = [&](unsigned i, int64_t rank) {
    return args.isTensor(i) && isa<RankedTensorType>(args.tensor(i).getType()) &&
           rankOf(args.tensor(i)) == rank;
  };
  std::optional<int64_t> ignored;
  if (args.size() > ignoreIndex)
    ignored = args.optInteger(ignoreIndex);
  if (!ignored || !isTensor(0, 2) || !isTensor(1, 2) || !isTensor(2, 1) ||
      !(args.isNone(3) || isTensor(3, 1)) || !(args.isNone(4) || isTensor(4, 1)))
    return std::nullopt;
  LinearLoss loss{args.tensor(0), args.tensor(1), args.tensor(2), {}, {}, *ignored, {}};
  Type type = elementType(loss.input);
  loss.wide = opmath(type);
  if (!args.isNone(3))
    loss.bias = args.tensor(3);
  if (!args.isNone(4))
    loss.classWeight = args.tensor(4);
  auto isVector = [&](Value vector) {
    return !vector || (isFloat(elementType(vector)) &&
                       call.fits(shapeOf(vector)[0], loss.classes(), "weights of other classes"));
  };
  if (!isFloat(type) || elementType(loss.weight) != type ||
      !elementType(loss.target).isInteger(64) || !isVector(loss.bias) ||
      !isVector(loss.classWeight) ||
      !call.fits(shapeOf(loss.input)[1], shapeOf(loss.weight)[1], "another number of features") ||
      !call.fits(shapeOf(loss.target)[0], loss.rows(), "another number of rows"))
    return std::nullopt;
  return loss;
}

/// The loss of each row, not yet weighted.
static Value rowLosses(Call &call, const LinearLoss &loss) {
  Contraction c;
  c.m = {loss.rows()};
  c.n = {loss.classes()};
  c.k = {shapeOf(loss.input)[1]};
  auto lhs = [&](BodyBuilder &body) {
    return body.read(loss.input, Exprs{body.dim(0), body.dim(2)});
  };
  auto rhs = [&](BodyBuilder &body) {
    return body.read(loss.weight, Exprs{body.dim(1), body.dim(2)});
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return loss.bias ? sum + convert(body.read(loss.bias, Exprs{body.dim(1)}), sum.type()) : sum;
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  Value logits = call.kernels.contract(c, loss.wide);
  return call.kernels.map({loss.rows()}, loss.wide, [&](BodyBuilder &body) {
    Expr row = body.dim(0);
    auto logit = [&](BodyBuilder &inner) { return inner.read(logits, inner.dims(0, 2)); };
    Element largest = body.max({loss.classes()}, loss.wide, logit);
    Element sum = body.sum({loss.classes()}, loss.wide,
                           [&](BodyBuilder &inner) { return exp(logit(inner) - largest); });
    return log(sum) - (body.read(logits, Indices{row, loss.classOf(body, row)}) - largest);
  });
}

/// Ignored rows count nothing whatever their loss is.
static Element weighted(BodyBuilder &body, const LinearLoss &loss, Value losses, Expr row) {
  Element product = body.read(losses, Exprs{row}) * loss.weightOf(body, row);
  return select(loss.isCounted(body, row), product, product.constant(0));
}

static LogicalResult lowerRows(Call &call) {
  std::optional<LinearLoss> loss = getLoss(call, 5);
  if (!loss)
    return call.refuse("these arguments");
  Value losses = rowLosses(call, *loss);
  return call.set(call.kernels.map({loss->rows()}, call.resultType(), [&](BodyBuilder &body) {
    return weighted(body, *loss, losses, body.dim(0));
  }));
}

/// Results: the loss, and gradients, which are empty where the program does not want them.
static LogicalResult lowerReduced(Call &call) {
  std::optional<LinearLoss> loss = getLoss(call, 6);
  std::optional<StringRef> reduction = call.args.size() > 7 ? call.args.optString(5) : std::nullopt;
  std::optional<double> smoothing =
      reduction && call.args.isNumber(7) ? call.args.optNumber(7) : std::nullopt;
  if (!loss || smoothing != 0.0 || (*reduction != "mean" && *reduction != "sum"))
    return call.refuse("these arguments");
  SmallVector<Value> results(call.numResults());
  for (unsigned i = 1; i < call.numResults(); ++i) {
    if (call.isUnused(i))
      continue;
    if (!sym::product(call.resultShape(i)).isConstant(0))
      return call.refuse("gradients of its operands");
    results[i] = call.kernels.full(call.resultShape(i), call.resultType(i), 0);
  }
  Value losses = rowLosses(call, *loss);
  Type type = call.resultType();
  results[0] = call.kernels.map({}, type, [&](BodyBuilder &body) {
    auto row = [](BodyBuilder &inner) { return inner.dim(inner.numDims() - 1); };
    Element sum = preciseSum(body, {loss->rows()}, type, [&](BodyBuilder &inner) {
      return weighted(inner, *loss, losses, row(inner));
    });
    if (*reduction == "sum")
      return sum;
    return sum / preciseSum(body, {loss->rows()}, type,
                            [&](BodyBuilder &inner) { return loss->weightOf(inner, row(inner)); });
  });
  return call.set(results);
}

void lowering::registerLinearCrossEntropy(LoweringTable &table) {
  table.add("torch_nn._linear_cross_entropy_batch_chunked.default", lowerReduced);
  table.add("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default", lowerRows);
}
