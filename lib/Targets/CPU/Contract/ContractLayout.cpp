// The layout of a product's operands in memory and in scratch, and the loops that go over them.
#include "kiln/Targets/CPU/ContractLayout.h"
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/SmallWeights.h"
#include "CPU/Contract/WordGroups.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;
using kernel::ReadOp;

/// Offsets of a tile's rows are 32-bit displacements.
static constexpr int64_t maxDisplacement = int64_t(1) << 28;

/// Elements of a window's copy for one step of its outermost dim.
static constexpr int64_t maxWindowElements = int64_t(1) << 24;

static int64_t bytesOf(Type type) {
  return llvm::divideCeilSigned(getStorageType(type).getIntOrFloatBitWidth(), 8);
}

static int64_t alignToLine(int64_t bytes) { return llvm::alignTo(bytes, 64); }

/// Dims [first, first + strides.size()) as axes: adjacent ones that a single stride walks are one.
static SmallVector<ContractAxis> collapse(unsigned first, ArrayRef<sym::Expr> extents,
                                          ArrayRef<sym::Expr> strides) {
  SmallVector<ContractAxis> axes;
  for (auto [i, extent] : llvm::enumerate(extents)) {
    bool trivial = extent.isConstant(1);
    if (!axes.empty()) {
      ContractAxis &last = axes.back();
      bool wasTrivial = last.extent.isConstant(1);
      if (trivial || wasTrivial || last.lhsStride == strides[i] * extent) {
        ++last.count;
        last.extent = last.extent * extent;
        last.extents.push_back(extent);
        if (!trivial)
          last.lhsStride = strides[i];
        continue;
      }
    }
    axes.push_back({{first + static_cast<unsigned>(i), 1, extent, {extent}},
                    trivial ? sym::Expr(0) : strides[i]});
  }
  if (axes.empty())
    axes.push_back({{first, 0, 1, {}}, 0});
  return axes;
}

/// All dims as one axis.
static ContractAxis flatten(unsigned first, ArrayRef<sym::Expr> extents) {
  return {{first, static_cast<unsigned>(extents.size()), sym::product(extents),
           SmallVector<sym::Expr>(extents)},
          1};
}

//===-- The left operand ---------------------------------------------------------------------===//

namespace {

/// The data that the analyses of the operands share.
struct Analysis {
  explicit Analysis(kernel::ContractOp op, bool isWidened = false)
      : op(op), isWidened(isWidened), m(op.getM().getSizes()), n(op.getN().getSizes()),
        k(op.getK().getSizes()), firstM(op.getNumBatch()), firstN(firstM + m.size()),
        firstK(firstN + n.size()), end(firstK + k.size()),
        assumptions(kernel::getAssumptions(&op.getLhs())), small(PackedSmallWeights::get(op)) {}

  mutable kernel::ContractOp op; // a handle whose accessors are not const
  bool isWidened;
  ArrayRef<sym::Expr> m, n, k;
  unsigned firstM, firstN, firstK, end;
  sym::Assumptions assumptions;
  std::optional<PackedSmallWeights> small;

  /// The k dims are groups of steps with a scale, or those of an element.
  bool keepsAxes() const { return small && !widens() && (small->scale || small->steps != 1); }
  /// Each task widens small integers to pairs of bf16; few rows look them up.
  bool widensToPairs() const {
    return small && small->inPairs &&
           !(hasFewRows(op) && small->steps == wordSteps && small->scale && !small->offset);
  }
  /// Many rows can share what takes longer than a conversion to f32.
  bool canWidenToFloats() const {
    return small && !small->inPairs && !small->left &&
           (small->scale || small->steps == wordSteps) && !hasFewRows(op) &&
           !sym::product(n).isConstant(1) && sym::product(k).isConstant();
  }
  /// Each task widens and scales it; for one row of a number that a run alone knows, it would take twice as long as in registers.
  bool widensToFloats() const {
    return canWidenToFloats() && (isWidened || sym::product(m).isConstant());
  }
  bool widens() const { return widensToPairs() || widensToFloats(); }

  /// Few rows of f32 sum groups of words before they scale them.
  bool sumsGroups(const ContractLayout &layout, const CPUInfo &target) const {
    std::optional<int64_t> rows = sym::product(m).constant();
    if (small->inPairs || small->left || !small->scale || small->steps != wordSteps ||
        layout.lanes == 1 || !rows || *rows > maxWordGroupRows(target))
      return false;
    sym::Expr stride = 1;
    for (const ContractAxis &sum : llvm::reverse(layout.sums)) {
      if (sum.lhsStride != stride)
        return false;
      stride = stride * sum.extent;
    }
    // Offsets multiply the sums of blocks, which only block floats have.
    return !small->offset || (*rows <= maxBlockFloatRows(target, layout.lanes) &&
                              *k[1].constant() * wordSteps % blockFloatSteps == 0);
  }

