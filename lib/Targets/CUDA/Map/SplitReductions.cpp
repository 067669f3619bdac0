// cuda-split-reductions: reduces few long rows in parts, by a kernel of their own.
#include "CUDA/GraphBranch.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITREDUCTIONS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// A part of an unknown length is a multiple of these elements.
static constexpr int64_t lineElements = 16;

namespace {
/// The least that a division among blocks is to be worth.
struct Bounds {
  /// As many rows as this keep a GPU busy; a part of fewer elements is not worth a block.
  int64_t manyRows, minPart = 2048;
  int64_t minParts = 8, maxParts = 512;
  /// The fewest elements that a part has of the dim that is cut.
  int64_t minLength = 512;
};
/// The dims of the map that a reduction depends on, and how one of its own is cut.
struct Split {
  SmallVector<unsigned> dims;
  unsigned cut = 0;
  sym::Expr parts = 1, part = 1;
  /// The rest behind the parts.
  sym::Expr rest = 0;
  /// At least zero where the reduction is long; null: it always is.
  std::optional<sym::Expr> when;
};
} // namespace

static bool isNumber(Type type) { return type.isIntOrFloat(); }

/// Cuts the first dim, of known length, into equal parts.
static bool cutKnown(Split &split, ArrayRef<sym::Expr> extents, int64_t total,
                     const Bounds &bounds) {
  int64_t first = *extents.front().constant(), rest = total / std::max<int64_t>(first, 1);
  int64_t parts = 1;
  for (int64_t count = bounds.minParts; count <= std::min(first, bounds.maxParts); ++count)
    if (first % count == 0 && first / count * rest >= bounds.minPart)
      parts = count;
  split.parts = parts;
  split.part = first / parts;
  return parts > 1;
}

/// Cuts the first dim of unknown length, such that little is left.
static bool cutUnknown(Split &split, ArrayRef<sym::Expr> extents,
                       const sym::Assumptions &assumptions, const Bounds &bounds) {
  while (split.cut < extents.size() && extents[split.cut].constant())
    ++split.cut;
  if (split.cut == extents.size())
    return false;
  sym::Expr length = extents[split.cut], total = sym::product(extents);
  // Parts begin at multiples anyway where other dims are inside.
  int64_t line = split.cut + 1 == extents.size() ? lineElements : 1;
  sym::Expr most = sym::Expr::min(sym::Expr(total).floorDiv(bounds.minPart),
                                  length.floorDiv(line * bounds.minLength / lineElements));
  split.parts = assumptions.simplify(sym::Expr::max(1, sym::Expr::min(bounds.maxParts, most)));
  split.part = assumptions.simplify(line * length.floorDiv(line * split.parts));
  split.rest = assumptions.simplify(length - split.parts * split.part);
  sym::Expr enough = assumptions.simplify(most - bounds.minParts);
  if (assumptions.isNonNegative(enough))
    return true;
  split.when = enough;
  return !assumptions.isLess(enough, 0);
}

/// Whether rows that are neighbours are so in memory, and what is reduced is not: a thread has a
/// row then.
static bool areColumns(ReduceOp reduce, unsigned lastDim, unsigned rank) {
  sym::Expr row = sym::Expr::dim(lastDim);
  sym::Expr last = sym::Expr::dim(rank + reduce.getExtents().getSizes().size() - 1);
  bool alongRows = false, alongReduced = false;
  for (const codegen::Access &access : codegen::collectAccesses(reduce.getBody()))
    if (access.isOffset) {
      alongRows |= codegen::classify(access.expr, row) == codegen::Walk::Consecutive;
      alongReduced |= codegen::classify(access.expr, last) == codegen::Walk::Consecutive;
    }
  return alongRows && !alongReduced;
}

static Bounds getColumnBounds(int64_t rows, int64_t busyBlocks) {
  constexpr int64_t threads = 256, minPart = 64;
  int64_t manyBlocks = 8 * busyBlocks;
  int64_t blocks = llvm::divideCeil(std::max<int64_t>(rows, 1), threads);
  int64_t parts = llvm::divideCeil(manyBlocks, blocks);
  return rows < threads ? Bounds{busyBlocks / 2}
                        : Bounds{2 * busyBlocks * threads, minPart, 4, parts, minPart};
}

