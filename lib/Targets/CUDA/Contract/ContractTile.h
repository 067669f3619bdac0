//===- ContractTile.h - The multiplication out of shared memory -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTTILE_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTTILE_H

#include "CUDA/Contract/ContractPlan.h"
#include <memory>

namespace kiln::cuda {

/// A thread's share of its block's part of a product.
class ContractTile {
public:
  virtual ~ContractTile() = default;

  /// How many elements an operand's part takes in shared memory, and where in it element (row, k)
  /// is.
  virtual int64_t size(Side side) const = 0;
  virtual mlir::Value address(mlir::Value memory, Side side, sym::Expr row, sym::Expr k) = 0;

  /// Whether the 16 bytes of elements that are neighbours in the operand's memory stay that, at a
  /// multiple of 16 bytes.
  virtual bool keepsNeighbours(Side side) const = 0;

  virtual size_t numSums() const = 0;
  /// The sums come in so many bands of rows, one after the other, which differ in their rows alone.
  virtual int64_t numBands() const { return 1; }
  /// The sums of this thread (of the sum's type) with the product of the two parts added.
  virtual llvm::SmallVector<mlir::Value> multiply(mlir::Value lhs, mlir::Value rhs,
                                                  mlir::ValueRange sums) = 0;

  /// The sums of one row of the block: column, number in the band. Each `neighbours` of them are
  /// columns next to each other, from a multiple of that on.
  struct Row {
    sym::Expr row;
    int64_t neighbours = 1;
    llvm::SmallVector<std::pair<sym::Expr, size_t>> columns;
  };
  virtual llvm::SmallVector<Row> rows(sym::Expr band) const = 0;
};

/// With ordinary multiplications, or on tensor cores.
std::unique_ptr<ContractTile> makeScalarTile(DeviceFrame &frame, FmaScheduleAttr schedule,
                                             const ContractDims &dims);
std::unique_ptr<ContractTile> makeMatrixTile(DeviceFrame &frame, MmaScheduleAttr schedule,
                                             const ContractDims &dims);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTTILE_H
