// Marks of the values of the exported program's nodes: metadata of fused locations.
#include "kiln/Dialect/Kernel/ResultNodes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

static constexpr StringLiteral kindName = "kind", nodeName = "node", outputsName = "outputs";

/// The mark of a location, or null.
static DictionaryAttr getMark(Location location) {
  auto fused = dyn_cast<FusedLoc>(location);
  return fused ? dyn_cast_or_null<DictionaryAttr>(fused.getMetadata()) : DictionaryAttr();
}

/// `outputs` has the number of the node's output for each result, or -1.
static DictionaryAttr makeMark(Builder builder, StringRef kind, StringRef node,
                               ArrayRef<int64_t> outputs) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(kindName, builder.getStringAttr(kind)),
       builder.getNamedAttr(nodeName, builder.getStringAttr(node)),
       builder.getNamedAttr(outputsName, builder.getDenseI64ArrayAttr(outputs))});
}

static Location dropMark(Location location) {
  if (!getMark(location))
    return location;
  return FusedLoc::get(location.getContext(), cast<FusedLoc>(location).getLocations());
}

void kernel::markResult(OpResult value, ResultNode node) {
  Operation *op = value.getOwner();
  StringRef kind = op->getName().getStringRef();
  SmallVector<int64_t> outputs(op->getNumResults(), -1);
  Location location = op->getLoc();
  if (DictionaryAttr mark = getMark(location)) {
    if (mark.getAs<StringAttr>(nodeName) != node.node)
      return;
    outputs = llvm::to_vector(mark.getAs<DenseI64ArrayAttr>(outputsName).asArrayRef());
    location = dropMark(location);
  }
  outputs[value.getResultNumber()] = node.output;
  op->setLoc(
      FusedLoc::get(op->getContext(), {location}, makeMark(Builder(op), kind, node.node, outputs)));
}

std::optional<ResultNode> kernel::getResultNode(Location location, StringRef kind,
                                                unsigned result) {
  DictionaryAttr mark = getMark(location);
  if (!mark)
    return std::nullopt;
  auto markedKind = mark.getAs<StringAttr>(kindName), node = mark.getAs<StringAttr>(nodeName);
  auto outputs = mark.getAs<DenseI64ArrayAttr>(outputsName);
  if (!markedKind || markedKind != kind || !node || !outputs ||
      result >= static_cast<unsigned>(outputs.size()) || outputs[result] < 0)
    return std::nullopt;
  return ResultNode{node.getValue(), outputs[result]};
}

Location kernel::fuseLocations(Operation *before, Operation *last) {
  DictionaryAttr mark;
  if (auto node = getResultNode(last->getLoc(), last->getName().getStringRef(), 0))
    mark = makeMark(Builder(before), before->getName().getStringRef(), node->node, node->output);
  return FusedLoc::get(before->getContext(), {dropMark(before->getLoc()), dropMark(last->getLoc())},
                       mark);
}