  /// The region's one read, without mask, whose value it yields.
  static kernel::ReadOp plainRead(Region &region) {
    auto read = dyn_cast<kernel::ReadOp>(region.front().front());
    if (!read || read.getMask() || !read.getValues().empty() ||
        region.front().getTerminator()->getOperand(0) != read.getResult())
      return {};
    return read;
  }

  sym::Expr offset(kernel::ReadOp read) const {
    return assumptions.simplify(
        sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor())));
  }

  bool direct(ContractLayout &layout) const;
  bool window(ContractLayout &layout) const;
  void matrix(ContractLayout &layout) const;
  bool packed(ContractLayout &layout, const CPUInfo &target) const;
  std::optional<sym::Expr> findPanels(const ContractLayout &layout, kernel::ReadOp read,
                                      unsigned numRows) const;
  void findRhsStrides(ContractLayout &layout) const;
  SmallVector<unsigned> rhsOrder() const;
};

} // namespace

/// Splits off the coefficients of dims [first, first + count), which must not contain dims. `rest`
/// is what remains.
static std::optional<SmallVector<sym::Expr>> splitStrides(sym::Expr &rest, unsigned first,
                                                          size_t count) {
  SmallVector<sym::Expr> strides;
  for (unsigned i = first; i < first + count; ++i) {
    std::optional<sym::Linear> linear = sym::splitLinear(rest, sym::Expr::dim(i));
    if (!linear || linear->coefficient.hasDims())
      return std::nullopt;
    strides.push_back(linear->coefficient);
    rest = linear->rest;
  }
  return strides;
}

bool Analysis::direct(ContractLayout &layout) const {
  kernel::ReadOp read = small && small->left ? small->left : plainRead(op.getLhs());
  // Whole vectors of columns are read.
  if (!read || (layout.depthwise &&
                !assumptions.isMultipleOf(op.getBatch().getSizes().back(), layout.lanes)))
    return false;
  sym::Expr rest = offset(read);
  auto rowStrides = splitStrides(rest, firstM, m.size());
  auto sumStrides = splitStrides(rest, firstK, k.size());
  if (!rowStrides || !sumStrides)
    return false;
  // The zero points are behind the words.
  if (small && small->left &&
      (!(*sumStrides)[2].isConstant(1) || (*sumStrides)[1] != k[2] ||
       (*sumStrides)[0] != k[1] * k[2] || !k[0].isConstant()))
    return false;
  SmallVector<ContractAxis> rows = collapse(firstM, m, *rowStrides);
  SmallVector<ContractAxis> sums = collapse(firstK, k, *sumStrides);
  if (keepsAxes()) {
    sums.clear();
    for (auto [i, size] : llvm::enumerate(k))
      sums.push_back({{firstK + static_cast<unsigned>(i), 1, size, {size}}, (*sumStrides)[i]});
  }
  if (widensToFloats() && sums.size() != 1)
    return false;
  if (widensToPairs()) {
    std::optional<int64_t> steps = sums.front().extent.constant();
    if (sums.size() != 1 || !sums.front().lhsStride.isConstant(1) || !steps ||
        *steps % pairSteps != 0)
      return false;
    sums.front().extent = *steps / pairSteps;
    sums.front().lhsStride = pairSteps;
    sums.push_back({{end, 0, pairSteps, {}}, 1});
  }
  // The rows of a tile are on the last axis, or on two if that is short.
  size_t numTiled = rows.back().extent.isConstant() ? 2 : 1;
  for (const ContractAxis &axis : ArrayRef(rows).take_back(numTiled)) {
    std::optional<int64_t> stride = axis.lhsStride.constant();
    if (!stride || *stride < 0 || *stride > maxDisplacement / 64)
      return false;
  }
  for (const ContractAxis &axis : ArrayRef(sums).drop_front())
    if (!axis.extent.isConstant())
      return false;
  layout.lhs = LeftOperand::Direct;
  layout.lhsTensor = read.getTensor();
  layout.lhsBase = rest;
  layout.rows = std::move(rows);
  layout.sums = std::move(sums);
  return true;
}

