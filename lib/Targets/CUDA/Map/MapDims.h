//===- MapDims.h - The dims of a map by the part they play ------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_MAP_MAPDIMS_H
#define KILN_LIB_TARGETS_CUDA_MAP_MAPDIMS_H

#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Threads of a block where nothing asks for more.
inline constexpr int64_t usualThreads = 256;

/// The dims of a map by the part they play.
struct MapDims {
  explicit MapDims(kernel::MapOp map);

  llvm::SmallVector<sym::Expr> rowExtents() const { return extentsOf(rows); }
  llvm::SmallVector<sym::Expr> columnExtents() const { return extentsOf(columns); }

  llvm::SmallVector<sym::Expr> domain;
  /// In the order in which threads have them.
  llvm::SmallVector<codegen::DimGroup> rows, columns;
  /// The most elements that a reduction of a row goes through; 0: there is none.
  int64_t reduced = 0;
  /// Neighbouring elements that a thread may take together: the last loop has a multiple of it, and
  /// wide accesses come of it. With reductions these are neighbours in a row.
  int64_t vector = 1;
  /// The last of them may be fewer.
  bool isRagged = false;
  /// Neighbouring rows, of the last of `rows`, are neighbours in memory, and what is reduced is
  /// not.
  bool rowsAreConsecutive = false;
  /// Without reductions, accesses like that of a thread that are under way together.
  int64_t steps = 1;
  /// With them, elements of a row that a thread of a block of `threads` may keep.
  int64_t countKept(int64_t threads) const;

private:
  static llvm::SmallVector<sym::Expr> extentsOf(llvm::ArrayRef<codegen::DimGroup> groups) {
    return llvm::map_to_vector(groups, [](const codegen::DimGroup &group) { return group.extent; });
  }
  /// Sets `rows` to loops over these dims, `columns` to those over the others.
  void divide(kernel::MapOp map, const llvm::SmallBitVector &isRow);
  void findWalks(kernel::MapOp map);
  void findVector(kernel::MapOp map);
  void findSteps(kernel::MapOp map);
  /// The registers of values that reductions read, for one of their elements.
  int64_t registersKept = 0;
  bool walksAlong(kernel::MapOp map,
                  const llvm::DenseMap<mlir::Operation *, llvm::SmallBitVector> &dependences);
};

/// Stores an element of each of the map's results at the same place.
void storeResults(DeviceFrame &frame, kernel::MapOp map, codegen::BodyEmitter &body,
                  sym::Expr offset, llvm::ArrayRef<mlir::Value> values);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_MAP_MAPDIMS_H
