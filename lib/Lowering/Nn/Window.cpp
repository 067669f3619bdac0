// Windows of signal processing.
#include "Special/Functions.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// A window of `shape`, which gets places from 0 to 1: n / N, of a window that is not periodic
/// n / (N - 1). One of a single element is 1.
static LogicalResult window(Call &call, function_ref<Element(Element at)> shape) {
  Expr length = call.args.symInt("window_length");
  bool periodic = !call.args.has("periodic") || call.args.boolean("periodic");
  Type type = call.resultType();
  if (!isFloat(type))
    return call.refuse("this dtype");
  Type f64 = Float64Type::get(type.getContext());
  return call.set(call.kernels.map({length}, type, [&](BodyBuilder &body) {
    Element count = convert(body.index(length), f64), one = count.constant(1);
    Element steps = periodic ? count : maximum(count - 1.0, one);
    Element value = shape(convert(body.index(body.dim(0)), f64) / steps);
    return convert(select(count == one, one, value), type);
  }));
}

static Element cosine(Element x) { return apply<math::CosOp>(x * (2 * M_PI)); }

/// alpha - beta cos(2πt): Hann's and Hamming's.
static LogicalResult raisedCosine(Call &call, double alpha, double beta) {
  auto given = [&](StringRef name, double otherwise) {
    return call.args.has(name) ? call.args.number(name) : otherwise;
  };
  alpha = given("alpha", alpha);
  beta = given("beta", beta);
  return window(call, [&](Element t) { return alpha - beta * cosine(t); });
}

static LogicalResult lowerBlackman(Call &call) {
  return window(call, [](Element t) { return 0.42 - 0.5 * cosine(t) + 0.08 * cosine(t * 2.0); });
}

static LogicalResult lowerBartlett(Call &call) {
  return window(call, [](Element t) { return 1.0 - abs(t * 2.0 - 1.0); });
}

static LogicalResult lowerKaiser(Call &call) {
  double beta = call.args.has("beta") ? call.args.number("beta") : 12.0;
  return window(call, [&](Element t) {
    Element x = t * 2.0 - 1.0, rest = maximum(1.0 - x * x, x.constant(0));
    return besselI0(apply<math::SqrtOp>(rest) * beta) / besselI0(x.constant(beta));
  });
}

void lowering::registerWindow(LoweringTable &table) {
  auto add = [&](StringRef name, ArrayRef<StringRef> overloads, const auto &lower) {
    for (StringRef overload : overloads)
      table.add(("aten." + name + "_window." + overload).str(), lower);
  };
  add("hann", {"default", "periodic"}, [](Call &call) { return raisedCosine(call, 0.5, 0.5); });
  add("hamming", {"default", "periodic", "periodic_alpha", "periodic_alpha_beta"},
      [](Call &call) { return raisedCosine(call, 0.54, 0.46); });
  add("blackman", {"default", "periodic"}, lowerBlackman);
  add("bartlett", {"default", "periodic"}, lowerBartlett);
  add("kaiser", {"default", "periodic", "beta"}, lowerKaiser);
}
