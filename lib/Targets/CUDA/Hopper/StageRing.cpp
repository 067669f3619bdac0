// The stages of shared memory that one warpgroup fills while others compute on what is there.
#include "CUDA/Hopper/StageRing.h"
#include "CUDA/Hopper/TensorMap.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

StageRing::StageRing(DeviceFrame &frame, int64_t stages, int64_t stageBytes, Fill fill,
                     int64_t consumers, int64_t blocks)
    : frame(frame), b(frame.builder), loc(frame.loc), stages(stages), stageBytes(stageBytes),
      fill(fill), bytes(frame.allocateShared(stages * stageBytes, patternBytes)),
      full(frame, stages, fill.arrivals, /*isShared=*/blocks > 1),
      empty(frame, stages, blocks * consumers, /*isShared=*/blocks > 1) {
  if (blocks > 1)
    frame.emitClusterBarrier(/*isRelaxed=*/true);
  else
    frame.emitBarrier();
}

Value StageRing::place(Value turn) {
  return arith::RemUIOp::create(b, loc, turn, frame.constant(stages));
}

Value StageRing::memory(Value place) {
  return frame.gep(bytes, b.getI8Type(),
                   arith::MulIOp::create(b, loc, place, frame.constant(stageBytes)));
}

Value StageRing::round(Value turn) {
  return arith::DivUIOp::create(b, loc, turn, frame.constant(stages));
}

void StageRing::waitEmpty(Value turn) {
  // Emptied in the round before.
  empty.wait(place(turn), arith::AddIOp::create(b, loc, round(turn), frame.constant(1)));
}

Value StageRing::expectBytes(Value turn, std::optional<int64_t> bytes) {
  Value told = full.at(place(turn));
  Value count = arith::ConstantIntOp::create(b, loc, bytes.value_or(fill.bytes), 32);
  NVVM::MBarrierArriveExpectTxOp::create(b, loc, TypeRange(), told, count, NVVM::MemScopeKind::CTA,
                                         false, Value());
  return told;
}

void StageRing::arrive(Value turn) { full.arrive(place(turn)); }

void StageRing::waitFull(Value turn) { full.wait(place(turn), round(turn)); }

void StageRing::askIfFull(Value turn) { full.askAgain(place(turn), round(turn)); }

void StageRing::release(Value turn, Value others) {
  if (others)
    empty.arriveAt(others, place(turn));
  else
    empty.arrive(place(turn));
}
