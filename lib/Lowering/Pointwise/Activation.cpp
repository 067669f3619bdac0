// Activation functions, with the formulas of ATen's CPU kernels.
#include "Pointwise/ComplexFunctions.h"
#include "kiln/Lowering/Lowering.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// A function of one float tensor.
static LogicalResult activation(Call &call, function_ref<Element(Element)> compute) {
  if (!isFloat(elementType(call.tensor(0))))
    return call.refuse("this dtype");
  return call.pointwise({call.tensor(0)}, [&](BodyBuilder &, Elements x) { return compute(x[0]); });
}

static Lowering plain(Element (*compute)(Element)) {
  return [compute](Call &call) { return activation(call, compute); };
}

static Element geluTanh(Element x) {
  constexpr double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi; // sqrt(2 / pi)
  Element inner = beta * (x + 0.044715 * (x * x * x));
  return 0.5 * x * (1.0 + tanh(inner));
}

static Element geluErf(Element x) { return x * 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2))); }

static LogicalResult lowerGelu(Call &call) {
  StringRef mode = call.args.string("approximate");
  if (mode != "none" && mode != "tanh")
    return call.refuse("approximate = '" + mode + "'");
  return activation(call, mode == "tanh" ? geluTanh : geluErf);
}

static Element silu(Element x) { return x / (1.0 + exp(-x)); }

/// clamp(x + 3, 0, 6)
static Element hardRamp(Element x) {
  return atMost(atLeast(x + 3.0, x.constant(0)), x.constant(6));
}
static Element hardswish(Element x) { return x * hardRamp(x) / 6.0; }
static Element hardsigmoid(Element x) { return hardRamp(x) / 6.0; }
static Element mish(Element x) { return x * tanh(log1p(exp(x))); }
static Element logSigmoid(Element x) { return minimum(x, x.constant(0)) - log1p(exp(-abs(x))); }

static LogicalResult lowerLeakyRelu(Call &call) {
  double slope = call.constantNumber("negative_slope");
  return activation(call, [&](Element x) { return select(x > x.constant(0), x, x * slope); });
}

static Element eluWith(Element x, double negative, double positive, double inner) {
  return select(x <= x.constant(0), expm1(x * inner) * negative, x * positive);
}

static LogicalResult lowerElu(Call &call) {
  double alpha = call.constantNumber("alpha"), scale = call.constantNumber("scale");
  double inner = call.constantNumber("input_scale");
  return activation(call, [&](Element x) { return eluWith(x, alpha * scale, scale, inner); });
}

static LogicalResult lowerCelu(Call &call) {
  double alpha = call.constantNumber("alpha");
  if (alpha == 0)
    return call.refuse("alpha = 0");
  return activation(call, [&](Element x) { return eluWith(x, alpha, 1, 1 / alpha); });
}

static Element selu(Element x) {
  constexpr double alpha = 1.6732632423543772848170429916717;
  constexpr double scale = 1.0507009873554804934193349852946;
  return eluWith(x, alpha * scale, scale, 1);
}

static LogicalResult lowerSoftplus(Call &call) {
  double beta = call.constantNumber("beta"), threshold = call.constantNumber("threshold");
  return activation(call, [&](Element x) {
    Element scaled = x * beta;
    return select(scaled > x.constant(threshold), x, log1p(exp(scaled)) / beta);
  });
}

static LogicalResult lowerSoftshrink(Call &call) {
  double lambda = call.constantNumber("lambd");
  return activation(call, [&](Element x) {
    return select(x > x.constant(lambda), x - lambda,
                  select(x < x.constant(-lambda), x + lambda, x * 0.0));
  });
}

static LogicalResult lowerHardshrink(Call &call) {
  double lambda = call.constantNumber("lambd");
  return activation(call, [&](Element x) {
    Element inside = (x >= x.constant(-lambda)) & (x <= x.constant(lambda));
    return select(inside, x.constant(0), x);
  });
}

