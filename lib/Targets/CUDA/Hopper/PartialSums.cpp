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
/// Sums of another block that a thread holds beside its own.
static constexpr int64_t atOnce = 32;

PartialSums::PartialSums(DeviceFrame &frame, int64_t sums, int64_t threads, int64_t cluster)
    : frame(frame), b(frame.builder), loc(frame.loc), numSums(sums), numThreads(threads),
      cluster(cluster), workspace(frame.addWorkspace(sums * threads * sumBytes)) {}

void PartialSums::begin(sym::Expr thread, sym::Expr warp, sym::Expr lane) {
  block = frame.readBlock();
  this->thread = frame.emit(thread);
  this->warp = frame.emit(warp);
  isFirstLane =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, frame.emit(lane), frame.constant(0));
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
  Value mine = frame.gep(begin, b.getF32Type(), offset);
  return frame.gep(mine, b.getF32Type(), frame.constant(i * numThreads));
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
  auto type = VectorType::get(runLength, b.getF32Type());
  for (int64_t i = 0; i < numSums; i += runLength)
    LLVM::StoreOp::create(b, loc,
                          vector::FromElementsOp::create(b, loc, type, sums.slice(i, runLength)),
                          address(block, i), /*alignment=*/vectorBytes);
  // Data that the other lanes have written are released with this one's.
  syncWarp();
  frame.emitIf(isFirstLane, [&] { raise(flag(block)); });
}

SmallVector<Value> PartialSums::add(Value first, ValueRange sums) {
  return frame.emitLoop(first, block, cluster, sums,
                        [&](Value other, ValueRange values) -> SmallVector<Value> {
                          Value raised = flag(other);
                          wait(raised);
                          SmallVector<Value> next;
                          for (int64_t i = 0; i < numSums; i += atOnce)
                            llvm::append_range(next, addSome(other, i, values));
                          // When all lanes have seen it.
                          syncWarp();
                          frame.emitIf(isFirstLane, [&] { lower(raised); });
                          return next;
                        });
}

SmallVector<Value> PartialSums::addSome(Value block, int64_t first, ValueRange sums) {
  auto type = VectorType::get(runLength, b.getF32Type());
  int64_t end = std::min(first + atOnce, numSums);
  SmallVector<Value> results;
  for (int64_t i = first; i < end; i += runLength) {
    Value run = LLVM::LoadOp::create(b, loc, type, address(block, i), /*alignment=*/vectorBytes);
    for (int64_t j = 0; j < runLength; ++j)
      results.push_back(
          arith::AddFOp::create(b, loc, sums[i + j], vector::ExtractOp::create(b, loc, run, j)));
  }
  return emitInOrder(frame, results);
}
