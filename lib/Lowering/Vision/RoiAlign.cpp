// Regions of interest of a feature map at one size: torchvision::roi_align (He et al., Mask R-CNN, 2017) and
// ps_roi_align (Li et al., Light-Head R-CNN, 2017).
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// Means of samples between the elements of input [N, C, H, W]. A region of rois [R, 5] is the
/// number of its image and its corners (x1, y1, x2, y2) before they are scaled.
class RoiSampler {
public:
  /// Coordinates are less by `offset`; with `isWhole`, no side is shorter than an element.
  RoiSampler(Call &call, double offset, bool isWhole)
      : call(call), input(call.tensor("input")), rois(call.tensor("rois")),
        type(elementType(input)), scale(call.args.number("spatial_scale")), offset(offset),
        isWhole(isWhole),
        pooled{call.args.symInt("pooled_height"), call.args.symInt("pooled_width")} {}

  /// Says why it cannot, or finds how many samples along each dim a bin has at most.
  LogicalResult check() {
    if ((!type.isF32() && !type.isF64()) || elementType(rois) != type)
      return call.refuse("an input and regions that are not both of f32 or of f64");
    if (rankOf(input) != 4 || rankOf(rois) != 2)
      return call.refuse("tensors of these ranks");
    constexpr StringLiteral unfit = "regions that are not five numbers";
    if (!call.fits(shapeOf(rois)[1], 5, unfit))
      return call.refuse(unfit);
    Expr given = call.args.symInt("sampling_ratio");
    if (given.constant().value_or(0) > 0)
      ratio = given;
    for (int axis = 0; axis < 2; ++axis)
      mostSamples[axis] = ratio ? *ratio : call.newSize(countSamples(axis));
    return success();
  }

  Expr numRegions() const { return shapeOf(rois)[0]; }
  const Expr (&pooledSizes() const)[2] { return pooled; }
  Type elements() const { return type; }

  /// The mean of a bin (d1, d2) of region d0. That of no samples is 0 or, if not `zeroIfNone`, NaN.
  Element mean(BodyBuilder &body, Expr channel, bool zeroIfNone) {
    Side sides[2] = {side(body, body.dim(0), 0), side(body, body.dim(0), 1)};
    Element image = body.read(rois, Exprs{body.dim(0), 0});
    unsigned own = body.numDims();
    Element sum = body.sum({mostSamples[0], mostSamples[1]}, type, [&](BodyBuilder &inner) {
      Place y = place(inner, sides[0], 0, inner.dim(1), inner.dim(own));
      Place x = place(inner, sides[1], 1, inner.dim(2), inner.dim(own + 1));
      Element inside = y.inside & x.inside, zero = inner.constant(type, 0);
      Element value;
      for (bool isBelow : {false, true})
        for (bool isRight : {false, true}) {
          Indices at = {image, channel, isBelow ? y.next : y.element, isRight ? x.next : x.element};
          Element weight = (isBelow ? y.part : 1.0 - y.part) * (isRight ? x.part : 1.0 - x.part);
          Element term = weight * inner.read(input, at);
          value = value ? value + term : term;
        }
      return select(inside, value, zero);
    });
    Element count = sides[0].samples * sides[1].samples;
    return sum / (zeroIfNone ? maximum(count, count.constant(1.0)) : count);
  }

private:
  struct Side { // of a region
    Element start, bin, samples;
  };
  struct Place { // of a sample: between two elements, `part` of the way
    Element element, next, part, inside;
  };

  Side side(BodyBuilder &body, Expr region, int axis) {
    auto corner = [&](int64_t number) {
      return body.read(rois, Exprs{region, number}) * scale - offset;
    };
    Element start = corner(axis == 0 ? 2 : 1), length = corner(axis == 0 ? 4 : 3) - start;
    if (isWhole)
      length = atLeast(length, length.constant(1.0));
    Element bin = length / convert(body.index(pooled[axis]), type);
    return {start, bin, ratio ? convert(body.index(*ratio), type) : ceil(bin)};
  }

