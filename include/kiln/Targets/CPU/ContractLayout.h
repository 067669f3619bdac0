// A contract as its loops see it: which dims are one loop, where the left operand's rows lie, and
// how the work is cut into tiles and tasks. The planner and the emitter both start from here, so
// what one decides the other reads.
//
// Left operand. The microkernel wants rows at offsets known at compile time. There are three ways
// to have them:
//
//   Direct  the region is one read whose address is linear in the m and k dims: no copy.
//   Window  a convolution that cpu-pad-windows has left: the operand's value depends on
//           e = s*m_i + d*k_j alone (s the stride, d the dilation). The task copies its part of
//           that e-space to scratch once, zeros of the padding and prologue included; the window
//           then slides over the copy. Nothing is stored kh*kw times as im2col does.
//   Matrix  anything else: the task evaluates its rows over all k into scratch, one after another.
//
// Columns. All n dims as one. In a depthwise convolution, which has one n, they are the last batch
// dim, and the left operand has an element for each of them too (kernel::columnsAreBatch).
//
// Right operand. Packed in panels (`panel` on the op), or evaluated panel by panel into scratch. One
// read whose columns lie next to each other may be used where it is (RightOperand::Direct). One that
// lies along the sum may also be read as it is: the sums are turned then (Turn::Sums).
//
// Rows. After collapsing, the row axes are e.g. [image, oh, ow], or one. A tile is `size` steps of
// the tiled axis times the whole of the axis inside it, if that is short (7x7 images). The tiled
// axis is cut evenly: 128 rows are 7 tiles of 12 and 4 of 11, not 10 of 12 and one of 8, so that
// two microkernels serve all of them, both close to the tallest. Where the number of rows is only
// known when the model runs, all tiles but the last two are as tall as can be, those two share what
// is left, and there is a microkernel for every second height that they may have.
#ifndef KILN_TARGETS_CPU_CONTRACTLAYOUT_H
#define KILN_TARGETS_CPU_CONTRACTLAYOUT_H

#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CPU/CPUDialect.h"

namespace kiln::cpu {

/// Adjacent m or k dims that are one loop; `lhsStride` elements apart in the left operand (or in
/// its copy in scratch).
struct ContractAxis : codegen::DimGroup {
  sym::Expr lhsStride;
};

/// One dim of the copy of the left operand. A window ties an m dim to a k dim; otherwise one of
/// them is absent.
struct StageAxis {
  std::optional<unsigned> rowDim, sumDim;
  /// e = rowStep * m + sumStep * k.
  int64_t rowStep = 0, sumStep = 1;
  /// rowBind * rowStep + sumBind * sumStep == 1: binding m to rowBind * e and k to sumBind * e
  /// gives every expression of e its value.
  int64_t rowBind = 0, sumBind = 1;
  int64_t extent = 1, stride = 1;
};

/// `count` tiles of `size` steps of the tiled axis, from step `begin` on; tiles are numbered
/// through all runs, this one's from `firstTile`.
struct RowRun {
  int64_t size;
  sym::Expr begin, count, firstTile;
  /// True of tiles whose size is known at run time, at most `size`: each has `share` steps, the
  /// last one what is left of `steps`.
  bool isVariable = false;
  sym::Expr share = 0, steps = 0;
  /// The share of `tiles` tiles of at most `most` steps: a height there is code for.
  static sym::Expr shareOf(sym::Expr steps, sym::Expr tiles, bool isEven);
  bool hasEvenShares = false;
  /// The heights there is code for: 1, the even ones and `size`. A tile of another has its last
  /// step computed twice.
  llvm::SmallVector<int64_t> heights() const;
};

struct ContractLayout {
  kernel::ContractOp op;
  mlir::Type lhsType, rhsType, sumType;

  LeftOperand lhs = LeftOperand::Matrix;
  mlir::Value lhsTensor;              // Direct
  sym::Expr lhsBase;                  // Direct: the offset's part in the batch dims
  llvm::SmallVector<StageAxis> stage; // Window: outermost first
  /// Never empty: a contract without m or k dims has one axis of no dims and extent 1.
  llvm::SmallVector<ContractAxis> rows, sums;
  codegen::DimGroup columns;
  /// The columns are the last batch dim.
  bool depthwise = false;

