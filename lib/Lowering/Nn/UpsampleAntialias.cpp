// Interpolation that averages over all inputs an output covers, so that making an image smaller
// does not alias.
#include "Nn/Upsample.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// One spatial dim of the result. `scale` is the input distance of neighbouring outputs, that of
/// `from` over `to` where it depends on the run.
struct Axis {
  Expr in, out;
  std::optional<double> scale;
  Expr from, to;

  Element scaleOf(BodyBuilder &body, Type type) const;
};

/// How much an input at a distance from the middle of an output counts, where outputs are one
/// apart.
struct Filter {
  double radius;
  Element (*weight)(Element distance);
};

/// Inputs of each output along an axis: the first one, the one behind the last one, and `count`
/// weights.
struct Window {
  Value first, end, weights;
  Expr count;
};
} // namespace

static Element linearWeight(Element x) {
  x = abs(x);
  return select(x < x.constant(1), 1.0 - x, x.constant(0));
}

/// Keys' kernel with a = -0.5.
static Element cubicWeight(Element x) {
  constexpr double a = -0.5;
  x = abs(x);
  Element near = ((a + 2) * x - (a + 3)) * x * x + 1.0;
  Element far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return select(x < x.constant(1), near, select(x < x.constant(2), far, x.constant(0)));
}

Element Axis::scaleOf(BodyBuilder &body, Type type) const {
  if (scale)
    return body.constant(type, *scale);
  auto number = [&](Expr size) { return convert(body.index(size), type); };
  Element steps = number(to);
  return select(steps < steps.constant(1), steps.constant(0),
                number(from) / maximum(steps, steps.constant(1)));
}

static std::optional<SmallVector<Axis>> axes(Call &call) {
  Exprs in = shapeOf(call.tensor(0)), out = call.resultShape();
  if (in.size() != 4 || out.size() != 4 || !isFloat(elementType(call.tensor(0))) ||
      elementType(call.tensor(0)).getIntOrFloatBitWidth() < 32 ||
      !call.fits(ArrayRef(in).take_front(2), ArrayRef(out).take_front(2),
                 "other images or channels")) {
    call.kernels.fail("this dtype or rank");
    return std::nullopt;
  }
  call.require(in[1] - 1, "an image without channels cannot be resized");
  SmallVector<std::optional<double>> factors = scaleFactors(call, 2);
  bool alignCorners = call.args.boolean("align_corners");
  SmallVector<Axis> result;
  for (size_t i = 0; i < 2; ++i) {
    Axis axis = {in[2 + i], out[2 + i], std::nullopt, in[2 + i], out[2 + i]};
    for (Expr size : {axis.in, axis.out})
      call.require(size - 1, "an image without elements cannot be resized");
    if (alignCorners) { // the distance of the corners
      axis.from = axis.in - 1;
      axis.to = axis.out - 1;
    }
    std::optional<int64_t> from = axis.from.constant(), to = axis.to.constant();
    if (!alignCorners && factors[i] && *factors[i] > 0)
      axis.scale = 1 / *factors[i];
    else if (from && to)
      axis.scale = *to > 0 ? double(*from) / double(*to) : 0;
    if (axis.scale && !(*axis.scale < 1e6))
      call.kernels.fail("a scale this small");
    result.push_back(axis);
  }
  return call.kernels.failure ? std::nullopt : std::optional(result);
}

