// Numbers as small integers or 8-bit floats with one scale: quantize, dequantize, fake quantization.
// QuantizeBlocks.cpp has those with more scales.
#include "kiln/Dialect/Kernel/Builder/Float8.h"
#include "kiln/Lowering/Blocks.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {

enum class Granularity { Number, Tensor, Channel };

/// Scale and zero point: two numbers, two tensors of one element, or two tensors with an element
/// for each index of dim `axis`.
struct Parameters {
  Granularity granularity = Granularity::Number;
  double scaleNumber = 0, zeroNumber = 0;
  Value scales, zeros; // zeros may be null: 0
  int64_t axis = 0;
  double lowest = 0, highest = 0;
  Value lowestTensor, highestTensor; // of one element, in place of the numbers

  Exprs index(BodyBuilder &body, Value tensor) const {
    if (granularity == Granularity::Channel)
      return {body.dim(axis)};
    return Exprs(rankOf(tensor), Expr(0));
  }
  Element read(BodyBuilder &body, Value tensor) const {
    return body.read(tensor, index(body, tensor));
  }
  Element scale(BodyBuilder &body, Type type) const {
    if (granularity == Granularity::Number)
      return body.constant(type, scaleNumber);
    return convert(read(body, scales), type);
  }
  Element zero(BodyBuilder &body, Type type) const {
    if (granularity == Granularity::Number)
      return body.constant(type, zeroNumber);
    return zeros ? convert(read(body, zeros), type) : body.constant(type, 0);
  }
};

} // namespace

static bool isReal(Value tensor) {
  return isFloat(elementType(tensor)) && !isFloat8(elementType(tensor));
}

/// Reads scale, zero point, (axis,) lowest and highest value from argument 1 on.
static std::optional<Parameters> getParameters(Call &call, Granularity granularity) {
  Parameters p;
  p.granularity = granularity;
  torch::CallArgs &args = call.args;
  bool perChannel = granularity == Granularity::Channel;
  unsigned bounds = perChannel ? 4 : 3;
  if (args.size() < bounds + 2 || !args.isTensor(0) ||
      !isa<RankedTensorType>(call.tensor(0).getType()))
    return std::nullopt;
  if (granularity == Granularity::Number) {
    std::optional<double> scale = args.isNumber(1) ? args.optNumber(1) : std::nullopt;
    std::optional<double> zero = args.isNumber(2) ? args.optNumber(2) : std::nullopt;
    if (!scale || !zero)
      return std::nullopt;
    p.scaleNumber = *scale;
    p.zeroNumber = *zero;
  } else {
    if (!args.isTensor(1) || !(args.isTensor(2) || args.isNone(2)))
      return std::nullopt;
    p.scales = args.tensor(1);
    p.zeros = args.isTensor(2) ? args.tensor(2) : Value();
    if (!isReal(p.scales) || (p.zeros && !isInt(elementType(p.zeros)) && !isReal(p.zeros)))
      return std::nullopt;
  }
  Expr size = 1;
  if (perChannel) {
    std::optional<double> axis = args.isNumber(3) ? args.optNumber(3) : std::nullopt;
    auto rank = static_cast<double>(rankOf(call.tensor(0)));
    if (!axis || *axis < 0 || *axis >= rank)
      return std::nullopt;
    p.axis = static_cast<int64_t>(*axis);
    size = shapeOf(call.tensor(0))[p.axis];
  }
  for (Value tensor : {p.scales, p.zeros})
    if (tensor && (!call.fits(sym::product(shapeOf(tensor)), size, "another number of scales") ||
                   (perChannel && rankOf(tensor) != 1)))
      return std::nullopt;
  if (args.isTensor(bounds) && args.isTensor(bounds + 1)) {
    p.lowestTensor = args.tensor(bounds);
    p.highestTensor = args.tensor(bounds + 1);
    for (Value tensor : {p.lowestTensor, p.highestTensor})
      if (isComplex(elementType(tensor)) ||
          !call.fits(sym::product(shapeOf(tensor)), 1, "another number of bounds"))
        return std::nullopt;
    return p;
  }
  for (auto [i, bound] : {std::pair(bounds, &p.lowest), std::pair(bounds + 1, &p.highest)}) {
    std::optional<double> value = args.isNumber(i) ? args.optNumber(i) : std::nullopt;
    if (!value)
      return std::nullopt;
    *bound = *value;
  }
  return p;
}

/// A scale of the program that no quantizer gives, and with which every element is lost.
static const char *badScale = "a scale that is zero or not finite";
static bool hasScale(const Parameters &p) {
  return p.granularity != Granularity::Number ||
         (std::isfinite(p.scaleNumber) && p.scaleNumber != 0);
}

