// Collects the bytes of a program's constants for the link.
#include "Weights.h"
#include "kiln/Dialect/Wrapper/Weights.h"

using namespace mlir;
using namespace kiln;

/// True if a user is a fold that makes the constant.
static auto makes(wrapper::ConstantOp constant) {
  return [value = Value(constant)](Operation *user) {
    auto fold = dyn_cast<wrapper::FoldOp>(user);
    return fold && llvm::is_contained(fold.getOuts(), value);
  };
}

llvm::Expected<Weights> Weights::collect(ArrayRef<host::ModelEntry> entries,
                                         const SharedWeights &shared) {
  Weights weights;
  weights.bytes = shared.knownBytes;
  SmallVector<wrapper::ConstantOp> constants;
  for (const host::ModelEntry &entry : entries)
    llvm::append_range(constants, wrapper::getConstants(wrapper::ProgramOp(entry.program)));
  llvm::DenseSet<int64_t> taken; // equal constants share a place
  SmallVector<uint64_t> offsets;
  for (wrapper::ConstantOp constant : constants) {
    bool isGiven = constant.getName() || llvm::any_of(constant->getUsers(), makes(constant));
    if (!constant.getOffset() || (wrapper::isLater(constant) && isGiven))
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
  weights.describe(entries, shared.cells);
  return weights;
}
