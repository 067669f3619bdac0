// Collects the bytes of a program's constants for the link.
#include "Weights.h"

using namespace mlir;
using namespace kiln;

llvm::Expected<Weights> Weights::collect(wrapper::ProgramOp program) {
  Weights weights;
  weights.bytes = program.getWeightsBytes().value_or(0);
  llvm::DenseSet<int64_t> taken; // equal constants share a place
  SmallVector<uint64_t> offsets;
  for (wrapper::ConstantOp constant : wrapper::getConstants(program)) {
    if (!constant.getOffset())
      continue;
    int64_t offset = constant.getOffsetAttr().getInt();
    // One without elements has the place of the next.
    if (constant.getType().getBytes().isConstant(0) || !taken.insert(offset).second)
      continue;
    std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(constant.getValue());
    if (!bytes)
      return llvm::createStringError("constant '%s' has no data",
                                     constant.getName().value_or("").str().c_str());
    weights.data.push_back(std::move(*bytes));
    offsets.push_back(offset);
  }
  // The copies among them have their final addresses only now.
  for (auto [offset, bytes] : llvm::zip_equal(offsets, weights.data))
    if (!bytes.data().empty())
      weights.pieces.push_back({offset, bytes.data()});
  return weights;
}
