// Hashes ops with what is in their regions. MLIR's own hash leaves regions out, and structured ops
// have no operands: all of one type would have one hash.
#include "EqualOps.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace kiln::kernel;

/// A number that equal ops have in common: of an op inside of `root`, and of what its regions hold
/// and read from outside.
static llvm::hash_code hashOperation(Operation *op, Operation *root) {
  auto hashOperand = [&](Value operand) -> llvm::hash_code {
    Operation *owner = operand.getParentBlock()->getParentOp();
    return root->isAncestor(owner) ? llvm::hash_code(0) : hash_value(operand);
  };
  auto hashResult = [](Value) { return llvm::hash_code(0); };
  llvm::hash_code hash = OperationEquivalence::computeHash(op, hashOperand, hashResult,
                                                           OperationEquivalence::IgnoreLocations);
  for (Region &region : op->getRegions())
    for (Operation &inner : region.getOps())
      hash = llvm::hash_combine(hash, hashOperation(&inner, root));
  return hash;
}

Operation *EqualOps::findOrAdd(Operation *op) {
  size_t hash = hashOperation(op, op);
  auto &same = ops[hash];
  for (Operation *other : same)
    if (OperationEquivalence::isEquivalentTo(op, other, OperationEquivalence::IgnoreLocations))
      return other;
  same.push_back(op);
  order.push_back(hash);
  return nullptr;
}

void EqualOps::truncate(size_t size) {
  for (; order.size() > size; order.pop_back()) {
    auto same = ops.find(order.back());
    same->second.pop_back();
    if (same->second.empty())
      ops.erase(same);
  }
}
