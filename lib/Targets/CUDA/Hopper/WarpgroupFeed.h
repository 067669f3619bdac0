//===- WarpgroupFeed.h - Operands for products of warpgroups ----*- C++ -*-===//
//
// What the warpgroup that does not multiply brings to shared memory. What is memory as it is comes
// in boxes, of which one thread starts the copies. What else an operand may be (a convolution's
// windows, a fused prologue) all threads of the warpgroup bring: they copy it asynchronously or
// evaluate it, say that hardware will read what they have written (fence.proxy.async), and arrive
// at the barrier of the place.
//
// Blocks of a cluster that need the same part of an operand share its boxes.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPFEED_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPFEED_H

#include "CUDA/Contract/OperandLoad.h"
#include "CUDA/Hopper/StageRing.h"
#include "CUDA/Hopper/TileScheduler.h"

namespace kiln::cuda {

class WarpgroupFeed {
public:
  /// `thread`: the number in the warpgroup; `rank`: the block's in its cluster. All threads of the
  /// block come here.
  WarpgroupFeed(DeviceFrame &frame, kernel::ContractOp op, const ContractDims &dims,
                const WarpgroupPlan &plan, const WarpgroupOperands &operands, sym::Expr thread,
                sym::Expr rank);

  /// Bytes of the left operand's part, behind which the right one's is.
  int64_t lhsBytes() const { return plan.leftRows * lineBytes; }

  /// What fills a place.
  static StageRing::Fill makeFill(const WarpgroupPlan &plan, const WarpgroupOperands &operands);

  /// Brings the parts of all of the block's tiles.
  void emitTiles(StageRing &ring, TileScheduler &tiles);

private:
  /// Runs `body`, in which steps are those of a tile.
  void emitTile(sym::Expr batch, sym::Expr firstM, sym::Expr firstN,
                llvm::function_ref<void()> body);
  /// Fills the turn's place with the parts that begin at step `k`.
  void emitStep(StageRing &ring, mlir::Value turn, sym::Expr k);
  /// Behind the last of `turns` turns.
  void finish(StageRing &ring, mlir::Value turns);

  struct Operand {
    sym::Expr firstRow = 0;
    int64_t offset = 0; // in a place
    std::optional<TensorLoad> boxes;
    std::optional<OperandLoad> threads;
  };

  void prepare(Operand &operand, Side side, const WarpgroupOperand &source, int64_t rows,
               TensorLoad::Sharing sharing, kernel::ContractOp op, const ContractDims &dims);
  mlir::Value address(const Operand &operand, mlir::Value place);
  void emitBoxes(StageRing &ring, mlir::Value turn, mlir::Value place, sym::Expr k);
  void fence();
  mlir::Value isFirst();

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  WarpgroupPlan plan;
  sym::Expr thread, endK, partK, batch = 0;
  Operand lhs, rhs;
  /// Turns that copies are behind: those of so many are under way. 0: nothing is copied by threads.
  int64_t behind = 0;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPFEED_H
