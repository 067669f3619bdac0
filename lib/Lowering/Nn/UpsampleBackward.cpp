// Gradients of interpolation: each output's goes, by its weights, to where its value came from.
#include "Nn/Upsample.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// `count` taps along each axis.
static LogicalResult addBack(Call &call, size_t spatial, int64_t count, Taps tapsOf) {
  Value gradient = call.tensor("grad_output");
  Exprs in = call.resultShape(), out = shapeOf(gradient);
  Type type = elementType(gradient), wide = opmath(type);
  if (!isFloat(type) || call.resultType() != type)
    return call.refuse("this dtype");
  bool align = call.args.has("align_corners") && call.args.boolean("align_corners");
  auto all = axesBetween(call, spatial, in, out, align);
  if (!all)
    return failure();
  // Dims: batch and channels, the result's axes, the gradient's, and the taps along each of them.
  constexpr size_t leading = 2;
  size_t first = leading + spatial, taps = first + spatial;
  ScatterSpec spec;
  spec.batch = Exprs(ArrayRef(in).take_front(leading));
  spec.targets = Exprs(ArrayRef(in).drop_front(leading));
  spec.places = Exprs(ArrayRef(out).drop_front(leading));
  if (count > 1)
    spec.places.append(spatial, Expr(count));
  auto init = [&](BodyBuilder &body) { return body.constant(wide, 0); };
  auto update = [&](BodyBuilder &body) {
    Exprs from = body.dims(0, leading);
    llvm::append_range(from, body.dims(first, taps));
    ScatterSpec::Write write{{}, {}, convert(body.read(gradient, from), wide)};
    for (auto [i, axis] : llvm::enumerate(*all)) {
      SmallVector<Tap> choices = tapsOf(body, axis, first + i, wide);
      Element position = choices[0].position, weight = choices[0].weight;
      for (auto [number, tap] : llvm::drop_begin(llvm::enumerate(choices))) {
        Element tapOf = body.index(body.dim(taps + i));
        Element isThis = tapOf == tapOf.constant(int64_t(number));
        position = select(isThis, tap.position, position);
        weight = select(isThis, tap.weight, weight);
      }
      write.index.push_back(position);
      write.value = write.value * weight;
    }
    return write;
  };
  auto add = [](Element old, Element value) { return old + value; };
  spec.init = init;
  spec.update = update;
  spec.combine = add;
  return call.set(call.kernels.convert(call.kernels.scatter(spec, wide), type));
}

void lowering::registerUpsampleBackward(LoweringTable &table) {
  for (size_t spatial : {1, 2, 3}) {
    auto add = [&](StringRef name, int64_t count, Taps taps) {
      std::string target = ("aten." + name + Twine(spatial) + "d_backward.default").str();
      table.add(target, [=](Call &call) { return addBack(call, spatial, count, taps); });
    };
    constexpr StringLiteral linear[] = {"linear", "bilinear", "trilinear"};
    add("upsample_nearest", 1, nearestTaps);
    add("_upsample_nearest_exact", 1, nearestExactTaps);
    add(("upsample_" + linear[spatial - 1]).str(), 2, linearTaps);
    if (spatial == 2)
      add("upsample_bicubic", 4, cubicTaps);
  }
}
