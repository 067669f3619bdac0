// Random numbers: the generator's state, the bits that each element draws, and the distributions.
#include "Core/Random.h"
#include "Reduce/Order.h"
#include "kiln/Dialect/Torch/RandomState.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Lowering/Lowering.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static constexpr llvm::StringLiteral stateName = "kiln.random";
/// PyTorch's default_rng_seed_val.
static constexpr int64_t defaultSeed = 67280421310721;

//===-- State ---------------------------------------------------------------------------------===//

Expr RandomSource::reserve(Expr count) {
  Expr first = drawn;
  drawn = drawn + count;
  return first;
}

Value RandomSource::state() {
  for (unsigned i = 0; !buffer && function.isPrivate() && i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, torch::randomStateAttrName))
      buffer = function.getArgument(i);
  if (!buffer) {
    OpBuilder b(function.getContext());
    b.setInsertionPointToStart(&function.getBody().front());
    auto type = RankedTensorType::get(2, b.getI64Type());
    auto value = DenseElementsAttr::get(type, ArrayRef<int64_t>{defaultSeed, 0});
    auto constant =
        kernel::ConstantOp::create(b, function.getLoc(), type, value, b.getStringAttr(stateName));
    constant->setAttr(kernel::mutatedAttrName, b.getUnitAttr());
    buffer = constant;
  }
  return buffer;
}

void RandomSource::finish() {
  if (!buffer || isGiven())
    return;
  Operation *terminator = function.getBody().front().getTerminator();
  ImplicitLocOpBuilder b(function.getLoc(), terminator);
  sym::Assumptions symbols;
  kernel::addSymbolRanges(function, symbols);
  KernelBuilder kernels(b, symbols);
  Type i64 = b.getI64Type();
  Value next = kernels.map({2}, i64, [&](BodyBuilder &body) {
    Element isCount = body.index(body.dim(0)) == body.constant(i64, 1);
    Element old = body.read(buffer, body.ownDims());
    return select(isCount, old + body.index(drawn), old);
  });
  SmallVector<Type> types(function.getResultTypes());
  SmallVector<Attribute> attributes;
  for (unsigned i = 0; i < types.size(); ++i) {
    auto dictionary = function.getResultAttrDict(i);
    attributes.push_back(dictionary ? dictionary : b.getDictionaryAttr({}));
  }
  NamedAttrList attrs;
  attrs.set(torch::mutatesAttrName, b.getStringAttr(stateName));
  attrs.set(torch::mutatesKindAttrName, b.getStringAttr("buffer"));
  attributes.push_back(attrs.getDictionary(b.getContext()));
  // Among the constants that a host may replace.
  Operation *module = function->getParentOp();
  if (auto list = module->getAttrOfType<ArrayAttr>(torch::constantsAttrName)) {
    NamedAttrList entry;
    entry.set("name", b.getStringAttr(stateName));
    entry.set("type", TypeAttr::get(buffer.getType()));
    SmallVector<Attribute> entries(list.begin(), list.end());
    entries.push_back(entry.getDictionary(b.getContext()));
    module->setAttr(torch::constantsAttrName, b.getArrayAttr(entries));
  }
  types.push_back(next.getType());
  terminator->insertOperands(terminator->getNumOperands(), next);
  function.setFunctionType(b.getFunctionType(function.getArgumentTypes(), types));
  function.setAllResultAttrs(attributes);
}

//===-- Bits ----------------------------------------------------------------------------------===//

namespace {
using Words = std::array<Element, 4>; // ui32

/// The numbers that an operator draws: a block for each element of `shape`.
class Draw {
public:
  Draw(Call &call, ArrayRef<Expr> shape) : shape(shape) {
    if (!call.random) {
      call.kernels.fail("random numbers in a nested graph");
      return;
    }
    first = call.random->reserve(sym::product(shape));
    state = call.random->state();
  }

  explicit operator bool() const { return static_cast<bool>(state); }

