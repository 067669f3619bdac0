// Barriers in shared memory, on which threads and copies meet.
#include "CUDA/Hopper/BarrierArray.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t barrierBytes = 8;
/// Nanoseconds after which a thread that waits looks again.
static constexpr int64_t waitTicks = 10'000'000;

BarrierArray::BarrierArray(DeviceFrame &frame, int64_t count, int64_t arrivals, bool isShared)
    : frame(frame), b(frame.builder), loc(frame.loc) {
  barriers = frame.toShared(frame.allocateShared(count * barrierBytes));
  Value isFirst =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, frame.thread, frame.constant(0));
  frame.emitIf(isFirst, [&] {
    for (int64_t i = 0; i < count; ++i)
      NVVM::MBarrierInitOp::create(b, loc, at(frame.constant(i)), i32(arrivals), Value());
    // Copies, which arrive by another way than threads, are to see them as well.
    NVVM::FenceProxyOp::create(
        b, loc, NVVM::ProxyKind::async_shared,
        NVVM::SharedSpaceAttr::get(b.getContext(), NVVM::SharedSpace::shared_cta));
    if (isShared)
      NVVM::FenceMbarrierInitOp::create(b, loc);
  });
}

Value BarrierArray::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value BarrierArray::at(Value index) { return at(barriers, index); }

Value BarrierArray::at(Value array, Value index) {
  return LLVM::GEPOp::create(b, loc, array.getType(), b.getI64Type(), array, index);
}

Operation *BarrierArray::emitWait(Value index, Value parity) {
  Value bit = arith::AndIOp::create(b, loc, parity, frame.constant(1));
  return NVVM::MBarrierTryWaitParityOp::create(
      b, loc, at(index), arith::TruncIOp::create(b, loc, b.getI32Type(), bit), i32(waitTicks));
}

void BarrierArray::wait(Value index, Value parity) { emitWait(index, parity); }

void BarrierArray::askAgain(Value index, Value parity) {
  emitWait(index, parity)->setAttr(askAgainAttrName, b.getUnitAttr());
}

void BarrierArray::arrive(Value index) {
  NVVM::MBarrierArriveOp::create(b, loc, TypeRange(), at(index), Value(), NVVM::MemScopeKind::CTA,
                                 false);
}

Value BarrierArray::of(Value rank) {
  auto type = LLVM::LLVMPointerType::get(
      b.getContext(), static_cast<unsigned>(NVVM::NVVMMemorySpace::SharedCluster));
  return NVVM::MapaOp::create(b, loc, type, barriers, rank);
}

void BarrierArray::arriveAt(Value others, Value index) {
  // An arrival of a wider scope would first wait for everything that the thread has written
  // anywhere.
  NVVM::MBarrierArriveOp::create(b, loc, TypeRange(), at(others, index), Value(),
                                 NVVM::MemScopeKind::CTA, false);
}
