// Loads of what lies side by side in memory together.
#include "CUDA/NeighbourLoads.h"
#include "kiln/Targets/CUDA/CUDADialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// The address of the first element, if those of all places follow it; null otherwise.
Value NeighbourLoads::findBase(kernel::ReadOp read, ArrayRef<SmallVector<sym::Expr>> places) const {
  auto type = cast<RankedTensorType>(read.getTensor().getType()).getElementType();
  if (read.getMask() || !read.getValues().empty() || !isa<FloatType>(type))
    return {};
  sym::Expr offset = sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor()));
  sym::Expr first = frame.assumptions.simplify(offset.substituteDims(places[0]));
  int64_t count = places.size();
  if (!frame.assumptions.isMultipleOf(first, count))
    return {};
  for (int64_t i = 1; i < count; ++i)
    if (!frame.assumptions.simplify(offset.substituteDims(places[i]) - first).isConstant(i))
      return {};
  return frame.gep(frame.buffer(read.getTensor()), type, frame.emit(first));
}

NeighbourLoads::NeighbourLoads(DeviceFrame &frame, Region &region,
                               ArrayRef<SmallVector<sym::Expr>> places)
    : frame(frame) {
  if (!frame.func.getAligned() || places.size() < 2)
    return;
  OpBuilder &b = frame.builder;
  for (auto read : region.front().getOps<kernel::ReadOp>()) {
    Value base = findBase(read, places);
    if (!base)
      continue;
    Type type = read.getType();
    int64_t bytes = type.getIntOrFloatBitWidth() / 8, count = places.size();
    int64_t together = std::min(count, vectorBytes / bytes);
    // As integers, which targets have vectors of.
    Type bits = b.getIntegerType(8 * bytes);
    auto &[value, elements] = loaded.emplace_back();
    value = read;
    for (int64_t i = 0; i < count; i += together) {
      Value vector = LLVM::LoadOp::create(b, frame.loc, VectorType::get(together, bits),
                                          frame.gep(base, type, frame.constant(i)),
                                          /*alignment=*/together * bytes);
      for (Value element : vector::ToElementsOp::create(b, frame.loc, vector).getResults())
        elements.push_back(arith::BitcastOp::create(b, frame.loc, type, element));
    }
  }
}

void NeighbourLoads::set(codegen::BodyEmitter &body, size_t i) const {
  for (const auto &[value, elements] : loaded)
    body.setValue(value, elements[i]);
}
