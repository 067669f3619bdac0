// Reads of an image at places that a grid of normalised coordinates gives.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
enum Interpolation { Linear, Nearest, Cubic };
enum Padding { Zeros, Border, Reflection };

/// input [N, C, spatial…], grid [N, spatial…, number of spatial dims], whose last coordinate is
/// that of the first spatial dim.
class GridSampler {
public:
  GridSampler(Call &call, size_t spatial)
      : call(call), input(call.tensor("input")), grid(call.tensor("grid")), spatial(spatial),
        padding(Padding(call.args.integer("padding_mode"))),
        interpolation(Interpolation(call.args.integer("interpolation_mode"))),
        alignCorners(call.args.boolean("align_corners")) {}

  LogicalResult lower() {
    Type type = elementType(input);
    if (!isFloat(type) || elementType(grid) != type || rankOf(input) != int64_t(spatial) + 2 ||
        rankOf(grid) != int64_t(spatial) + 2 || padding < Zeros || padding > Reflection ||
        interpolation < Linear || interpolation > Cubic || (interpolation == Cubic && spatial != 2))
      return call.refuse("these dtypes, ranks or modes");
    wide = opmath(type);
    sizes = shapeOf(input);
    sizes.erase(sizes.begin(), sizes.begin() + 2);
    for (Expr size : sizes)
      call.require(size - 1, "samples of an image without elements");
    Exprs domain = {shapeOf(input)[0], shapeOf(input)[1]};
    for (size_t i = 0; i < spatial; ++i)
      domain.push_back(shapeOf(grid)[1 + i]);
    return call.set(call.kernels.map(domain, type, [&](BodyBuilder &body) {
      SmallVector<Element> at;
      for (size_t i = 0; i < spatial; ++i)
        at.push_back(position(body, i));
      switch (interpolation) {
      case Linear:
        return linear(body, at);
      case Nearest:
        for (Element &x : at)
          x = roundEven(x);
        return sample(body, at);
      case Cubic:
        return cubic(body, at);
      }
      llvm_unreachable("checked above");
    }));
  }

private:
  /// The coordinate along spatial dim `i`, in elements.
  Element position(BodyBuilder &body, size_t i) {
    Exprs index = {body.dim(0)};
    llvm::append_range(index, body.dims(2, 2 + spatial));
    index.push_back(int64_t(spatial - 1 - i));
    Element x = convert(body.read(grid, index), wide);
    Element size = convert(body.index(sizes[i]), wide);
    x = alignCorners ? (x + 1.0) / 2.0 * (size - 1.0) : ((x + 1.0) * size - 1.0) / 2.0;
    return interpolation == Cubic ? x : inBounds(body, x, i);
  }

  /// Clamped or reflected into the image, or left where it is.
  Element inBounds(BodyBuilder &body, Element x, size_t i) {
    Element zero = x.constant(0), size = convert(body.index(sizes[i]), wide);
    if (padding == Zeros)
      return x;
    if (padding == Reflection) {
      // Between the centres of the first and the last element, or between their outer edges.
      Element low = x.constant(alignCorners ? 0.0 : -0.5);
      Element span = alignCorners ? size - 1.0 : size;
      x = abs(x - low);
      Element extra = fmod(x, span), flips = floor(x / span);
      Element isEven = fmod(flips, x.constant(2.0)) == zero;
      x = select(isEven, extra + low, span - extra + low);
      x = select(span == zero, zero, x);
    }
    Element last = size - 1.0;
    x = select(x > zero, x, zero);
    return select(x < last, x, last);
  }

  /// The element at whole coordinates; zero outside.
  Element sample(BodyBuilder &body, ArrayRef<Element> at) {
    Type i64 = body.b().getI64Type();
    Indices index = indicesOf({body.dim(0), body.dim(1)});
    Element inside;
    for (auto [x, size] : llvm::zip_equal(at, sizes)) {
      Element whole = convert(x, i64), bound = body.index(size);
      Element test = (whole >= whole.constant(0)) & (whole < bound);
      inside = inside ? inside & test : test;
      index.push_back(whole);
    }
    return convert(body.read(input, index, inside, body.constant(elementType(input), 0)), wide);
  }