bool Analysis::window(ContractLayout &layout) const {
  std::optional<SmallVector<std::optional<StageAxis>>> found = findWindows(op);
  if (!found)
    return false;
  SmallVector<std::optional<StageAxis>> &windows = *found;
  // The windows' m dims are innermost and everything inside them is static.
  auto isWindow = [](const std::optional<StageAxis> &window) { return window.has_value(); };
  auto *first = llvm::find_if(windows, isWindow);
  if (first == windows.end() || !std::all_of(first, windows.end(), isWindow))
    return false;
  double elements = 1;
  for (unsigned i = first - windows.begin(); i < m.size(); ++i)
    if (!m[i].isConstant())
      return false;
  for (unsigned j = 0; j < k.size(); ++j) {
    if (!k[j].isConstant())
      return false;
    StageAxis axis;
    axis.sumDim = firstK + j;
    auto extent = static_cast<double>(*k[j].constant());
    for (std::optional<StageAxis> &window : windows)
      if (window && window->sumDim == axis.sumDim) {
        axis = *window;
        // One step of the outermost.
        bool isOutermost = &window == first;
        double steps = isOutermost ? 0 : static_cast<double>(*m[*axis.rowDim - firstM].constant());
        extent =
            static_cast<double>(axis.rowStep) * steps + static_cast<double>(axis.sumStep) * extent;
      }
    elements *= extent;
    layout.stage.push_back(axis);
  }
  if (elements > maxWindowElements) {
    layout.stage.clear();
    return false;
  }
  layout.lhs = LeftOperand::Window;
  for (unsigned i = 0; i < m.size(); ++i)
    layout.rows.push_back({{firstM + i, 1, m[i], {m[i]}}, 0});
  // Which sum axes are one follows from the copy's strides, which follow from the block of rows.
  for (unsigned j = 0; j < k.size(); ++j)
    layout.sums.push_back({{firstK + j, 1, k[j], {k[j]}}, 0});
  return true;
}

void Analysis::matrix(ContractLayout &layout) const {
  layout.lhs = LeftOperand::Matrix;
  layout.rows = {flatten(firstM, m)};
  layout.sums = {flatten(firstK, k)};
}

/// The offset, over the batch dims, of panels whose rows are the first `numRows` k dims; nothing: `read`
/// is none of such.
std::optional<sym::Expr> Analysis::findPanels(const ContractLayout &layout, kernel::ReadOp read,
                                              unsigned numRows) const {
  int64_t panel = *op.getPanel();
  // Put (p * panel + l) for the columns and s for the sum; the address must be that of a panel.
  sym::Expr p = sym::Expr::dim(end), l = sym::Expr::dim(end + 1), s = sym::Expr::dim(end + 2);
  ArrayRef<sym::Expr> outer = k.take_front(numRows);
  sym::Assumptions known = assumptions;
  known.setExtent(end, layout.columns.extent.ceilDiv(panel));
  known.setExtent(end + 1, panel);
  known.setExtent(end + 2, sym::product(outer));
  SmallVector<sym::Expr> dims;
  for (unsigned i = 0; i < firstN; ++i)
    dims.push_back(sym::Expr::dim(i));
  dims.append(n.size(), 0);
  for (auto [i, value] : llvm::enumerate(layout.columns.delinearize(p * panel + l)))
    dims[layout.columns.first + i] = value;
  llvm::append_range(dims, sym::delinearize(s, outer));
  for (unsigned i = numRows; i < k.size(); ++i)
    dims.push_back(sym::Expr::dim(end + 3 + i));
  sym::Expr rest =
      known.simplify(sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor()))
                         .substituteDims(dims));
  auto strides = splitStrides(rest, end, 3);
  // A single panel has no next one to be at any distance, and a single row neither.
  bool isSingle = known.simplify(layout.columns.extent.ceilDiv(panel)).isConstant(1);
  bool isRow = sym::product(outer).isConstant(1);
  if (!strides || (!isSingle && (*strides)[0] != sym::product(outer) * panel) ||
      !(*strides)[1].isConstant(1) || (!isRow && !(*strides)[2].isConstant(panel)))
    return std::nullopt;
  for (unsigned i = firstM; i < end + 3 + k.size(); ++i)
    if (rest.dependsOn(sym::Expr::dim(i)))
      return std::nullopt;
  return rest;
}

