// Numbers as small integers or 8-bit floats with scales and zero points for blocks of a tensor: by
// channel, by token, in groups, or as torchao says.
#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Lowering/Blocks.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {

struct BlockParameters {
  Blocks blocks;
  Value scales, zeros; // as large as the grid of blocks; zeros may be null: 0

  Element scale(BodyBuilder &body) const { return read(body, scales); }
  Element zero(BodyBuilder &body) const { return read(body, zeros); }

private:
  Element read(BodyBuilder &body, Value values) const {
    return body.read(values, blocks.blockOf(body.ownDims()));
  }
};

/// Operators differ in the order of their steps.
enum class Order { RoundFirst, AddFirst };

} // namespace

/// Null-able `zeros`; refuses with a reason.
static std::optional<BlockParameters> getBlockParameters(Call &call, ArrayRef<Expr> blockSizes,
                                                         Value scales, Value zeros) {
  std::optional<Blocks> blocks = Blocks::get(call, call.tensor(0), blockSizes);
  if (!blocks)
    return std::nullopt;
  if (!isFloat(elementType(scales)) || isFloat8(elementType(scales)) ||
      (zeros && !isInt(elementType(zeros)) && !isFloat(elementType(zeros)))) {
    (void)call.refuse("scales or zero points of this dtype");
    return std::nullopt;
  }
  BlockParameters p{*blocks, blocks->toGrid(call, scales), {}};
  if (p.scales && zeros)
    p.zeros = blocks->toGrid(call, zeros);
  if (!p.scales || (zeros && !p.zeros))
    return std::nullopt;
  return p;
}

/// Those that the operator names, whose zero points may be absent; refuses with a reason.
static std::optional<BlockParameters> getBlockParameters(Call &call,
                                                         const std::optional<Exprs> &blockSizes) {
  if (!blockSizes) {
    (void)call.refuse("an axis or a size of groups that the tensor does not have");
    return std::nullopt;
  }
  return getBlockParameters(
      call, *blockSizes, call.tensor(call.args.has("scales") ? "scales" : "scale"),
      call.args.optTensor(call.args.has("zero_points") ? "zero_points" : "zero_point"));
}

//===-- The size of a block -------------------------------------------------------------------===//

using BlockSizes = std::optional<Exprs> (*)(Call &);

/// As the program gives it.
static std::optional<Exprs> givenSizes(Call &call) { return call.args.symIntList("block_size"); }

static std::optional<Exprs> channelSizes(Call &call) {
  Exprs sizes = shapeOf(call.tensor(0));
  int64_t axis = call.args.integer("axis");
  if (axis < 0 || axis >= static_cast<int64_t>(sizes.size()))
    return std::nullopt;
  sizes[axis] = 1;
  return sizes;
}

static std::optional<Exprs> tokenSizes(Call &call) {
  Exprs sizes(rankOf(call.tensor(0)), Expr(1));
  if (sizes.empty())
    return std::nullopt;
  sizes.back() = shapeOf(call.tensor(0)).back();
  return sizes;
}

static std::optional<Exprs> groupSizes(Call &call) {
  Exprs shape = shapeOf(call.tensor(0)), scales = shapeOf(call.tensor("scales"));
  int64_t group = call.args.integer("group_size");
  if (shape.size() != 2 || group <= 1)
    return std::nullopt;
  std::optional<int64_t> length = shape[1].constant();
  bool whole = length && group > *length && !scales.empty() && scales.back().isConstant(1);
  return Exprs{1, whole ? shape[1] : Expr(group)};
}

//===-- To integers and back ------------------------------------------------------------------===//

static Element clamp(Element x, double least, double most) {
  x = promoted(x, least, maximum);
  return promoted(x, most, minimum);
}

static Element round(Element x) {
  return convert(roundEven(convert(x, opmath(x.type()))), x.type());
}

/// PyTorch has no division of a number: it multiplies the reciprocal.
static Element reciprocalScale(Element x) {
  return convert(1.0 / convert(x, opmath(x.type())), x.type());
}

/// clamp(round(x / scale) + zero), or the zero point before rounding.
static Lowering quantize(BlockSizes sizes, Order order, bool widen = false) {
  return [=](Call &call) -> LogicalResult {
    Value x = call.tensor(0);
    Type from = elementType(x), result = call.resultType();
    if (!isFloat(from) || isFloat8(from) || from.isF64() || !isQuantized(result))
      return call.refuse("these dtypes");
    std::optional<BlockParameters> p = getBlockParameters(call, sizes(call));
    if (!p)
      return failure();
    if (!p->zeros)
      return call.refuse("no zero points, with which eager mode fails, too");
    double least = call.args.optNumber("quant_min").value_or(leastOf(result));
    double most = call.args.optNumber("quant_max").value_or(largestOf(result));
    bool isBounded = least >= leastOf(result) && most <= largestOf(result);
    bool checksNan = call.args.has("group_size");
    return call.set(call.kernels.map(shapeOf(x), result, [&](BodyBuilder &body) {
      Element value = body.broadcast(x);
      if (widen)
        value = convert(value, body.b().getF32Type());
      if (checksNan)
        value = call.expect(value, ~isNan(value), "to_quant must not contain NaNs");
      value = promoted(value, reciprocalScale(p->scale(body)), multiply);
      if (order == Order::RoundFirst)
        value = promoted(round(value), p->zero(body), add);
      else
        value = round(promoted(value, p->zero(body), add));
      value = clamp(value, least, most);
      return isBounded ? convertClamped(value, result) : convert(value, result);
    }));
  };
}