  /// The samples of a bin of the largest region.
  Value countSamples(int axis) {
    Type i64 = call.kernels.b().getI64Type();
    return call.kernels.map({}, i64, [&](BodyBuilder &body) {
      Element samples = body.max({numRegions()}, type, [&](BodyBuilder &inner) {
        Element own = side(inner, inner.dim(0), axis).samples;
        return select(own > own.constant(0), own, own.constant(0)); // NaN is none
      });
      samples = atLeast(samples, samples.constant(0)); // of no regions
      return convert(call.expect(samples, samples <= samples.constant(1e6),
                                 "a region with more than a million samples along a side"),
                     i64);
    });
  }

  Place place(BodyBuilder &body, const Side &side, int axis, Expr bin, Expr sample) {
    Element number = convert(body.index(sample), type);
    Element at = side.start + convert(body.index(bin), type) * side.bin +
                 (number + 0.5) * side.bin / side.samples;
    Element size = body.index(shapeOf(input)[2 + axis]), zero = at.constant(0);
    Element inside = (at >= at.constant(-1.0)) & (at <= convert(size, type));
    if (!ratio)
      inside = inside & (number < side.samples);
    // In the image whatever it is: what is read of it need not be masked.
    at = select(inside & (at > zero), at, zero);
    Element last = size - size.constant(1), element = convert(at, size.type());
    Element isLast = element >= last;
    element = select(isLast, last, element);
    Element part = select(isLast, zero, at - convert(element, type));
    return {element, select(isLast, last, element + element.constant(1)), part, inside};
  }

  Call &call;
  Value input, rois;
  Type type;
  double scale, offset;
  bool isWhole;
  Expr pooled[2];
  std::optional<Expr> ratio; // samples of each bin along a side; none: as many as it has elements
  Expr mostSamples[2];
};
} // namespace

/// Regions are computed with their channels innermost, which share the places of the samples.
static Value channelsSecond(Call &call, Value tensor) {
  return call.kernels.permute(tensor, {0, 3, 1, 2});
}

static LogicalResult lowerRoiAlign(Call &call) {
  bool aligned = call.args.boolean("aligned");
  RoiSampler sampler(call, aligned ? 0.5 : 0.0, /*isWhole=*/!aligned);
  if (failed(sampler.check()))
    return failure();
  const auto &pooled = sampler.pooledSizes();
  Expr channels = shapeOf(call.tensor("input"))[1];
  Value means = call.kernels.map(
      {sampler.numRegions(), pooled[0], pooled[1], channels}, sampler.elements(),
      [&](BodyBuilder &body) { return sampler.mean(body, body.dim(3), /*zeroIfNone=*/true); });
  return call.set(channelsSecond(call, means));
}

/// Each bin has channels of its own: the second result is which.
static LogicalResult lowerPsRoiAlign(Call &call) {
  RoiSampler sampler(call, 0.5, /*isWhole=*/false);
  if (failed(sampler.check()))
    return failure();
  const auto &pooled = sampler.pooledSizes();
  Expr channels = shapeOf(call.tensor("input"))[1], bins = pooled[0] * pooled[1];
  constexpr StringLiteral unfit = "channels that are no multiple of the bins";
  if (!call.fits(channels.floorDiv(bins) * bins, channels, unfit))
    return call.refuse(unfit);
  Exprs shape = {sampler.numRegions(), pooled[0], pooled[1], channels.floorDiv(bins)};
  auto channel = [&](BodyBuilder &body) {
    return (body.dim(3) * pooled[0] + body.dim(1)) * pooled[1] + body.dim(2);
  };
  SmallVector<Value> results =
      call.kernels.map(shape, {sampler.elements(), call.resultType(1)}, [&](BodyBuilder &body) {
        Element mean = sampler.mean(body, channel(body), /*zeroIfNone=*/false);
        return BodyBuilder::Elements{mean, convert(body.index(channel(body)), call.resultType(1))};
      });
  return call.set({channelsSecond(call, results[0]), channelsSecond(call, results[1])});
}

void lowering::registerRoiAlign(LoweringTable &table) {
  table.add("torchvision.roi_align.default", lowerRoiAlign);
  table.add("torchvision.ps_roi_align.default", lowerPsRoiAlign);
}
