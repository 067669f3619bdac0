// Queries about regions, for the passes that rewrite contracts.
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

bool cpu::isKnownConstant(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  return (isa_and_nonnull<ConstantOp>(op) && !op->hasAttr(mutatedAttrName)) ||
         (isa_and_nonnull<MapOp>(op) && llvm::all_of(getReadTensors(op), isKnownConstant));
}

cpu::LayoutAttr cpu::getLayout(ContractOp contract) {
  if (auto layout = contract->getAttrOfType<LayoutAttr>(layoutAttrName))
    return layout;
  return LayoutAttr::get(contract.getContext(), OperandPlace::Planned, OperandOrder::Planned,
                         OperandPlace::Planned, 0);
}

SmallVector<Value> cpu::readTensors(Region &region) {
  SmallVector<Value> tensors;
  region.walk([&](ReadOp read) { tensors.push_back(read.getTensor()); });
  return tensors;
}

void cpu::renameBody(Region &source, Region &target, ArrayRef<sym::Expr> dims,
                     RewriterBase &rewriter) {
  OpBuilder::InsertionGuard guard(rewriter);
  Block &block = target.emplaceBlock();
  IRMapping mapping;
  for (BlockArgument argument : source.getArguments())
    mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
  rewriter.setInsertionPointToStart(&block);
  DimSubstitution substitution;
  substitution.sourceDims = substitution.targetDims = dims.size();
  substitution.dims = SmallVector<sym::Expr>(dims);
  SmallVector<Value> values = cloneBody(rewriter, source.front(), substitution, mapping);
  YieldOp::create(rewriter, source.getLoc(), values);
}
