// Interpolation along the spatial dims, and rearrangements between channels and space.
#include "Nn/Upsample.h"
#include "Core/NonEmpty.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

SmallVector<std::optional<double>> lowering::scaleFactors(Call &call, size_t spatial) {
  SmallVector<std::optional<double>> factors(spatial);
  if (call.args.has("scale_factors")) {
    if (!call.args.isNone("scale_factors"))
      for (auto [factor, value] : llvm::zip(factors, call.args.numberList("scale_factors")))
        factor = value;
  } else {
    const char *names[] = {"scales_d", "scales_h", "scales_w"};
    for (size_t i = 0; i < spatial; ++i) {
      const char *name = spatial == 1 ? "scales" : names[3 - spatial + i];
      if (call.args.has(name))
        factors[i] = call.args.optNumber(name);
    }
  }
  return factors;
}

std::optional<SmallVector<ResizedAxis>> lowering::axesBetween(Call &call, size_t spatial,
                                                              ArrayRef<Expr> in, ArrayRef<Expr> out,
                                                              bool alignCorners) {
  if (in.size() != spatial + 2 || out.size() != in.size() ||
      !call.fits(in.take_front(2), out.take_front(2), "other images or channels")) {
    call.kernels.fail("this rank");
    return std::nullopt;
  }
  SmallVector<std::optional<double>> factors = scaleFactors(call, spatial);
  SmallVector<ResizedAxis> result;
  for (size_t i = 0; i < spatial; ++i) {
    ResizedAxis axis = {in[2 + i], out[2 + i], std::nullopt, alignCorners};
    for (Expr size : {axis.in, axis.out})
      call.require(size - 1, "an image without elements cannot be resized");
    std::optional<int64_t> input = axis.in.constant(), output = axis.out.constant();
    if (!alignCorners && factors[i] && *factors[i] > 0) {
      axis.scale = 1 / *factors[i];
    } else if (input && output) {
      auto from = static_cast<double>(*input), to = static_cast<double>(*output);
      axis.scale = !alignCorners ? from / to : to > 1 ? (from - 1) / (to - 1) : 0;
    }
    result.push_back(axis);
  }
  return call.kernels.failure ? std::nullopt : std::optional(result);
}

/// Those between argument 0 and the result.
static std::optional<SmallVector<ResizedAxis>> axes(Call &call, size_t spatial, bool alignCorners) {
  requireElements(call, call.tensor(0), 1, "an image without channels cannot be resized");
  return axesBetween(call, spatial, shapeOf(call.tensor(0)), call.resultShape(), alignCorners);
}

/// `x` times the input distance of neighbouring outputs.
static Element scaled(BodyBuilder &body, Element x, const ResizedAxis &axis) {
  if (axis.scale)
    return x * *axis.scale;
  auto number = [&](Expr size) { return convert(body.index(size), x.type()); };
  if (!axis.align)
    return x * (number(axis.in) / number(axis.out));
  Element steps = number(axis.out - 1);
  Element scale = number(axis.in - 1) / maximum(steps, steps.constant(1));
  return x * select(steps < steps.constant(1), steps.constant(0), scale);
}

/// Positions are computed in the opmath type, as ATen does.
static Element outputPosition(BodyBuilder &body, unsigned dim, Type type) {
  return convert(body.index(body.dim(dim)), type);
}

static Element toIndex(Element x) { return convert(x, x.b().getI64Type()); }

static Element clampIndex(BodyBuilder &body, Element index, Expr size) {
  return minimum(maximum(index, index.constant(0)), body.index(size - 1));
}

//===-- Nearest -------------------------------------------------------------------------------===//

/// Whether floor(i * scale), in single precision as ATen computes it, is i * in / out for every
/// output i, so that the index is an expression.
static bool isQuotient(Call &call, const ResizedAxis &axis) {
  constexpr int64_t most = 1 << 20;
  std::optional<int64_t> in = axis.in.constant(), out = axis.out.constant();
  if (in && out) {
    auto scale = static_cast<float>(*axis.scale);
    bool same = *out <= most;
    for (int64_t i = 0; same && i < *out; ++i) {
      auto index = static_cast<int64_t>(std::floor(static_cast<float>(i) * scale));
      same = std::min(index, *in - 1) == i * *in / *out;
    }
    return same;
  }
  // Multiples by a power of two are exact, as long as the outputs' numbers are.
  for (int64_t factor = 1; factor <= 64; factor *= 2)
    if (call.kernels.isSame(axis.out, axis.in * factor) &&
        (!axis.scale || *axis.scale * double(factor) == 1)) {
      call.require(Expr(1 << 24) - axis.out, "an axis this long cannot be resized");
      return true;
    }
  return false;
}

/// floor(out * scale), or floor((out + 0.5) * scale) for the exact form.
static Element nearestPosition(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                               bool exact) {
  Element position = outputPosition(body, dim, body.b().getF32Type());
  if (exact)
    position = position + 0.5;
  Element at = toIndex(floor(scaled(body, position, axis)));
  return clampIndex(body, at, axis.in);
}