bool Analysis::packed(ContractLayout &layout, const CPUInfo &target) const {
  std::optional<uint64_t> panel = op.getPanel();
  kernel::ReadOp read = small ? small->bits : plainRead(op.getRhs());
  // A panel of another width than this target's vectors is read like any other operand.
  if (!panel || !read || static_cast<int64_t>(*panel) % layout.lanes != 0 ||
      ((keepsAxes() || widens()) && layout.lhs != LeftOperand::Direct))
    return false;
  bool inElements = small && small->steps != 1;
  unsigned numInner = small && small->left ? 2 : inElements ? 1 : 0;
  std::optional<sym::Expr> base = findPanels(layout, read, k.size() - numInner);
  if (!base)
    return false;
  for (kernel::ReadOp row : {small ? small->scale : ReadOp(), small ? small->offset : ReadOp()}) {
    std::optional<sym::Expr> begin = row ? findPanels(layout, row, 1) : std::optional(sym::Expr(0));
    if (!begin || (row && row != small->scale && *begin != layout.scaleBase))
      return false;
    if (row)
      layout.scaleBase = *begin;
  }
  layout.packed = true;
  layout.rhsTensor = read.getTensor();
  layout.rhsBase = *base;
  if (!small)
    return true;
  layout.rhsType = read.getType();
  layout.rhsSteps = small->steps;
  layout.inGroups = small->left || (small->inPairs && !widens()) || sumsGroups(layout, target);
  if (small->left)
    layout.lhsType = read.getType();
  if (widens()) {
    int64_t groups = small->scale ? *k.front().constant() : 0;
    layout.widened = {read.getType(), small->steps,
                      groups == 0 ? 0 : *sym::product(k).constant() / groups};
    layout.rhsType = widensToPairs() ? Type(IntegerType::get(read.getContext(), 32))
                                     : Type(Float32Type::get(read.getContext()));
    layout.rhsSteps = widensToPairs() ? pairSteps : 1;
  }
  layout.rhsUnsigned = small->isUnsigned;
  layout.subtractsFirst = small->subtractsFirst;
  if (small->scale)
    layout.scaleTensor = kernel::ReadOp(small->scale).getTensor();
  if (small->offset)
    layout.offsetTensor = kernel::ReadOp(small->offset).getTensor();
  return true;
}

/// Finds how far the steps of the sum are apart in a right operand that is one read, whose columns
/// lie next to each other.
void Analysis::findRhsStrides(ContractLayout &layout) const {
  kernel::ReadOp read = plainRead(op.getRhs());
  // The axes of a window's sum follow from the schedule.
  if (!read || layout.depthwise || layout.lhs == LeftOperand::Window ||
      layout.columns.extent.isConstant(1) || layout.rhsType.isInteger(1))
    return;
  sym::Expr rest = offset(read);
  auto columnStrides = splitStrides(rest, firstN, n.size());
  auto sumStrides = splitStrides(rest, firstK, k.size());
  if (!columnStrides || !sumStrides)
    return;
  SmallVector<ContractAxis> columns = collapse(firstN, n, *columnStrides);
  if (columns.size() != 1 || !columns.front().lhsStride.isConstant(1))
    return;
  SmallVector<sym::Expr> strides;
  for (const ContractAxis &axis : layout.sums) {
    unsigned first = axis.first - firstK;
    SmallVector<ContractAxis> here = collapse(axis.first, k.slice(first, axis.count),
                                              ArrayRef(*sumStrides).slice(first, axis.count));
    if (here.size() != 1)
      return;
    strides.push_back(here.front().lhsStride);
  }
  layout.rhsTensor = read.getTensor();
  layout.rhsBase = rest;
  layout.rhsStrides = std::move(strides);
}

SmallVector<unsigned> Analysis::rhsOrder() const {
  ReadOp read;
  op.getRhs().walk([&](ReadOp other) {
    auto rank = [](ReadOp r) { return cast<RankedTensorType>(r.getTensor().getType()).getRank(); };
    if (other.getValues().empty() && (!read || rank(other) > rank(read)))
      read = other;
  });
  if (!read)
    return {};
  sym::Expr rest = offset(read);
  auto strides = splitStrides(rest, firstK, k.size());
  if (!strides)
    return {};
  SmallVector<unsigned> order(k.size());
  std::iota(order.begin(), order.end(), 0);
  for (auto [stride, size] : llvm::zip(*strides, k))
    if (!size.isConstant() || !stride.isConstant() || *stride.constant() < 0)
      return {};
  llvm::sort(order, [&](unsigned a, unsigned b) {
    int64_t x = *(*strides)[a].constant(), y = *(*strides)[b].constant();
    return x != y ? x > y : a < b;
  });
  sym::Expr next = 1;
  for (unsigned i : llvm::reverse(order)) {
    if (!k[i].isConstant(1) && (*strides)[i] != next)
      return {};
    next = next * k[i];
  }
  return llvm::is_sorted(order) ? SmallVector<unsigned>() : order;
}

bool cpu::readsInPlace(kernel::ContractOp op) {
  ContractLayout layout;
  return Analysis(op).direct(layout);
}

