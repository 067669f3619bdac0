// cuda-split-contracts: divides the steps of products that have few blocks.
#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/Float8Operand.h"
#include "CUDA/GraphBranch.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITCONTRACTS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Rows and columns of a block that multiplies well.
static constexpr int64_t blockExtent = 64;
/// Sums shorter than this are not worth a block; and what is written for each part costs memory.
static constexpr int64_t minSteps = 256, maxParts = 16;
/// A part is a multiple of the steps that blocks take at once.
static constexpr int64_t stepMultiple = 64;

namespace {
struct Split {
  /// Steps of a part.
  sym::Expr part;
  /// At least zero where blocks are few; null: they always are.
  std::optional<sym::Expr> when;
};
} // namespace

/// Nullopt: the product is left as it is.
static std::optional<Split> findSplit(ContractOp op) {
  cuda::ContractDims dims(op);
  if (op.getPanel() || op.getPart() || !dims.sumType.isIntOrFloat() || cuda::isDot(dims))
    return std::nullopt;
  sym::Assumptions assumptions = getAssumptions(&op.getLhs());
  sym::Expr blocks = dims.numBatch * dims.m.ceilDiv(blockExtent) * dims.n.ceilDiv(blockExtent);
  int64_t manyBlocks = cuda::getTarget(op).getBusyBlocks(), few = manyBlocks / 2 - 1;
  if (assumptions.isLess(few, blocks) || assumptions.isLess(dims.k, 2 * minSteps))
    return std::nullopt;
  // At least one also where blocks are many: sizes of memory are computed for either graph.
  sym::Expr most = sym::Expr::max(
      1, sym::Expr::min(maxParts, sym::Expr(manyBlocks).floorDiv(sym::Expr::max(blocks, 1))));
  bool areOfOneByte = dims.areBytes() || cuda::findFloat8(op.getLhs());
  int64_t multiple = areOfOneByte ? 2 * stepMultiple : stepMultiple;
  sym::Expr part = sym::Expr::max(minSteps, multiple * dims.k.ceilDiv(multiple * most));
  Split split{assumptions.simplify(part), {}};
  if (!assumptions.isLessOrEqual(blocks, few))
    split.when = assumptions.simplify(few - blocks);
  return split;
}

/// The sums of each part.
static ContractOp makeParts(OpBuilder &builder, ContractOp op, sym::Expr part) {
  Location loc = op.getLoc();
  Type sumType = op.getEpilogue().getArgument(0).getType();
  SmallVector<sym::Expr> shape = {sym::product(op.getK().getSizes()).ceilDiv(part)};
  llvm::append_range(shape, sym::getShape(op.getResult()));
  auto parts =
      ContractOp::create(builder, loc, sym::getTensorType(shape, sumType), op.getBatchAttr(),
                         op.getMAttr(), op.getNAttr(), op.getKAttr(), op.getPermAttr(),
                         /*panel=*/IntegerAttr(), sym::ExprAttr::get(builder.getContext(), part),
                         op.getBytesAttr(), op.getNarrowAttr());
  IRMapping mapping;
  op.getLhs().cloneInto(&parts.getLhs(), mapping);
  op.getRhs().cloneInto(&parts.getRhs(), mapping);
  OpBuilder::InsertionGuard guard(builder);
  Block &epilogue = parts.getEpilogue().emplaceBlock();
  builder.setInsertionPointToStart(&epilogue);
  YieldOp::create(builder, loc, epilogue.addArgument(sumType, loc));
  return parts;
}

/// The sum of what the parts have, and the epilogue.
static MapOp addParts(OpBuilder &builder, ContractOp op, ContractOp parts) {
  Location loc = op.getLoc();
  Type sumType = op.getEpilogue().getArgument(0).getType();
  unsigned rank = cast<RankedTensorType>(op.getType()).getRank();
  auto map = MapOp::create(builder, loc, op->getResultTypes());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&map.getBody().emplaceBlock());
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sumType));
  auto reduce = ReduceOp::create(
      builder, loc, TypeRange(sumType),
      sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(*parts.getNumParts())), zero);
  DimSubstitution substitution;
  substitution.sourceDims = op.getExtents().size();
  substitution.targetDims = rank;
  substitution.dims.assign(substitution.sourceDims, sym::Expr(0));
  sym::IndexMap index{rank + 1, {sym::Expr::dim(rank)}};
  for (auto [i, dim] : llvm::enumerate(op.getResultDims())) {
    substitution.dims[dim] = sym::Expr::dim(i);
    index.results.push_back(sym::Expr::dim(i));
  }
  IRMapping mapping;
  mapping.map(op.getEpilogue().getArgument(0), reduce.getResult(0));
  YieldOp::create(builder, loc,
                  cloneBody(builder, op.getEpilogue().front(), substitution, mapping));
  builder.setInsertionPointToStart(&reduce.getBody().emplaceBlock());
  Value read = ReadOp::create(builder, loc, parts.getResult(), index);
  YieldOp::create(builder, loc, read);
  Block &combine = reduce.getCombine().emplaceBlock();
  builder.setInsertionPointToStart(&combine);
  Value x = combine.addArgument(sumType, loc), y = combine.addArgument(sumType, loc);
  Value sum = isa<FloatType>(sumType) ? arith::AddFOp::create(builder, loc, x, y).getResult()
                                      : arith::AddIOp::create(builder, loc, x, y).getResult();
  YieldOp::create(builder, loc, sum);
  return map;
}

static void divide(ContractOp op, const Split &split) {
  OpBuilder builder(op);
  ContractOp parts = makeParts(builder, op, split.part);
  op.replaceAllUsesWith(addParts(builder, op, parts).getResult(0));
  op.erase();
}

namespace {

struct SplitContracts : kiln::cuda::impl::CudaSplitContractsBase<SplitContracts> {
  void runOnOperation() override {
    cuda::divideEach<ContractOp>(getOperation(), "product", findSplit, divide);
  }
};

} // namespace