  /// The bits of the element at `index`.
  Words words(BodyBuilder &body, ArrayRef<Expr> index) const {
    MLIRContext *context = body.b().getContext();
    Type u32 = IntegerType::get(context, 32, IntegerType::Unsigned);
    Type u64 = IntegerType::get(context, 64, IntegerType::Unsigned);
    Element seed = asType(body.read(state, Exprs{0}), u64);
    Element number = body.read(state, Exprs{1}) + body.index(first + sym::linearize(index, shape));
    number = asType(number, u64);
    auto low = [&](Element x) { return convert(x, u32); };
    auto high = [&](Element x) { return convert(shiftRight(x, x.constant(32)), u32); };
    Element key[2] = {low(seed), high(seed)};
    Element zero = constant(body.b(), u32, int64_t(0));
    Words c = {low(number), high(number), zero, zero};
    for (int round = 0; round < 10; ++round) {
      Element a = convert(c[0], u64) * constant(body.b(), u64, int64_t(0xD2511F53));
      Element b = convert(c[2], u64) * constant(body.b(), u64, int64_t(0xCD9E8D57));
      c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
      key[0] = key[0] + key[0].constant(int64_t(0x9E3779B9));
      key[1] = key[1] + key[1].constant(int64_t(0xBB67AE85));
    }
    return c;
  }
  Words words(BodyBuilder &body) const { return words(body, body.ownDims()); }

private:
  static Element asType(Element x, Type type) { return x.make(x.value(), type); }

  Exprs shape;
  Value state;
  Expr first;
};
} // namespace

static Element bits64(const Words &w, int first) {
  Type u64 = IntegerType::get(w[0].b().getContext(), 64, IntegerType::Unsigned);
  Element high = convert(w[first + 1], u64);
  return shiftLeft(high, high.constant(32)) | convert(w[first], u64);
}

/// In [0, 1), of as many bits as `type` has in its mantissa; in `type`'s opmath.
static Element uniform(const Words &w, Type type, int pair = 0) {
  Type wide = opmath(type);
  if (type.isF64()) {
    Element x = bits64(w, 2 * pair);
    return convert(shiftRight(x, x.constant(11)), wide) * 0x1p-53;
  }
  int digits = type.isBF16() ? 8 : type.isF16() ? 11 : 24;
  Element x = w[pair];
  return convert(shiftRight(x, x.constant(32 - digits)), wide) * std::ldexp(1.0, -digits);
}

/// Normally distributed (Box and Muller, 1958).
static Element normal(const Words &w, Type type) {
  Type exact = type.isF64() ? type : Type(Float32Type::get(type.getContext()));
  Element radius = sqrt(log(1.0 - uniform(w, exact, 0)) * -2.0);
  return radius * apply<math::CosOp>(uniform(w, exact, 1) * (2 * M_PI));
}

//===-- Distributions -------------------------------------------------------------------------===//

/// A result of the declared shape and dtype, each element computed from its bits.
static LogicalResult drawn(Call &call,
                           function_ref<Element(BodyBuilder &, const Words &)> compute) {
  Exprs shape = call.resultShape();
  Draw draw(call, shape);
  if (!draw)
    return failure();
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    return compute(body, draw.words(body));
  }));
}

/// A normal complex number, whose parts have half the variance each.
static Element complexNormal(const Words &w, ComplexType type) {
  Type part = type.getElementType();
  Element radius = sqrt(-log(1.0 - uniform(w, part, 0))), angle = uniform(w, part, 1) * (2 * M_PI);
  return makeComplex(radius * apply<math::CosOp>(angle), radius * apply<math::SinOp>(angle));
}

static bool isFloatResult(Call &call) {
  if (!isFloat(call.resultType()))
    call.kernels.fail("a result of this dtype");
  return isFloat(call.resultType());
}

