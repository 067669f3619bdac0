// Scales and zero points from the range of what is to be quantized: of a tensor, of each row, or of
// each block.
#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Lowering/Blocks.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

using Pair = BodyBuilder::Elements; // a scale and a zero point

namespace {
/// The range of a block with zero in it.
struct Range {
  Element least, most;
};
} // namespace

static std::optional<Blocks> getBlocks(Call &call, ArrayRef<Expr> sizes) {
  Type type = elementType(call.tensor(0));
  if (!isFloat(type) || type.isF64() || isFloat8(type)) {
    (void)call.refuse("this dtype");
    return std::nullopt;
  }
  std::optional<Blocks> blocks = Blocks::get(call, call.tensor(0), sizes);
  if (blocks)
    call.require(sym::product(blocks->innerSizes()) - 1, "the range of no elements");
  return blocks;
}

static Element reduceBlock(BodyBuilder &body, Value x, const Blocks &blocks, bool largest,
                           function_ref<Element(Element)> compute) {
  Exprs block = body.ownDims(), sizes = blocks.innerSizes();
  unsigned outer = body.numDims();
  auto element = [&](BodyBuilder &inner) {
    return compute(inner.read(x, blocks.elementOf(block, inner.dims(outer, inner.numDims()))));
  };
  Type type = elementType(x);
  return largest ? body.max(sizes, type, element) : body.min(sizes, type, element);
}

static Range rangeOf(BodyBuilder &body, Value x, const Blocks &blocks) {
  auto itself = [](Element value) { return value; };
  Element least = reduceBlock(body, x, blocks, false, itself);
  Element most = reduceBlock(body, x, blocks, true, itself);
  return {promoted(least, 0, minimum), promoted(most, 0, maximum)};
}

/// The results of one map over all blocks, with the declared shapes and dtypes.
static LogicalResult setScales(Call &call, const Blocks &blocks,
                               function_ref<Pair(BodyBuilder &)> compute) {
  Type types[] = {call.resultType(0), call.resultType(1)};
  SmallVector<Value> results = call.kernels.map(blocks.grid(), types, compute);
  for (auto [i, result] : llvm::enumerate(results)) {
    if (!call.kernels.isSame(sym::product(call.resultShape(i)), sym::product(blocks.grid())))
      return call.refuse("another number of scales than of blocks");
    result = call.kernels.reshape(result, call.resultShape(i));
  }
  return call.set(results);
}

//===-- quantized_decomposed ------------------------------------------------------------------===//

/// One range for all elements: a 0-d tensor until it meets `eps`, a tensor of f32.
static Lowering chooseForTensor(bool isSymmetric) {
  return [isSymmetric](Call &call) -> LogicalResult {
    Value x = call.tensor(0);
    std::optional<Blocks> blocks = getBlocks(call, shapeOf(x));
    if (!blocks)
      return failure();
    int64_t low = call.args.integer("quant_min"), high = call.args.integer("quant_max");
    double eps = call.args.number("eps");
    std::optional<Type> target = call.args.dtype("dtype");
    int64_t middle = target && target->isUnsignedInteger(8) ? 128 : 0;
    if (low >= high)
      return call.refuse("an empty range of integers");
    return setScales(call, *blocks, [&](BodyBuilder &body) -> Pair {
      Type f32 = body.b().getF32Type(), i32 = body.b().getI32Type();
      auto [least, most] = rangeOf(body, x, *blocks);
      auto width = static_cast<double>(high - low);
      Element span =
          isSymmetric ? promoted(-least, most, maximum) : promoted(most, least, subtract);
      Element scale = convert(promoted(span, isSymmetric ? width / 2 : width, divide), f32);
      scale = maximum(scale, scale.constant(eps));
      if (isSymmetric)
        return {scale, body.constant(i32, middle)};
      Element zero = convert(roundEven(convert(least, f32) / scale), i32);
      zero = zero.constant(low) - zero;
      return {scale, minimum(maximum(zero, zero.constant(low)), zero.constant(high))};
    });
  };
}

static std::optional<Blocks> getRows(Call &call) {
  Exprs sizes(rankOf(call.tensor(0)), Expr(1));
  std::optional<Type> target = call.args.dtype("dtype");
  if (sizes.empty() || !target || !target->isSignlessInteger(8)) {
    (void)call.refuse("a tensor without rows, or a dtype other than int8");
    return std::nullopt;
  }
  sizes.back() = shapeOf(call.tensor(0)).back();
  return getBlocks(call, sizes);
}

static LogicalResult chooseForRows(Call &call) {
  Value x = call.tensor(0);
  std::optional<Blocks> blocks = getRows(call);
  if (!blocks)
    return failure();
  return setScales(call, *blocks, [&](BodyBuilder &body) -> Pair {
    auto [least, most] = rangeOf(body, x, *blocks);
    Element scale = promoted(promoted(most, least, subtract), 255, divide);
    scale = promoted(scale, std::numeric_limits<float>::epsilon(), maximum);
    Element low = promoted(least, scale, divide), high = promoted(most, scale, divide);
    Element below = promoted(low, -128, add), above = promoted(high, 127, add);
    Element isPositive = promoted(below, above, add);
    isPositive = isPositive > isPositive.constant(0);
    auto from = [](Element a, Element b) { return b - a; };
    Element zero = select(isPositive, promoted(low, -128, from), promoted(high, 127, from));
    zero = promoted(promoted(zero, -128, maximum), 127, minimum);
    return {scale, convert(roundEven(convert(zero, opmath(zero.type()))), zero.type())};
  });
}

