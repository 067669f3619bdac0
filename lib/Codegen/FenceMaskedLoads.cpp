// Masked loads that are not to be folded into masked arithmetic.
#include "FenceMaskedLoads.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using namespace kiln;

/// True if a select of the function has this mask, which is what masked arithmetic is made of.
static bool selects(const Function &function, const Value *mask) {
  return any_of(mask->users(), [&](const User *user) {
    auto *select = dyn_cast<SelectInst>(user);
    return select && select->getCondition() == mask && select->getFunction() == &function;
  });
}

/// A value that nothing is folded across, without an instruction: fences are there for floats alone.
static void fence(IntrinsicInst &load) {
  uint64_t bits = load.getType()->getPrimitiveSizeInBits().getFixedValue();
  if (bits % 32 != 0) // less than the smallest vector of a CPU
    return;
  IRBuilder<> builder(load.getNextNode());
  auto *floats = FixedVectorType::get(builder.getFloatTy(), static_cast<unsigned>(bits / 32));
  auto *first = dyn_cast<Instruction>(builder.CreateBitCast(&load, floats));
  Value *fenced = builder.CreateIntrinsic(Intrinsic::arithmetic_fence, {floats}, {first});
  Value *last = builder.CreateBitCast(fenced, load.getType());
  load.replaceUsesWithIf(
      last, [&](const Use &use) { return use.getUser() != first && use.getUser() != fenced; });
}

void codegen::fenceMaskedLoads(Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : make_early_inc_range(instructions(function)))
      if (auto *call = dyn_cast<IntrinsicInst>(&instruction);
          call && call->getIntrinsicID() == Intrinsic::masked_load &&
          selects(function, call->getArgOperand(1)))
        fence(*call);
}
