// Weights of interpolated images of bytes whose sizes are known when the model runs. They are
// computed in double precision as the tables of UpsampleBytes.cpp are: where a sum is rounded to an
// integer, its last bit counts, so products in it are rounded before anything is added.
#include "Nn/Upsample.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {

/// One spatial dim.
class RunAxis {
public:
  RunAxis(Call &call, size_t i, std::optional<double> factor, bool isCubic, bool antialias)
      : kernels(call.kernels), in(shapeOf(call.tensor(0))[2 + i]), out(call.resultShape()[2 + i]),
        align(call.args.boolean("align_corners")), isCubic(isCubic), antialias(antialias),
        f64(kernels.b().getF64Type()), i32(kernels.b().getI32Type()) {
    if (!align && factor && *factor > 0)
      scale = 1 / *factor;
    count = taps();
    if (antialias && scale)
      count =
          static_cast<int64_t>(std::ceil(static_cast<float>(radius() * std::max(*scale, 1.0)))) *
              2 +
          1;
    else if (antialias) // outputs are at least one apart
      count =
          Expr::max((in * radius()).ceilDiv(Expr::max(out - (align ? 1 : 0), 1)), radius()) * 2 + 2;
    count = kernels.known().simplify(count);
  }

  ByteWindow window() {
    Value firsts = kernels.map({out}, i32, [&](BodyBuilder &body) { return first(body); });
    Value exact = kernels.map({out, count}, f64, [&](BodyBuilder &body) {
      return antialias ? coveredWeight(body) : neighbourWeight(body);
    });
    Value bits = kernels.map({}, i32, [&](BodyBuilder &body) {
      Element largest = body.max({out, count}, f64, [&](BodyBuilder &inner) {
        return inner.read(exact, inner.ownDims());
      });
      Element sum = body.constant(i32, 0);
      for (int64_t b = 1; b <= 22; ++b) {
        Element fits = rounded(largest * double(int64_t(1) << b)) + 0.5 < largest.constant(32768);
        sum = sum + convert(fits, i32);
      }
      return sum;
    });
    Value weights = kernels.map({out, count}, i32, [&](BodyBuilder &body) {
      Element unit = convert(shiftLeft(body.constant(i32, 1), body.read(bits, Exprs())), f64);
      Element scaled = rounded(body.read(exact, body.ownDims()) * unit);
      return convert(scaled + copysign(scaled.constant(0.5), scaled), i32);
    });
    return {firsts, weights, bits, count};
  }

private:
  int64_t radius() const { return isCubic ? 2 : 1; }
  int64_t taps() const { return 2 * radius(); }

  /// A number that no sum takes as a product.
  static Element rounded(Element x) {
    return maximum(x, x.constant(-std::numeric_limits<double>::max()));
  }

  Element number(BodyBuilder &body, Expr size) const { return convert(body.index(size), f64); }

  /// The distance of neighbouring outputs.
  Element scaleOf(BodyBuilder &body) const {
    if (scale)
      return body.constant(f64, *scale);
    if (!align)
      return number(body, in) / number(body, out);
    Element steps = number(body, Expr::max(out - 1, 1));
    return select(body.inside({Expr(1)}, {out}), number(body, in - 1) / steps,
                  body.constant(f64, 0));
  }

  Element filter(Element x) const {
    x = abs(x);
    Element zero = x.constant(0), one = x.constant(1);
    if (!isCubic)
      return select(x < one, 1.0 - x, zero);
    double a = antialias ? -0.5 : -0.75;
    auto plus = [](Element product, double number) { return rounded(product) + number; };
    Element near = plus(plus((a + 2) * x, -(a + 3)) * x * x, 1);
    Element far = plus(plus(plus(a * x, -5 * a) * x, 8 * a) * x, -4 * a);
    return select(x < one, near, select(x < x.constant(2), far, zero));
  }

  //===-- Inputs within the filter's radius, which grows with the scale -----------------------===//

