//===- TensorMap.h - Copies of parts of tensors by hardware -----*- C++ -*-===//
//
// From sm_90 on one instruction of one thread copies a box of a tensor to shared memory
// (cp.async.bulk.tensor) and tells a barrier when it is there. What the tensor is, the host says in
// a tensor map, a parameter of the kernel. Elements outside of the tensor are zero.
//
//===----------------------------------------------------------------------===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_TENSORMAP_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_TENSORMAP_H

#include "CUDA/Contract/ContractPlan.h"

namespace kiln::cuda {

/// The lines of a box have this many bytes. Chunks of 16 bytes change places within a line, by the
/// line's number modulo 8: eight lines are a pattern, at a multiple of its size.
constexpr int64_t lineBytes = 128, patternBytes = 8 * lineBytes;

/// An operand as a tensor map sees it, innermost dim first: steps or rows, the other
/// of both, then groups of the batch's dims.
struct TensorView {
  unsigned buffer;
  /// Neighbours in memory are rows of a step, otherwise steps of a row.
  bool alongRows;
  sym::Expr offset;
  llvm::SmallVector<sym::Expr> sizes, strides;
  /// The batch as a loop nest, and what of its loops, as dims, dim 2, 3 … are.
  llvm::SmallVector<sym::Expr> batchExtents, batchIndices;
};

/// The operand `region` of the contract, whose rows are dims `firstRow` on of these extents, if it
/// is memory as it is and a tensor map can say so. All buffers begin at multiples of `vectorBytes`.
std::optional<TensorView> findTensorView(kernel::ContractOp op, mlir::Region &region,
                                         unsigned firstRow, llvm::ArrayRef<sym::Expr> rows);

/// The same for an attention's operand: its rows are queries or keys, its steps features.
std::optional<TensorView> findTensorView(kernel::AttentionOp op, mlir::Region &region,
                                         unsigned rowDim, unsigned featureDim);

/// Elements from one of the group's to the next, if `offset` advances by as many each time.
std::optional<sym::Expr> findStride(const codegen::DimGroup &group, sym::Expr offset,
                                    const sym::Assumptions &assumptions);

/// An operand's part of one step of a block: `extent` rows of `lineBytes` bytes of steps, or boxes
/// of as many rows, each with all steps.
class TensorLoad {
public:
  /// Blocks of a cluster that need the same part: each copies an equal share of the rows to all.
  struct Sharing {
    int64_t blocks = 1;
    sym::Expr rank = 0;
  };
  /// Whether the rows can be shared out.
  static bool isShareable(bool alongRows, int64_t extent, int64_t blocks);

  /// Adds the map to the kernel's parameters.
  TensorLoad(DeviceFrame &frame, const TensorView &view, mlir::Type type, int64_t extent,
             Sharing sharing);
  TensorLoad(DeviceFrame &frame, const TensorView &view, mlir::Type type, int64_t extent)
      : TensorLoad(frame, view, type, extent, Sharing()) {}

  int64_t bytes() const { return extent * lineBytes; }
  /// From `row` and step `k` of this batch to `target`; `barrier` is told. Of what is shared the
  /// block's share, to these places of all blocks.
  void emit(sym::Expr batch, sym::Expr row, sym::Expr k, mlir::Value target, mlir::Value barrier);

private:
  DeviceFrame &frame;
  TensorView view;
  int64_t extent, line; // elements of a line
  Sharing sharing;
  mlir::Value map;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_TENSORMAP_H