std::optional<int64_t> cpu::countRowsOfRun(kernel::ContractOp op) {
  ContractLayout layout;
  Analysis analysis(op);
  if (!analysis.direct(layout) && !analysis.window(layout))
    return std::nullopt;
  return layout.rows.back().extent.constant();
}

FailureOr<ContractLayout> ContractLayout::get(kernel::ContractOp op, const CPUInfo &target,
                                              std::optional<LeftOperand> lhs, bool isWidened) {
  ContractLayout layout;
  layout.op = op;
  layout.lhsType = op.getLhs().front().getTerminator()->getOperand(0).getType();
  layout.rhsType = op.getRhs().front().getTerminator()->getOperand(0).getType();
  layout.sumType = op.getEpilogue().getArgument(0).getType();
  bool floats = isa<FloatType>(layout.lhsType) && isa<FloatType>(layout.sumType);
  bool integers = isa<IntegerType>(layout.lhsType) && isa<IntegerType>(layout.sumType);
  if ((!floats && !integers) || layout.lhsType.isInteger(1))
    return op.emitOpError("a product of ")
           << layout.lhsType << " summed in " << layout.sumType << " is not supported on CPUs";
  if (layout.lhsType.getIntOrFloatBitWidth() > layout.sumType.getIntOrFloatBitWidth())
    return op.emitOpError("the sum is narrower than its operands");

  Analysis analysis(op, isWidened);
  sym::Expr size = sym::product(op.getExtents());
  if (!size.isValid())
    return op.emitOpError("is too large");
  layout.lanes = std::max<int64_t>(target.lanes(layout.sumType), 1);
  layout.depthwise = kernel::columnsAreBatch(op);
  auto mayBe = [&](LeftOperand way) { return !lhs || *lhs == way; };
  bool found = (mayBe(LeftOperand::Direct) && analysis.direct(layout)) ||
               (mayBe(LeftOperand::Window) && analysis.window(layout));
  if (!found) {
    if (!mayBe(LeftOperand::Matrix))
      return op.emitOpError("has no left operand that can be read as lhs = ")
             << stringifyLeftOperand(*lhs);
    analysis.matrix(layout);
    layout.depthwise = false;
  }
  layout.columns = flatten(analysis.firstN, analysis.n);
  if (layout.depthwise)
    layout.columns = flatten(analysis.firstM - 1, op.getBatch().getSizes().take_back());
  // One column has nothing to fill lanes with.
  if (layout.columns.extent.isConstant(1))
    layout.lanes = 1;
  if (!analysis.packed(layout, target)) {
    if (analysis.small && (analysis.small->left || analysis.small->inPairs) &&
        layout.lhs == LeftOperand::Direct)
      return op.emitOpError("has panels of another width than the target's vectors");
    layout.rhsOrder = analysis.rhsOrder();
    analysis.findRhsStrides(layout);
  }
  ContractLayout other;
  layout.canBeWidened = layout.packed && !layout.widened && analysis.canWidenToFloats() &&
                        Analysis(op, /*isWidened=*/true).direct(other);
  return layout;
}

//===-- Tiles and blocks ---------------------------------------------------------------------===//

sym::Expr RowRun::shareOf(sym::Expr steps, sym::Expr tiles, bool isEven) {
  return isEven ? 2 * steps.ceilDiv(2 * tiles) : steps.ceilDiv(tiles);
}

SmallVector<int64_t> RowRun::heights() const {
  SmallVector<int64_t> result{1};
  for (int64_t height = 2; height < size; height += 2)
    result.push_back(height);
  if (size != 1)
    result.push_back(size);
  return result;
}

unsigned ContractLayout::numBlockAxes() const {
  if (lhs != LeftOperand::Window)
    return rows.size();
  return llvm::count_if(stage, [](const StageAxis &axis) { return axis.rowDim.has_value(); });
}

