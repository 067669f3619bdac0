//===- WidenedOperand.h - Operands of small integers ------------*- C++ -*-===//
//
// The elements of an operand that are computed of integers of few bits, a *chunk* of neighbours along the steps at a time: as
// vectors, which GPUs have pairs of f16 and bf16 for. What a chunk reads is read together; or copied to shared memory
// as it is while others are multiplied, each thread's own to a place of its own.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_WIDENEDOPERAND_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_WIDENEDOPERAND_H

#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/FourBits.h"
#include "kiln/Codegen/BodyEmitter.h"

namespace kiln::cuda {

class WidenedOperand {
public:
  /// The right operand of a product of f16 or bf16 in aligned buffers, if it is one.
  static std::optional<WidenedOperand> find(kernel::FuncOp func, kernel::ContractOp op,
                                            const ContractDims &dims);
  /// What `region` yields, in aligned buffers, with chunks along dim `along`.
  static std::optional<WidenedOperand> find(mlir::Region &region, unsigned along);

  /// Bytes of shared memory that a thread has for a chunk.
  int64_t bytes() const;

  /// Starts copies of what the chunk whose first step is at `position`, the values of the contract's dims, reads: to
  /// `memory`, where `threads` threads have a chunk each, of which this is number `thread`.
  void copy(DeviceFrame &frame, llvm::ArrayRef<sym::Expr> position, mlir::Value memory,
            mlir::Value thread, int64_t threads) const;

  /// Where a chunk's numbers come from.
  struct Place {
    mlir::Value memory; // null: where they are in the GPU's
    mlir::Value thread;
    int64_t threads = 0;
  };
  /// The elements of the chunk at `position`, vector<steps x type>. `body` emits the region; all that does not depend on the
  /// step is bound in it.
  mlir::Value widen(DeviceFrame &frame, codegen::BodyEmitter &body,
                    llvm::ArrayRef<sym::Expr> position, Place from) const;

private:
  /// What a chunk reads of a tensor: one element that all its steps have, or neighbours.
  struct Read {
    kernel::ReadOp read;
    mlir::Type type; // of an element in memory
    int64_t count;
    int64_t size() const { return count * type.getIntOrFloatBitWidth() / 8; }
    /// A copy has four bytes at least, and begins at a multiple of as many.
    int64_t copied() const { return std::max<int64_t>(size(), 4); }
  };

  WidenedOperand(mlir::Value element) : element(element) {}
  sym::Expr getOffset(DeviceFrame &frame, Read read, llvm::ArrayRef<sym::Expr> position) const;
  mlir::Value load(DeviceFrame &frame, Read read, sym::Expr offset, mlir::Value slot) const;

  mlir::Value element; // what the region yields
  llvm::SmallVector<Read> reads;
  llvm::SmallVector<FourBits> fours;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_WIDENEDOPERAND_H
