// Gradients of activation functions and of losses of elements, with the formulas of ATen's CPU
// kernels. Where those differ between vectors and the elements left over, these are the vectors'.
#include "Nn/Loss.h"
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

using Gradient = Element (*)(Element gradient, Element x);

/// A function of the gradient and of one more float tensor, argument `self`.
static LogicalResult gradient(Call &call, torch::CallArgs::Key self,
                              function_ref<Element(Element, Element)> compute) {
  Value g = call.tensor(0), x = call.tensor(self);
  if (!isFloat(elementType(g)) || !isFloat(elementType(x)))
    return call.refuse("these dtypes");
  return call.pointwise({g, x}, [&](BodyBuilder &, Elements v) { return compute(v[0], v[1]); });
}

static Lowering plain(Gradient compute) {
  return [compute](Call &call) { return gradient(call, 1, compute); };
}

//===-- Activations ---------------------------------------------------------------------------===//

static Element conjugate(Element x) {
  return isComplex(x.type()) ? makeComplex(real(x), -imag(x)) : x;
}

/// The gradient of a function by its result, which may be complex.
static Lowering ofResult(Element (*derivative)(Element y)) {
  return [derivative](Call &call) {
    Type type = elementType(call.tensor(1));
    if (!isFloat(type) && !isComplex(type))
      return call.refuse("this dtype");
    return call.pointwise({call.tensor(0), call.tensor(1)}, [&](BodyBuilder &, Elements v) {
      return v[0] * conjugate(derivative(v[1]));
    });
  };
}

static Element one(Element x) {
  return isComplex(x.type()) ? constant(x.b(), x.type(), std::complex<double>(1)) : x.constant(1);
}
static Element sigmoidSlope(Element y) { return (one(y) - y) * y; }
static Element tanhSlope(Element y) { return one(y) - y * y; }

static Element siluBackward(Element g, Element x) {
  Element s = sigmoid(x);
  return g * s * (1.0 + x * (1.0 - s));
}

static Element geluErfBackward(Element g, Element x) {
  constexpr double beta = std::numbers::inv_sqrtpi / std::numbers::sqrt2; // 1 / sqrt(2 pi)
  Element cdf = 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2)));
  return g * (cdf + x * (beta * exp(-0.5 * (x * x))));
}

static Element geluTanhBackward(Element g, Element x) {
  constexpr double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kappa = 0.044715;
  Element square = x * x, t = tanh(beta * (x + kappa * (square * x)));
  Element inner = beta * (1.0 + (3 * kappa) * square);
  return g * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner);
}

static LogicalResult lowerGeluBackward(Call &call) {
  StringRef mode = call.args.string("approximate");
  if (mode != "none" && mode != "tanh")
    return call.refuse("approximate = '" + mode + "'");
  return gradient(call, 1, mode == "tanh" ? geluTanhBackward : geluErfBackward);
}

static Element hardswishBackward(Element g, Element x) {
  Element inside = g * (x / 3.0 + 0.5);
  return select(x <= x.constant(-3), x.constant(0), select(x >= x.constant(3), g, inside));
}
static Element hardsigmoidBackward(Element g, Element x) {
  Element inside = (x > x.constant(-3)) & (x < x.constant(3));
  return select(inside, g * double(1.0f / 6), x.constant(0)); // rounded, in f64 as well
}
static Element mishBackward(Element g, Element x) {
  Element t = tanh(log1p(exp(x)));
  return g * (t + x * sigmoid(x) * (1.0 - t * t));
}

/// NaN is inside.
static LogicalResult lowerShrinkBackward(Call &call) {
  double lambda = call.constantNumber("lambd");
  return gradient(call, 1, [&](Element g, Element x) {
    Element outside = (x < x.constant(-lambda)) | (x > x.constant(lambda));
    return select(outside, g, g.constant(0));
  });
}

/// NaN is outside.
static LogicalResult lowerHardtanhBackward(Call &call) {
  double low = call.constantNumber("min_val"), high = call.constantNumber("max_val");
  return gradient(call, 1, [&](Element g, Element x) {
    Element inside = (x > x.constant(low)) & (x < x.constant(high));
    return select(inside, g, g.constant(0));
  });
}

static LogicalResult lowerLeakyReluBackward(Call &call) {
  double slope = call.constantNumber("negative_slope");
  return gradient(call, 1,
                  [&](Element g, Element x) { return select(x > x.constant(0), g, g * slope); });
}

static LogicalResult lowerEluBackward(Call &call) {
  double scale = call.constantNumber("scale"), inner = call.constantNumber("input_scale");
  double negative = call.constantNumber("alpha") * scale;
  bool isResult = call.args.boolean("is_result");
  return gradient(call, "self_or_result", [&](Element g, Element x) {
    Element below = isResult ? g * inner * (x + negative) : g * (inner * negative) * exp(x * inner);
    return select(x > x.constant(0), g * scale, below);
  });
}

