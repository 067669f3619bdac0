#include "StageRing.h"
#include "TensorMap.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t barrierBytes = 8;
/// Nanoseconds after which a thread that waits looks again.
static constexpr int64_t waitTicks = 10'000'000;

StageRing::StageRing(DeviceFrame &frame, int64_t stages, int64_t stageBytes, Fill fill,
                     int64_t consumers)
    : frame(frame), b(frame.builder), loc(frame.loc), stages(stages), stageBytes(stageBytes),
      fill(fill) {
  bytes = frame.allocateShared(stages * stageBytes, patternBytes);
  full = frame.toShared(frame.allocateShared(stages * barrierBytes));
  empty = frame.toShared(frame.allocateShared(stages * barrierBytes));
  Value isFirst =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, frame.thread, frame.constant(0));
  frame.emitIf(isFirst, [&] {
    for (int64_t i = 0; i < stages; ++i) {
      NVVM::MBarrierInitOp::create(b, loc, barrier(full, frame.constant(i)), i32(fill.arrivals),
                                   Value());
      NVVM::MBarrierInitOp::create(b, loc, barrier(empty, frame.constant(i)), i32(consumers),
                                   Value());
    }
    // Copies, which arrive by another way than threads, are to see them as well.
    NVVM::FenceProxyOp::create(
        b, loc, NVVM::ProxyKind::async_shared,
        NVVM::SharedSpaceAttr::get(b.getContext(), NVVM::SharedSpace::shared_cta));
  });
  frame.emitBarrier();
}

Value StageRing::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value StageRing::place(Value turn) {
  return arith::RemUIOp::create(b, loc, turn, frame.constant(stages));
}

Value StageRing::memory(Value place) {
  return frame.gep(bytes, b.getI8Type(),
                   arith::MulIOp::create(b, loc, place, frame.constant(stageBytes)));
}

Value StageRing::barrier(Value barriers, Value place) {
  return LLVM::GEPOp::create(b, loc, barriers.getType(), b.getI64Type(), barriers, place);
}

/// A barrier's phases are told apart by their parity: that of the turn's round, or of the one
/// before.
void StageRing::wait(Value barriers, Value turn, bool isOther) {
  Value round = arith::DivUIOp::create(b, loc, turn, frame.constant(stages));
  if (isOther)
    round = arith::AddIOp::create(b, loc, round, frame.constant(1));
  Value parity = arith::AndIOp::create(b, loc, round, frame.constant(1));
  NVVM::MBarrierTryWaitParityOp::create(b, loc, barrier(barriers, place(turn)),
                                        arith::TruncIOp::create(b, loc, b.getI32Type(), parity),
                                        i32(waitTicks));
}

void StageRing::waitEmpty(Value turn) { wait(empty, turn, /*isOther=*/true); }

Value StageRing::expectBytes(Value turn, std::optional<int64_t> bytes) {
  Value told = barrier(full, place(turn));
  NVVM::MBarrierArriveExpectTxOp::create(b, loc, TypeRange(), told, i32(bytes.value_or(fill.bytes)),
                                         NVVM::MemScopeKind::CTA, false, Value());
  return told;
}

void StageRing::arrive(Value turn) { arriveAt(full, turn); }

void StageRing::waitFull(Value turn) { wait(full, turn, /*isOther=*/false); }

void StageRing::release(Value turn) { arriveAt(empty, turn); }

void StageRing::arriveAt(Value barriers, Value turn) {
  NVVM::MBarrierArriveOp::create(b, loc, TypeRange(), barrier(barriers, place(turn)), Value(),
                                 NVVM::MemScopeKind::CTA, false);
}
