// cuda-split-scans: divides few long lines of scans among blocks.
#include "CUDA/GraphBranch.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITSCANS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// A part is a multiple of what a block takes at once, and not shorter than this; there are so many
/// of them at most.
static constexpr int64_t partMultiple = 1024, minPart = 4096, maxParts = 128;
/// Lines that are shorter are left to one block.
static constexpr int64_t minLength = 4 * minPart;

namespace {
struct Split {
  sym::Expr part = 1, parts = 1;
  /// At least zero where the line is long; null: it always is.
  std::optional<sym::Expr> when;
};
} // namespace

static std::optional<Split> findSplit(ScanOp scan) {
  // The results of parts are put together in any order.
  if (scan.getPart() || !cuda::isBlockScan(scan) || !cuda::isCommutative(scan))
    return std::nullopt;
  SmallVector<sym::Expr> domain = scan.getExtents();
  sym::Expr length = domain[scan.getDim()], lines = 1;
  for (auto [i, size] : llvm::enumerate(domain))
    if (i != scan.getDim())
      lines = lines * size;
  sym::Assumptions assumptions = getAssumptions(&scan.getBody());
  sym::Expr enough = assumptions.simplify(length - minLength);
  // So many lines keep a GPU busy.
  int64_t manyLines = cuda::getTarget(scan).getBusyBlocks() / 2;
  if (codegen::estimate(lines) >= manyLines || assumptions.isLess(enough, 0) ||
      !arith::getNeutralElement(&scan.getCombine().front().front()))
    return std::nullopt;
  Split split;
  split.part =
      assumptions.simplify(partMultiple * sym::Expr::max(minPart / partMultiple,
                                                         length.ceilDiv(partMultiple * maxParts)));
  // At least one also where the line is short: sizes of memory are computed for either graph.
  split.parts = assumptions.simplify(sym::Expr::max(1, length.ceilDiv(split.part)));
  if (!assumptions.isNonNegative(enough))
    split.when = enough;
  return split;
}

/// Dim `i` of the scan is `dims[i]`.
static DimSubstitution substitute(ScanOp scan, ArrayRef<sym::Expr> dims, unsigned numDims) {
  DimSubstitution substitution;
  substitution.sourceDims = scan.getExtents().size();
  substitution.targetDims = numDims;
  substitution.dims.assign(dims.begin(), dims.end());
  return substitution;
}

static SmallVector<sym::Expr> getDims(unsigned count) {
  SmallVector<sym::Expr> dims;
  for (unsigned i = 0; i < count; ++i)
    dims.push_back(sym::Expr::dim(i));
  return dims;
}

static sym::IndexMap makeMap(ArrayRef<sym::Expr> results, unsigned numDims) {
  sym::IndexMap map{numDims, {}};
  map.results.assign(results.begin(), results.end());
  return map;
}

/// The result of each part but the last one.
static MapOp sumParts(OpBuilder &builder, ScanOp scan, const Split &split) {
  Location loc = scan.getLoc();
  SmallVector<sym::Expr> shape = scan.getExtents();
  unsigned rank = shape.size(), dim = scan.getDim();
  shape[dim] = split.parts - 1;
  Block &combine = scan.getCombine().front();
  Type type = combine.getArgument(0).getType();
  auto sums = MapOp::create(builder, loc, TypeRange(sym::getTensorType(shape, type)));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&sums.getBody().emplaceBlock());
  Value identity =
      arith::ConstantOp::create(builder, loc, *arith::getNeutralElement(&combine.front()));
  auto reduce = ReduceOp::create(
      builder, loc, TypeRange(type),
      sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(split.part)), identity);
  YieldOp::create(builder, loc, reduce.getResults());
  IRMapping combineMapping, bodyMapping;
  scan.getCombine().cloneInto(&reduce.getCombine(), combineMapping);
  SmallVector<sym::Expr> dims = getDims(rank);
  dims[dim] = split.part * sym::Expr::dim(dim) + sym::Expr::dim(rank);
  builder.setInsertionPointToStart(&reduce.getBody().emplaceBlock());
  YieldOp::create(
      builder, loc,
      cloneBody(builder, scan.getBody().front(), substitute(scan, dims, rank + 1), bodyMapping));
  return sums;
}

/// The scan's state behind each part but the last one.
static ScanOp scanParts(OpBuilder &builder, ScanOp scan, MapOp sums) {
  Location loc = scan.getLoc();
  auto parts = ScanOp::create(builder, loc, sums->getResultTypes(), scan.getDim(),
                              /*associative=*/false, /*part=*/sym::ExprAttr());
  IRMapping mapping;
  scan.getInit().cloneInto(&parts.getInit(), mapping);
  scan.getCombine().cloneInto(&parts.getCombine(), mapping);
  OpBuilder::InsertionGuard guard(builder);
  unsigned rank = scan.getExtents().size();
  builder.setInsertionPointToStart(&parts.getBody().emplaceBlock());
  Value sum = ReadOp::create(builder, loc, sums.getResult(0), makeMap(getDims(rank), rank));
  YieldOp::create(builder, loc, sum);
  Block &finish = parts.getFinish().emplaceBlock();
  builder.setInsertionPointToStart(&finish);
  YieldOp::create(builder, loc, finish.addArgument(sum.getType(), loc));
  return parts;
}

/// Each part of the scan starts from what comes before it.
static void startParts(OpBuilder &builder, ScanOp scan, ScanOp before, const Split &split) {
  Location loc = scan.getLoc();
  unsigned rank = scan.getExtents().size(), dim = scan.getDim();
  scan.setPartAttr(sym::ExprAttr::get(builder.getContext(), split.part));
  Operation *yield = scan.getInit().front().getTerminator();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(yield);
  SmallVector<sym::Expr> dims = getDims(rank);
  dims[dim] = sym::Expr::dim(dim).floorDiv(split.part) - 1;
  sym::Expr index = dims[dim];
  Value inside = InsideOp::create(
      builder, loc, builder.getI1Type(),
      sym::MapAttr::get(builder.getContext(), makeMap(index, rank)),
      sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(split.parts - 1)),
      ValueRange());
  Value start = yield->getOperand(0);
  Value read = ReadOp::create(builder, loc, before.getResult(0), makeMap(dims, rank), ValueRange(),
                              inside, start);
  yield->setOperand(0, read);
}

static void divide(ScanOp scan, const Split &split) {
  OpBuilder builder(scan);
  MapOp sums = sumParts(builder, scan, split);
  ScanOp before = scanParts(builder, scan, sums);
  startParts(builder, scan, before, split);
}

namespace {

struct SplitScans : kiln::cuda::impl::CudaSplitScansBase<SplitScans> {
  void runOnOperation() override {
    cuda::divideEach<ScanOp>(getOperation(), "scan", findSplit, divide);
  }
};

} // namespace
