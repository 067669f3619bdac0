// How wide the panels of a packed right operand are. The layout of a packed constant and the
// register tile that reads it are one decision, taken here before either exists.
#ifndef KILN_TRANSFORMS_KERNEL_CONTRACTTILES_H
#define KILN_TRANSFORMS_KERNEL_CONTRACTTILES_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// The properties of a CPU that the choice needs: elements of the sum in a vector register, how many
/// registers there are, and FMAs a cycle and the cycles of one.
struct ContractTarget {
  int64_t lanes = 16;
  int64_t registers = 32;
  int64_t fmaUnits = 2, fmaLatency = 4;
};

/// A product of m x k by k x n. Tiles are cut from runs of rows: from all, or for windows from a row of the image.
struct ContractSize {
  int64_t m, n, k, run;
};

/// Columns of a panel for a product of `m` rows and `n` columns: a multiple of `lanes`.
///
/// The tile keeps rows * vectors accumulators, `vectors` registers for the right operand and one
/// for the left. From about ten rows on, two vectors are best. With fewer rows the tile is wider,
/// up to eight vectors for one row, so that enough FMAs are under way to hide their latency and the
/// right operand streams in long runs. There is no more than the columns need.
int64_t chooseContractPanel(int64_t m, int64_t n, ContractTarget target);

/// The same for a constant that lies in panels in memory and is multiplied by FMAs alone. With 16 registers there are three
/// vectors instead of two, unless the last panel would have much that no column fills, tiles for two divide the rows better, or the
/// sum is short.
int64_t chooseConstantPanel(ContractSize size, ContractTarget target);

/// One width for products that choose `panels` for the same right operand: few rows are hardly
/// slower in tiles of four vectors (three, with 16 registers), and many are as fast.
int64_t chooseSharedPanel(llvm::ArrayRef<int64_t> panels, ContractTarget target);

/// Whether a contract's columns are its last batch dim: there is one n, and consecutive values of
/// that dim are consecutive in the left operand. A depthwise convolution of channels-last data is
/// such a contract: for each channel a product with one column, for all of them vector arithmetic
/// along the channels.
bool columnsAreBatch(ContractOp contract);

/// `expr`, over dims of these extents, is the same for `group` values of `dim` on end, the first a multiple of `group`, which divides
/// the dim's extent. `known` is what is known of the dims.
bool isSameInGroups(llvm::ArrayRef<sym::Expr> extents, sym::Expr expr, unsigned dim, int64_t group,
                    sym::Assumptions known);

} // namespace kiln::kernel

#endif // KILN_TRANSFORMS_KERNEL_CONTRACTTILES_H