static Element clamp(BodyBuilder &body, Element x, const Parameters &p) {
  auto bound = [&](Value tensor, double number) {
    if (!tensor)
      return body.constant(x.type(), number);
    return convert(body.read(tensor, Exprs(rankOf(tensor), Expr(0))), x.type());
  };
  return minimum(maximum(x, bound(p.lowestTensor, p.lowest)), bound(p.highestTensor, p.highest));
}

/// clamp(round(x * (1 / scale)) + zero), all in f32; the scale goes through a Python float.
static Lowering quantize(Granularity granularity) {
  return [granularity](Call &call) {
    std::optional<Parameters> p = getParameters(call, granularity);
    if (p && !hasScale(*p))
      return call.refuse(badScale);
    Type result = call.resultType();
    if (!p || !isReal(call.tensor(0)) || elementType(call.tensor(0)).isF64() ||
        !isQuantized(result))
      return call.refuse("these parameters or dtypes");
    Builder builder(result.getContext());
    Type f32 = builder.getF32Type(), f64 = builder.getF64Type();
    bool isBounded =
        !p->lowestTensor && p->lowest >= leastOf(result) && p->highest <= largestOf(result);
    return call.set(call.kernels.map(shapeOf(call.tensor(0)), result, [&](BodyBuilder &body) {
      Element inverse = convert(1.0 / p->scale(body, f64), f32);
      Element x = convert(body.broadcast(call.tensor(0)), f32);
      x = clamp(body, roundEven(x * inverse) + p->zero(body, f32), *p);
      return isBounded ? convertClamped(x, result) : convert(x, result);
    }));
  };
}

/// (x - zero) * scale, all in the result's type.
static Lowering dequantize(Granularity granularity) {
  return [granularity](Call &call) {
    std::optional<Parameters> p = getParameters(call, granularity);
    if (p && !hasScale(*p))
      return call.refuse(badScale);
    Type result = call.resultType();
    if (!p || !isQuantized(elementType(call.tensor(0))) || !isFloat(result) || isFloat8(result))
      return call.refuse("these parameters or dtypes");
    Type f64 = Builder(result.getContext()).getF64Type(), wide = opmath(result);
    return call.set(call.kernels.map(shapeOf(call.tensor(0)), result, [&](BodyBuilder &body) {
      auto rounded = [&](Element x) { return convert(convert(x, result), wide); };
      Element x = rounded(rounded(body.broadcast(call.tensor(0))) - p->zero(body, wide));
      return convert(x * convert(p->scale(body, f64), wide), result);
    }));
  };
}

/// The value that quantizing and dequantizing leaves.
static Lowering fakeQuantize(Granularity granularity) {
  return [granularity](Call &call) {
    std::optional<Parameters> p = getParameters(call, granularity);
    if (p && !hasScale(*p))
      return call.refuse(badScale);
    Type f32 = Float32Type::get(call.resultType().getContext());
    if (!p || elementType(call.tensor(0)) != f32 || (p->scales && elementType(p->scales) != f32))
      return call.refuse("these parameters or dtypes");
    // A zero point between two integers is added before rounding.
    bool isWhole = !p->zeros || !isFloat(elementType(p->zeros));
    auto bits = [&](BodyBuilder &body) {
      Element x = body.broadcast(call.tensor(0)) * (1.0 / p->scale(body, f32));
      Element zero = p->zero(body, f32);
      return isWhole ? roundEven(x) + zero : roundEven(x + zero);
    };
    Exprs shape = shapeOf(call.tensor(0));
    SmallVector<Value> results{call.kernels.map(shape, f32, [&](BodyBuilder &body) {
      return (clamp(body, bits(body), *p) - p->zero(body, f32)) * p->scale(body, f32);
    })};
    if (call.numResults() == 2) // where gradients pass
      results.push_back(call.kernels.map(shape, call.resultType(1), [&](BodyBuilder &body) {
        Element all = bits(body);
        return clamp(body, all, *p) == all;
      }));
    return call.set(results);
  };
}

