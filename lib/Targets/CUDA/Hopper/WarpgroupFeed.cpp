// Operands that threads evaluate and store to shared memory for warpgroups to multiply.
#include "CUDA/Hopper/WarpgroupFeed.h"
#include "CUDA/Contract/MatrixFragments.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Chunks that a thread evaluates before it stores them: it has registers for these.
static constexpr size_t chunksAtOnce = 8;

WarpgroupFeed::WarpgroupFeed(DeviceFrame &frame, kernel::ContractOp op, const ContractDims &dims,
                             const WarpgroupPlan &plan, const WarpgroupOperands &operands,
                             sym::Expr thread, sym::Expr rank)
    : frame(frame), b(frame.builder), loc(frame.loc), plan(plan), thread(thread), endK(dims.k),
      partK(dims.part) {
  // Neighbours in a row of tiles need the same rows, those in a column the same columns.
  auto sharing = [&](int64_t blocks) {
    return TensorLoad::Sharing{blocks, blocks > 1 ? rank : sym::Expr(0)};
  };
  prepare(lhs, Side::Left, operands.lhs, plan.leftRows, sharing(plan.cluster.n), op, dims);
  prepare(rhs, Side::Right, operands.rhs, plan.blockN, sharing(plan.cluster.m), op, dims);
  rhs.offset = lhsBytes();
  for (const Operand *operand : {&lhs, &rhs})
    if (operand->threads && operand->threads->isCopied())
      behind = plan.stages / 2;
}

void WarpgroupFeed::prepare(Operand &operand, Side side, const WarpgroupOperand &source,
                            int64_t rows, TensorLoad::Sharing sharing, kernel::ContractOp op,
                            const ContractDims &dims) {
  if (source.view) {
    operand.boxes.emplace(frame, *source.view, dims.operandType, rows, sharing);
    return;
  }
  // The lines of a box, whose chunks change places in the same way. Those of rows are in boxes of
  // as many steps.
  int64_t line = plan.blockK;
  SharedMatrix lines{dims.operandType, rows, line};
  auto address = [this, lines, line, alongRows = source.alongRows](Value memory, sym::Expr row,
                                                                   sym::Expr k) {
    if (!alongRows)
      return lines.address(frame, memory, row, k);
    return lines.address(frame, memory, line * row.floorDiv(line) + k, row.mod(line));
  };
  operand.threads.emplace(frame, op, dims, OperandPart{side, rows, line, address, true}, thread,
                          warpgroupSize);
}

StageRing::Fill WarpgroupFeed::makeFill(const WarpgroupPlan &plan,
                                        const WarpgroupOperands &operands) {
  return {plan.boxBytes(operands),
          operands.haveBoxes() + (operands.haveThreads() ? warpgroupSize : 0)};
}

void WarpgroupFeed::emitTiles(StageRing &ring, TileScheduler &tiles) {
  Value turns = tiles.forEach(frame.constant(0), 1, [&](const ScheduledTile &tile, Value) {
    emitTile(tile.batch, tile.firstM, tile.firstN, [&] {
      Value begin = arith::SubIOp::create(b, loc, tile.turn, tile.first);
      frame.emitLoop(tile.first, tile.end, 1, {}, [&](Value iv, ValueRange) -> SmallVector<Value> {
        Value turn = arith::AddIOp::create(b, loc, begin, iv);
        sym::Expr k = partK * tile.part + plan.blockK * frame.addVariable(iv, tiles.steps());
        emitStep(ring, turn, k);
        return {};
      });
    });
  });
  finish(ring, turns);
}

void WarpgroupFeed::emitTile(sym::Expr batch, sym::Expr firstM, sym::Expr firstN,
                             function_ref<void()> body) {
  this->batch = batch;
  lhs.firstRow = firstM;
  rhs.firstRow = firstN;
  auto bindRight = [&] {
    if (rhs.threads)
      rhs.threads->emitTile(batch, firstN, body);
    else
      body();
  };
  if (lhs.threads)
    lhs.threads->emitTile(batch, firstM, bindRight);
  else
    bindRight();
}

Value WarpgroupFeed::address(const Operand &operand, Value place) {
  return frame.gep(place, b.getI8Type(), frame.constant(operand.offset));
}

Value WarpgroupFeed::isFirst() {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, frame.emit(thread),
                               frame.constant(0));
}

void WarpgroupFeed::emitBoxes(StageRing &ring, Value turn, Value place, sym::Expr k) {
  Value barrier = ring.expectBytes(turn);
  for (Operand *operand : {&lhs, &rhs})
    if (operand->boxes)
      operand->boxes->emit(batch, operand->firstRow, k, address(*operand, place), barrier);
}

void WarpgroupFeed::fence() {
  NVVM::FenceProxyOp::create(
      b, loc, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(b.getContext(), NVVM::SharedSpace::shared_cta));
}

void WarpgroupFeed::emitStep(StageRing &ring, Value turn, sym::Expr k) {
  if (!lhs.threads && !rhs.threads) {
    ring.waitEmpty(turn);
    return emitBoxes(ring, turn, ring.memory(ring.place(turn)), k);
  }
  // Evaluation comes first, while the place may still be read.
  auto evaluated = [&](Operand &operand) {
    return operand.threads && !operand.threads->isCopied();
  };
  auto count = [&](Operand &operand, size_t first) {
    return std::min(chunksAtOnce, operand.threads->numChunks() - first);
  };
  Operand *early = evaluated(lhs) ? &lhs : evaluated(rhs) ? &rhs : nullptr;
  SmallVector<Value> values;
  if (early)
    values = early->threads->evaluate(k, endK, 0, count(*early, 0));
  ring.waitEmpty(turn);
  Value place = ring.memory(ring.place(turn));
  if (lhs.boxes || rhs.boxes)
    frame.emitIf(isFirst(), [&] { emitBoxes(ring, turn, place, k); });
  if (behind) {
    for (Operand *operand : {&lhs, &rhs})
      if (operand->threads && operand->threads->isCopied())
        operand->threads->copy(k, endK, address(*operand, place));
    emitCopiesEnd(frame);
  }
  for (Operand *operand : {&lhs, &rhs}) {
    if (!evaluated(*operand))
      continue;
    for (size_t first = 0; first < operand->threads->numChunks(); first += chunksAtOnce) {
      size_t number = count(*operand, first);
      if (operand != early || first)
        values = operand->threads->evaluate(k, endK, first, number);
      operand->threads->store(values, address(*operand, place), first, number);
    }
  }
  if (behind)
    emitCopiesWait(frame, behind);
  fence();
  if (!behind)
    return ring.arrive(turn);
  Value isPast =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, turn, frame.constant(behind));
  frame.emitIf(isPast,
               [&] { ring.arrive(arith::SubIOp::create(b, loc, turn, frame.constant(behind))); });
}

void WarpgroupFeed::finish(StageRing &ring, Value turns) {
  if (!behind)
    return;
  emitCopiesWait(frame, 0);
  fence();
  Value first = arith::MaxSIOp::create(
      b, loc, arith::SubIOp::create(b, loc, turns, frame.constant(behind)), frame.constant(0));
  frame.emitLoop(first, turns, 1, {}, [&](Value turn, ValueRange) -> SmallVector<Value> {
    ring.arrive(turn);
    return {};
  });
}