/// (x - zero) * scale, the difference in the integers' type or in the result's.
static Lowering dequantize(BlockSizes sizes, bool asFloats) {
  return [=](Call &call) -> LogicalResult {
    Value x = call.tensor(0);
    Type result = call.resultType();
    if (!isQuantized(elementType(x)) || !isFloat(result) || isFloat8(result))
      return call.refuse("these dtypes");
    std::optional<BlockParameters> p = getBlockParameters(call, sizes(call));
    if (!p)
      return failure();
    return call.set(call.kernels.map(shapeOf(x), result, [&](BodyBuilder &body) {
      Element value = body.broadcast(x);
      if (asFloats)
        value = convert(value, result);
      if (p->zeros)
        value =
            promoted(value, asFloats ? convert(p->zero(body), result) : p->zero(body), subtract);
      return convert(promoted(value, p->scale(body), multiply), result);
    }));
  };
}

/// Quantized and back, in f32 with zero points that are 32-bit integers.
static LogicalResult lowerFakeQuantize(Call &call) {
  Value x = call.tensor(0);
  Builder builder(call.resultType().getContext());
  std::optional<Exprs> sizes = channelSizes(call);
  if (!elementType(x).isF32() || !sizes)
    return call.refuse("this dtype or axis");
  Value scales = call.kernels.convert(call.tensor("scales"), builder.getF32Type());
  Value zeros = call.kernels.convert(call.tensor("zero_points"), builder.getI32Type());
  std::optional<BlockParameters> p = getBlockParameters(call, *sizes, scales, zeros);
  if (!p)
    return failure();
  double least = call.args.number("quant_min"), most = call.args.number("quant_max");
  return call.set(call.kernels.map(shapeOf(x), builder.getF32Type(), [&](BodyBuilder &body) {
    Element scale = p->scale(body), zero = convert(p->zero(body), scale.type());
    Element value = roundEven(body.broadcast(x) * (1.0 / scale)) + zero;
    return (clamp(value, least, most) - zero) * scale;
  }));
}

//===-- 8-bit floats --------------------------------------------------------------------------===//

/// One scale, or blocks as large as the scales' shape leaves them.
static std::optional<BlockParameters> getScales(Call &call) {
  Value scale = call.tensor("scale");
  Exprs shape = shapeOf(call.tensor(0)), scales = shapeOf(scale), blocks;
  if (sym::product(scales).isConstant(1)) {
    blocks = shape;
  } else if (scales.size() != shape.size()) {
    (void)call.refuse("scales of another rank");
    return std::nullopt;
  } else {
    for (auto [size, count] : llvm::zip(shape, scales)) {
      bool isEach = call.kernels.isSame(size, count);
      blocks.push_back(isEach                ? Expr(1)
                       : count.isConstant(0) ? size
                                             : call.kernels.known().simplify(size.floorDiv(count)));
    }
  }
  return getBlockParameters(call, blocks, scale, {});
}

static LogicalResult lowerToFloat8(Call &call) {
  Value x = call.tensor(0);
  Type result = call.resultType();
  if (!isFloat(elementType(x)) || isFloat8(elementType(x)) || !isFloat8(result))
    return call.refuse("these dtypes");
  std::optional<BlockParameters> p = getScales(call);
  if (!p)
    return failure();
  double most = largestOf(result);
  return call.set(call.kernels.map(shapeOf(x), result, [&](BodyBuilder &body) {
    Element value = convert(body.broadcast(x), body.b().getF32Type());
    return convert(clamp(promoted(value, p->scale(body), divide), -most, most), result);
  }));
}

static LogicalResult lowerFromFloat8(Call &call) {
  Value x = call.tensor(0);
  Type result = call.resultType();
  if (!isFloat8(elementType(x)) || !isFloat(result) || isFloat8(result))
    return call.refuse("these dtypes");
  std::optional<BlockParameters> p = getScales(call);
  if (!p)
    return failure();
  return call.set(call.kernels.map(shapeOf(x), result, [&](BodyBuilder &body) {
    Element value = convert(body.broadcast(x), body.b().getF32Type());
    return convert(promoted(value, p->scale(body), multiply), result);
  }));
}

void lowering::registerQuantizeBlocks(LoweringTable &table) {
  using enum Order;
  table.add("quantized_decomposed.quantize_per_channel.default",
            quantize(channelSizes, RoundFirst, /*widen=*/true));
  table.add("quantized_decomposed.quantize_per_token.default", quantize(tokenSizes, AddFirst));
  table.add("quantized_decomposed.quantize_per_channel_group.default",
            quantize(groupSizes, AddFirst));
  table.add("torchao.quantize_affine.default", quantize(givenSizes, RoundFirst));
  table.add("quantized_decomposed.dequantize_per_channel.default",
            dequantize(channelSizes, /*asFloats=*/false));
  table.add("quantized_decomposed.dequantize_per_token.default",
            dequantize(tokenSizes, /*asFloats=*/false));
  table.add("quantized_decomposed.dequantize_per_channel_group.default",
            dequantize(groupSizes, /*asFloats=*/false));
  table.add("torchao.dequantize_affine.default", dequantize(givenSizes, /*asFloats=*/true));
  table.add("quantized_decomposed.fake_quant_per_channel.default", lowerFakeQuantize);
  table.add("torchao.quantize_affine_float8_non_decomposed.default", lowerToFloat8);
  table.add("torchao.dequantize_affine_float8_non_decomposed.default", lowerFromFloat8);
}
