//===- ContractPlan.h - How a kernel.contract is run on a GPU ---*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTPLAN_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTPLAN_H

#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

enum class Side { Left, Right };

/// A contract's dims as one loop each for batch, m, n and k.
struct ContractDims {
  explicit ContractDims(kernel::ContractOp op);

  sym::Expr numBatch, m, n, k;
  /// Steps of a part, and how many parts there are: k and 1 if they are not cut.
  sym::Expr part, numParts;
  llvm::SmallVector<codegen::DimGroup> batchGroups, mGroups, nGroups, kGroups;
  /// Neighbours along m (n) are neighbours in memory, and those along k are not.
  bool lhsAlongM = false, rhsAlongN = false;
  bool isAlongRows(Side side) const { return side == Side::Left ? lhsAlongM : rhsAlongN; }
  mlir::Type operandType, sumType;
};

/// A block computes `blockM` x `blockN` elements, `blockK` steps of the sum at a time: both
/// operands' parts are evaluated into shared memory.
///
/// With `depth` 1 a thread's elements are `tileM` consecutive rows and every (blockN / tileN)-th
/// column, so that neighbours write next to each other. Otherwise a warp has a tile of `tileM` x
/// `tileN`, made of products of 16 x 8 elements, `depth` steps at a time, on tensor cores: 16, or 8
/// of f32, which is rounded to TF32.
struct ContractPlan {
  int64_t tileM, tileN, blockM, blockN, blockK, depth;

  int64_t rowTiles() const { return blockM / tileM; }
  int64_t columnTiles() const { return blockN / tileN; }
  int64_t threads() const { return rowTiles() * columnTiles() * (depth == 1 ? 1 : warpSize); }
  sym::Expr grid(const ContractDims &dims) const {
    return dims.numParts * dims.numBatch * dims.m.ceilDiv(blockM) * dims.n.ceilDiv(blockN);
  }
};

/// Few rows, and columns whose steps lie side by side.
bool isDot(const ContractDims &dims);

/// Whether 16 bytes of an operand are loaded at once: neighbours in its innermost loop.
bool isWide(kernel::FuncOp func, const ContractDims &dims, Side side);

/// A schedule of one tile size is that of a product with few rows (EmitDot.cpp): `tile = [m]`,
/// `block = [threads, columns of a warp]`, `lanes` the steps that a lane reads side by side.
void emitDot(DeviceFrame &frame, kernel::ContractOp contract);

/// The plan of another schedule.
ContractPlan readContractPlan(kernel::ScheduleAttr schedule);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTPLAN_H