/// x[m, k] · weight[n, k], scaled by scales[n].
static LogicalResult lowerInt8Product(Call &call) {
  Value x = call.tensor(0), weight = call.tensor(1), scales = call.tensor(2);
  Type type = elementType(x);
  if (!isFloat(type) || elementType(scales) != type || !elementType(weight).isInteger(8))
    return call.refuse("these dtypes");
  Exprs xs = shapeOf(x), ws = shapeOf(weight);
  if (xs.size() != 2 || ws.size() != 2 || rankOf(scales) != 1 ||
      !call.fits({xs[1], ws[0]}, {ws[1], shapeOf(scales)[0]}, "shapes that have no product"))
    return call.refuse("shapes that have no product");
  Contraction c;
  c.m = {xs[0]};
  c.n = {ws[0]};
  c.k = {xs[1]};
  auto lhs = [&](BodyBuilder &body) { return body.read(x, Exprs{body.dim(0), body.dim(2)}); };
  auto rhs = [&](BodyBuilder &body) {
    return convert(body.read(weight, Exprs{body.dim(1), body.dim(2)}), type);
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return sum * convert(body.read(scales, Exprs{body.dim(1)}), sum.type());
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, call.resultType()));
}

/// A scale for each index of `dim`, or one for all.
static std::optional<Exprs> scaleIndex(Call &call, Value scale, int64_t dim, Expr size) {
  Exprs shape = shapeOf(scale), index(shape.size(), Expr(0));
  if (sym::product(shape).isConstant(1))
    return index;
  if (shape.size() != 2 || !call.kernels.isSame(shape[dim], size) || !shape[1 - dim].isConstant(1))
    return std::nullopt;
  index[dim] = Expr::dim(dim);
  return index;
}

/// self[m, k] · mat2[k, n] of 8-bit floats, scaled by row and column. On CPUs ATen does not scale
/// the result again.
static LogicalResult lowerScaledProduct(Call &call) {
  Value self = call.tensor(0), other = call.tensor(1), bias = call.args.optTensor("bias");
  Value scales[] = {call.tensor("scale_a"), call.tensor("scale_b")};
  Type result = call.resultType(), f32 = Float32Type::get(result.getContext());
  if (rankOf(self) != 2 || rankOf(other) != 2 || (bias && rankOf(bias) != 1))
    return call.refuse("operands that are no matrices");
  Expr rows = shapeOf(self)[0], sums = shapeOf(self)[1], columns = shapeOf(other)[1];
  std::optional<Exprs> rowScale = scaleIndex(call, scales[0], 0, rows);
  std::optional<Exprs> columnScale = scaleIndex(call, scales[1], 1, columns);
  if (!isFloat(elementType(self)) || !isFloat(elementType(other)) || !isFloat(result) ||
      elementType(scales[0]) != f32 || elementType(scales[1]) != f32 || !rowScale || !columnScale)
    return call.refuse("these dtypes, or scales of blocks");
  if (!call.fits(shapeOf(other)[0], sums, "shapes that have no product") ||
      (bias && !call.fits(shapeOf(bias)[0], columns, "a bias of another size")))
    return call.refuse("shapes that have no product");
  Contraction c;
  c.m = {rows};
  c.n = {columns};
  c.k = {sums};
  auto lhs = [&](BodyBuilder &body) {
    return convert(body.read(self, Exprs{body.dim(0), body.dim(2)}), f32);
  };
  auto rhs = [&](BodyBuilder &body) {
    return convert(body.read(other, Exprs{body.dim(2), body.dim(1)}), f32);
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    sum = sum * (body.read(scales[0], *rowScale) * body.read(scales[1], *columnScale));
    if (bias)
      sum = sum + convert(body.read(bias, Exprs{body.dim(1)}), f32);
    return convert(sum, result);
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.contract(c, result));
}

void lowering::registerQuantize(LoweringTable &table) {
  using enum Granularity;
  table.add("quantized_decomposed.quantize_per_tensor.default", quantize(Number));
  table.add({"quantized_decomposed.quantize_per_tensor.tensor",
             "quantized_decomposed.quantize_per_tensor.tensor2"},
            quantize(Tensor));
  table.add("quantized_decomposed.dequantize_per_tensor.default", dequantize(Number));
  table.add({"quantized_decomposed.dequantize_per_tensor.tensor",
             "quantized_decomposed.dequantize_per_tensor.tensor2"},
            dequantize(Tensor));
  table.add({"aten.fake_quantize_per_tensor_affine.default",
             "aten.fake_quantize_per_tensor_affine_cachemask.default"},
            fakeQuantize(Number));
  table.add("aten.fake_quantize_per_tensor_affine.tensor_qparams", fakeQuantize(Tensor));
  table.add({"aten.fake_quantize_per_channel_affine.default",
             "aten.fake_quantize_per_channel_affine_cachemask.default"},
            fakeQuantize(Channel));
  table.add("aten._weight_int8pack_mm.default", lowerInt8Product);
  table.add("aten._scaled_mm.default", lowerScaledProduct);
}