/// Nullopt: the reduction is left as it is.
static std::optional<Split> findSplit(MapOp map, ReduceOp reduce) {
  SmallVector<sym::Expr> domain = map.getExtents();
  ArrayRef<sym::Expr> extents = reduce.getExtents().getSizes();
  if (extents.empty() || !llvm::all_of(reduce.getResultTypes(), isNumber))
    return std::nullopt;
  llvm::SmallBitVector used(domain.size());
  bool isAlone = true;
  reduce->walk([&](Operation *op) {
    if (auto indices = kernel::getIndexMap(op))
      for (sym::Expr expr : indices.getResults())
        expr.walkLeaves([&](sym::Expr leaf) {
          if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < domain.size())
            used.set(leaf.dimIndex());
        });
    // Values that the map has computed before are not there where the parts are.
    for (Value operand : op->getOperands())
      if (operand.getParentRegion() == &map.getBody())
        isAlone &= operand.getDefiningOp()->hasTrait<OpTrait::ConstantLike>();
  });
  Split split;
  sym::Expr rows = 1;
  for (unsigned dim : used.set_bits()) {
    split.dims.push_back(dim);
    rows = rows * domain[dim];
  }
  int64_t busyBlocks = cuda::getTarget(map).getBusyBlocks();
  Bounds bounds = used.any() && areColumns(reduce, used.find_last(), domain.size())
                      ? getColumnBounds(codegen::estimate(rows), busyBlocks)
                      : Bounds{busyBlocks / 2};
  if (!isAlone || codegen::estimate(rows) >= bounds.manyRows)
    return std::nullopt;
  std::optional<int64_t> total = sym::product(extents).constant();
  bool isCut = total ? cutKnown(split, extents, *total, bounds)
                     : cutUnknown(split, extents, getAssumptions(&reduce.getBody()), bounds);
  return isCut ? std::optional(split) : std::nullopt;
}

/// The reduction of `extent` elements of the dim that is cut, from `first` on, an expression over
/// the dims in front of the reduction's; `dims` are the map's there.
static ReduceOp cloneReduce(OpBuilder &builder, ReduceOp reduce, const Split &split,
                            ArrayRef<sym::Expr> dims, unsigned numDims, sym::Expr first,
                            sym::Expr extent, IRMapping &mapping) {
  SmallVector<Value> init;
  for (Value value : reduce.getInit())
    init.push_back(mapping.lookupOrDefault(value));
  SmallVector<sym::Expr> extents(reduce.getExtents().getSizes());
  extents[split.cut] = extent;
  auto inner = ReduceOp::create(builder, reduce.getLoc(), reduce.getResultTypes(),
                                sym::ShapeAttr::get(builder.getContext(), extents), init);
  unsigned count = extents.size();
  DimSubstitution substitution;
  substitution.sourceDims = dims.size() + count;
  substitution.targetDims = numDims + count;
  substitution.dims.assign(dims.begin(), dims.end());
  for (unsigned i = 0; i < count; ++i)
    substitution.dims.push_back(sym::Expr::dim(numDims + i) +
                                (i == split.cut ? first : sym::Expr(0)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&inner.getBody().emplaceBlock());
  SmallVector<Value> yielded = cloneBody(builder, reduce.getBody().front(), substitution, mapping);
  YieldOp::create(builder, reduce.getLoc(), yielded);
  reduce.getCombine().cloneInto(&inner.getCombine(), mapping);
  return inner;
}

/// The map of the reduction's parts: its results are what each has accumulated.
static MapOp makeParts(OpBuilder &builder, MapOp map, ReduceOp reduce, const Split &split) {
  SmallVector<sym::Expr> domain = map.getExtents(), shape;
  for (unsigned dim : split.dims)
    shape.push_back(domain[dim]);
  unsigned partDim = shape.size();
  shape.push_back(split.parts);
  SmallVector<Type> types;
  for (Type type : reduce.getResultTypes())
    types.push_back(sym::getTensorType(shape, type));
  auto parts = MapOp::create(builder, reduce.getLoc(), TypeRange(types));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&parts.getBody().emplaceBlock());

  IRMapping mapping;
  auto cloneConstants = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (operand.getParentRegion() == &map.getBody() && !mapping.contains(operand))
        mapping.map(operand, builder.clone(*operand.getDefiningOp())->getResult(0));
  };
  reduce->walk(cloneConstants);
  SmallVector<sym::Expr> dims(domain.size(), sym::Expr(0));
  for (auto [i, dim] : llvm::enumerate(split.dims))
    dims[dim] = sym::Expr::dim(i);
  ReduceOp inner = cloneReduce(builder, reduce, split, dims, partDim + 1,
                               split.part * sym::Expr::dim(partDim), split.part, mapping);
  builder.setInsertionPointAfter(inner);
  YieldOp::create(builder, reduce.getLoc(), inner.getResults());
  return parts;
}

