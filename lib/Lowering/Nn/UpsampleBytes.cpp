// Interpolation of images of bytes. As in ATen, weights are 16-bit integers with as many fractional
// bits as the largest one leaves, and each of the two passes, along the width and then along the
// height, rounds to bytes. Where sizes are known, weights are tables made here: how many bits they
// have depends on all of them. Others are computed when the model runs (UpsampleBytesAtRun.cpp).
#include "Nn/Upsample.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// One spatial dim; `scale` is the input distance of neighbouring outputs.
struct ByteAxis {
  int64_t in, out;
  double scale;
  bool align;
};

/// For each output the first input and `count` weights, which count 2^-bits.
struct Table {
  int64_t count;
  int bits;
  SmallVector<int32_t> first, weights;
};

/// Between neighbours: a triangle, or Keys' kernel, whose `a` is -0.5 with antialiasing.
struct ByteFilter {
  bool isCubic, antialias;

  int64_t taps() const { return isCubic ? 4 : 2; }
  double operator()(double x) const {
    x = std::abs(x);
    if (!isCubic)
      return x < 1 ? 1 - x : 0;
    double a = antialias ? -0.5 : -0.75;
    if (x < 1)
      return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }
};
} // namespace

/// Inputs within the filter's radius, which grows with the scale; they add up to one.
static int64_t coveredWeights(const ByteAxis &axis, ByteFilter filter, int64_t i, double support,
                              MutableArrayRef<double> weights) {
  double center = axis.scale * (static_cast<double>(i) + 0.5), total = 0;
  double inverse = axis.scale >= 1 ? 1 / axis.scale : 1;
  double begin = center - support + 0.5, behind = center + support + 0.5; // towards zero, as ATen
  int64_t first = std::max(static_cast<int64_t>(begin), int64_t(0));
  int64_t end = std::min(static_cast<int64_t>(behind), axis.in);
  int64_t size = std::clamp(end - first, int64_t(0), static_cast<int64_t>(weights.size()));
  for (int64_t j = 0; j < size; ++j) {
    weights[j] = filter((static_cast<double>(j + first) - center + 0.5) * inverse);
    total += weights[j];
  }
  if (total != 0)
    for (double &weight : weights)
      weight /= total;
  return first;
}

/// The neighbours of a position; what lies beside the image counts for its edge.
static int64_t neighbourWeights(const ByteAxis &axis, ByteFilter filter, int64_t i,
                                MutableArrayRef<double> weights) {
  auto number = static_cast<double>(i);
  double source = axis.align ? axis.scale * number : axis.scale * (number + 0.5) - 0.5;
  if (!filter.isCubic)
    source = std::max(source, 0.0);
  auto floor = static_cast<int64_t>(std::floor(static_cast<float>(source)));
  int64_t index = std::min(floor, axis.in - 1), half = filter.taps() / 2, begin = index - half + 1;
  double part = std::clamp(source - static_cast<double>(index), 0.0, 1.0);
  int64_t first = std::max(begin, int64_t(0));
  int64_t size = std::min(index + half + 1, axis.in) - first, at = 0;
  for (int64_t j = 0; j < filter.taps(); ++j, ++at) {
    if (begin + j <= 0)
      at = 0;
    else if (begin + j >= axis.in - 1)
      at = size - 1;
    weights[at] += filter(static_cast<double>(j + 1 - half) - part);
  }
  return first;
}

/// Nullopt for a table that would be too large to carry.
static std::optional<Table> makeTable(const ByteAxis &axis, ByteFilter filter) {
  Table table;
  double support = static_cast<double>(filter.taps()) / 2 * std::max(axis.scale, 1.0);
  table.count = filter.taps();
  constexpr int64_t most = 1 << 22;
  if (!(support < most) || axis.out > most)
    return std::nullopt;
  if (filter.antialias)
    table.count = static_cast<int64_t>(std::ceil(static_cast<float>(support))) * 2 + 1;
  if (table.count * axis.out > most)
    return std::nullopt;
  SmallVector<double> all(table.count * axis.out, 0.0);
  double largest = 0;
  for (int64_t i = 0; i < axis.out; ++i) {
    auto weights = MutableArrayRef(all).slice(i * table.count, table.count);
    table.first.push_back(
        static_cast<int32_t>(filter.antialias ? coveredWeights(axis, filter, i, support, weights)
                                              : neighbourWeights(axis, filter, i, weights)));
    largest = std::max(largest, *llvm::max_element(weights));
  }
  table.bits = 0;
  while (table.bits < 22 && 0.5 + largest * (1 << (table.bits + 1)) < 1 << 15)
    ++table.bits;
  for (double weight : all) {
    double scaled = weight * (1 << table.bits);
    table.weights.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
  }
  return table;
}

