// Sums that blocks leave for others in the workspace, with their flags.
#include "CUDA/Hopper/PartialSums.h"
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t warpFlagBytes = 4, sumBytes = 4, runLength = vectorBytes / sumBytes;
/// Sums of another block that a thread reads at the same time, by the registers that it has.
static constexpr int64_t fewAtOnce = 16, someAtOnce = 32, manyAtOnce = 64;
static int64_t countAtOnce(int64_t sums, int64_t registers) {
  constexpr int64_t few = 176, many = 224;
  if (sums > manyAtOnce)
    return registers <= few ? fewAtOnce : someAtOnce;
  return registers < many ? someAtOnce : manyAtOnce;
}

// A thread that waits for the sums of one block would have got those of another as well: it reads
// two together, where there are registers for them beside its own sums.
PartialSums::PartialSums(DeviceFrame &frame, Type type, int64_t sums, int64_t threads,
                         int64_t registers, int64_t cluster)
    : frame(frame), b(frame.builder), loc(frame.loc), type(type), numSums(sums),
      numThreads(threads), cluster(cluster), blocksAtOnce(sums > manyAtOnce ? 1 : 2),
      atOnce(countAtOnce(sums, registers)),
      workspace(frame.addWorkspace(sums * threads * sumBytes)) {}

void PartialSums::begin(sym::Expr thread, sym::Expr warp, sym::Expr lane) {
  block = frame.readBlock();
  this->thread = frame.emit(thread);
  this->warp = frame.emit(warp);
  this->lane = frame.emit(lane);
  isFirstLane =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, this->lane, frame.constant(0));
}

Value PartialSums::flag(Value block) {
  Value offset = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, block, frame.constant(blockFlagBytes)),
      arith::MulIOp::create(b, loc, warp, frame.constant(warpFlagBytes)));
  return frame.gep(workspace, b.getI8Type(), offset);
}

Value PartialSums::address(Value block, int64_t i) {
  // Threads' runs are neighbours.
  Value offset = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, block, frame.constant(numSums * numThreads)),
      arith::MulIOp::create(b, loc, thread, frame.constant(runLength)));
  Value begin = frame.gep(workspace, b.getI8Type(), frame.constant(flagBytes));
  Value mine = frame.gep(begin, type, offset);
  return frame.gep(mine, type, frame.constant(i * numThreads));
}

void PartialSums::syncWarp() {
  NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
}

static LLVM::InlineAsmOp emitOnFlag(DeviceFrame &frame, Value flag, StringRef text) {
  return LLVM::InlineAsmOp::create(
      frame.builder, frame.loc, TypeRange(), flag, text, "l,~{memory}", /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
}

void PartialSums::raise(Value flag) {
  emitOnFlag(frame, flag, "st.release.gpu.b32 [$0], 1;")
      ->setAttr(raiseFlagAttrName, b.getUnitAttr());
}

void PartialSums::lower(Value flag) {
  LLVM::StoreOp::create(b, loc, arith::ConstantIntOp::create(b, loc, 0, 32), flag,
                        /*alignment=*/warpFlagBytes);
}

void PartialSums::wait(Value flag) {
  emitOnFlag(frame, flag,
             "{ .reg .pred waits; .reg .b32 value; "
             "AGAIN: ld.acquire.gpu.b32 value, [$0]; setp.eq.b32 waits, value, 0; "
             "@waits nanosleep.u32 32; @waits bra AGAIN; }")
      ->setAttr(waitFlagAttrName, b.getUnitAttr());
}

void PartialSums::leave(ValueRange sums) {
  auto runType = VectorType::get(runLength, type);
  for (int64_t i = 0; i < numSums; i += runLength)
    LLVM::StoreOp::create(b, loc,
                          vector::FromElementsOp::create(b, loc, runType, sums.slice(i, runLength)),
                          address(block, i), /*alignment=*/vectorBytes);
  // Data that the other lanes have written are released with this one's.
  syncWarp();
  frame.emitIf(isFirstLane, [&] { raise(flag(block)); });
}

SmallVector<Value> PartialSums::add(Value first, ValueRange sums) {
  Value last = arith::SubIOp::create(b, loc, block, frame.constant(cluster));
  // Each lane waits for one block. There are fewer blocks with a part of a tile than lanes.
  Value mine = arith::AddIOp::create(b, loc, first,
                                     arith::MulIOp::create(b, loc, lane, frame.constant(cluster)));
  Value raised = flag(arith::MinSIOp::create(b, loc, mine, last));
  wait(raised);
  // When all lanes have seen theirs. Nobody else waits for these flags, and the sums stay.
  syncWarp();
  lower(raised);
  return frame.emitLoop(first, block, blocksAtOnce * cluster, sums,
                        [&](Value other, ValueRange values) -> SmallVector<Value> {
                          SmallVector<Value> next;
                          for (int64_t i = 0; i < numSums; i += atOnce)
                            llvm::append_range(next, addSome(other, last, i, values));
                          return next;
                        });
}

SmallVector<Value> PartialSums::addSome(Value block, Value last, int64_t first, ValueRange sums) {
  auto runType = VectorType::get(runLength, type);
  int64_t end = std::min(first + atOnce, numSums);
  // Negative zero changes no sum.
  TypedAttr none = type.isF32() ? TypedAttr(b.getF32FloatAttr(-0.0f)) : b.getZeroAttr(type);
  Value nothing = arith::ConstantOp::create(b, loc, none);
  SmallVector<Value> results(sums.slice(first, end - first));
  SmallVector<std::pair<Value, SmallVector<Value>>> read;
  for (int64_t i = 0; i < blocksAtOnce; ++i) {
    auto &[isThere, runs] = read.emplace_back();
    Value other = block;
    if (i) {
      other = arith::AddIOp::create(b, loc, block, frame.constant(i * cluster));
      isThere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, other, last);
      other = arith::MinSIOp::create(b, loc, other, last);
    }
    for (int64_t j = first; j < end; j += runLength)
      runs.push_back(LLVM::LoadOp::create(b, loc, runType, address(other, j), vectorBytes));
  }
  for (auto &[isThere, runs] : read)
    for (auto [i, sum] : llvm::enumerate(results)) {
      Value value = vector::ExtractOp::create(b, loc, runs[i / runLength], i % runLength);
      if (isThere)
        value = arith::SelectOp::create(b, loc, isThere, value, nothing);
      sum = type.isF32() ? arith::AddFOp::create(b, loc, sum, value).getResult()
                         : arith::AddIOp::create(b, loc, sum, value).getResult();
    }
  return emitInOrder(frame, results);
}
