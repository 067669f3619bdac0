//===- AttentionKernel.h - What kernels of attention share ------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_ATTENTION_ATTENTIONKERNEL_H
#define KILN_LIB_TARGETS_CUDA_ATTENTION_ATTENTIONKERNEL_H

#include "CUDA/Map/ThreadTeam.h"

namespace kiln::cuda {

/// The function of a kernel.attention while it is written: a block has some queries, its warps a
/// part of them each, and goes through the keys, some at a time.
class AttentionKernel {
protected:
  AttentionKernel(DeviceFrame &frame, kernel::AttentionOp op);

  /// Which block this is, for blocks of so many queries; binds the bodies to its batch.
  void bindBlock(int64_t blockRows);
  /// `block` in its part of the keys, which has `ofPart` blocks of queries: sets `partNumber`.
  sym::Expr takePart(sym::Expr block, sym::Expr ofPart);
  /// The number of the first `keyBlock` keys of this block's part; and `block`, or the number
  /// behind the part's last ones if that is less.
  sym::Expr firstBlock(int64_t keyBlock);
  sym::Expr endBlock(sym::Expr block, int64_t keyBlock);

  mlir::Value number(double value);
  mlir::Value minusInfinity() { return number(-std::numeric_limits<double>::infinity()); }
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);
  mlir::Value widen(mlir::Value value);
  /// The hardware's approximation, of 2 ulp.
  mlir::Value exp2(mlir::Value value);
  /// Two numbers as a register of elements of two bytes; and such as two numbers.
  mlir::Value packPair(mlir::Type type, mlir::Value first, mlir::Value second);
  std::pair<mlir::Value, mlir::Value> unpackPair(mlir::Type type, mlir::Value word);
  /// The number that maxima are compared with: 0 instead of -inf, which it is if all that was seen
  /// is.
  mlir::Value finite(mlir::Value maximum);
  /// The divisor of a result: the sum of weights, or 1 if all of them are 0.
  mlir::Value divisor(mlir::Value sum);
  /// `value` where `condition` (null: always) holds.
  mlir::Value emitWhere(mlir::Value condition, llvm::function_ref<mlir::Value()> value,
                        double otherwise);

  /// Whether the key is one that the query sees; null if that is proved.
  mlir::Value isSeen(sym::Expr query, sym::Expr key);
  /// The bias, of both inside.
  mlir::Value emitBias(sym::Expr query, sym::Expr key);
  /// The bias of a query and, of each of `count` times `distance` keys from `key` on, the first
  /// two, as a register of elements of two bytes. The query is inside; of keys that are not
  /// (`mayBeOutside`) it is that of one that is.
  llvm::SmallVector<mlir::Value> emitBiasPairs(sym::Expr query, sym::Expr key, int64_t count,
                                               int64_t distance, bool mayBeOutside);
  bool hasBias() { return !op.getBias().empty(); }
  /// `value`, or the last one of `extent` if that is less.
  sym::Expr inside(sym::Expr value, sym::Expr extent);

  /// Tensor cores' scores times `unit` are exponents of 2, once `finishScore` has scaled them and
  /// added the bias. With neither to do, the scale is part of the unit.
  mlir::Value finishScore(mlir::Value score, mlir::Value bias);
  /// The argument of an exponential: the distance from the maximum that `shift` is of.
  mlir::Value emitShift(mlir::Value maximum);
  mlir::Value emitExponent(mlir::Value score, mlir::Value shift);

  /// Writes an element of the result, and of a part's the maximum and the sum.
  void storeResult(sym::Expr query, sym::Expr feature, mlir::Value value);
  void storeState(sym::Expr query, mlir::Value maximum, mlir::Value sum);
  bool isPart() { return op.getPart().has_value(); }

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  kernel::AttentionOp op;
  codegen::BodyEmitter q, k, v, bias;
  ThreadTeam warp;
  int64_t depth, valueDepth;
  sym::Expr m, n;
  int64_t numBatch;
  double scale, unit;
  llvm::SmallVector<sym::Expr> position;
  mlir::Type sumType;
  sym::Expr firstQuery = 0, lane = 0, warpNumber = 0, partNumber = 0;
};

/// The type in which sums are made.
mlir::Type getSumType(kernel::AttentionOp op);

/// Whether a block of every GPU has the shared memory and the registers for so many features.
bool fitsInBlock(kernel::AttentionOp op);

/// Blocks of a kernel whose blocks have so many queries.
sym::Expr getGrid(kernel::AttentionOp op, int64_t blockRows);

/// With operands of two bytes, on tensor cores.
bool mayUseTensorCores(kernel::AttentionOp op);
MmaAttentionScheduleAttr chooseMatrixAttention(kernel::AttentionOp op);
void emitMatrixAttention(DeviceFrame &frame, kernel::AttentionOp op);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_ATTENTION_ATTENTIONKERNEL_H