/// Complex numbers have two such parts.
static LogicalResult uniformIn(Call &call, double from, double to) {
  auto pair = dyn_cast<ComplexType>(call.resultType());
  Type type = pair ? pair.getElementType() : call.resultType();
  if (!isFloat(type))
    return call.refuse("a result of this dtype");
  return drawn(call, [&](BodyBuilder &, const Words &w) {
    auto draw = [&](int which) {
      Element x = uniform(w, type, which);
      return from == 0 && to == 1 ? x : x * (to - from) + from;
    };
    return pair ? makeComplex(draw(0), draw(1)) : draw(0);
  });
}

static LogicalResult lowerRand(Call &call) { return uniformIn(call, 0, 1); }

static LogicalResult lowerUniform(Call &call) {
  return uniformIn(call, call.constantNumber("from"), call.constantNumber("to"));
}

static LogicalResult lowerRandn(Call &call) {
  auto pair = dyn_cast<ComplexType>(call.resultType());
  if (!pair && !isFloatResult(call))
    return failure();
  return drawn(call, [&](BodyBuilder &, const Words &w) {
    return pair ? complexNormal(w, pair) : normal(w, call.resultType());
  });
}

/// Whole numbers in [low, high).
static LogicalResult lowerRandint(Call &call) {
  Expr low = call.args.has("low") ? call.args.symInt("low") : Expr(0);
  Expr range = call.args.symInt("high") - low;
  call.require(range - 1, "a range without numbers");
  return drawn(call, [&](BodyBuilder &body, const Words &w) {
    Element bits = bits64(w, 0), limit = body.index(range);
    Element rest = remainder(bits, bits.make(limit.value(), bits.type()));
    return body.index(low) + rest.make(rest.value(), limit.type());
  });
}

static LogicalResult lowerBernoulli(Call &call) { // default: of self; p, Tensor: of p
  bool own = !call.args.has("p");
  Operand p = own ? Operand(call.tensor("self")) : call.operand("p");
  return drawn(call, [&](BodyBuilder &body, const Words &w) {
    Type type = Float32Type::get(call.resultType().getContext());
    if (p.tensor && elementType(p.tensor).isF64())
      type = elementType(p.tensor);
    Element chance = call.read(body, p, type);
    if (p.tensor)
      chance = call.expect(chance, (chance >= chance.constant(0)) & (chance <= chance.constant(1)),
                           "a probability outside [0, 1]");
    Element hit = uniform(w, type) < chance;
    return convert(hit, call.resultType());
  });
}

static LogicalResult lowerNormal(Call &call) { // mean and std are numbers or tensors
  auto pair = dyn_cast<ComplexType>(call.resultType());
  if (!pair && !isFloatResult(call))
    return failure();
  Operand mean = call.operand("mean"), deviation = call.operand("std");
  Type wide = opmath(call.resultType());
  return drawn(call, [&](BodyBuilder &body, const Words &w) {
    Element x = pair ? complexNormal(w, pair) : convert(normal(w, call.resultType()), wide);
    Element scale = call.read(body, deviation, wide);
    if (deviation.tensor)
      scale = call.expect(scale, scale >= scale.constant(0), "a std that is negative or NaN");
    return x * scale + call.read(body, mean, wide);
  });
}

static LogicalResult lowerLogNormal(Call &call) {
  if (!isFloatResult(call))
    return failure();
  double mean = call.constantNumber("mean"), deviation = call.constantNumber("std");
  return drawn(call, [&](BodyBuilder &, const Words &w) {
    return exp(normal(w, call.resultType()) * deviation + mean);
  });
}

static LogicalResult lowerExponential(Call &call) {
  if (!isFloatResult(call))
    return failure();
  double rate = call.constantNumber("lambd");
  return drawn(call, [&](BodyBuilder &, const Words &w) {
    return log1p(-uniform(w, call.resultType())) * (-1 / rate);
  });
}

static LogicalResult lowerCauchy(Call &call) {
  if (!isFloatResult(call))
    return failure();
  double median = call.constantNumber("median"), sigma = call.constantNumber("sigma");
  return drawn(call, [&](BodyBuilder &, const Words &w) {
    Element angle = (uniform(w, call.resultType()) - 0.5) * M_PI;
    return apply<math::SinOp>(angle) / apply<math::CosOp>(angle) * sigma + median;
  });
}

