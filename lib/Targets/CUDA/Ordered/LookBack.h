//===- LookBack.h - What blocks in front have come to -----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H
#define KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H

#include "../../../../runtime/ir_interface.h"
#include "CUDA/Map/ThreadTeam.h"

namespace kiln::cuda {

/// States of blocks that go on where others end, in the run's workspace (decoupled look-back:
/// Merrill and Garland, 2016). Neighbouring blocks have the parts of a line. A block first says
/// what its own part comes to, and then, when it has found what comes before it, what the line
/// comes to so far. To find that it looks back from part to part as far as the first one of which
/// the latter is known, and combines from there on what the parts come to, in their order. All
/// blocks combine one part at a time, from the left, so that a result does not depend on how far
/// each has looked.
///
/// A block waits only for what blocks of lower numbers do before they wait for anything. These
/// begin in the order of their numbers, so that it goes on however few run at the same time. The
/// block that ends last lowers all flags for the next kernel.
class LookBack {
public:
  using State = llvm::SmallVector<mlir::Value>;
  using Combine = llvm::function_ref<State(mlir::ValueRange, mlir::ValueRange)>;

  /// The parts that have a flag each, behind a count of blocks.
  static constexpr int64_t maxParts = KILN_RT_WORKSPACE_FLAGS / 4 - 1;

  /// What the kernel is given. Comes before anything else that is.
  LookBack(DeviceFrame &frame, mlir::TypeRange state);

  /// In all threads of the block, on one path once: the state before part `part` of its line, of which the
  /// first one starts with `start`, and this one comes to `total`. There are `numBlocks` blocks.
  State find(mlir::Value part, mlir::Value numBlocks, mlir::ValueRange start,
             mlir::ValueRange total, Combine combine);

private:
  /// A flag's values; 0: nothing is known.
  enum { partKnown = 1, lineKnown = 2 };

  /// In the first warp: from the left.
  State search(mlir::Value part, mlir::ValueRange start, Combine combine);
  /// Those of the part `distance` in front of this block's.
  mlir::Value flag(mlir::Value distance);
  State load(mlir::Value distance, mlir::Value isLine);
  void publish(mlir::ValueRange state, int64_t what);
  mlir::Value address(mlir::Value distance, mlir::Value kind, unsigned i);
  mlir::Value i32(int64_t value);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<int64_t> offsets; // of a state's values
  int64_t stateBytes = 0;
  ThreadTeam warp;
  mlir::Region nothing; // an emitter for memory accesses alone
  codegen::BodyEmitter memory;
  mlir::Value workspace;
  State found; // shared memory for what the first warp has
  mlir::Value isLast;
};

/// Attributes of an llvm.inline_asm that says a state is there, waits until one is, or counts
/// blocks that end, for the emulator.
constexpr llvm::StringLiteral publishAttrName = "cuda.publish";
constexpr llvm::StringLiteral lookAttrName = "cuda.look";
constexpr llvm::StringLiteral countBlocksAttrName = "cuda.count_blocks";

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H