void ContractLayout::setTile(int64_t maxRows, int64_t tileAxes, int64_t blockAxes) {
  tileAxis = rows.size() - tileAxes;
  blockAxis = rows.size() - blockAxes;
  tileInner = tileAxes == 1 ? 1 : *rows.back().extent.constant();
  sym::Expr extent = rows[tileAxis].extent;
  int64_t limit = std::max<int64_t>(maxRows / tileInner, 1);
  runs.clear();
  if (std::optional<int64_t> steps = extent.constant()) {
    int64_t tiles = std::max<int64_t>(llvm::divideCeilSigned(*steps, limit), 1);
    int64_t size = *steps / tiles, larger = *steps % tiles;
    if (larger != 0)
      runs.push_back({size + 1, 0, larger, 0});
    if (size != 0)
      runs.push_back({size, (size + 1) * larger, tiles - larger, larger});
  } else if (turn == Turn::Sums) {
    // Single rows after the last whole tile: they cost little more than the reading of the operand.
    sym::Expr whole = extent.floorDiv(limit);
    runs.push_back({limit, 0, whole, 0});
    if (limit != 1)
      runs.push_back({1, whole * limit, extent - whole * limit, whole});
  } else {
    sym::Expr tiles = extent.ceilDiv(limit), whole = sym::Expr::max(tiles - 2, 0);
    sym::Expr left = extent - whole * limit, last = tiles - whole;
    runs.push_back({limit, 0, whole, 0});
    // Vectors have code for even heights.
    bool isEven = limit % 2 == 0 && unit == ProductUnit::Vectors;
    runs.push_back({limit, whole * limit, last, whole, /*isVariable=*/true,
                    RowRun::shareOf(left, sym::Expr::max(last, 1), isEven), left, isEven});
  }
}

sym::Expr ContractLayout::numTiles() const {
  if (runs.empty())
    return 0;
  return runs.back().firstTile + runs.back().count;
}

int64_t ContractLayout::maxTileSize() const { return runs.empty() ? 1 : runs.front().size; }

bool ContractLayout::hasVariableTiles() const {
  return llvm::any_of(runs, [](const RowRun &run) { return run.isVariable; });
}

sym::Expr ContractLayout::numUnits() const {
  return blockAxis == tileAxis ? numTiles() : rows[blockAxis].extent;
}

sym::Expr ContractLayout::unitBegin(sym::Expr unit) const {
  if (blockAxis != tileAxis)
    return unit;
  sym::Expr begin = 0;
  for (const RowRun &run : runs) { // Tiles of this run before `unit`.
    sym::Expr tiles = sym::Expr::max(sym::Expr::min(unit - run.firstTile, run.count), 0);
    begin =
        begin + (run.isVariable ? sym::Expr::min(run.share * tiles, run.steps) : run.size * tiles);
  }
  return begin;
}

int64_t ContractLayout::maxBlockSteps() const {
  return blockAxis == tileAxis ? blockUnits * maxTileSize() : blockUnits;
}

bool ContractLayout::hasBoundedBlocks() const {
  return llvm::all_of(ArrayRef(rows).drop_front(blockAxis + 1),
                      [](const ContractAxis &axis) { return axis.extent.isConstant(); });
}

int64_t ContractLayout::maxBlockRows() const {
  int64_t count = maxBlockSteps();
  for (const ContractAxis &axis : ArrayRef(rows).drop_front(blockAxis + 1))
    count *= axis.extent.constant().value_or(1);
  return count;
}

void ContractLayout::setRowBlock(int64_t units) {
  blockUnits = units;
  if (lhs != LeftOperand::Window)
    return;
  unsigned firstM = rows.front().first, firstK = op.getExtents().size() - op.getNumK();
  // A depthwise convolution's copy has the columns of a panel innermost.
  int64_t stride = depthwise ? panel() : 1;
  SmallVector<sym::Expr> sumStrides(op.getNumK(), sym::Expr(0));
  for (StageAxis &axis : llvm::reverse(stage)) {
    int64_t sumSize = *op.getK().getSizes()[*axis.sumDim - firstK].constant();
    axis.extent = axis.sumStep * (sumSize - 1) + 1;
    axis.stride = stride;
    if (axis.rowDim) {
      unsigned row = *axis.rowDim - firstM;
      int64_t steps = row < blockAxis    ? 1
                      : row == blockAxis ? maxBlockSteps()
                                         : *rows[row].extent.constant();
      axis.extent += axis.rowStep * (steps - 1);
      rows[row].lhsStride = axis.rowStep * stride;
    } else {
      axis.extent = sumSize;
    }
    sumStrides[*axis.sumDim - firstK] = axis.rowDim ? axis.sumStep * stride : stride;
    stride *= axis.extent;
  }
  sums = collapse(firstK, op.getK().getSizes(), sumStrides);
}

SmallVector<sym::Expr> ContractLayout::gridSizes() const {
  SmallVector<sym::Expr> sizes(
      kernel::ContractOp(op).getBatch().getSizes().take_front(numOuterBatch()));
  for (const ContractAxis &axis : ArrayRef(rows).take_front(blockAxis))
    sizes.push_back(axis.extent);
  sizes.push_back(numRowBlocks());
  sizes.push_back(numColumnBlocks());
  return sizes;
}

//===-- Tiles --------------------------------------------------------------------------------===//

bool ContractLayout::multipliesPairs() const {
  return rhsSteps == 2 && lhsType.isBF16() && sums.back().lhsStride.isConstant(1);
}