  bool packed = false;
  mlir::Value rhsTensor; // packed, or `rhsStrides` are known
  sym::Expr rhsBase;     // the offset's part in the batch dims
  /// A packed operand of small integers (SmallWeights.h): the steps of the sum in an element, and panels
  /// of scales and offsets with a row for each step of the outermost sum axis, in which case axes are
  /// the k dims.
  int64_t rhsSteps = 1;
  bool rhsUnsigned = false, subtractsFirst = false;
  /// Words of bytes, or pairs of bf16, are multiplied by words of four bits, and a group's sum by its scale.
  bool inGroups = false;
  mlir::Value scaleTensor, offsetTensor; // null: none
  sym::Expr scaleBase = 0;               // as `rhsBase`
  mlir::Type scaleType() const {
    return scaleTensor ? mlir::cast<mlir::RankedTensorType>(scaleTensor.getType()).getElementType()
                       : mlir::Type();
  }
  /// A packed operand of small integers that each task widens to pairs of bf16, or to f32, a panel at a time (WidenPanels.h):
  /// `rhsType`, `rhsSteps` and `sums` are those of what is widened.
  struct Widened {
    mlir::Type type;   // of an element of `rhsTensor`
    int64_t steps = 1; // of the sum in one
    int64_t group = 0; // of the sum with one scale; 0: there are none
  };
  std::optional<Widened> widened;
  /// The operand has another layout in which it is widened so, which takes longer for one of the rows, whose number is not known.
  bool canBeWidened = false;
  /// Elements from step to step of each sum axis in a right operand that can be read where it is;
  /// empty: it cannot.
  llvm::SmallVector<sym::Expr> rhsStrides;
  /// The k dims in the order in which a right operand lies in memory along the sum, where that is
  /// not theirs: the weights of a convolution, whose channels are outside of the window. Counted
  /// from the first k dim.
  llvm::SmallVector<unsigned> rhsOrder;

  // The schedule.
  int64_t lanes = 1, vectors = 1; // a panel is lanes * vectors columns
  unsigned tileAxis = 0;
  int64_t tileInner = 1; // rows of a tile for each step of the tiled axis
  llvm::SmallVector<RowRun> runs;
  /// A task's rows: `blockUnits` steps of `blockAxis`, or as many tiles when that is the tiled
  /// axis; all of the axes inside it and one step of those outside.
  unsigned blockAxis = 0;
  int64_t blockUnits = 1;
  int64_t blockPanels = 1;
  /// Steps of the outermost sum axis for which accumulators stay in registers.
  int64_t blockSums = 1;
  /// The epilogue runs over rows in memory instead of on registers.
  bool epilogueInMemory = false;
  /// Tiles of all heights run through the same code, with their epilogue in memory.
  bool tilesShareCode = false;
  /// The next panel is fetched into this cache while one is at work.
  PrefetchCache prefetch = PrefetchCache::None;
  /// Operands that the epilogue reads by row and column are fetched into this cache while the sum is at work.
  PrefetchCache epiloguePrefetch = PrefetchCache::None;
  RightOperand rhs = RightOperand::Panels;
  /// What is turned of a right operand that lies along the sum.
  Turn turn = Turn::None;
  /// The most vectors of sums of a tile, if these are turned.
  int64_t tileSums = 0;
  /// Steps of the sum that are written out, at most.
  int64_t unroll = 1;

  /// Products are multiplied in vectors, or in tiles (AMX).
  ProductUnit unit = ProductUnit::Vectors;
  /// Rows whose sums lie side by side in a vector.
  int64_t vectorRows = 1;
  /// Parts, as `gridSizes` numbers them, that a task does one after another.
  int64_t parts = 1;

  /// Finds the structure; what the schedule decides is not set, but for the way to read the left
  /// operand: `lhs`, or the first one that there is. What can be widened is if `isWidened`. Fails, reporting on the op, on types that are
  /// not multiplied here, sizes out of range, and left operands that cannot be read so.
  static mlir::FailureOr<ContractLayout> get(kernel::ContractOp op, const codegen::CPUInfo &target,
                                             std::optional<LeftOperand> lhs = std::nullopt,
                                             bool isWidened = false);

  /// Batch dims that are not the columns.
  unsigned numOuterBatch() const {
    return kernel::ContractOp(op).getNumBatch() - (depthwise ? 1 : 0);
  }
  int64_t panel() const { return lanes * vectors; }
  /// Lanes of what is stored: one column is no vector, even if its sum is in lanes.
  int64_t columnLanes() const { return columns.extent.isConstant(1) ? 1 : lanes; }
  sym::Expr numPanels() const { return columns.extent.ceilDiv(panel()); }
  sym::Expr numTiles() const;
  int64_t maxTileSize() const;
  bool hasVariableTiles() const;
  int64_t maxTileRows() const { return maxTileSize() * tileInner; }
  /// Units of the block axis in all.
  sym::Expr numUnits() const;
  sym::Expr numRowBlocks() const { return numUnits().ceilDiv(blockUnits); }
  sym::Expr numColumnBlocks() const { return numPanels().ceilDiv(blockPanels); }
  /// At least one: the result of an empty sum is written, too.
  sym::Expr numSumBlocks() const {
    sym::Expr extent = sums.front().extent;
    return extent.isConstant(0) ? sym::Expr(1) : sym::Expr::max(extent.ceilDiv(blockSums), 1);
  }
  /// The beginning of unit `unit` on the block axis.
  sym::Expr unitBegin(sym::Expr unit) const;
  /// Whether the rows of one step of the block axis have a known number. Only then may the sum be
  /// cut.
  bool hasBoundedBlocks() const;
  /// An upper bound of the steps of the block axis, and of rows if bounded, in one task.
  int64_t maxBlockSteps() const;
  int64_t maxBlockRows() const;
  /// Sizes that a part of the product is numbered by, outermost first: batch dims, row axes outside
  /// the block axis, row blocks, column blocks.
  llvm::SmallVector<sym::Expr> gridSizes() const;
  sym::Expr numParts() const { return sym::product(gridSizes()); }
  sym::Expr numTasks() const { return numParts().ceilDiv(parts); }

