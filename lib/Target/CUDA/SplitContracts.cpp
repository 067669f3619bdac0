#include "ContractPlan.h"
#include "kiln/Target/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITCONTRACTS
#include "kiln/Target/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Rows and columns of a block that multiplies well, and how many such blocks keep a GPU busy.
static constexpr int64_t blockExtent = 64, manyBlocks = 128;
/// Sums shorter than this are not worth a block; and what is written for each part costs memory.
static constexpr int64_t minSteps = 256, maxParts = 16;
/// The innermost dim of the sums is cut at multiples of this, so that wide accesses stay that.
static constexpr int64_t stepMultiple = 16;

namespace {
struct Split {
  unsigned dim; // of k
  int64_t parts = 1;
};
} // namespace

/// Nullopt: the product is left as it is.
static std::optional<Split> findSplit(ContractOp op) {
  cuda::ContractDims dims(op);
  std::optional<int64_t> steps = dims.k.constant();
  if (!steps || op.getPanel() || !dims.sumType.isIntOrFloat() || cuda::isDot(dims))
    return std::nullopt;
  sym::Expr blocks = dims.numBatch * dims.m.ceilDiv(blockExtent) * dims.n.ceilDiv(blockExtent);
  // Of more rows than were thought of the parts would be many.
  if (!getAssumptions(&op.getLhs()).isLess(blocks, manyBlocks / 2))
    return std::nullopt;
  int64_t count = std::max<int64_t>(cpu::estimate(blocks), 1);
  int64_t most = std::min({maxParts, *steps / minSteps, manyBlocks / count});
  Split split{0};
  ArrayRef<sym::Expr> extents = op.getK().getSizes();
  for (auto [dim, extent] : llvm::enumerate(extents)) {
    int64_t multiple = dim + 1 == extents.size() ? stepMultiple : 1;
    for (int64_t parts = split.parts + 1; parts <= most; ++parts)
      if (*extent.constant() % (parts * multiple) == 0)
        split = {static_cast<unsigned>(dim), parts};
  }
  return split.parts == 1 ? std::nullopt : std::optional(split);
}

/// The sums of each part: a contract whose first batch dim is the part's number.
static ContractOp makeParts(OpBuilder &builder, ContractOp op, const Split &split) {
  Location loc = op.getLoc();
  Type sumType = op.getEpilogue().getArgument(0).getType();
  unsigned rank = op.getExtents().size(), cut = rank - op.getNumK() + split.dim;
  SmallVector<sym::Expr> batch = {split.parts}, k(op.getK().getSizes()), shape = {split.parts};
  llvm::append_range(batch, op.getBatch().getSizes());
  llvm::append_range(shape, sym::getShape(op.getResult()));
  int64_t part = *k[split.dim].constant() / split.parts;
  k[split.dim] = part;
  DenseI64ArrayAttr perm;
  if (op.getPermAttr()) {
    SmallVector<int64_t> dims = {0};
    for (int64_t dim : op.getResultDims())
      dims.push_back(dim + 1);
    perm = builder.getDenseI64ArrayAttr(dims);
  }
  MLIRContext *context = builder.getContext();
  auto parts = ContractOp::create(builder, loc, sym::getTensorType(shape, sumType),
                                  sym::ShapeAttr::get(context, batch), op.getMAttr(), op.getNAttr(),
                                  sym::ShapeAttr::get(context, k), perm, /*panel=*/IntegerAttr());
  DimSubstitution substitution;
  substitution.sourceDims = rank;
  substitution.targetDims = rank + 1;
  for (unsigned i = 0; i < rank; ++i)
    substitution.dims.push_back(sym::Expr::dim(i + 1) +
                                (i == cut ? part * sym::Expr::dim(0) : sym::Expr(0)));
  OpBuilder::InsertionGuard guard(builder);
  for (auto [source, target] :
       {std::pair(&op.getLhs(), &parts.getLhs()), std::pair(&op.getRhs(), &parts.getRhs())}) {
    builder.setInsertionPointToStart(&target->emplaceBlock());
    IRMapping mapping;
    YieldOp::create(builder, loc, cloneBody(builder, source->front(), substitution, mapping));
  }
  Block &epilogue = parts.getEpilogue().emplaceBlock();
  builder.setInsertionPointToStart(&epilogue);
  YieldOp::create(builder, loc, epilogue.addArgument(sumType, loc));
  return parts;
}

/// The sum of what the parts have, and the epilogue.
static MapOp addParts(OpBuilder &builder, ContractOp op, ContractOp parts, const Split &split) {
  Location loc = op.getLoc();
  Type sumType = op.getEpilogue().getArgument(0).getType();
  unsigned rank = cast<RankedTensorType>(op.getType()).getRank();
  auto map = MapOp::create(builder, loc, op->getResultTypes());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&map.getBody().emplaceBlock());
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sumType));
  auto reduce = ReduceOp::create(
      builder, loc, TypeRange(sumType),
      sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(sym::Expr(split.parts))), zero);
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

namespace {

struct SplitContracts : kiln::cuda::impl::CudaSplitContractsBase<SplitContracts> {
  void runOnOperation() override {
    SmallVector<ContractOp> contracts;
    getOperation().walk([&](ContractOp op) { contracts.push_back(op); });
    for (ContractOp op : contracts)
      if (std::optional<Split> split = findSplit(op)) {
        OpBuilder builder(op);
        ContractOp parts = makeParts(builder, op, *split);
        op.replaceAllUsesWith(addParts(builder, op, parts, *split).getResult(0));
        op.erase();
      }
  }
};

} // namespace