static LogicalResult lowerSoftplusBackward(Call &call) {
  double beta = call.constantNumber("beta"), threshold = call.constantNumber("threshold");
  return gradient(call, 1, [&](Element g, Element x) {
    Element scaled = x * beta, z = exp(scaled);
    return select(scaled > x.constant(threshold), g, g * z / (z + 1.0));
  });
}

static LogicalResult lowerThresholdBackward(Call &call) { // integers as well
  torch::Scalar threshold = call.args.scalar("threshold");
  return call.pointwise({call.tensor(0), call.tensor(1)}, [&](BodyBuilder &body, Elements v) {
    Element isBelow = v[1] <= call.number(body, threshold, v[1].type());
    return select(isBelow, v[0].constant(0), v[0]);
  });
}

/// The result, and exp(-|x|) for the gradient.
static LogicalResult lowerLogSigmoidForward(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self), wide = opmath(type);
  if (!isFloat(type) || !call.kernels.isSame(call.resultShape(1), shapeOf(self)))
    return call.refuse("this dtype, or a buffer of another shape");
  return call.set(call.kernels.map(shapeOf(self), {type, type}, [&](BodyBuilder &body) {
    Element x = convert(body.broadcast(self), wide), z = exp(-abs(x));
    Element result = minimum(x, x.constant(0)) - log1p(z);
    return BodyBuilder::Elements{convert(result, type), convert(z, type)};
  }));
}

static LogicalResult lowerLogSigmoidBackward(Call &call) {
  if (!isFloat(elementType(call.tensor(1))))
    return call.refuse("this dtype");
  return call.pointwise({call.tensor(0), call.tensor(1), call.tensor(2)},
                        [](BodyBuilder &, Elements v) {
                          Element z = v[2], part = z / (1.0 + z);
                          Element isNegative = v[1] < v[1].constant(0);
                          return v[0] * select(isNegative, 1.0 - part, part);
                        });
}

static LogicalResult lowerLogitBackward(Call &call) {
  std::optional<double> eps = call.args.optNumber("eps");
  return gradient(call, 1, [&](Element g, Element x) {
    Element low = x.constant(eps.value_or(0)), high = x.constant(1 - eps.value_or(0));
    Element inside = (x >= low) & (x <= high);
    return select(inside, g / (x * (1.0 - x)), x.constant(eps ? 0 : notANumber));
  });
}

static LogicalResult lowerGluBackward(Call &call) {
  Value g = call.tensor(0), self = call.tensor(1);
  Type type = elementType(self), wide = opmath(type);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (!isFloat(type) || rank == 0 || rankOf(g) != rank || elementType(g) != type)
    return call.refuse("these dtypes or ranks");
  Exprs shape = shapeOf(self);
  Expr half = call.kernels.known().simplify(shape[dim].floorDiv(2));
  if (!call.fits(half * 2, shape[dim], "an odd size") ||
      !call.fits(shapeOf(g)[dim], half, "a gradient of another size"))
    return call.refuse("an odd size, or a gradient of another one");
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs first = body.ownDims(), second = first;
    Element isFirst = body.inside({first[dim]}, {half});
    Expr within = first[dim].mod(Expr::max(half, 1));
    first[dim] = within;
    second[dim] = within + half;
    auto read = [&](Value tensor, ArrayRef<Expr> at) {
      return convert(body.read(tensor, at), wide);
    };
    Element s = sigmoid(read(self, second)), gradient = read(g, first);
    return convert(select(isFirst, s * gradient, (1.0 - s) * s * gradient * read(self, first)),
                   type);
  }));
}

static LogicalResult lowerPreluKernel(Call &call) {
  if (!isFloat(elementType(call.tensor(0))))
    return call.refuse("this dtype");
  return call.pointwise({call.tensor(0), call.tensor(1)}, [](BodyBuilder &, Elements v) {
    return select(v[0] > v[0].constant(0), v[0], v[1] * v[0]);
  });
}

static LogicalResult lowerPreluKernelBackward(Call &call) {
  Value g = call.tensor(0), self = call.tensor(1), weight = call.tensor(2);
  Type type = elementType(self), wide = opmath(type);
  if (!isFloat(type))
    return call.refuse("this dtype");
  return call.set(call.kernels.map(
      call.resultShape(), {call.resultType(0), call.resultType(1)}, [&](BodyBuilder &body) {
        auto read = [&](Value tensor) { return convert(body.broadcast(tensor), wide); };
        Element x = read(self), isPositive = x > x.constant(0);
        return BodyBuilder::Elements{
            convert(select(isPositive, read(g), read(weight) * read(g)), call.resultType(0)),
            convert(select(isPositive, x.constant(0), x * read(g)), call.resultType(1))};
      }));
}