  /// The innermost row axes that tiles and blocks may lie on: a window's copy is of one image.
  unsigned numBlockAxes() const;
  /// Cuts the rows into tiles of at most `maxRows` on the innermost `tileAxes` axes; a task's rows
  /// lie on `blockAxes`.
  void setTile(int64_t maxRows, int64_t tileAxes, int64_t blockAxes);
  /// Fixes the block of rows and with it the strides of a staged left operand.
  void setRowBlock(int64_t units);

  /// Does what `schedule` says, limited to what there is.
  void apply(ContractAttr schedule);

  /// Columns whose sums a tile of `rows` rows keeps at the same time, of `count` in its panel: a
  /// power of two.
  int64_t turnedColumns(int64_t rows, int64_t count) const;
  /// The left operand can be read in vectors along the sum.
  bool lhsLiesAlongSum() const;

  bool isStaged() const { return lhs != LeftOperand::Direct || unit == ProductUnit::Digits; }
  /// The copy of a matrix holds one block of the sum at a time.
  bool stagesPerSumBlock() const;
  /// The most tiles of a task.
  int64_t maxTiles() const { return maxBlockRows() / maxTileRows(); }

  /// Elements that the windows of all rows slide over, before the rows are cut into blocks; 1 if
  /// there are no windows.
  int64_t stageEstimate() const;

  /// The operands are pairs of bf16, those of the left one next to each other.
  bool multipliesPairs() const;
  /// The sum axis along which a tile of the left operand lies: its steps are words of four bytes.
  size_t wordAxis() const { return sums.size() - (rhsSteps == 1 ? 1 : 2); }
  /// Why the product cannot be multiplied in tiles by this CPU; null: it can. What the schedule says
  /// does not count.
  const char *whyNoTiles(const codegen::CPUInfo &target) const;
  /// Why rows cannot be multiplied as block floats by this CPU; null: they can.
  const char *whyNoBlockFloats(const codegen::CPUInfo &target) const;
  /// Why `rows` rows of sums cannot lie side by side in a vector; null: they can. Tiles are set.
  const char *whyNoVectorRows(int64_t rows) const;
  /// A tile of rows fills a register, or is the only one, or each of its steps has a register: which rows
  /// there are is configured once.
  bool fillsTiles() const;

  // Scratch memory of a task, in bytes from its beginning.
  int64_t lhsScratchBytes() const;
  int64_t rhsScratchBytes() const;
  int64_t panelScratchBytes() const; // of one that is widened
  int64_t sumScratchBytes() const;
  int64_t rhsScratchOffset() const { return lhsScratchBytes(); }
  int64_t sumScratchOffset() const { return lhsScratchBytes() + rhsScratchBytes(); }
  int64_t tileConfigOffset() const { return sumScratchOffset() + sumScratchBytes(); }
  int64_t scratchBytes() const {
    return tileConfigOffset() + (unit == ProductUnit::Tiles ? 64 : 0);
  }

  /// Operands that the epilogue reads at places that differ with the row and with the column, next to each
  /// other in memory for columns that are.
  llvm::SmallVector<kernel::ReadOp> epilogueTiles() const;

  /// Elements of the whole sum, and of one step of the outermost sum axis.
  sym::Expr sumExtent() const;
  sym::Expr sumInner() const;
  /// Bytes of a step of the sum in a panel of a packed right operand.
  int64_t panelRowBytes() const;
};

/// For each m dim of `op` the window it belongs to: with a k dim it always occurs in the left
/// operand as c*(s*m + d*k) + rest. Nothing if some dim occurs in two ways.
std::optional<llvm::SmallVector<std::optional<StageAxis>>> findWindows(kernel::ContractOp op);

/// Whether the left operand is one read that needs no copy, at least if the columns fill vectors.
bool readsInPlace(kernel::ContractOp op);

/// Rows that tiles are cut from: those of the last axis. Nothing: the left operand is copied, all rows alike, or their number is
/// not known.
std::optional<int64_t> countRowsOfRun(kernel::ContractOp op);

/// The layout with the schedule put in; with `isWidened`, that of the schedule's `widen_rows` rows and more.
mlir::FailureOr<ContractLayout> getScheduledLayout(kernel::ContractOp op, ContractAttr schedule,
                                                   const codegen::CPUInfo &target,
                                                   bool isWidened = false);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_CONTRACTLAYOUT_H