const char *ContractLayout::whyNoTiles(const CPUInfo &target) const {
  bool isBytes = kernel::ContractOp(op).getBytes() == 4, isPairs = multipliesPairs();
  if (!(isBytes && target.amxInt8) && !(isPairs && target.amxBf16))
    return "the CPU has no tiles for these types";
  if (!packed || depthwise || (scaleTensor && !widened))
    return "the right operand is not packed as tiles are";
  const ContractAxis &words = sums[wordAxis()];
  if (!words.extent.isConstant() || words.extent.isConstant(0) ||
      !words.lhsStride.isConstant(isPairs ? 2 : 1))
    return "the left operand does not lie along the sum";
  return nullptr;
}

const char *ContractLayout::whyNoBlockFloats(const CPUInfo &target) const {
  if (!inGroups || !lhsType.isF32())
    return "the operands are not rows of f32 and words of four bits with scales of groups";
  if (lanes != target.lanes(sumType))
    return "vectors have other lanes";
  if (*sums[1].extent.constant() * rhsSteps % blockFloatSteps != 0)
    return "a group is not a number of blocks of 32 steps";
  if (rows.size() != 1 || maxBlockFloatRows(target, lanes) < *rows.front().extent.constant())
    return "there are more rows than are faster so";
  return nullptr;
}

const char *ContractLayout::whyNoVectorRows(int64_t rows) const {
  if (lhs != LeftOperand::Direct || depthwise || packed || tileInner != 1 || hasVariableTiles())
    return "rows that share a vector are some of one axis, in memory, and their number is known";
  if (!columns.extent.isConstant(lanes))
    return "the columns are not as many as the lanes";
  if (!isa<FloatType>(sumType) || lhsType != sumType || rhsType != sumType)
    return "operands of rows that share a vector are floats, of the type of the sum";
  if (sums.size() != 1 || !sums.front().lhsStride.isConstant(1) || !sumExtent().isConstant() ||
      *sumExtent().constant() % lanes != 0 || !numSumBlocks().isConstant(1))
    return "the left operand does not lie along a sum that is a multiple of the lanes";
  if (llvm::any_of(runs, [&](const RowRun &run) { return run.size % rows != 0; }))
    return "a tile of rows is not a multiple of those that share a vector";
  return nullptr;
}

bool ContractLayout::fillsTiles() const {
  if (tileInner != 1)
    return tileInner <= tileRegisterRows && maxTileSize() <= maxProductRows / tileRegisterRows &&
           !hasVariableTiles();
  if (hasVariableTiles()) // the last two share one row more than fit in one
    return (maxTileSize() + 1) / 2 >= tileRegisterRows;
  return numTiles().isConstant(1) ||
         llvm::all_of(runs, [](const RowRun &run) { return run.size >= tileRegisterRows; });
}

//===-- Turned sums --------------------------------------------------------------------------===//

int64_t ContractLayout::turnedColumns(int64_t rows, int64_t count) const {
  auto most = static_cast<int64_t>(llvm::bit_floor(static_cast<uint64_t>(tileSums / rows)));
  auto needed = static_cast<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(count)));
  return std::clamp<int64_t>(std::min(most, needed), 1, lanes);
}

bool ContractLayout::lhsLiesAlongSum() const {
  return lhs == LeftOperand::Matrix ||
         (lhs == LeftOperand::Direct &&
          (sums.back().lhsStride.isConstant(1) || sums.back().extent.isConstant(1)));
}

//===-- Scratch memory -----------------------------------------------------------------------===//

sym::Expr ContractLayout::sumInner() const {
  sym::Expr inner = 1;
  for (const ContractAxis &axis : ArrayRef(sums).drop_front())
    inner = inner * axis.extent;
  return inner;
}

sym::Expr ContractLayout::sumExtent() const { return sums.front().extent * sumInner(); }

bool ContractLayout::stagesPerSumBlock() const {
  return lhs == LeftOperand::Matrix && !numSumBlocks().isConstant(1);
}

int64_t ContractLayout::stageEstimate() const {
  int64_t elements = 1;
  // Not those of `sums`, which are fewer once the rows are cut into blocks.
  ArrayRef<sym::Expr> k = kernel::ContractOp(op).getK().getSizes();
  unsigned firstM = rows.front().first, firstK = sums.front().first;
  for (const StageAxis &axis : stage) {
    int64_t extent = axis.sumStep * (*k[*axis.sumDim - firstK].constant() - 1) + 1;
    if (axis.rowDim)
      extent += axis.rowStep * (*rows[*axis.rowDim - firstM].extent.constant() - 1);
    elements *= extent;
  }
  return elements;
}

