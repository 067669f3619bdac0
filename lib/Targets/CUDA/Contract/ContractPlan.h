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
  /// Operands are bytes, whose steps lie side by side in shared memory, four in a register.
  bool areBytes() const { return operandType.isInteger(8); }
  /// Operands are floats of eight bits, which only variants for Hopper and Blackwell have.
  bool areFloat8() const {
    return mlir::isa<mlir::FloatType>(operandType) && operandType.getIntOrFloatBitWidth() == 8;
  }
  /// How many of an operand's elements so many bytes have.
  int64_t elementsOf(int64_t bytes) const {
    return bytes * 8 / operandType.getIntOrFloatBitWidth();
  }
};

/// Places in shared memory for parts of an operand that threads evaluate.
constexpr int64_t evaluatedPlaces = 2;

/// A block computes `m` x `n` elements, `k` steps of the sum at a time: both operands' parts are
/// evaluated into shared memory.
struct ContractBlock {
  int64_t m, n, k;

  /// The block of a schedule that has such: #cuda.fma or #cuda.mma.
  template <typename Schedule> static ContractBlock of(Schedule schedule) {
    return {schedule.getM(), schedule.getN(), schedule.getK()};
  }
  sym::Expr grid(const ContractDims &dims) const {
    return dims.numParts * dims.numBatch * dims.m.ceilDiv(m) * dims.n.ceilDiv(n);
  }
};

/// Few rows, and columns whose steps lie side by side.
bool isDot(const ContractDims &dims);

/// True if 16 bytes of an operand are loaded at once: neighbours in its innermost loop.
bool isWide(kernel::FuncOp func, const ContractDims &dims, Side side);

/// Rows are so few that the product waits for the small integers that its right operand is computed of.
bool waitsForSmallIntegers(kernel::FuncOp func, const ContractDims &dims);

/// Writes a product with few rows, whose schedule is #cuda.dot.
void emitDot(DeviceFrame &frame, kernel::ContractOp contract);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTPLAN_H
