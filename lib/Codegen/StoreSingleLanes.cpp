// Masked stores under constant masks of one lane become stores of its element.
#include "StoreSingleLanes.h"
#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace kiln;

/// The one lane that a constant mask has.
static std::optional<unsigned> findSingleLane(const Value *mask) {
  const auto *constant = dyn_cast<Constant>(mask);
  const auto *type = dyn_cast<FixedVectorType>(mask->getType());
  if (!constant || !type)
    return std::nullopt;
  std::optional<unsigned> lane;
  for (unsigned i = 0; i < type->getNumElements(); ++i) {
    const Constant *bit = constant->getAggregateElement(i);
    if (!bit || !isa<ConstantInt>(bit) || (lane && bit->isOneValue()))
      return std::nullopt;
    if (bit->isOneValue())
      lane = i;
  }
  return lane;
}

void codegen::storeSingleLanes(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : make_early_inc_range(instructions(function))) {
      // Masks that are written as comparisons of constants are constants in code generation.
      if (Constant *folded = ConstantFoldInstruction(&instruction, module.getDataLayout()))
        instruction.replaceAllUsesWith(folded);
      auto *call = dyn_cast<IntrinsicInst>(&instruction);
      if (!call || call->getIntrinsicID() != Intrinsic::masked_store)
        continue;
      std::optional<unsigned> lane = findSingleLane(call->getArgOperand(2));
      if (!lane)
        continue;
      IRBuilder<> builder(call);
      Value *vector = call->getArgOperand(0);
      Type *element = cast<VectorType>(vector->getType())->getElementType();
      Value *place = builder.CreateConstGEP1_32(element, call->getArgOperand(1), *lane);

      builder.CreateAlignedStore(builder.CreateExtractElement(vector, *lane), place, Align(1));
      call->eraseFromParent();
    }
}
