//===- WarpgroupProduct.h - Products of warpgroups (wgmma) ------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPRODUCT_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPRODUCT_H

#include "CUDA/Hopper/TensorMap.h"

namespace kiln::cuda {

/// Threads that multiply together, and the rows of what they multiply. Its steps are 32 bytes of a
/// row: 16 of two bytes.
constexpr int64_t warpgroupSize = 128, wgmmaM = 64, wgmmaStepBytes = 32,
                  wgmmaK = wgmmaStepBytes / 2;
/// The rows of Blackwell's tensor memory.
constexpr int64_t tensorRows = 128;

mlir::Value emitIsZero(DeviceFrame &frame, mlir::Value value);

/// Which of the block's `count` warpgroups a thread is in, or of its warps or what else has as many
/// `threads`. That all threads of a warp have the same number ptxas sees from where they get it,
/// which is the first of them: what is computed of it takes registers that a warp has in common.
sym::Expr emitWarpgroupNumber(DeviceFrame &frame, int64_t count, int64_t threads = warpgroupSize);
/// These values of f32 or i32, computed here, between the accesses of memory before and after.
llvm::SmallVector<mlir::Value> emitInOrder(DeviceFrame &frame, mlir::ValueRange values);

/// Emits the work of the first warpgroup of a block, or its first thread alone (`oneCopies`), and
/// that of the others; `group` and `inGroup` say where a thread is. Null `registers`: all keep
/// theirs.
void emitWarpgroupRoles(DeviceFrame &frame, sym::Expr group, sym::Expr inGroup, bool oneCopies,
                        std::optional<WarpgroupRegisters> registers,
                        llvm::function_ref<void()> copy, llvm::function_ref<void()> multiply);

/// The matrix descriptor of wgmma and tcgen05.mma for an operand in shared memory, as tensor maps
/// bring it: in boxes of lines of `lineBytes`. Steps are counted in bytes of a row, or in lines.
class MatrixDescriptor {
public:
  /// A chunk of 16 bytes is the unit of addresses.
  static constexpr int64_t unit = 16;
  /// What tcgen05.mma has besides in descriptors: their version.
  static constexpr uint64_t tcgen05 = uint64_t(1) << 46;

  /// For what lies from `memory` on. A line has rows of a step (`alongRows`), otherwise steps of a
  /// row. Eight lines are a pattern; neighbouring patterns come next along the lines' numbers, and
  /// `boxBytes` further where lines go on in another box.
  MatrixDescriptor(DeviceFrame &frame, mlir::Value memory, bool alongRows, int64_t boxBytes,
                   uint64_t version = 0);

  /// The descriptor of the instruction with this number, each of `wgmmaStepBytes` of a row (as many
  /// lines as these are steps of two bytes), `offset` units further.
  mlir::Value at(mlir::Value offset, int64_t number) const;
  /// The tensor cores find rows of a step side by side.
  bool isTurned() const { return alongRows; }

private:
  DeviceFrame &frame;
  bool alongRows;
  int64_t boxBytes;
  uint64_t high;
  mlir::Value first; // of the lower 32 bits
};

/// Products of 64 rows by `columns` columns, summed in f32 or, of bytes, in i32. The sums are one value (an LLVM struct)
/// while products are under way. Lane 4*g + t of warp w has of them, of rows 16*w + g and 8 rows
/// further, the columns 8*j + 2*t and the one behind it: numbers 4*j and 4*j + 1, 4*j + 2 and
/// 4*j + 3.
class WarpgroupProduct {
public:
  WarpgroupProduct(DeviceFrame &frame, mlir::Type operandType, int64_t columns);

  mlir::Type sumsType() const { return type; }
  /// The product over the first `steps` steps of what lies `leftOffset` and `rightOffset` units
  /// behind the descriptors', under way as a group of its own. Null `sums`: it is not added to
  /// anything.
  mlir::Value multiply(mlir::Value sums, const MatrixDescriptor &left, mlir::Value leftOffset,
                       const MatrixDescriptor &right, mlir::Value rightOffset, int64_t steps);
  /// The same with the left operand in registers, each of two of its elements: four a product of
  /// `wgmmaK` steps, in the order of the sums' places.
  mlir::Value multiply(mlir::Value sums, mlir::ValueRange left, const MatrixDescriptor &right,
                       mlir::Value rightOffset);
  /// Waits until no more than the `pending` newest groups are under way, which `sums` are none of:
  /// what they are.
  mlir::Value wait(int64_t pending, mlir::Value sums);

  llvm::SmallVector<mlir::Value> unpack(mlir::Value sums);
  /// Copies of sums that have been waited for, from which ptxas may compute what it likes. Rounding
  /// sums themselves to f16 it does two at a time, before they have been waited for.
  llvm::SmallVector<mlir::Value> copy(mlir::ValueRange sums);
  mlir::Value pack(mlir::ValueRange sums);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type operandType;
  int64_t columns;
  mlir::Type sumType;
  mlir::LLVM::LLVMStructType type;
};

/// An instruction of which ptxas does not know that it copies: x * 1 - 0, which is x, -0 as well.
constexpr llvm::StringLiteral copySumText = "fma.rn.f32 $0, $1, 0f3F800000, 0f80000000;";

/// The attribute of an llvm.inline_asm that is a product with its left operand in registers: what
/// it is, for the emulator. Its operands are the sums, four registers, and the right operand's
/// descriptor.
constexpr llvm::StringLiteral registerProductAttrName = "cuda.register_product";

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_WARPGROUPPRODUCT_H