/// The position in ATen's gradients and small images: an axis that keeps or doubles its size is
/// copied or doubled, whatever factor is given.
static Element nearestBySize(BodyBuilder &body, const ResizedAxis &axis, unsigned dim) {
  Element in = body.index(axis.in), out = body.index(axis.out);
  Element position = nearestPosition(body, axis, dim, /*exact=*/false);
  position = select(out == in + in, body.index(body.dim(dim).floorDiv(2)), position);
  return select(out == in, body.index(body.dim(dim)), position);
}

/// The way in which ATen's 2-d kernels find positions, which depends on the size of the output.
static Element nearestPosition2d(BodyBuilder &body, ArrayRef<ResizedAxis> axes, size_t i) {
  Element sides = body.index(axes[0].out + axes[1].out);
  return select(sides <= sides.constant(128), nearestBySize(body, axes[i], 2 + i),
                nearestPosition(body, axes[i], 2 + i, /*exact=*/false));
}

SmallVector<Tap> lowering::nearestTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                       Type type) {
  return {{nearestBySize(body, axis, dim), body.constant(type, 1)}};
}

SmallVector<Tap> lowering::nearestExactTaps(BodyBuilder &body, const ResizedAxis &axis,
                                            unsigned dim, Type type) {
  return {{nearestPosition(body, axis, dim, /*exact=*/true), body.constant(type, 1)}};
}

static LogicalResult nearest(Call &call, size_t spatial, bool exact) {
  Value x = call.tensor(0);
  auto all = axes(call, spatial, false);
  if (!all)
    return failure();
  SmallVector<bool> isExpression;
  for (const ResizedAxis &axis : *all)
    isExpression.push_back(!exact && isQuotient(call, axis));
  return call.set(call.kernels.map(call.resultShape(), elementType(x), [&](BodyBuilder &body) {
    Indices index = indicesOf(body.dims(0, 2));
    for (auto [i, axis] : llvm::enumerate(*all)) {
      if (isExpression[i])
        index.push_back((body.dim(2 + i) * axis.in).floorDiv(axis.out));
      else
        index.push_back(spatial == 2 && !exact ? nearestPosition2d(body, *all, i)
                                               : nearestPosition(body, axis, 2 + i, exact));
    }
    return body.read(x, index);
  }));
}

//===-- Linear and cubic ----------------------------------------------------------------------===//

/// The place of an output in the input.
static Element sourcePosition(BodyBuilder &body, const ResizedAxis &axis, unsigned dim, Type type) {
  Element out = outputPosition(body, dim, type);
  return axis.align ? scaled(body, out, axis) : scaled(body, out + 0.5, axis) - 0.5;
}

/// The two neighbours of an output position. An axis that keeps its size is copied, as ATen does,
/// whatever factor is given.
SmallVector<Tap> lowering::linearTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                      Type type) {
  Element here = body.index(body.dim(dim));
  if (axis.in == axis.out)
    return {{here, body.constant(type, 1)}, {here, body.constant(type, 0)}};
  Element source = sourcePosition(body, axis, dim, type);
  source = maximum(source, source.constant(0));
  Element low = minimum(toIndex(source), body.index(axis.in - 1));
  Element high = minimum(low + low.constant(1), body.index(axis.in - 1));
  Element far =
      minimum(maximum(source - convert(low, type), source.constant(0)), source.constant(1));
  if (!axis.in.constant() || !axis.out.constant()) {
    Element isCopied = body.index(axis.in) == body.index(axis.out);
    low = select(isCopied, here, low);
    high = select(isCopied, here, high);
    far = select(isCopied, far.constant(0), far);
  }
  return {{low, 1.0 - far}, {high, far}};
}

