//===- TensorMemory.h - Products whose sums are in tensor memory -*- C++ -*-===//
//
// From sm_100a on one thread asks for products (tcgen05.mma) of operands in shared memory, which
// hardware adds to sums in a memory of its own: 128 rows of up to 512 columns of 32 bits, of which
// a block allocates columns. A barrier is told when all products have ended that the thread has
// asked for (tcgen05.commit). Each warp of a warpgroup reads 32 of the rows (tcgen05.ld).
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_BLACKWELL_TENSORMEMORY_H
#define KILN_LIB_TARGETS_CUDA_BLACKWELL_TENSORMEMORY_H

#include "CUDA/Hopper/WarpgroupProduct.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace kiln::cuda {

/// Columns of tensor memory that the block has alone, and their products of bf16, f16 or bytes.
class TensorMemory {
public:
  /// `columns` of sums, of f32 or i32. All threads come here; a barrier of all has to follow, and `begin`.
  TensorMemory(DeviceFrame &frame, mlir::Type type, int64_t columns);
  /// Behind that barrier.
  void begin();
  /// Behind the last use; all threads come here.
  void end();

  /// The sums of 128 rows from this column (i64) on, as the instructions address them.
  mlir::Value sums(mlir::Value column);

  /// Between synchronising with other threads and what depends on that, of these instructions
  /// (`after`), and the other way round (`before`).
  void fence(mlir::NVVM::Tcgen05FenceKind kind);

  /// Whether this is the lane of its warp, always the same, that asks for products (i1). All come
  /// here.
  mlir::Value elect();
  /// Asks for the product over `steps` steps, of what lies `offset` units behind both descriptors,
  /// by `columns` columns. `adds` (i1): it is added to the sums, which are set otherwise.
  void multiply(mlir::Value sums, const MatrixDescriptor &left, const MatrixDescriptor &right,
                mlir::Value offset, int64_t columns, mlir::Type operandType, int64_t steps,
                mlir::Value adds);
  /// Has the barrier told when everything has ended that the thread has asked for.
  void commit(mlir::Value barrier);

  /// The sums of 16 rows from `row` (i64) on by `columns` columns, in the places of
  /// WarpgroupProduct.h. All threads of a warp come here; row / 32 is its number in its warpgroup.
  llvm::SmallVector<mlir::Value> load(mlir::Value sums, mlir::Value row, int64_t columns);

private:
  mlir::Value i32(int64_t value);
  mlir::Value toPointer(mlir::Value address);
  void inFirstWarp(llvm::function_ref<void()> body);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
  int64_t columns;
  mlir::Value place, address;
};

/// The attribute of an llvm.inline_asm that loads sums from its operand, an address, for the
/// emulator.
constexpr llvm::StringLiteral tensorLoadAttrName = "cuda.tensor_load";

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_BLACKWELL_TENSORMEMORY_H