int64_t ContractLayout::panelRowBytes() const {
  return panel() * rhsType.getIntOrFloatBitWidth() / 8 / rhsSteps;
}

SmallVector<ReadOp> ContractLayout::epilogueTiles() const {
  SmallVector<ReadOp> reads;
  Region &region = kernel::ContractOp(op).getEpilogue();
  for (const Access &access : collectAccesses(region)) {
    auto read = dyn_cast<ReadOp>(access.op);
    if (!read || !access.isOffset || read->getParentRegion() != &region)
      continue;
    std::optional<sym::Linear> linear = sym::splitLinear(access.expr, columns.lastDim());
    bool hasRows = llvm::any_of(rows, [&](const ContractAxis &axis) {
      return llvm::any_of(llvm::seq(axis.first, axis.first + axis.count),
                          [&](unsigned i) { return access.expr.dependsOn(sym::Expr::dim(i)); });
    });
    if (hasRows && linear && linear->coefficient.isConstant(1))
      reads.push_back(read);
  }
  return reads;
}

int64_t ContractLayout::lhsScratchBytes() const {
  int64_t elements = 0;
  if (lhs == LeftOperand::Window)
    elements = stage.front().stride * stage.front().extent;
  else if (lhs == LeftOperand::Matrix || unit == ProductUnit::Digits)
    elements = maxBlockRows() * *rows.front().lhsStride.constant();
  return alignToLine(elements * bytesOf(lhsType));
}

int64_t ContractLayout::panelScratchBytes() const {
  return alignToLine(blockSums * panel() * bytesOf(rhsType));
}

int64_t ContractLayout::rhsScratchBytes() const {
  if (widened)
    return (unit == ProductUnit::Tiles ? blockPanels : 1) * panelScratchBytes();
  if (packed || rhs == RightOperand::Direct)
    return 0;
  // The sums of a tile, before they are turned: fewer rows have no more.
  if (turn == Turn::Sums)
    return alignToLine(maxTileRows() * lanes * lanes * bytesOf(sumType));
  // Written in squares of `lanes` rows.
  int64_t sums = llvm::alignTo(blockSums * *sumInner().constant(), lanes);
  return alignToLine(sums * panel() * bytesOf(rhsType));
}

int64_t ContractLayout::sumScratchBytes() const {
  if (!epilogueInMemory && !hasVariableTiles())
    return 0;
  int64_t elements = numSumBlocks().isConstant(1) ? maxTileRows() * panel()
                                                  : maxBlockRows() * blockPanels * panel();
  return alignToLine(elements * bytesOf(sumType));
}

void ContractLayout::apply(ContractAttr schedule) {
  lanes = schedule.getLanes();
  vectors = schedule.getVectors();
  rhs = schedule.getRhs();
  unit = schedule.getUnit();
  turn = schedule.getTurn();
  tileSums = schedule.getTileSums();
  setTile(schedule.getTileRows(), schedule.getTileAxes(), schedule.getBlockAxes());
  int64_t unitRows = blockAxis == tileAxis ? maxTileRows() : 1;
  if (blockAxis != tileAxis)
    for (const ContractAxis &axis : ArrayRef(rows).drop_front(blockAxis + 1))
      unitRows *= axis.extent.constant().value_or(1);
  auto clamp = [](int64_t count, sym::Expr limit) {
    return std::max<int64_t>(std::min(count, limit.constant().value_or(count)), 1);
  };
  setRowBlock(clamp(schedule.getBlockRows() / unitRows, numUnits()));
  blockPanels = clamp(schedule.getBlockColumns() / panel(), numPanels());
  int64_t inner = std::max<int64_t>(sumInner().constant().value_or(1), 1);
  blockSums = clamp(schedule.getBlockSums() / inner, sums.front().extent);
  if (lhs == LeftOperand::Matrix)
    rows.front().lhsStride = llvm::alignTo(blockSums, lanes) + schedule.getLhsPadding();
  if (unit == ProductUnit::Digits) {
    rows.front().lhsStride = countBlockFloatWords(*sumExtent().constant());
    sums.front().lhsStride = countBlockFloatWords(inner);
  } else if (offsetTensor) {
    inGroups = false; // floats do not sum them apart
  }
  epilogueInMemory = schedule.getEpilogue() == EpiloguePlace::Memory;
  tilesShareCode = schedule.getShareTiles();
  prefetch = schedule.getPrefetch();
  epiloguePrefetch = schedule.getEpiloguePrefetch();
  unroll = schedule.getUnroll();
  parts = schedule.getParts();
  vectorRows = schedule.getVectorRows();
}
