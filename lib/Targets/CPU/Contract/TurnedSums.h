// Products that are summed along the lanes: a tile for a right operand that lies along the sum.
//
//   w[column][k …]  ×  x[row][k …]     vectors along k, of a few rows times a few columns; then the
//                                      lanes of each are added up, those of all columns together
//
// Nothing is copied, so a right operand that is used for few rows is read once, as fast as memory
// gives it.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_TURNEDSUMS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_TURNEDSUMS_H

#include "CPU/Contract/ContractStaging.h"

namespace kiln::cpu {

/// One row of the panel `panel` for each of `rowOffsets`, as a vector of its columns, a scalar if
/// there is only one in all: what the current block of the sum adds. `lhs` points to the left operand, or to its copy, at the tile's
/// first row and the beginning of that block; rows are `rowOffsets` elements from there.
llvm::SmallVector<mlir::Value> emitTurnedSums(codegen::KernelFrame &frame,
                                              const ContractLayout &layout,
                                              const ContractTask &task, sym::Expr panel,
                                              mlir::Value lhs, llvm::ArrayRef<int64_t> rowOffsets);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_TURNEDSUMS_H
