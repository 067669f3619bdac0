// Blackwell's tensor memory, its products and loads as calls of the emulator.
#include "CUDA/Blackwell/TensorMemory.h"
#include "CUDA/Emulator/EmulatorCalls.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

bool cuda::emulateTensorMemory(Emulator &emulator, Operation *op) {
  OpBuilder &builder = emulator.builder;
  Location loc = op->getLoc();
  Type ptr = LLVM::LLVMPointerType::get(op->getContext()), i32 = builder.getI32Type();
  auto constant = [&](int64_t value) -> Value {
    return LLVM::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value));
  };
  // Shared memory is memory.
  auto generic = [&](Value address) -> Value {
    return address.getType() == ptr ? address
                                    : LLVM::AddrSpaceCastOp::create(builder, loc, ptr, address);
  };
  auto number = [&](Value address) -> Value {
    return LLVM::PtrToIntOp::create(builder, loc, i32, address);
  };
  auto call = [&](StringRef name, ValueRange arguments) {
    emulator.call(loc, name, {}, arguments);
    op->erase();
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](NVVM::Tcgen05AllocOp alloc) {
        return call("kiln_emulator_tensor_allocate", {generic(alloc.getAddr()), alloc.getNCols()});
      })
      .Case([&](NVVM::Tcgen05DeallocOp dealloc) {
        return call("kiln_emulator_tensor_deallocate",
                    {number(dealloc.getTaddr()), dealloc.getNCols()});
      })
      .Case([&](NVVM::Tcgen05RelinquishAllocPermitOp) {
        return call("kiln_emulator_tensor_relinquish", {});
      })
      .Case([&](NVVM::Tcgen05FenceOp fence) {
        bool isAfter = fence.getKind() == NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC;
        return call("kiln_emulator_tensor_fence", constant(isAfter));
      })
      .Case([&](NVVM::Tcgen05CommitOp commit) {
        return call("kiln_emulator_tensor_commit", generic(commit.getAddr()));
      })
      .Case([&](NVVM::Tcgen05MMAOp product) {
        Value adds = LLVM::ZExtOp::create(builder, loc, i32, product.getEnableInputD());
        // The elements that are type 0 of the kind.
        EmulatedOperand first = product.getKind() == NVVM::Tcgen05MMAKind::I8 ? EmulatedOperand::S8
                                : product.getKind() == NVVM::Tcgen05MMAKind::F8F6F4
                                    ? EmulatedOperand::E4M3
                                    : EmulatedOperand::F16;
        return call("kiln_emulator_tensor_product",
                    {number(product.getMatrixD()), product.getMatrixA(), product.getMatrixB(),
                     product.getIdesc(), adds, constant(static_cast<int64_t>(first))});
      })
      .Case([&](NVVM::ElectSyncOp elect) {
        Value thread = emulator.call(loc, "kiln_emulator_thread", i32, {});
        Value lane = LLVM::AndOp::create(builder, loc, thread, constant(warpSize - 1));
        elect->replaceAllUsesWith(
            LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::eq, lane, constant(0)));
        elect->erase();
        return true;
      })
      .Case([&](LLVM::InlineAsmOp text) {
        if (!text->hasAttr(tensorLoadAttrName))
          return false;
        auto type = cast<LLVM::LLVMStructType>(text.getResult(0).getType());
        size_t count = type.getBody().size();
        Value sums = emulator.allocate(text, count);
        emulator.call(loc, "kiln_emulator_tensor_load", {},
                      {text.getOperand(0), constant(2 * count), sums});
        text->replaceAllUsesWith(LLVM::LoadOp::create(builder, loc, type, sums));
        text->erase();
        return true;
      })
      .Default([](Operation *) { return false; });
}