static LogicalResult lowerThreshold(Call &call) {
  torch::Scalar threshold = call.args.scalar("threshold"), value = call.args.scalar("value");
  return call.pointwise({call.tensor(0)}, [&](BodyBuilder &body, Elements x) {
    Type type = x[0].type();
    Element isBelow = x[0] <= call.number(body, threshold, type);
    return select(isBelow, call.number(body, value, type), x[0]);
  });
}

/// Weights run along dim 1, or there is one for all.
static LogicalResult lowerPrelu(Call &call) {
  Value self = call.tensor(0), weight = call.tensor(1);
  Type type = elementType(self), wide = opmath(type);
  if (!isFloat(type) || rankOf(weight) > 1)
    return call.refuse("this dtype or this shape of weights");
  bool one = rankOf(weight) == 0 || shapeOf(weight)[0].isConstant(1);
  if (!one && (rankOf(self) < 2 || !call.fits(shapeOf(weight)[0], shapeOf(self)[1],
                                              "as many weights as channels are needed")))
    return call.refuse("as many weights as channels are needed");
  return call.set(call.kernels.map(shapeOf(self), type, [&](BodyBuilder &body) {
    Exprs at;
    if (rankOf(weight) == 1)
      at.push_back(one ? Expr(0) : body.dim(1));
    Element x = convert(body.broadcast(self), wide);
    Element w = convert(body.read(weight, at), wide);
    return convert(select(x > x.constant(0), x, w * x), type);
  }));
}

/// First half times sigmoid of the second.
static LogicalResult lowerGlu(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self), wide = opmath(type);
  int64_t rank = rankOf(self), dim = call.dim(1, rank);
  Exprs shape = shapeOf(self);
  if (!isFloat(type) || rank == 0)
    return call.refuse("this dtype or a 0-d tensor");
  Expr half = call.kernels.known().simplify(shape[dim].floorDiv(2));
  if (!call.fits(half * 2, shape[dim], "an odd size"))
    return call.refuse("an odd size");
  shape[dim] = half;
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs first = body.ownDims(), second = first;
    second[dim] = second[dim] + half;
    return convert(body.read(self, first), wide) * sigmoid(convert(body.read(self, second), wide));
  }));
}

static LogicalResult lowerLogit(Call &call) {
  std::optional<double> eps = call.args.optNumber("eps");
  Type type = toFloat(elementType(call.tensor(0)));
  if (isComplex(type))
    return call.refuse("complex numbers");
  return call.pointwise({call.tensor(0)}, type, [&](BodyBuilder &, Elements x) {
    Element z = x[0];
    if (eps) // beyond 0.5, the lower bound is the greater one
      z = select(z < z.constant(*eps), z.constant(*eps), minimum(z, z.constant(1 - *eps)));
    return log(z / (1.0 - z));
  });
}

static LogicalResult lowerSilu(Call &call) {
  if (!isComplex(elementType(call.tensor(0))))
    return activation(call, silu);
  return call.pointwise({call.tensor(0)},
                        [](BodyBuilder &, Elements x) { return x[0] * complexes::sigmoid(x[0]); });
}

void lowering::registerActivation(LoweringTable &table) {
  table.add("aten.gelu.default", lowerGelu);
  table.add("aten.silu.default", lowerSilu);
  table.add("aten.hardswish.default", plain(hardswish));
  table.add("aten.hardsigmoid.default", plain(hardsigmoid));
  table.add("aten.mish.default", plain(mish));
  table.add("aten.log_sigmoid.default", plain(logSigmoid));
  table.add("aten.selu.default", plain(selu));
  table.add("aten.leaky_relu.default", lowerLeakyRelu);
  table.add("aten.elu.default", lowerElu);
  table.add("aten.celu.default", lowerCelu);
  table.add("aten.softplus.default", lowerSoftplus);
  table.add("aten.softshrink.default", lowerSoftshrink);
  table.add("aten.hardshrink.default", lowerHardshrink);
  table.add("aten.threshold.default", lowerThreshold);
  table.add("aten.prelu.default", lowerPrelu);
  table.add("aten.glu.default", lowerGlu);
  table.add({"aten.logit.default", "aten.special_logit.default"}, lowerLogit);
}
