//===- SwizzledTile.h - A tile in shared memory, for two orders -*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_SWIZZLEDTILE_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_SWIZZLEDTILE_H

#include "CUDA/Map/TransposePlan.h"

namespace kiln::cuda {

/// A tile of a staged read in shared memory: lines of `readSide` neighbours, one for each of
/// `writtenSide` elements of the written loop. Lanes write it along lines, some neighbours each,
/// and read it across them, `plan.vector` lines each.
///
/// The elements of a line change places, in *granules* as large as what a lane of those that read
/// side by side should have of 128 bytes (all banks): the number of the lane that reads a line is
/// added (xor) to those of the granules. Neighbouring lanes then read from banks of their own, and
/// so do lanes of one line, whose granules are still all the same ones.
///
/// Four lines of 128 bytes in granules of 32 bytes, read by four lanes a line each (`vector` 1):
/// the granule that lies at each place. What the lanes read at position 0, [0], is in banks of its
/// own.
///
///   line | key | bytes 0-31  32-63  64-95  96-127
///   -----+-----+---------------------------------
///     0  |  0  |     [0]      1      2      3
///     1  |  1  |      1      [0]     3      2
///     2  |  2  |      2       3     [0]     1
///     3  |  3  |      3       2      1     [0]
class SwizzledTile {
public:
  SwizzledTile(DeviceFrame &frame, const TransposePlan &plan, const TransposePlan::Read &read);

  /// Writes `values`, neighbours from `position` on, a multiple of as many, of line `line`.
  void put(sym::Expr line, sym::Expr position, mlir::ValueRange values);
  /// Reads the element at `position` of each of the `plan.vector` lines from line `first` on, a
  /// multiple of as many.
  llvm::SmallVector<mlir::Value> get(sym::Expr first, sym::Expr position);

private:
  /// The number that is added to the offset in bytes of an element of `line`.
  mlir::Value key(sym::Expr line);
  void store(mlir::Value place, mlir::ValueRange values);
  mlir::Value load(mlir::Value place);

  DeviceFrame &frame;
  mlir::Type type;              // of an element, in registers
  int64_t bytes, vector, pitch; // of a line, in bytes
  int64_t granule;              // in bytes
  /// The key of a line is (line / linesOfKey) mod keys granules.
  int64_t linesOfKey, keys;
  mlir::Value memory;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_SWIZZLEDTILE_H