/// `reduce` becomes one over what the parts have accumulated, and one over the rest.
static void reduceParts(OpBuilder &builder, MapOp map, ReduceOp reduce, MapOp parts,
                        const Split &split) {
  builder.setInsertionPoint(reduce);
  Location loc = reduce.getLoc();
  auto outer =
      ReduceOp::create(builder, loc, reduce.getResultTypes(),
                       sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(split.parts)),
                       reduce.getInit());
  unsigned rank = map.getExtents().size();
  sym::IndexMap index{rank + 1, {}};
  for (unsigned dim : split.dims)
    index.results.push_back(sym::Expr::dim(dim));
  index.results.push_back(sym::Expr::dim(rank));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&outer.getBody().emplaceBlock());
    SmallVector<Value> read;
    for (Value result : parts.getResults())
      read.push_back(ReadOp::create(builder, loc, result, index));
    YieldOp::create(builder, loc, read);
  }
  IRMapping copies;
  reduce.getCombine().cloneInto(&outer.getCombine(), copies);
  SmallVector<Value> results(outer.getResults());
  if (!split.rest.isConstant(0)) {
    IRMapping mapping;
    SmallVector<sym::Expr> dims;
    for (unsigned i = 0; i < rank; ++i)
      dims.push_back(sym::Expr::dim(i));
    ReduceOp rest = cloneReduce(builder, reduce, split, dims, rank, split.parts * split.part,
                                split.rest, mapping);
    builder.setInsertionPoint(reduce);
    Block &combine = reduce.getCombine().front();
    IRMapping values;
    llvm::append_range(results, rest.getResults());
    values.map(combine.getArguments(), results);
    for (Operation &op : combine.without_terminator())
      builder.clone(op, values);
    results.clear();
    for (Value value : combine.getTerminator()->getOperands())
      results.push_back(values.lookupOrDefault(value));
  }
  reduce.replaceAllUsesWith(results);
  reduce.erase();
}

namespace {
/// The division of a map's reductions.
struct MapSplit {
  /// At least zero where one of them is long; null: each of them always is.
  std::optional<sym::Expr> when;
};
} // namespace

/// Nullopt: the map is left as it is.
static std::optional<MapSplit> findMapSplit(MapOp map) {
  std::optional<MapSplit> result;
  for (auto reduce : map.getBody().front().getOps<ReduceOp>())
    if (std::optional<Split> split = findSplit(map, reduce)) {
      if (!result)
        result.emplace();
      if (split->when)
        result->when = result->when ? sym::Expr::max(*result->when, *split->when) : *split->when;
    }
  return result;
}

static void divide(MapOp map, const MapSplit &) {
  for (auto reduce : llvm::make_early_inc_range(map.getBody().front().getOps<ReduceOp>()))
    if (std::optional<Split> split = findSplit(map, reduce)) {
      OpBuilder builder(map);
      MapOp parts = makeParts(builder, map, reduce, *split);
      reduceParts(builder, map, reduce, parts, *split);
    }
}

namespace {

struct SplitReductions : kiln::cuda::impl::CudaSplitReductionsBase<SplitReductions> {
  void runOnOperation() override {
    cuda::divideEach<MapOp>(getOperation(), "reduction", findMapSplit, divide);
  }
};

} // namespace
