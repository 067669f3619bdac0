//===- RowExchange.h - From tensor cores' registers to rows -----*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_ROWEXCHANGE_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_ROWEXCHANGE_H

#include "kiln/Targets/CUDA/KernelEmitters.h"

namespace kiln::cuda {

/// Gives the lanes of a warp runs of neighbouring columns of its 16 rows, of which tensor cores
/// leave each lane two columns of two rows (MatrixFragments.h). It goes through shared memory that
/// the warp has alone, some columns, a *piece*, at a time; no other warp is waited for.
class RowExchange {
public:
  /// An exchange of `columns` columns of `type`, for runs of `run` columns, in `warps` warps.
  RowExchange(DeviceFrame &frame, mlir::Type type, int64_t columns, int64_t run, int64_t warps);
  /// This is warp number `warp` of those, and `lane` the thread's number in it.
  void begin(sym::Expr warp, sym::Expr lane);

  /// Whether there is an exchange for so many columns of this type.
  static bool isValid(mlir::Type type, int64_t columns);
  /// The shared memory of a warp.
  static constexpr int64_t warpBytes = 4096;

  int64_t pieceColumns() const { return piece; }
  /// Puts a lane's two neighbours of chunk `j`, 8 columns, of the piece with this number, of its
  /// row in the upper or lower 8 rows.
  void put(sym::Expr number, int64_t j, int64_t below, mlir::ValueRange neighbours);
  /// Lanes meet between writing a piece and reading it.
  void meet();

  /// The part of each piece that this lane reads: row and first column inside of the piece.
  struct Run {
    sym::Expr row, column;
  };
  llvm::ArrayRef<Run> runs() const { return lines; }
  llvm::SmallVector<mlir::Value> get(sym::Expr number, int64_t i);

private:
  int64_t elementBytes() const { return type.getIntOrFloatBitWidth() / 8; }
  /// By what the chunks of a line change places.
  mlir::Value key(mlir::Value line);
  mlir::Value address(sym::Expr number, mlir::Value chunk, mlir::Value rest);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  mlir::Type type;
  int64_t piece, run;
  mlir::Value shared, memory; // of all warps, of this one
  mlir::Value writeChunk, writeRest;
  llvm::SmallVector<Run> lines;
  struct Source {
    mlir::Value chunk, key, rest;
  };
  llvm::SmallVector<Source> sources;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_ROWEXCHANGE_H