  Element center(BodyBuilder &body) const {
    return rounded(scaleOf(body) * (number(body, body.dim(0)) + 0.5));
  }
  Element support(BodyBuilder &body) const {
    Element distance = scaleOf(body);
    return rounded(maximum(distance, distance.constant(1)) * double(radius()));
  }
  Element truncated(Element x) const { return convert(x, kernels.b().getI64Type()); }

  Element firstCovered(BodyBuilder &body) const {
    Element begin = truncated(center(body) - support(body) + 0.5);
    return maximum(begin, begin.constant(0));
  }
  Element coveredWeight(BodyBuilder &body) const {
    Element begin = firstCovered(body), middle = center(body), distance = scaleOf(body);
    Element end = minimum(truncated(middle + support(body) + 0.5), body.index(in));
    Element inverse =
        select(distance >= distance.constant(1), 1.0 / distance, distance.constant(1));
    auto weight = [&](Element j) {
      Element at = begin + j;
      Element value = filter((convert(at, f64) - middle + 0.5) * inverse);
      return select(at < end, value, value.constant(0));
    };
    Element total = body.sum({count}, f64,
                             [&](BodyBuilder &inner) { return weight(inner.index(inner.dim(2))); });
    Element mine = weight(body.index(body.dim(1)));
    return select(total == total.constant(0), mine, mine / total);
  }

  //===-- Neighbours of a position, where what lies beside the image counts for its edge ------===//

  Element source(BodyBuilder &body) const {
    Element at = number(body, body.dim(0));
    Element position = align ? scaleOf(body) * at : rounded(scaleOf(body) * (at + 0.5)) - 0.5;
    return isCubic ? position : maximum(position, position.constant(0));
  }
  /// The input at or before it.
  Element index(BodyBuilder &body) const {
    Type f32 = kernels.b().getF32Type();
    Element whole = truncated(floor(convert(source(body), f32)));
    return minimum(whole, body.index(in - 1));
  }
  Element firstNeighbour(BodyBuilder &body) const {
    Element begin = index(body) - index(body).constant(radius() - 1);
    return maximum(begin, begin.constant(0));
  }
  Element neighbourWeight(BodyBuilder &body) const {
    Element whole = index(body), wanted = firstNeighbour(body) + body.index(body.dim(1));
    Element part = rounded(source(body)) - convert(whole, f64);
    part = minimum(maximum(part, part.constant(0)), part.constant(1));
    Element sum = part.constant(0);
    for (int64_t j = 0; j < taps(); ++j) {
      Element at = whole + whole.constant(j + 1 - radius());
      at = minimum(maximum(at, at.constant(0)), body.index(in - 1));
      Element weight = filter(part.constant(double(j + 1 - radius())) - part);
      sum = sum + select(at == wanted, weight, weight.constant(0));
    }
    return sum;
  }

  Element first(BodyBuilder &body) const {
    return convert(antialias ? firstCovered(body) : firstNeighbour(body), i32);
  }

  KernelBuilder &kernels;
  Expr in, out;
  bool align, isCubic, antialias;
  Type f64, i32;
  std::optional<double> scale; // where it does not depend on the run
  Expr count;
};

} // namespace

ByteWindow lowering::byteWindowAtRun(Call &call, size_t i, std::optional<double> factor,
                                     bool isCubic, bool antialias) {
  Expr in = shapeOf(call.tensor(0))[2 + i], out = call.resultShape()[2 + i];
  for (Expr size : {in, out})
    call.require(size - 1, "an image of bytes without elements");
  // ATen then interpolates or not, as the number of channels is.
  bool hasFactor = !call.args.boolean("align_corners") && factor && *factor > 0;
  if (hasFactor && *factor != 1)
    call.require(Expr::max(Expr::max(in - out, out - in), 2 - out) - 1,
                 "a factor that leaves a size of an image of bytes as it is");
  return RunAxis(call, i, factor, isCubic, antialias).window();
}