  Element linear(BodyBuilder &body, ArrayRef<Element> at) {
    Element sum;
    for (unsigned corner = 0; corner < 1u << spatial; ++corner) {
      SmallVector<Element> where;
      Element weight;
      for (auto [i, x] : llvm::enumerate(at)) {
        Element low = floor(x), rest = x - low;
        bool high = corner >> i & 1;
        where.push_back(high ? low + 1.0 : low);
        Element part = high ? rest : 1.0 - rest;
        weight = weight ? weight * part : part;
      }
      Element term = sample(body, where) * weight;
      sum = sum ? sum + term : term;
    }
    return sum;
  }

  /// Keys' cubic convolution, a = -0.75.
  static SmallVector<Element, 4> cubicWeights(Element t) {
    constexpr double a = -0.75;
    auto near = [](Element x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
    auto far = [](Element x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
  }

  Element cubic(BodyBuilder &body, ArrayRef<Element> at) {
    Element low[2] = {floor(at[0]), floor(at[1])};
    auto rows = cubicWeights(at[0] - low[0]), columns = cubicWeights(at[1] - low[1]);
    Element sum;
    for (int i = 0; i < 4; ++i) {
      Element row;
      for (int j = 0; j < 4; ++j) {
        Element y = inBounds(body, low[0] + double(i - 1), 0);
        Element x = inBounds(body, low[1] + double(j - 1), 1);
        Element term = sample(body, {y, x}) * columns[j];
        row = row ? row + term : term;
      }
      row = row * rows[i];
      sum = sum ? sum + row : row;
    }
    return sum;
  }

  Call &call;
  Value input, grid;
  size_t spatial;
  Padding padding;
  Interpolation interpolation;
  bool alignCorners;
  Type wide;
  Exprs sizes; // of the spatial dims
};
} // namespace

static LogicalResult lowerGridSampler(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  if (rank != 4 && rank != 5)
    return call.refuse("an input of this rank");
  return GridSampler(call, rank - 2).lower();
}

/// theta [N, d, d + 1] applied to the normalised coordinates of each element: [N, spatial…, d].
static LogicalResult lowerAffineGrid(Call &call) {
  Value theta = call.tensor("theta");
  Type type = elementType(theta), wide = opmath(type);
  Exprs size = call.args.symIntList("size");
  bool align = call.args.boolean("align_corners");
  if (!isFloat(type) || rankOf(theta) != 3 || (size.size() != 4 && size.size() != 5))
    return call.refuse("this dtype or size");
  size_t spatial = size.size() - 2;
  Exprs domain = {size[0]};
  domain.append(size.begin() + 2, size.end());
  domain.push_back(int64_t(spatial));
  return call.set(call.kernels.map(domain, type, [&](BodyBuilder &body) {
    auto coefficient = [&](Expr column) {
      return convert(body.read(theta, Exprs{body.dim(0), body.dim(1 + spatial), column}), wide);
    };
    Element sum = coefficient(int64_t(spatial));
    for (size_t i = 0; i < spatial; ++i) { // coordinate i is that of spatial dim d - 1 - i
      Expr length = size[2 + spatial - 1 - i];
      Element at = convert(body.index(body.dim(1 + spatial - 1 - i)), wide);
      Element count = convert(body.index(length), wide), x;
      if (align) {
        Element step = 2.0 / select(count > count.constant(1), count - 1.0, count.constant(1));
        x = select(count > count.constant(1), at * step - 1.0, count.constant(0));
      } else {
        x = (at * 2.0 + 1.0) / count - 1.0;
      }
      sum = sum + coefficient(int64_t(i)) * x;
    }
    return sum;
  }));
}

void lowering::registerGridSample(LoweringTable &table) {
  table.add(
      {"aten.grid_sampler.default", "aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default"},
      lowerGridSampler);
  table.add("aten.affine_grid_generator.default", lowerAffineGrid);
}
