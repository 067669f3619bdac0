// The innermost loops of a matrix product: a tile of accumulators that stays in registers while the
// sum runs.
//
// The scheme is that of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication",
// ACM TOMS 34(3), 2008) as reduced by BLIS (Van Zee and van de Geijn, ACM TOMS 41(3), 2015) to one
// kernel: for each k, one row of the right operand is loaded as a few vectors, one column of the
// left operand is broadcast element by element, and rows x vectors FMAs update the tile. What is
// different here:
//
//   * The left operand is not packed. Its rows lie at offsets that are known at compile time, so
//     they are displacements of one pointer; rows of a matrix, of an image under a convolution's
//     window and of a copy in scratch memory look the same. Where kernels share the code
//     (VariableTile.h), the stride from row to row is a number in a register instead.
//   * The sum is a nest of loops, not one: a convolution over channels-last data is a loop over the
//     window's rows around one over (window column, channel), which is contiguous.
//   * Short loops (the three columns of a window) are written out, as far as the code stays small; of
//     long ones four steps are. An iteration of 12 to 28 FMAs hides its own latency, but a core whose
//     other thread is at work has room for few instructions beside them.
//
// Measured on Zen 5 with two 512-bit FMA a cycle: 8 to 14 rows of 32 columns run at 0.95 of the
// FMA peak from level 2 cache.
#ifndef KILN_TARGETS_CPU_MICROKERNEL_H
#define KILN_TARGETS_CPU_MICROKERNEL_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// One loop of the sum: how far, in elements, an iteration moves in each operand.
struct SumLoop {
  sym::Expr extent;
  sym::Expr lhsStride;
  sym::Expr rhsStride;
};

struct MicrokernelShape {
  /// Element types in memory, and the type of the sum. Operands narrower than the sum are extended.
  mlir::Type lhsType, rhsType, sumType;
  /// The beginning of each row of the tile, in elements from the left operand's pointer.
  llvm::SmallVector<int64_t> rowOffsets;
  /// Elements (i64) from row to row where no kernel alone says it: `rowOffsets` counts rows then,
  /// from 0 on, and the right operand's rows follow each other through all loops.
  mlir::Value rowStride;
  /// Steps of the innermost loop that are written out where there is `rowStride`, of which the extent is a
  /// multiple; elsewhere the loops say it.
  int64_t stepsAtOnce = 1;
  /// The distance to where the last `numMoved` rows really begin, in elements (i64).
  mlir::Value moved;
  int64_t numMoved = 0;
  /// The tile's columns: `vectors` times `lanes`, consecutive in the right operand.
  int64_t vectors = 1, lanes = 1;
  /// The lanes of each vector that there are columns for, in a right operand that ends with them;
  /// null: all. Empty: all lanes of all vectors.
  llvm::SmallVector<mlir::Value> rhsMasks;
  /// The left operand has an element for each column too, consecutive as the right operand's are:
  /// vectors are multiplied element by element (a depthwise convolution).
  bool lhsHasColumns = false;
  /// Operands are groups of so many bytes, as a contract's with `bytes`; 0: they are not.
  int64_t bytes = 0;
  bool isNarrow = false; // as the contract's
  /// The right operand's integers are unsigned.
  bool rhsUnsigned = false;
  /// Steps of the sum in an element of the right operand, the iterations of the innermost loop, the
  /// first in its lowest bits: signed numbers of four bits, or two bf16.
  int64_t rhsSteps = 1;
  /// Operands are pairs of bf16, those of the left one next to each other, which are multiplied as such.
  bool pairs = false;
  /// The right operand is multiplied by a row of `scaleType` of its own in each iteration of the outermost
  /// loop, and another of f32 is added then, or subtracted first: the first rows' addresses (null: there are
  /// none), and the elements from row to row.
  mlir::Value scales, offsets;
  mlir::Type scaleType;
  bool subtractsFirst = false;
  int64_t scaleStride = 0;
  /// The right operand is words of four bits, so many in a group, an iteration of the outermost loop, and the left one words of
  /// bytes (MultiplyGroups.h), whose zero point is `zeroAt` elements (i64) from a row's beginning, or bf16; 0: they are not.
  int64_t groupWords = 0;
  mlir::Value zeroAt;
  /// The left operand's rows are block floats (BlockFloats.h), in the place of f32.
  bool hasBlockFloats = false;
  /// Outermost first. Extents and strides may use the frame's variables.
  llvm::SmallVector<SumLoop> loops;
  /// The most innermost iterations that are written out.
  int64_t unroll = 12;
};

/// Cache lines asked for ahead of use, one in each innermost iteration: `pointer` moves `stride`
/// bytes an iteration. Neighbouring tiles share the work of fetching the next panel in this way.
struct Prefetch {
  mlir::Value pointer; // null for none
  mlir::Value stride;  // i64
  /// Lines asked for in an iteration, one after the other.
  int64_t lines = 1;
  /// 3 asks for level 1 cache, 2 for level 2.
  int locality = 2;
};

/// Asks for what belongs to `word` (i64), of which each has `steps` iterations and `bytes` bytes of the
/// right operand.
void fetchWord(codegen::KernelFrame &frame, const Prefetch &prefetch, mlir::Value word,
               int64_t steps, int64_t bytes);

/// Emits the nest at the frame's insertion point: accumulators[row * vectors + v] = init + sum of
/// products. An empty `init` is zero. Accumulators are vector<lanes x sumType>, scalars when
/// `lanes` is 1.
llvm::SmallVector<mlir::Value> emitMicrokernel(codegen::KernelFrame &frame,
                                               const MicrokernelShape &shape, mlir::Value lhs,
                                               mlir::Value rhs, mlir::ValueRange init,
                                               const Prefetch &prefetch);

/// Rows of the tallest tile with `vectors` vectors of columns that leaves a register for each
/// vector of the right operand and one for the left.
int64_t maxTileRows(const codegen::CPUInfo &target, int64_t vectors);

/// The most steps of a long sum that an iteration of its loop has.
inline constexpr int64_t maxStepsAtOnce = 4;

/// A loop that is to stay as it is: no unrolling, no vectorisation.
void keepLoop(mlir::Operation *loop);
/// Such a loop from 0 to `extent` (i64): `body` gets the number and the iteration's values, and returns the next ones.
llvm::SmallVector<mlir::Value> emitKeptLoop(
    codegen::KernelFrame &frame, mlir::Value extent, mlir::ValueRange init,
    llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_MICROKERNEL_H
