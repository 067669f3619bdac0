//===- MatrixFragments.h - Operands of tensor cores -------------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_MATRIXFRAGMENTS_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_MATRIXFRAGMENTS_H

#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Rows and columns of the product of one mma.sync. Its steps are 32 bytes of a row: 16 of two
/// bytes, 32 of one, or 8 of f32, as TF32.
constexpr int64_t mmaM = 16, mmaN = 8, mmaStepBytes = 32;

/// A matrix of `lines` x `length` elements in shared memory, of which ldmatrix reads 8 x 8: 16
/// bytes of 8 lines. Chunks of 16 bytes change places within a line, by the line's number, such
/// that those of 8 neighbouring lines are in different banks (a swizzle): no instruction that reads
/// or writes them waits for another's bank. `padded` lines are as they are, 32 bytes apart modulo
/// the banks, for loads of single elements.
///
/// Lines of 8 chunks, which are all banks: the chunk that lies at each place. Chunk 2 of 8 lines,
/// which one ldmatrix reads, is at 8 different places. Of shorter lines, as many as fill the banks
/// have one key.
///
///   line | key | banks 0-3  4-7  8-11 12-15 16-19 20-23 24-27 28-31
///   -----+-----+----------------------------------------------------
///     0  |  0  |      0     1    [2]    3     4     5     6     7
///     1  |  1  |      1     0     3    [2]    5     4     7     6
///     2  |  2  |     [2]    3     0     1     6     7     4     5
///     3  |  3  |      3    [2]    1     0     7     6     5     4
///     4  |  4  |      4     5     6     7     0     1    [2]    3
///     5  |  5  |      5     4     7     6     1     0     3    [2]
///     6  |  6  |      6     7     4     5    [2]    3     0     1
///     7  |  7  |      7     6     5     4     3    [2]    1     0
struct SharedMatrix {
  mlir::Type type;
  int64_t lines, length;
  bool isPadded = false;

  int64_t elementBytes() const { return type.getIntOrFloatBitWidth() / 8; }
  int64_t chunk() const { return vectorBytes / elementBytes(); }
  int64_t pitch() const { return isPadded ? length + mmaStepBytes / elementBytes() : length; }
  int64_t size() const { return lines * pitch(); }
  /// Whether there is a swizzle for lines of this length.
  bool isValid() const { return isPadded || (llvm::isPowerOf2_64(length) && length >= chunk()); }

  mlir::Value address(DeviceFrame &frame, mlir::Value memory, sym::Expr line, sym::Expr at) const;
};

/// This thread's part of matrices for the tensor cores. Lane 4*g + t of a warp holds, of the left
/// operand, rows g and g + 8, of the right one column g, both at the steps 2t and 2t + 1 of either
/// half of the steps (TF32: at step t of either half; bytes: at 4t to 4t + 3); and of the sums, rows g and g + 8 at columns
/// 2t and 2t + 1. A register has two steps (TF32: one; bytes: four).
///
/// Lanes that hold the left operand (elements of two bytes), in registers a0 to a3, and the sums,
/// in c0 to c3; the right operand's column g is as the left one's row g, in b0 and b1:
///
///           steps 0-1 2-3 4-5 6-7 | 8-9 10-11 12-13 14-15        columns 0 1 | 2 3 | 4 5 | 6 7
///   row 0       a0: 0   1   2   3 | a2: 0   1     2     3    row 0   c0 c1: 0     1     2     3
///   row 1           4   5   6   7 |     4   5     6     7    row 1          4     5     6     7
///    ...                          |                           ...
///   row 7          28  29  30  31 |    28  29    30    31    row 7         28    29    30    31
///   row 8       a1: 0   1   2   3 | a3: 0   1     2     3    row 8   c2 c3: 0     1     2     3
///    ...                          |                           ...
///   row 15         28  29  30  31 |    28  29    30    31    row 15        28    29    30    31
class MatrixFragments {
public:
  /// `splits`: f32 is not rounded to TF32 when it is loaded, but split.
  MatrixFragments(DeviceFrame &frame, mlir::Type type, bool splits = false);

  /// The steps of one instruction.
  int64_t steps() const { return mmaStepBytes / (type.getIntOrFloatBitWidth() / 8); }

  /// Four registers of the left operand's 16 rows from `row` on. `alongSteps`: a line of the
  /// matrix has the steps of a row, as it must of bytes; otherwise the rows of a step.
  llvm::SmallVector<mlir::Value> loadLeft(const SharedMatrix &matrix, bool alongSteps,
                                          mlir::Value memory, sym::Expr row, sym::Expr k);
  /// Two registers for each of the right operand's `count` (1 or 2) times 8 columns.
  llvm::SmallVector<mlir::Value> loadRight(const SharedMatrix &matrix, bool alongSteps,
                                           mlir::Value memory, sym::Expr column, sym::Expr k,
                                           int64_t count);
  /// Adds a product of 16 x 8 elements to four sums (f32; of bytes i32, which wrap around).
  void multiplyAdd(mlir::ValueRange left, mlir::ValueRange right,
                   llvm::MutableArrayRef<mlir::Value> sums);

  /// Registers of f32 as sums of two numbers of TF32 each, but for less than 2^-22 of the number.
  struct Split {
    llvm::SmallVector<mlir::Value> high, low;
    /// `high`, but 0 instead of infinity, whose product with a `low` of 0 would be NaN.
    llvm::SmallVector<mlir::Value> finite;
  };
  Split split(mlir::ValueRange registers);

  /// g and t, and the lane's number.
  sym::Expr group = 0, step = 0, lane = 0;

private:
  llvm::SmallVector<mlir::Value> loadMatrices(mlir::Value address, int64_t count, bool transposed);
  mlir::Value loadElement(const SharedMatrix &matrix, mlir::Value memory, sym::Expr row,
                          sym::Expr k);
  mlir::Value roundToTF32(mlir::Value bits);
  /// A loaded register, as products of f32 take it.
  mlir::Value convert(mlir::Value bits) { return splits ? bits : roundToTF32(bits); }

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
  bool splits;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_MATRIXFRAGMENTS_H
