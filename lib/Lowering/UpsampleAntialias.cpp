// Interpolation that averages over all inputs an output covers, so that making an image smaller
// does not alias.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// One spatial dim of the result. `scale` is the input distance of neighbouring outputs.
struct Axis {
  int64_t in, out;
  double scale;
};

/// How much an input at a distance from the middle of an output counts, where outputs are one
/// apart.
struct Filter {
  double radius;
  Element (*weight)(Element distance);
};

/// Inputs of each output along an axis: the first one, and `count` weights, zero past the last one.
struct Window {
  Value first, weights;
  int64_t count;
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

/// A factor that is given, with align_corners the distance of the corners, else that of the sizes.
static double scaleOf(double in, double out, std::optional<double> factor, bool alignCorners) {
  if (alignCorners)
    return out > 1 ? (in - 1) / (out - 1) : 0;
  return factor && *factor > 0 ? 1 / *factor : in / out;
}

static std::optional<SmallVector<Axis>> axes(Call &call) {
  Exprs in = shapeOf(call.tensor(0)), out = call.resultShape();
  if (in.size() != 4 || out.size() != 4 || !isFloat(elementType(call.tensor(0))) ||
      elementType(call.tensor(0)).getIntOrFloatBitWidth() < 32 ||
      !call.kernels.isSame(ArrayRef(in).take_front(2), ArrayRef(out).take_front(2))) {
    call.kernels.fail("this dtype or rank");
    return std::nullopt;
  }
  std::optional<double> factors[2];
  if (!call.args.has("scale_factors")) {
    factors[0] = call.args.optNumber("scales_h");
    factors[1] = call.args.optNumber("scales_w");
  } else if (!call.args.isNone("scale_factors")) {
    for (auto [factor, value] : llvm::zip(factors, call.args.numberList("scale_factors")))
      factor = value;
  }
  bool alignCorners = call.args.boolean("align_corners");
  SmallVector<Axis> result;
  for (size_t i = 0; i < 2; ++i) {
    auto from = in[2 + i].constant(), to = out[2 + i].constant();
    if (!from || !to || *from <= 0 || *to <= 0) {
      call.kernels.fail("a size that is not a positive constant");
      return std::nullopt;
    }
    double scale = scaleOf(*from, *to, factors[i], alignCorners);
    if (!(scale < 1e6)) {
      call.kernels.fail("a scale this small");
      return std::nullopt;
    }
    result.push_back({*from, *to, scale});
  }
  return result;
}

/// Positions and weights in `type`, as ATen computes them.
static Window window(Call &call, const Axis &axis, Filter filter, Type type) {
  Type i64 = IntegerType::get(type.getContext(), 64);
  double support = filter.radius * std::max(axis.scale, 1.0);
  double inverse = axis.scale >= 1 ? 1 / axis.scale : 1;
  auto count = static_cast<int64_t>(std::ceil(static_cast<float>(support))) * 2 + 1;
  auto center = [&](BodyBuilder &body) {
    return (convert(body.index(body.dim(0)), type) + 0.5) * axis.scale;
  };
  auto firstOf = [&](BodyBuilder &body) { // truncated, not rounded down
    Element first = convert(center(body) - support + 0.5, i64);
    return maximum(first, first.constant(0));
  };
  Value first = call.kernels.map({axis.out}, i64, firstOf);
  Value weights = call.kernels.map({axis.out, count}, type, [&](BodyBuilder &body) {
    Element begin = firstOf(body), middle = center(body);
    Element end = minimum(convert(middle + support + 0.5, i64), begin.constant(axis.in));
    auto weight = [&](Element j) {
      Element at = begin + j;
      Element value = filter.weight((convert(at, type) - middle + 0.5) * inverse);
      return select(at < end, value, value.constant(0));
    };
    Element total = body.sum({count}, type,
                             [&](BodyBuilder &inner) { return weight(inner.index(inner.dim(2))); });
    Element mine = weight(body.index(body.dim(1)));
    return select(total == total.constant(0), mine, mine / total);
  });
  return {first, weights, count};
}

/// Dim `dim` of `x` becomes that of the axis.
static Value resize(Call &call, Value x, size_t dim, const Axis &axis, Filter filter) {
  Type type = elementType(x), i64 = IntegerType::get(type.getContext(), 64);
  Window taps = window(call, axis, filter, type);
  Exprs shape = shapeOf(x);
  shape[dim] = axis.out;
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs out = body.ownDims();
    Element first = body.read(taps.first, Exprs{out[dim]});
    return body.sum({taps.count}, type, [&](BodyBuilder &inner) {
      Expr j = inner.dim(inner.numDims() - 1);
      Element weight = inner.read(taps.weights, Exprs{out[dim], j});
      Indices at = indicesOf(out);
      // What has no weight may be outside.
      at[dim] = minimum(first + inner.index(j), inner.constant(i64, axis.in - 1));
      return inner.read(x, at) * weight;
    });
  });
}

/// The width first, then the height.
static LogicalResult lowerAntialias(Call &call, Filter filter) {
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
