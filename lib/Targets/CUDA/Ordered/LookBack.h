//===- LookBack.h - What blocks in front have come to -----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H
#define KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H

#include "../../../../runtime/ir_interface.h"
#include "CUDA/Map/ThreadTeam.h"

namespace kiln::cuda {

/// Bytes of an element in memory: a bool takes one, a complex number those of two.
int64_t getBytes(mlir::Type type);

/// States of blocks that go on where others end, in the run's workspace (decoupled look-back:
/// Merrill and Garland, 2016). Neighbouring blocks have the parts of a line, of which 32 are a
/// *group*. A block first says what its own part comes to. Then it looks at the parts in front of
/// it in its group, each lane at one; the last block of the group says what the group comes to. To
/// find what the line comes to in front of the group, a block looks back from group to group as far
/// as the first one behind which that is known, and combines from there on what the groups come to.
/// The last block of a group then says what the line comes to behind it.
///
/// Parts of a group are combined in a way that depends on their places alone, and groups one at a
/// time, from the left, so that a result does not depend on how far each block has looked. With
/// groups, this chain has a step for 32 parts.
///
/// A block waits only for what blocks of lower numbers do, and of these a part waits for nothing, a
/// group for its parts, and a line for both and for lines that end before. Blocks begin in the
/// order of their numbers, so that it goes on however few run at the same time. The block that ends
/// last lowers all flags for the next kernel.
class LookBack {
public:
  using State = llvm::SmallVector<mlir::Value>;
  using Combine = llvm::function_ref<State(mlir::ValueRange, mlir::ValueRange)>;

  /// The parts that have a flag each, behind a count of blocks and in front of the groups' flags.
  static constexpr int64_t maxParts = (KILN_RT_WORKSPACE_FLAGS / 4 - 1) / 33 * 32;

  /// What the kernel is given. Comes before anything else that is.
  LookBack(DeviceFrame &frame, mlir::TypeRange state);

  /// In all threads of the block, on one path once: the state before part `part` of its line, of which the
  /// first one starts with `start`, and this one comes to `total`. There are `numBlocks` blocks.
  State find(mlir::Value part, mlir::Value numBlocks, mlir::ValueRange start,
             mlir::ValueRange total, Combine combine);

private:
  /// A flag's values; 0: nothing is known. Of a part only what it comes to is said, of a group both.
  enum { sumKnown = 1, lineKnown = 2 };
  /// A group whose blocks are all of one line has the number of its last block by 32 for its own:
  /// no two such groups have the same one.
  static constexpr int64_t maxGroups = maxParts / warpSize;

  // In the first warp. Parts and groups have numbers among all that there are: of the flags, groups
  // come behind parts.

  /// What `rank` parts in front of this block's come to.
  State combineParts(mlir::Value rank, mlir::ValueRange otherwise, Combine combine);
  /// What the line comes to behind the group numbered `before` among all, the line's number `count`
  /// - 1.
  State search(mlir::Value before, mlir::Value count, mlir::ValueRange start, Combine combine);
  /// The value of a flag, as soon as it is not 0.
  mlir::Value wait(mlir::Value number);
  mlir::Value flag(mlir::Value number);
  /// A part's state has its number, a group's are numbered behind these in pairs.
  State load(mlir::Value number);
  void publish(mlir::Value flagNumber, mlir::Value stateNumber, mlir::ValueRange state,
               int64_t what);
  mlir::Value groupState(mlir::Value group, mlir::Value isLine);
  mlir::Value address(mlir::Value number, unsigned i);
  mlir::Value i32(int64_t value);
  mlir::Value add(mlir::Value x, mlir::Value y);
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
  State places; // shared memory for what the first warp has
  mlir::Value isLast;
};

/// Attributes of an llvm.inline_asm that says a state is there, waits until one is, or counts
/// blocks that end, for the emulator.
constexpr llvm::StringLiteral publishAttrName = "cuda.publish";
constexpr llvm::StringLiteral lookAttrName = "cuda.look";
constexpr llvm::StringLiteral countBlocksAttrName = "cuda.count_blocks";

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_ORDERED_LOOKBACK_H