static LogicalResult lowerGeometric(Call &call) { // how many trials until one succeeds
  double p = call.constantNumber("p");
  if (!(p > 0 && p < 1))
    return call.refuse("a probability outside (0, 1)");
  return drawn(call, [&](BodyBuilder &body, const Words &w) {
    Element u = 1.0 - uniform(w, body.b().getF32Type());
    Element trials = ceil(log(u) * (1 / std::log1p(-p)));
    return maximum(trials, trials.constant(1));
  });
}

/// A permutation of 0 … n - 1: the order of random keys.
static LogicalResult lowerRandperm(Call &call) {
  Exprs shape = call.resultShape();
  Draw draw(call, shape);
  if (!draw)
    return failure();
  Value order = call.kernels.sort(shape, [&](BodyBuilder &body) {
    Element bits = bits64(draw.words(body), 0);
    return bits.make(bits.value(), body.b().getI64Type());
  });
  return call.set(call.kernels.convert(order, call.resultType()));
}

/// Numbers of columns, with the probabilities that rows of weights say: as often as asked for from
/// the running sums, or, without replacement, those with the greatest weights over exponentially
/// distributed numbers.
static LogicalResult lowerMultinomial(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self), wide = opmath(type), i64 = IntegerType::get(type.getContext(), 64);
  Exprs shape = shapeOf(self);
  if (!isFloat(type) || shape.empty() || shape.size() > 2)
    return call.refuse("this dtype or rank");
  Expr rows = shape.size() == 2 ? shape[0] : Expr(1), columns = shape.back();
  Expr samples = call.args.symInt("num_samples");
  Value weights = call.kernels.reshape(self, {rows, columns});
  auto weight = [&](BodyBuilder &inner, ArrayRef<Expr> at) {
    Element x = convert(inner.read(weights, at), wide);
    Element limit = x.constant(std::numeric_limits<double>::infinity());
    return call.expect(x, (x >= x.constant(0)) & (x < limit),
                       "a probability that is infinite, NaN or negative");
  };
  auto expectPositive = [&](Element sum) {
    return call.expect(sum, sum > sum.constant(0), "a sum of probabilities that is not positive");
  };
  bool replaces = call.args.boolean("replacement") && !samples.isConstant(1);
  Draw draw(call, {rows, replaces ? samples : columns});
  if (!draw)
    return failure();
  Value drawn;
  if (replaces) {
    using Elements = BodyBuilder::Elements;
    auto init = [&](BodyBuilder &body) { return Elements{body.constant(wide, 0)}; };
    auto body = [&](BodyBuilder &inner) { return Elements{weight(inner, inner.ownDims())}; };
    auto add = [](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] + b[0]}; };
    Value sums = call.kernels.scan({{rows, columns}, 1, init, body, add}, wide).front();
    drawn = call.kernels.map({rows, samples}, i64, [&](BodyBuilder &body) {
      Element total = expectPositive(body.read(sums, Exprs{body.dim(0), columns - 1}));
      Element u = convert(uniform(draw.words(body), wide), wide) * total;
      Element place = body.sum({columns}, i64, [&](BodyBuilder &inner) {
        return convert(inner.read(sums, Exprs{inner.dim(0), inner.dim(2)}) <= u, i64);
      });
      return minimum(place, body.index(columns - 1));
    });
  } else {
    call.require(columns - samples, "more samples without replacement than columns");
    Value order = call.kernels.sort({rows, columns}, [&](BodyBuilder &body) {
      Element sum = expectPositive(body.sum({columns}, wide, [&](BodyBuilder &inner) {
        return weight(inner, {inner.dim(0), inner.dim(2)});
      }));
      Element rate = -log1p(-uniform(draw.words(body), wide));
      // The sum is needed for what is expected of it.
      Element x = select(sum > sum.constant(0), weight(body, body.ownDims()), sum);
      return ~orderedBits(x / rate);
    });
    drawn =
        call.kernels.view(order, {rows, samples}, [](ArrayRef<Expr> dims) { return Exprs(dims); });
  }
  return call.set(call.kernels.reshape(drawn, call.resultShape()));
}

