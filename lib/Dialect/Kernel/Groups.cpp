// The rules of kernels that run others.
#include "kiln/Dialect/Kernel/Groups.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

LogicalResult kernel::verifyGroup(FuncOp group) {
  llvm::DenseSet<Value> returned;
  for (Value result : getReturned(group))
    if (!result.getDefiningOp<CallOp>() || !returned.insert(result).second)
      return group.emitOpError("returns what is no result of a call, or one twice");
  for (Operation &op : group.getBody().front().without_terminator()) {
    if (!isa<CallOp>(op))
      return op.emitOpError("in a kernel that calls others");
    auto isReturned = [&](Value result) { return returned.contains(result); };
    if (llvm::all_of(op.getResults(), isReturned))
      continue;
    if (llvm::any_of(op.getResults(), isReturned))
      return op.emitOpError("has results that the kernel returns, and others");
    if (!llvm::all_of(op.getOperands(), llvm::IsaPred<BlockArgument>))
      return op.emitOpError("is each block's own, but reads what another one computes");
  }
  if (group.getUpdates())
    return group.emitOpError("updates an operand, which only the kernels that it calls may");
  return success();
}

SmallVector<std::pair<unsigned, unsigned>> kernel::getUpdated(FuncOp func) {
  SmallVector<std::pair<unsigned, unsigned>> updated;
  if (std::optional<uint64_t> operand = func.getUpdates())
    updated.push_back({static_cast<unsigned>(*operand), 0});
  for (CallOp call : getParts(func))
    for (auto [operand, result] : getUpdated(getPart(call))) {
      OperandRange returned = getReturned(func);
      auto place = llvm::find(returned, call.getResult(result));
      if (auto argument = dyn_cast<BlockArgument>(call.getOperand(operand));
          argument && place != returned.end())
        updated.push_back(
            {argument.getArgNumber(), static_cast<unsigned>(place - returned.begin())});
    }
  return updated;
}
