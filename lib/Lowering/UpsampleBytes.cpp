// Interpolation of images of bytes. As in ATen, weights are 16-bit integers with as many fractional
// bits as the largest one leaves, and each of the two passes, along the width and then along the
// height, rounds to bytes. Weights are tables made here: how many bits they have depends on all of
// them, so sizes have to be known.
#include "Upsample.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// One spatial dim; `scale` is the input distance of neighbouring outputs.
struct Axis {
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
struct Filter {
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
static int64_t coveredWeights(const Axis &axis, Filter filter, int64_t i, double support,
                              MutableArrayRef<double> weights) {
  double center = axis.scale * (static_cast<double>(i) + 0.5), total = 0;
  double inverse = axis.scale >= 1 ? 1 / axis.scale : 1;
  int64_t first = std::max(static_cast<int64_t>(center - support + 0.5), int64_t(0));
  int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), axis.in);
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
static int64_t neighbourWeights(const Axis &axis, Filter filter, int64_t i,
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
static std::optional<Table> makeTable(const Axis &axis, Filter filter) {
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

static std::optional<SmallVector<Axis>> axes(Call &call) {
  Exprs in = shapeOf(call.tensor(0)), out = call.resultShape();
  bool align = call.args.boolean("align_corners");
  SmallVector<std::optional<double>> factors = scaleFactors(call, 2);
  SmallVector<Axis> result;
  for (size_t i = 0; i < 2; ++i) {
    auto from = in[2 + i].constant(), to = out[2 + i].constant();
    if (!from || !to || *from <= 0 || *to <= 0 || *from > INT32_MAX) {
      call.kernels.fail("an image of bytes whose size is not a positive constant");
      return std::nullopt;
    }
    double scale = static_cast<double>(*from) / static_cast<double>(*to);
    if (align)
      scale = *to > 1 ? static_cast<double>(*from - 1) / static_cast<double>(*to - 1) : 0;
    else if (factors[i] && *factors[i] > 0)
      scale = 1 / *factors[i];
    // ATen then interpolates or not, as the number of channels is.
    if (*from == *to && scale != 1 && *to > 1) {
      call.kernels.fail("a factor that leaves a size of an image of bytes as it is");
      return std::nullopt;
    }
    result.push_back({*from, *to, scale, align});
  }
  return result;
}

/// Dim `dim` of `x` becomes that of the axis.
static Value resize(KernelBuilder &kernels, Value x, size_t dim, const Axis &axis,
                    const Table &table) {
  Type i32 = kernels.b().getI32Type();
  auto constant = [&](ArrayRef<int64_t> shape, ArrayRef<int32_t> values) -> Value {
    auto type = RankedTensorType::get(shape, i32);
    return kernel::ConstantOp::create(kernels.b(), type, DenseElementsAttr::get(type, values),
                                      StringAttr());
  };
  Value firsts = constant({axis.out}, table.first);
  Value weights = constant({axis.out, table.count}, table.weights);
  Exprs shape = shapeOf(x);
  shape[dim] = axis.out;
  return kernels.map(shape, elementType(x), [&](BodyBuilder &body) {
    Exprs out = body.ownDims();
    Element first = body.read(firsts, Exprs{out[dim]});
    Element sum = body.sum({Expr(table.count)}, i32, [&](BodyBuilder &inner) {
      Expr j = inner.dim(inner.numDims() - 1);
      Indices at = indicesOf(out);
      // What has no weight may be outside.
      at[dim] = minimum(first + convert(inner.index(j), i32), inner.constant(i32, axis.in - 1));
      return convert(inner.read(x, at), i32) * inner.read(weights, Exprs{out[dim], j});
    });
    if (table.bits > 0)
      sum = shiftRight(sum + sum.constant(int64_t(1) << (table.bits - 1)),
                       sum.constant(int64_t(table.bits)));
    return minimum(maximum(sum, sum.constant(0)), sum.constant(255));
  });
}

bool lowering::isImageOfBytes(Call &call) {
  Value x = call.tensor(0);
  return rankOf(x) == 4 && elementType(x).isUnsignedInteger(8) && call.resultShape().size() == 4;
}

LogicalResult lowering::resizeBytes(Call &call, bool isCubic, bool antialias) {
  auto all = axes(call);
  if (!all)
    return failure();
  Value x = call.tensor(0);
  for (size_t i : {1, 0}) {
    const Axis &axis = (*all)[i];
    if (axis.in == axis.out)
      continue;
    std::optional<Table> table = makeTable(axis, {isCubic, antialias});
    if (!table)
      return call.refuse("an image of bytes this large");
    x = resize(call.kernels, x, 2 + i, axis, *table);
  }
  return call.set(x);
}
