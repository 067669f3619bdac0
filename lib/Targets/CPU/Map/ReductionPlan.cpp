// Chooses how the reductions of a map are run that are the same for all columns. Those that can be
// computed at the same time and have the same extents share a loop, so what suits one of them
// depends on the others: the order in which the body emitter comes to them is followed here.
#include "CPU/Map/MapPlan.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// All that `op`, directly in `block`, uses of the block is in `known`.
static bool hasOperands(Operation *op, Block &block, const DenseSet<Operation *> &known) {
  WalkResult walked = op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands()) {
      Operation *from = operand.getDefiningOp();
      if (from && from->getBlock() == &block && !known.contains(from))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return !walked.wasInterrupted();
}

void cpu::chooseReductions(kernel::MapOp map,
                           function_ref<const llvm::SmallBitVector &(Operation *)> dimsOf,
                           const CPUInfo &target, MapPlan &plan) {
  if (plan.reductions.empty())
    return;
  Block &block = map.getBody().front();
  DenseSet<Operation *> known;
  DenseMap<Operation *, ReductionShape> shapes;
  llvm::SmallBitVector bound(map.getExtents().size());
  auto emitAvailable = [&] {
    while (true) {
      SmallVector<kernel::ReduceOp> ready;
      for (Operation &op : block.without_terminator()) {
        if (known.contains(&op) || dimsOf(&op).test(bound) || !hasOperands(&op, block, known))
          continue;
        if (auto reduce = dyn_cast<kernel::ReduceOp>(op))
          ready.push_back(reduce);
        else
          known.insert(&op);
      }
      if (ready.empty())
        return;
      sym::ShapeAttr extents = ready.front().getExtents();
      llvm::erase_if(ready, [&](kernel::ReduceOp op) { return op.getExtents() != extents; });
      ReductionShape shape = chooseReductionShape(ready, target);
      for (kernel::ReduceOp reduce : ready) {
        shapes[reduce] = shape;
        known.insert(reduce);
      }
    }
  };
  auto bind = [&](const DimGroup &group) { bound.set(group.first, group.first + group.count); };
  emitAvailable();
  llvm::for_each(plan.rows, bind);
  emitAvailable();
  for (const DimGroup &loop : plan.inner) {
    bind(loop);
    emitAvailable();
  }
  for (PlannedReduction &reduction : plan.reductions)
    reduction.shape = shapes.lookup(reduction.op);
}
