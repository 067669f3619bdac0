// Products in the registers for tiles (AMX), of 16 rows of 64 bytes each:
//
//                  B6     B7        B6, B7: 16 steps of the sum, 16 columns each
//                ┌──────┬──────┐
//   A4 (16 rows) │  0   │  1   │    A4, A5: 16 rows, 16 steps of the sum each
//                ├──────┼──────┤
//   A5 (16 rows) │  2   │  3   │    0 to 3: sums
//                └──────┴──────┘
//
// A step is a word: four bytes or two bf16. Rows of B are those of a packed panel. A5 begins 16 rows
// before the end: for fewer than 32 rows, the two have some in common, which are computed twice. Of an
// image with rows of up to 16 pixels, A4 and A5 have a row each.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_TILEPRODUCTS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_TILEPRODUCTS_H

#include "kiln/Targets/CPU/CPUDialect.h"
#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// The words of the innermost loop that go into a tile at a time, and those left over, which are
/// multiplied in vectors: 0 if tiles can be a little shorter instead.
struct TileSteps {
  explicit TileSteps(int64_t words);
  int64_t words, count, rest;
};

struct TileProduct {
  /// Pairs of bf16, summed in f32; otherwise bytes, summed in i32.
  bool isPairs = false;
  /// The first row, and the bytes from row to row (i64).
  mlir::Value lhs, rowBytes;
  /// The rows of a register, and the bytes to those of the second one; null: they are the last of the tile.
  int64_t registerRows = tileRegisterRows;
  mlir::Value secondBytes;
  /// The panel, and the words from row to row in it.
  mlir::Value rhs;
  int64_t panel = 0;
  /// Columns of the panel that are computed.
  int64_t columns = 0;
  /// The loops around that over words, outermost first, and that one's steps. Left strides are in
  /// words of `lhsWord` bytes.
  llvm::SmallVector<SumLoop> loops;
  int64_t lhsElementBytes = 4;
  TileSteps steps{1};
  /// Lines that are fetched ahead; a stride is that of a word.
  Prefetch prefetch;
  /// The sums, a row of the panel's width for each row.
  mlir::Value sums;
};

/// Says what the tiles hold: `rows` (i64, up to 16) rows of the left operand. `memory` has 64 bytes.
void emitTileConfig(codegen::KernelFrame &frame, mlir::Value memory, mlir::Value rows,
                    const TileSteps &steps);
void emitTileRelease(codegen::KernelFrame &frame);

/// Multiplies a tile of `height` rows (i64), which is known to be at most `most`, and not less than
/// the rows of the configuration.
void emitTileProduct(codegen::KernelFrame &frame, const TileProduct &product, mlir::Value height,
                     int64_t most);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_TILEPRODUCTS_H
