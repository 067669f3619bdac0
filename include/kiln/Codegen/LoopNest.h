// Which dims can be one loop, and how a loop would touch memory.
#ifndef KILN_CODEGEN_LOOPNEST_H
#define KILN_CODEGEN_LOOPNEST_H

#include "kiln/Codegen/BodyEmitter.h"

namespace kiln::codegen {

/// Adjacent dims run as one loop over the product of their extents.
struct DimGroup {
  unsigned first, count;
  sym::Expr extent;
  llvm::SmallVector<sym::Expr> extents;

  sym::Expr lastDim() const { return sym::Expr::dim(first + count - 1); }
  /// The dims' values where the loop's variable has this value. Dims of extent 1 are 0.
  llvm::SmallVector<sym::Expr> delinearize(sym::Expr variable) const;
  void bind(BodyEmitter &body, sym::Expr variable) const;
};

/// An index expression of a region, over its dims.
struct Access {
  mlir::Operation *op;
  /// An element offset: consecutive values are consecutive in memory. Otherwise one expression of a
  /// kernel.index, kernel.inside or an indirect read.
  bool isOffset;
  sym::Expr expr;
};

/// All of `region` and of the reduces in it. Offsets of reads through data are left out (what their
/// expressions depend on is there).
llvm::SmallVector<Access> collectAccesses(mlir::Region &region);

/// Groups dims firstDim, firstDim + 1, … of these extents so that every access stays as simple as
/// it was: two dims are one where each access, for some c, is c*(extent*outer + inner) + rest.
llvm::SmallVector<DimGroup> collapseDims(unsigned firstDim, llvm::ArrayRef<sym::Expr> extents,
                                         llvm::ArrayRef<Access> accesses);

/// How consecutive values of `dim` walk through memory.
enum class Walk { Uniform, Consecutive, Strided, Irregular };
Walk classify(sym::Expr offset, sym::Expr dim);

/// Runs over first, first + 1, … end - 1, `lanes` at a time: `body` gets the first position of a
/// vector and the mask of its lanes (null: all). `first` is a multiple of `lanes`, and `end` is
/// `extent` or a multiple of `lanes`.
void emitVectorLoop(KernelFrame &frame, sym::Expr first, sym::Expr end, sym::Expr extent,
                    int64_t lanes, llvm::function_ref<void(sym::Expr, mlir::Value)> body);

/// How rows, each of which can be split by columns, are dealt out to tasks.
struct RowTasks {
  sym::Expr numRows, numColumns; // 1 column: rows are not split
  int64_t rowBlock = 1;
  int64_t columnBlock = 0; // 0: a task has whole rows

  /// For rows that take about `rowCycles`; blocks of columns are multiples of `lanes`.
  static RowTasks make(sym::Expr numRows, sym::Expr numColumns, double rowCycles, int64_t lanes,
                       const CPUInfo &target);
  sym::Expr grid() const;
  /// Emits the loop over this task's rows.
  void emit(KernelFrame &frame, int64_t lanes,
            llvm::function_ref<void(sym::Expr row, sym::Expr firstColumn, sym::Expr endColumn)>
                body) const;
};

/// Rows of a task.
int64_t chooseRowBlock(sym::Expr numRows, double rowCycles, const CPUInfo &target);

/// A reduction of at most this many iterations inside a loop in vectors is unrolled.
inline constexpr int64_t maxUnrolledReduction = 64;

/// A size for cost models: the constant, or a guess.
int64_t estimate(sym::Expr size);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_LOOPNEST_H
