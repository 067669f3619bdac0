// Reads of the sums of warpgroups' products, for the emulator to see which come too early.
#include "CUDA/Emulator/EmulatorCalls.h"
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

/// Registers that products have written, and everything that they are handed on to.
class SumReads {
public:
  void follow(Value value) {
    if (!seen.insert(value).second)
      return;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<NVVM::WgmmaMmaAsyncOp>(user))
        continue; // its own result is followed as well
      // So is that of one with registers as its left operand; what is no instruction is a wait.
      auto text = dyn_cast<LLVM::InlineAsmOp>(user);
      if (text && text.getAsmString() != copySumText) {
        if (text.getAsmString().empty())
          follow(text.getResult(0));
        continue;
      }
      if (isa<LLVM::ExtractValueOp, LLVM::InsertValueOp>(user))
        follow(user->getResult(0));
      else if (auto branch = dyn_cast<BranchOpInterface>(user))
        follow(*branch.getSuccessorBlockArgument(use.getOperandNumber()));
      else
        reads.insert(&use);
    }
  }

  llvm::SetVector<OpOperand *> reads;

private:
  llvm::DenseSet<Value> seen;
};

} // namespace

LogicalResult cuda::emulateSums(LLVM::LLVMFuncOp function) {
  SumReads sums;
  function.walk([&](NVVM::WgmmaMmaAsyncOp product) { sums.follow(product.getResult()); });
  function.walk([&](LLVM::InlineAsmOp product) {
    if (product->hasAttr(registerProductAttrName))
      sums.follow(product.getResult(0));
  });
  for (OpOperand *read : sums.reads) {
    Operation *reader = read->getOwner();
    Type type = read->get().getType();
    if (!type.isF32() && !type.isInteger(32))
      return reader->emitError("reads sums as a whole, which the emulator does not know");
    OpBuilder builder(reader);
    Emulator emulator(function->getParentOfType<ModuleOp>(), builder);
    Location loc = reader->getLoc();
    // The emulator keeps all sums as f32, or the bits of one.
    Type f32 = builder.getF32Type();
    Value sum = read->get();
    if (type != f32)
      sum = LLVM::BitcastOp::create(builder, loc, f32, sum);
    sum = emulator.call(loc, "kiln_emulator_sum", f32, sum);
    read->set(type == f32 ? sum : LLVM::BitcastOp::create(builder, loc, type, sum).getResult());
  }
  return success();
}