/// The scale at which the largest magnitude of a row is 127. The program declares f64 and i64, but
/// eager mode gives both results in the input's type: operators that quantize with them get those.
static LogicalResult chooseForRowsAroundZero(Call &call) {
  Value x = call.tensor(0);
  std::optional<Blocks> blocks = getRows(call);
  if (!blocks)
    return failure();
  Type type = elementType(x);
  if (type.isF16())
    type = Float32Type::get(type.getContext());
  Value narrow = call.kernels.map(blocks->grid(), type, [&](BodyBuilder &body) {
    auto magnitude = [](Element value) { return abs(value); };
    Element scale = convert(reduceBlock(body, x, *blocks, true, magnitude), type);
    return promoted(promoted(scale, 1e-5, maximum), 127, divide);
  });
  Value results[] = {narrow, call.kernels.full(blocks->grid(), type, 0)};
  SmallVector<Value> declared;
  for (auto [i, result] : llvm::enumerate(results)) {
    if (!call.kernels.isSame(call.resultShape(i), blocks->grid()))
      return call.refuse("another shape of its results");
    result = call.kernels.withShape(result, call.resultShape(i));
    for (OpOperand &use : llvm::make_early_inc_range(call.args.op()->getResult(i).getUses())) {
      auto user = dyn_cast<torch::CallOp>(use.getOwner());
      if (user && (user.getTarget() == "quantized_decomposed.quantize_per_token.default" ||
                   user.getTarget() == "quantized_decomposed.dequantize_per_token.default"))
        use.set(result);
    }
    declared.push_back(call.kernels.convert(result, call.resultType(i)));
  }
  return call.set(declared);
}

//===-- torchao -------------------------------------------------------------------------------===//

static LogicalResult chooseForBlocks(Call &call) {
  Value x = call.args.optTensor("input");
  StringRef mapping = call.args.string("mapping_type");
  std::optional<Type> target = call.args.dtype("target_dtype");
  bool isSymmetric = mapping == "SYMMETRIC", clipsNothing = mapping == "SYMMETRIC_NO_CLIPPING_ERR";
  if (!x || !target || !(isSymmetric || clipsNothing || mapping == "ASYMMETRIC"))
    return call.refuse("no input, or another mapping than to a range or a symmetric one");
  std::optional<Blocks> blocks = getBlocks(call, call.args.symIntList("block_size"));
  if (!blocks)
    return failure();
  double low = call.args.optNumber("quant_min").value_or(leastOf(*target));
  double high = call.args.optNumber("quant_max").value_or(largestOf(*target));
  auto smallest =
      APFloat::getSmallestNormalized(cast<FloatType>(elementType(x)).getFloatSemantics());
  double eps = call.args.optNumber("eps").value_or(smallest.convertToDouble());
  return setScales(call, *blocks, [&](BodyBuilder &body) -> Pair {
    auto [least, most] = rangeOf(body, x, *blocks);
    auto atLeastEps = [&](Element scale) { return promoted(scale, eps, maximum); };
    if (isSymmetric || clipsNothing) {
      Element scale;
      if (isSymmetric) {
        scale = promoted(promoted(-least, most, maximum), (high - low) / 2, divide);
      } else {
        Element negative = promoted(least, low, divide), positive = promoted(most, high, divide);
        scale = select(negative > positive, negative, positive);
      }
      return {atLeastEps(scale), scale.constant(std::trunc((high + low + 1) / 2))};
    }
    Element scale = atLeastEps(promoted(promoted(most, least, subtract), high - low, divide));
    Element zero = promoted(least, scale, divide);
    zero = convert(roundEven(convert(zero, opmath(zero.type()))), zero.type());
    zero = promoted(zero, low, [](Element a, Element b) { return b - a; });
    return {scale, promoted(promoted(zero, low, maximum), high, minimum)};
  });
}

static LogicalResult chooseForFloat8(Call &call) {
  Value x = call.tensor(0);
  std::optional<Type> target = call.args.dtype("float8_dtype"),
                      type = call.args.dtype("scale_dtype");
  Type wanted = target ? *target : Float8E4M3FNType::get(call.resultType().getContext());
  if (!isFloat8(wanted) || (type && !type->isF32()))
    return call.refuse("these dtypes");
  std::optional<Blocks> blocks = getBlocks(call, call.args.symIntList("block_size"));
  if (!blocks)
    return failure();
  std::optional<double> least = call.args.optNumber("hp_value_lb");
  std::optional<double> most = call.args.optNumber("hp_value_ub");
  Value scales = call.kernels.map(blocks->grid(), call.resultType(), [&](BodyBuilder &body) {
    Element largest = reduceBlock(body, x, *blocks, true, [](Element value) { return abs(value); });
    if (least)
      largest = promoted(largest, *least, maximum);
    if (most)
      largest = promoted(largest, *most, minimum);
    return promoted(largest, largestOf(wanted), divide);
  });
  if (!call.kernels.isSame(call.resultShape(), blocks->grid()))
    return call.refuse("another shape of its result");
  return call.set(call.kernels.withShape(scales, call.resultShape()));
}

void lowering::registerChooseScales(LoweringTable &table) {
  table.add("quantized_decomposed.choose_qparams.tensor", chooseForTensor(false));
  table.add("quantized_decomposed.choose_qparams_symmetric.tensor", chooseForTensor(true));
  table.add("quantized_decomposed.choose_qparams_per_token.default", chooseForRowsAroundZero);
  table.add({"quantized_decomposed.choose_qparams_per_token_asymmetric.default",
             "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default"},
            chooseForRows);
  table.add("torchao.choose_qparams_affine.default", chooseForBlocks);
  table.add("torchao.choose_scale_float8.default", chooseForFloat8);
}