static LogicalResult lowerRreluBackward(Call &call) {
  double lower = call.constantNumber("lower"), upper = call.constantNumber("upper");
  if (call.args.boolean("training") && upper - lower > 1e-6)
    return gradient(call, "noise", [](Element g, Element noise) { return g * noise; });
  return gradient(call, 1, [&](Element g, Element x) {
    return select(x > x.constant(0), g, g * ((lower + upper) / 2));
  });
}

//===-- Losses --------------------------------------------------------------------------------===//

/// A function of the elements of arguments 1 and 2 times the gradient, divided by the number of
/// elements for a mean.
static LogicalResult lossGradient(Call &call,
                                  function_ref<Element(BodyBuilder &, Element, Element)> slope) {
  Value g = call.tensor(0), self = call.tensor(1), target = call.tensor(2);
  Type type = call.resultType(), wide = opmath(type);
  std::optional<Exprs> shape = call.kernels.broadcastShapes({g, self, target});
  if (!shape || !isFloat(type) || isComplex(elementType(self)) || isComplex(elementType(target)))
    return call.refuse("these dtypes or shapes");
  bool isMean = call.args.integer("reduction") == Mean;
  return call.set(call.kernels.map(*shape, type, [&](BodyBuilder &body) {
    auto read = [&](Value tensor) { return convert(body.broadcast(tensor), wide); };
    Element result = slope(body, read(self), read(target)) * read(g);
    if (isMean)
      result = result / convert(body.index(sym::product(shapeOf(self))), wide);
    return convert(result, type);
  }));
}

static LogicalResult lowerMseBackward(Call &call) {
  return lossGradient(call, [](BodyBuilder &, Element x, Element t) { return 2.0 * (x - t); });
}

static LogicalResult lowerSmoothL1Backward(Call &call) {
  double beta = call.args.number("beta");
  return lossGradient(call, [&](BodyBuilder &, Element x, Element t) {
    Element z = x - t;
    return select(z <= z.constant(-beta), z.constant(-1),
                  select(z >= z.constant(beta), z.constant(1), z / beta));
  });
}

static LogicalResult lowerHuberBackward(Call &call) {
  double delta = call.args.number("delta");
  return lossGradient(call, [&](BodyBuilder &, Element x, Element t) {
    Element z = x - t;
    return select(z <= z.constant(-delta), z.constant(-delta),
                  select(z >= z.constant(delta), z.constant(delta), z));
  });
}

static LogicalResult lowerSoftMarginBackward(Call &call) {
  return lossGradient(call, [](BodyBuilder &, Element x, Element t) {
    Element z = exp(-(t * x));
    return -(t * z / (z + 1.0));
  });
}

static LogicalResult lowerBceBackward(Call &call) {
  Value weight = call.args.optTensor("weight");
  return lossGradient(call, [&](BodyBuilder &body, Element x, Element t) {
    Element spread = maximum((1.0 - x) * x, x.constant(1e-12));
    Element slope = (x - t) / spread;
    return weight ? slope * convert(body.broadcast(weight), slope.type()) : slope;
  });
}

void lowering::registerActivationBackward(LoweringTable &table) {
  auto add = [&](StringRef name, const Lowering &lowering) {
    table.add(("aten." + name + ".default").str(), lowering);
  };
  add("sigmoid_backward", ofResult(sigmoidSlope));
  add("tanh_backward", ofResult(tanhSlope));
  add("silu_backward", plain(siluBackward));
  add("gelu_backward", lowerGeluBackward);
  add("hardswish_backward", plain(hardswishBackward));
  add("hardsigmoid_backward", plain(hardsigmoidBackward));
  add("mish_backward", plain(mishBackward));
  add("hardshrink_backward", lowerShrinkBackward);
  add("softshrink_backward", lowerShrinkBackward);
  add("hardtanh_backward", lowerHardtanhBackward);
  add("leaky_relu_backward", lowerLeakyReluBackward);
  add("elu_backward", lowerEluBackward);
  add("softplus_backward", lowerSoftplusBackward);
  add("threshold_backward", lowerThresholdBackward);
  add("log_sigmoid_forward", lowerLogSigmoidForward);
  add("log_sigmoid_backward", lowerLogSigmoidBackward);
  add("logit_backward", lowerLogitBackward);
  add("glu_backward", lowerGluBackward);
  add("_prelu_kernel", lowerPreluKernel);
  add("_prelu_kernel_backward", lowerPreluKernelBackward);
  add("rrelu_with_noise_backward", lowerRreluBackward);
  add("mse_loss_backward", lowerMseBackward);
  add("smooth_l1_loss_backward", lowerSmoothL1Backward);
  add("huber_loss_backward", lowerHuberBackward);
  add("soft_margin_loss_backward", lowerSoftMarginBackward);
  add("binary_cross_entropy_backward", lowerBceBackward);
}