/// The four neighbours, weighted by Keys' kernel with a = -0.75.
SmallVector<Tap> lowering::cubicTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                     Type type) {
  constexpr double a = -0.75;
  Element source = sourcePosition(body, axis, dim, type);
  Element base = floor(source), t = source - base;
  auto near = [&](Element x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  auto far = [&](Element x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  Element weights[] = {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
  SmallVector<Tap> taps;
  Element first = toIndex(base);
  for (int i = 0; i < 4; ++i)
    taps.push_back({clampIndex(body, first + first.constant(i - 1), axis.in), weights[i]});
  return taps;
}

/// The weighted sum over all combinations of the axes' taps, innermost axis first.
static Element interpolate(BodyBuilder &body, Value x, ArrayRef<SmallVector<Tap>> taps,
                           const Indices &index, Type type) {
  if (taps.empty())
    return convert(body.read(x, index), type);
  Element sum;
  for (const Tap &tap : taps.front()) {
    Indices next = index;
    next.push_back(tap.position);
    Element part = interpolate(body, x, taps.drop_front(), next, type) * tap.weight;
    sum = sum ? sum + part : part;
  }
  return sum;
}

static LogicalResult weighted(Call &call, size_t spatial, Taps tapsOf) {
  Value x = call.tensor(0);
  if (spatial == 2 && isImageOfBytes(call))
    return resizeBytes(call, tapsOf == cubicTaps, /*antialias=*/false);
  if (!isFloat(elementType(x)))
    return call.refuse("this dtype");
  auto all = axes(call, spatial, call.args.boolean("align_corners"));
  if (!all)
    return failure();
  Type type = elementType(x), wide = opmath(type);
  return call.set(call.kernels.map(call.resultShape(), type, [&](BodyBuilder &body) {
    SmallVector<SmallVector<Tap>> taps;
    for (auto [i, axis] : llvm::enumerate(*all))
      taps.push_back(tapsOf(body, axis, 2 + i, wide));
    return interpolate(body, x, taps, indicesOf(body.dims(0, 2)), wide);
  }));
}

//===-- Channels to space ---------------------------------------------------------------------===//

/// […, C·r², H, W] as […, C, H·r, W·r].
static LogicalResult lowerPixelShuffle(Call &call) {
  Value self = call.tensor(0);
  int64_t r = call.args.integer(1);
  Exprs shape = shapeOf(self);
  size_t rank = shape.size(), c = rank - 3;
  if (rank < 3 || r <= 0)
    return call.refuse("needs [.., C, H, W] and a positive factor");
  Expr channels = call.kernels.known().simplify(shape[c].floorDiv(r * r));
  if (!call.fits(channels * r * r, shape[c], "channels that the factor does not divide"))
    return call.refuse("channels that the factor does not divide");
  shape[c] = channels;
  shape[c + 1] = shape[c + 1] * r;
  shape[c + 2] = shape[c + 2] * r;
  return call.set(call.kernels.view(self, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    index[c] = dims[c] * r * r + dims[c + 1].mod(r) * r + dims[c + 2].mod(r);
    index[c + 1] = dims[c + 1].floorDiv(r);
    index[c + 2] = dims[c + 2].floorDiv(r);
    return index;
  }));
}

/// […, C, H·r, W·r] as […, C·r², H, W].
static LogicalResult lowerPixelUnshuffle(Call &call) {
  Value self = call.tensor(0);
  int64_t r = call.args.integer(1);
  Exprs shape = shapeOf(self), sizes = shape;
  size_t rank = shape.size(), c = rank - 3;
  if (rank < 3 || r <= 0)
    return call.refuse("needs [.., C, H, W] and a positive factor");
  for (size_t i : {c + 1, c + 2}) {
    shape[i] = call.kernels.known().simplify(sizes[i].floorDiv(r));
    if (!call.fits(shape[i] * r, sizes[i], "sizes that the factor does not divide"))
      return call.refuse("sizes that the factor does not divide");
  }
  shape[c] = sizes[c] * r * r;
  return call.set(call.kernels.view(self, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    index[c] = dims[c].floorDiv(r * r);
    index[c + 1] = dims[c + 1] * r + dims[c].mod(r * r).floorDiv(r);
    index[c + 2] = dims[c + 2] * r + dims[c].mod(r);
    return index;
  }));
}

/// Channels as [groups, C / groups], transposed.
static LogicalResult lowerChannelShuffle(Call &call) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  Expr groups = call.args.symInt("groups");
  if (shape.size() < 3)
    return call.refuse("needs [N, C, ..]");
  call.require(groups - 1, "a number of groups that is not positive");
  Expr each = call.kernels.known().simplify(shape[1].floorDiv(groups));
  if (!call.fits(each * groups, shape[1], "channels that the groups do not divide"))
    return call.refuse("channels that the groups do not divide");
  return call.set(call.kernels.view(self, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    index[1] = dims[1].mod(groups) * each + dims[1].floorDiv(groups);
    return index;
  }));
}

void lowering::registerUpsample(LoweringTable &table) {
  for (size_t spatial : {1, 2, 3})
    for (StringRef overload : {"default", "vec"}) {
      std::string suffix = (Twine(spatial) + "d." + overload).str();
      table.add("aten.upsample_nearest" + suffix,
                [=](Call &call) { return nearest(call, spatial, false); });
      table.add("aten._upsample_nearest_exact" + suffix,
                [=](Call &call) { return nearest(call, spatial, true); });
      const char *linear[] = {"linear", "bilinear", "trilinear"};
      table.add(std::string("aten.upsample_") + linear[spatial - 1] + suffix,
                [=](Call &call) { return weighted(call, spatial, linearTaps); });
      if (spatial == 2)
        table.add("aten.upsample_bicubic" + suffix,
                  [=](Call &call) { return weighted(call, spatial, cubicTaps); });
    }
  table.add("aten.pixel_shuffle.default", lowerPixelShuffle);
  table.add("aten.pixel_unshuffle.default", lowerPixelUnshuffle);
  table.add("aten.channel_shuffle.default", lowerChannelShuffle);
}