/// Positions and weights in `type`, as ATen computes them: a product with a half added to a number
/// is one of double precision, rounded before anything is added. Which inputs are within the radius
/// may depend on the last bit.
static Window window(Call &call, const Axis &axis, Filter filter, Type type) {
  Type i64 = IntegerType::get(type.getContext(), 64);
  // At least the number of inputs within the radius of an output, whose distance is at least one.
  Expr count;
  if (axis.scale) {
    // Rounding moves the ends of a window by less than a millionth of the axis.
    double support = filter.radius * std::max(*axis.scale, 1.0);
    if (auto length = axis.in.constant())
      count = static_cast<int64_t>(std::ceil(2 * support + 1e-6 * *length));
    else
      count = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  } else {
    Expr radius = static_cast<int64_t>(filter.radius);
    Expr widest = (axis.from * radius).ceilDiv(Expr::max(axis.to, 1));
    count = call.kernels.known().simplify(Expr::max(widest, radius) * 2 + 2);
  }
  auto distance = [&](BodyBuilder &body) {
    Element scale = axis.scaleOf(body, type);
    return maximum(scale, scale.constant(1));
  };
  Type f64 = Float64Type::get(type.getContext());
  auto center = [&](BodyBuilder &body) {
    Element scale = convert(axis.scaleOf(body, type), f64);
    Element middle = convert(body.index(body.dim(0)), f64) + 0.5, zero = middle.constant(-0.0);
    // A product by this op is rounded in each kernel that computes it: none merges it with a sum.
    Value product = math::FmaOp::create(body.b(), middle.value(), scale.value(), zero.value());
    return convert(middle.make(product), type);
  };
  auto plusHalf = [&](Element x) { // truncated, not rounded down
    return convert(convert(x, f64) + 0.5, i64);
  };
  // A dim that keeps its size keeps its elements, for which a scale says nothing.
  auto isKept = [&](BodyBuilder &body) { return body.index(axis.in) == body.index(axis.out); };
  auto firstOf = [&](BodyBuilder &body) {
    Element first = plusHalf(center(body) - distance(body) * filter.radius);
    return select(isKept(body), body.index(body.dim(0)), maximum(first, first.constant(0)));
  };
  auto endOf = [&](BodyBuilder &body) {
    Element end =
        minimum(plusHalf(center(body) + distance(body) * filter.radius), body.index(axis.in));
    return select(isKept(body), body.index(body.dim(0) + 1), end);
  };
  Value first = call.kernels.map({axis.out}, i64, firstOf);
  Value end = call.kernels.map({axis.out}, i64, endOf);
  Value weights = call.kernels.map({axis.out, count}, type, [&](BodyBuilder &body) {
    Element begin = firstOf(body), end = endOf(body), middle = center(body);
    Element inverse = 1.0 / distance(body), kept = isKept(body);
    auto weight = [&](Element j) {
      Element at = begin + j;
      Element value = filter.weight((convert(at, type) - middle + 0.5) * inverse);
      value = select(kept, value.constant(1), value);
      return select(at < end, value, value.constant(0));
    };
    Element total = body.sum({count}, type,
                             [&](BodyBuilder &inner) { return weight(inner.index(inner.dim(2))); });
    Element mine = weight(body.index(body.dim(1)));
    return select(total == total.constant(0), mine, mine / total);
  });
  return {first, end, weights, count};
}

/// Dim `dim` of `x` becomes that of the axis.
static Value resize(Call &call, Value x, size_t dim, const Axis &axis, Filter filter) {
  Type type = elementType(x);
  if (call.kernels.isSame(axis.in, axis.out))
    return x;
  Window taps = window(call, axis, filter, type);
  Exprs shape = shapeOf(x);
  shape[dim] = axis.out;
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs out = body.ownDims();
    Element first = body.read(taps.first, Exprs{out[dim]});
    Element end = body.read(taps.end, Exprs{out[dim]});
    return body.sum({taps.count}, type, [&](BodyBuilder &inner) {
      Expr j = inner.dim(inner.numDims() - 1);
      Element weight = inner.read(taps.weights, Exprs{out[dim], j});
      Indices at = indicesOf(out);
      // Elements without a weight may be outside, and count nothing even where they are infinite.
      Element place = first + inner.index(j);
      at[dim] = minimum(place, inner.index(axis.in - 1));
      Element product = inner.read(x, at) * weight;
      return select(place < end, product, product.constant(0));
    });
  });
}

/// The width first, then the height.
static LogicalResult lowerAntialias(Call &call, Filter filter) {
  if (isImageOfBytes(call))
    return resizeBytes(call, filter.radius == 2, /*antialias=*/true);
  auto all = axes(call);
  if (!all)
    return failure();
  Value x = call.tensor(0);
  for (size_t i : {1, 0})
    x = resize(call, x, 2 + i, (*all)[i], filter);
  return call.set(x);
}

void lowering::registerUpsampleAntialias(LoweringTable &table) {
  for (StringRef overload : {"default", "vec"}) {
    table.add(("aten._upsample_bilinear2d_aa." + overload).str(),
              [](Call &call) { return lowerAntialias(call, {1, linearWeight}); });
    table.add(("aten._upsample_bicubic2d_aa." + overload).str(),
              [](Call &call) { return lowerAntialias(call, {2, cubicWeight}); });
  }
}
