// A tile of a number of rows that is known when the model runs: a microkernel for every height that
// there is code for, and the choice between them. The sums are written to memory.
//
// The microkernels are most of the code of a contract. What they do depends on little, so they are
// a function that all kernels of a module call whose tiles differ in sizes and strides alone.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_VARIABLETILE_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_VARIABLETILE_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

struct VariableTile {
  /// The shape of the tallest tile, no row of it moved; its rows are at known offsets.
  MicrokernelShape shape;
  /// The heights there is code for, in steps of `stepRows` rows: 1, …, the tallest. A tile of
  /// another number of steps has its last step computed twice.
  llvm::SmallVector<int64_t> heights;
  int64_t stepRows = 1;
  /// Elements of the left operand from step to step (i64).
  mlir::Value stepStride;
  /// Steps of this tile (i64).
  mlir::Value steps;
  mlir::Value lhs, rhs;
  /// The address of the sums, row by row, `sumStride` elements apart.
  mlir::Value sums;
  int64_t sumStride = 1;
  /// The products are added to what is there.
  bool isAdded = false;
  Prefetch prefetch;
};

/// Multiplies the tile at the frame's insertion point.
void emitVariableTile(codegen::KernelFrame &frame, const VariableTile &tile);

/// Calls a function that does. A step is one row, without columns of its own.
void callVariableTile(codegen::KernelFrame &frame, VariableTile tile);

/// Sums of a tile in memory, as the microkernel has them in registers; the last `numMoved` rows are
/// `moved` rows (i64) further on.
llvm::SmallVector<mlir::Value> loadSums(codegen::KernelFrame &frame, const MicrokernelShape &shape,
                                        mlir::Value base, int64_t stride, mlir::Value moved = {});
void storeSums(codegen::KernelFrame &frame, const MicrokernelShape &shape, mlir::ValueRange sums,
               mlir::Value base, int64_t stride, mlir::Value moved = {});

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_VARIABLETILE_H