//===-- Dropout -------------------------------------------------------------------------------===//

/// `self` with elements (or with `features`, whole channels) left out and the others scaled, and
/// which of them stayed.
static SmallVector<Value> dropOut(Call &call, double p, bool features) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self), drawnShape = shape;
  if (features)
    for (size_t i = 2; i < shape.size(); ++i)
      drawnShape[i] = 1;
  Draw draw(call, drawnShape);
  Type type = elementType(self), wide = opmath(type), i1 = IntegerType::get(type.getContext(), 1);
  if (!draw)
    return {};
  return call.kernels.map(shape, {type, i1}, [&](BodyBuilder &body) {
    Exprs index = body.ownDims();
    for (auto [at, size] : llvm::zip_equal(index, drawnShape))
      if (size.isConstant(1))
        at = 0;
    Element u = uniform(draw.words(body, index), body.b().getF32Type());
    Element stays = u < u.constant(1 - p);
    Element x = convert(body.broadcast(self), wide);
    Element scaled = p == 1 ? x.constant(0) : x * (1 / (1 - p));
    return BodyBuilder::Elements{select(stays, scaled, x.constant(0)), stays};
  });
}

static LogicalResult lowerDropout(Call &call, bool features) {
  double p = call.constantNumber("p");
  if (!call.args.boolean("train") || p == 0)
    return call.set(call.tensor(0));
  if (!isFloatResult(call) || !(p >= 0 && p <= 1))
    return call.refuse("this probability or dtype");
  SmallVector<Value> results = dropOut(call, p, features);
  return results.empty() ? failure() : call.set(results.front());
}

/// Elements that are left out become the value that keeps mean and variance of a self-normalising
/// network.
static LogicalResult lowerAlphaDropout(Call &call, bool features) {
  constexpr double alpha = 1.7580993408473766;
  double p = call.constantNumber("p");
  if (!call.args.boolean("train") || p == 0)
    return call.set(call.tensor(0));
  if (!isFloatResult(call) || !(p > 0 && p <= 1))
    return call.refuse("this probability or dtype");
  if (p == 1)
    return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return x[0] * 0.0; });
  double scale = 1 / std::sqrt((alpha * alpha * p + 1) * (1 - p));
  double kept = alpha * scale * p, dropped = kept - alpha * scale;
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self), drawnShape = shape;
  if (features)
    for (size_t i = 2; i < shape.size(); ++i)
      drawnShape[i] = 1;
  Draw draw(call, drawnShape);
  if (!draw)
    return failure();
  Type type = elementType(self), wide = opmath(type);
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs index = body.ownDims();
    for (auto [at, size] : llvm::zip_equal(index, drawnShape))
      if (size.isConstant(1))
        at = 0;
    Element u = uniform(draw.words(body, index), body.b().getF32Type());
    Element x = convert(body.broadcast(self), wide);
    return select(u < u.constant(1 - p), x * scale + kept, x.constant(dropped));
  }));
}

/// x, times a slope where it is not positive: drawn from [lower, upper), or their middle.
/// The slope for negative numbers is the mean outside of training.
static Value meanRrelu(Call &call, double lower, double upper) {
  Value self = call.tensor(0);
  return call.kernels.map(shapeOf(self), call.resultType(), [&](BodyBuilder &body) {
    Element x = convert(body.broadcast(self), opmath(call.resultType()));
    return select(x > x.constant(0), x, x * ((lower + upper) / 2));
  });
}

/// The noise, which training alone draws, is a result.
static LogicalResult lowerRreluWithNoise(Call &call) {
  if (!isFloatResult(call))
    return failure();
  if (call.args.boolean("training"))
    return call.refuse("training");
  double lower = call.constantNumber("lower"), upper = call.constantNumber("upper");
  return call.set({meanRrelu(call, lower, upper), call.tensor("noise")});
}

