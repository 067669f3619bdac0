// Non-maximum suppression, torchvision::nms: boxes that overlap one with a higher score are left out.
#include "Core/Loop.h"
#include "Index/Repeat.h"
#include "Reduce/Order.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// `limit`, or the greatest smaller number of `type`: the same numbers of `type` are above it.
static double roundedDown(double limit, Type type) {
  APFloat value(limit);
  bool losesInfo;
  value.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmTowardNegative, &losesInfo);
  return value.convertToDouble();
}

namespace {
/// Corners (x1, y1, x2, y2) of a box, and x2 - x1 times y2 - y1.
struct Box {
  Element corners[4], area;
};
} // namespace

static Box readBox(BodyBuilder &body, Value boxes, Index at) {
  Box box;
  for (auto [i, corner] : llvm::enumerate(box.corners))
    corner = body.read(boxes, Indices{at, int64_t(i)});
  box.area = (box.corners[2] - box.corners[0]) * (box.corners[3] - box.corners[1]);
  return box;
}

/// The intersection over the union of the areas. NaN in the order that C++'s min and max have.
static Element overlap(const Box &a, const Box &b) {
  auto least = [](Element x, Element y) { return select(y < x, y, x); };
  auto greatest = [](Element x, Element y) { return select(x < y, y, x); };
  auto side = [&](int low, int high) {
    Element length =
        least(a.corners[high], b.corners[high]) - greatest(a.corners[low], b.corners[low]);
    return greatest(length.constant(0.0), length);
  };
  Element shared = side(0, 2) * side(1, 3);
  return shared / (a.area + b.area - shared);
}

/// dets [n, 4], scores [n]: the kept boxes' numbers, the highest score first. One step for each box
/// marks all that it suppresses; a box of which that is known suppresses none.
static LogicalResult lowerNms(Call &call) {
  Value boxes = call.tensor("dets"), scores = call.tensor("scores");
  Type type = elementType(boxes), i1 = call.kernels.b().getI1Type(),
       i64 = call.kernels.b().getI64Type();
  if ((!type.isF32() && !type.isF64()) || elementType(scores) != type)
    return call.refuse("boxes and scores that are not both of f32 or of f64");
  if (rankOf(boxes) != 2 || rankOf(scores) != 1 || call.resultShape().size() != 1)
    return call.refuse("tensors of these ranks");
  Expr count = shapeOf(scores)[0], size = call.resultShape()[0];
  constexpr StringLiteral unfit = "boxes that are not four numbers for each score";
  if (!call.fits(shapeOf(boxes), {count, 4}, unfit))
    return call.refuse(unfit);
  double limit = roundedDown(call.args.number("iou_threshold"), type);
  Value order = sortedPositions(call, scores, {{count}, 0}, /*descending=*/true);
  Value sorted = call.kernels.map({count, 4}, type, [&](BodyBuilder &body) {
    return body.read(boxes, Indices{body.read(order, Exprs{body.dim(0)}), body.dim(1)});
  });
  Value all = call.kernels.full({count}, i1, 1);
  Value kept = loop(call.kernels, count, all, sorted, [&](const LoopStep &step) {
                 Value next = step.kernels.map({count}, i1, [&](BodyBuilder &body) {
                   Element number = body.read(step.number, Exprs());
                   Value inOrder = step.invariants[0], before = step.carried[0];
                   Element isOver =
                       overlap(readBox(body, inOrder, number),
                               readBox(body, inOrder, body.dim(0))) > body.constant(type, limit);
                   Element isLater = number < body.index(body.dim(0));
                   Element suppresses = body.read(before, Indices{number}) & isLater & isOver;
                   return body.read(before, body.ownDims()) & ~suppresses;
                 });
                 return SmallVector<Value>{next};
               }).front();
  Value places = nonzeroPlaces(call, kept, size);
  return call.set(call.kernels.map({size}, i64, [&](BodyBuilder &body) {
    return body.read(order, Indices{body.read(places, body.ownDims())});
  }));
}

void lowering::registerNms(LoweringTable &table) { table.add("torchvision.nms.default", lowerNms); }