/// Nullopt where a size is not a constant.
static std::optional<ByteAxis> getAxis(Call &call, size_t i, std::optional<double> factor) {
  auto from = shapeOf(call.tensor(0))[2 + i].constant(), to = call.resultShape()[2 + i].constant();
  if (!from || !to)
    return std::nullopt;
  bool align = call.args.boolean("align_corners");
  if (*from <= 0 || *to <= 0 || *from > INT32_MAX) {
    call.kernels.fail("an image of bytes without elements");
    return std::nullopt;
  }
  double scale = static_cast<double>(*from) / static_cast<double>(*to);
  if (align)
    scale = *to > 1 ? static_cast<double>(*from - 1) / static_cast<double>(*to - 1) : 0;
  else if (factor && *factor > 0)
    scale = 1 / *factor;
  // ATen then interpolates or not, as the number of channels is.
  if (*from == *to && scale != 1 && *to > 1)
    call.kernels.fail("a factor that leaves a size of an image of bytes as it is");
  return ByteAxis{*from, *to, scale, align};
}

/// The table as constants; nullopt for one that is too large.
static std::optional<ByteWindow> tableWindow(KernelBuilder &kernels, const ByteAxis &axis,
                                             ByteFilter filter) {
  std::optional<Table> table = makeTable(axis, filter);
  if (!table)
    return std::nullopt;
  Type i32 = kernels.b().getI32Type();
  auto constant = [&](ArrayRef<int64_t> shape, ArrayRef<int32_t> values) -> Value {
    auto type = RankedTensorType::get(shape, i32);
    return kernel::ConstantOp::create(kernels.b(), type, DenseElementsAttr::get(type, values),
                                      StringAttr());
  };
  return ByteWindow{constant({axis.out}, table->first),
                    constant({axis.out, table->count}, table->weights), constant({}, {table->bits}),
                    Expr(table->count)};
}

/// Dim `dim` of `x` becomes one of `out`.
static Value resize(KernelBuilder &kernels, Value x, size_t dim, Expr out,
                    const ByteWindow &window) {
  Type i32 = kernels.b().getI32Type();
  Exprs shape = shapeOf(x);
  Expr in = shape[dim];
  shape[dim] = out;
  return kernels.map(shape, elementType(x), [&](BodyBuilder &body) {
    Exprs out = body.ownDims();
    Element first = body.read(window.first, Exprs{out[dim]});
    Element sum = body.sum({window.count}, i32, [&](BodyBuilder &inner) {
      Expr j = inner.dim(inner.numDims() - 1);
      Indices at = indicesOf(out);
      // Elements without a weight may be outside.
      at[dim] = minimum(first + convert(inner.index(j), i32), convert(inner.index(in - 1), i32));
      return convert(inner.read(x, at), i32) * inner.read(window.weights, Exprs{out[dim], j});
    });
    Element bits = body.read(window.bits, Exprs());
    Element half = shiftRight(shiftLeft(bits.constant(1), bits), bits.constant(1));
    sum = shiftRight(sum + half, bits);
    return minimum(maximum(sum, sum.constant(0)), sum.constant(255));
  });
}

bool lowering::isImageOfBytes(Call &call) {
  Value x = call.tensor(0);
  return rankOf(x) == 4 && elementType(x).isUnsignedInteger(8) && call.resultShape().size() == 4;
}

LogicalResult lowering::resizeBytes(Call &call, bool isCubic, bool antialias) {
  Value x = call.tensor(0);
  SmallVector<std::optional<double>> factors = scaleFactors(call, 2);
  for (size_t i : {1, 0}) {
    std::optional<ByteAxis> axis = getAxis(call, i, factors[i]);
    std::optional<ByteWindow> window;
    if (axis && axis->in == axis->out)
      continue;
    if (axis)
      window = tableWindow(call.kernels, *axis, {isCubic, antialias});
    else if (!call.kernels.failure)
      window = byteWindowAtRun(call, i, factors[i], isCubic, antialias);
    if (call.kernels.failure)
      return failure();
    if (!window)
      return call.refuse("an image of bytes this large");
    x = resize(call.kernels, x, 2 + i, call.resultShape()[2 + i], *window);
  }
  return call.set(x);
}