static LogicalResult lowerRrelu(Call &call) {
  double lower = call.constantNumber("lower"), upper = call.constantNumber("upper");
  Value self = call.tensor(0);
  if (!isFloatResult(call))
    return failure();
  Type wide = opmath(call.resultType());
  if (!call.args.boolean("training"))
    return call.set(meanRrelu(call, lower, upper));
  return drawn(call, [&](BodyBuilder &body, const Words &w) {
    Element x = convert(body.broadcast(self), wide);
    Element slope = convert(uniform(w, call.resultType()), wide) * (upper - lower) + lower;
    return select(x <= x.constant(0), x * slope, x);
  });
}

static LogicalResult lowerNativeDropout(Call &call) {
  double p = call.constantNumber("p");
  if (!call.args.optBoolean("train").value_or(true)) {
    Value mask = call.kernels.full(call.resultShape(1), call.resultType(1), 1);
    return call.set({call.tensor(0), mask});
  }
  if (!isFloatResult(call) || !(p >= 0 && p <= 1))
    return call.refuse("this probability or dtype");
  SmallVector<Value> results = dropOut(call, p, /*features=*/false);
  return results.empty() ? failure() : call.set(results);
}

/// grad * (mask * scale), each product rounded.
static LogicalResult lowerNativeDropoutBackward(Call &call) {
  Value grad = call.tensor(0), mask = call.tensor(1);
  double scale = call.constantNumber("scale");
  Type type = call.resultType(), wide = opmath(type);
  if (!isFloat(type) || !call.fits(shapeOf(grad), shapeOf(mask), "a mask of another shape"))
    return call.refuse("this dtype, or a mask of another shape");
  return call.set(call.kernels.map(call.resultShape(), type, [&](BodyBuilder &body) {
    Element kept = convert(convert(body.broadcast(mask), wide) * scale, type);
    return convert(convert(body.broadcast(grad), type), wide) * convert(kept, wide);
  }));
}

void lowering::registerRandom(LoweringTable &table) {
  table.add({"aten.rand.default", "aten.rand.generator", "aten.rand_like.default",
             "aten.rand_like.generator"},
            lowerRand);
  table.add({"aten.randn.default", "aten.randn.generator", "aten.randn_like.default",
             "aten.randn_like.generator"},
            lowerRandn);
  table.add({"aten.randint.default", "aten.randint.low", "aten.randint.generator",
             "aten.randint.low_generator", "aten.randint_like.default",
             "aten.randint_like.low_dtype"},
            lowerRandint);
  table.add("aten.uniform.default", lowerUniform);
  table.add({"aten.bernoulli.default", "aten.bernoulli.p", "aten.bernoulli.Tensor"},
            lowerBernoulli);
  table.add({"aten.normal.Tensor_Tensor", "aten.normal.Tensor_float", "aten.normal.float_Tensor",
             "aten.normal.float_float", "aten.normal_functional.default"},
            lowerNormal);
  table.add("aten.log_normal.default", lowerLogNormal);
  table.add("aten.exponential.default", lowerExponential);
  table.add("aten.cauchy.default", lowerCauchy);
  table.add("aten.geometric.default", lowerGeometric);
  table.add({"aten.randperm.default", "aten.randperm.generator"}, lowerRandperm);
  table.add("aten.dropout.default", [](Call &call) { return lowerDropout(call, false); });
  table.add("aten.feature_dropout.default", [](Call &call) { return lowerDropout(call, true); });
  table.add("aten.alpha_dropout.default",
            [](Call &call) { return lowerAlphaDropout(call, false); });
  table.add("aten.feature_alpha_dropout.default",
            [](Call &call) { return lowerAlphaDropout(call, true); });
  table.add("aten.rrelu.default", lowerRrelu);
  table.add("aten.rrelu_with_noise_functional.default", lowerRreluWithNoise);
  table.add("aten.multinomial.default", lowerMultinomial);
  table.add("aten.native_dropout.default", lowerNativeDropout);
  table.add("aten.native_dropout_backward.default", lowerNativeDropoutBackward);
}
