// Divides the keys of attention with few queries (Dao et al., "Flash-Decoding for long-context
// inference", 2023).
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Targets/CUDA/CUDADialect.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITATTENTION
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Queries of a block.
static constexpr int64_t blockRows = 64;
/// A part has a multiple of so many keys; what is written for each costs memory.
static constexpr int64_t keyMultiple = 64, maxParts = 64;
/// Fewer keys take a block no longer than the launch that puts parts together.
static constexpr int64_t minKeys = 256;

namespace {
struct Split {
  /// Neighbouring heads of queries that share their keys and values: they become rows.
  int64_t group = 1;
  sym::Expr part;
};
} // namespace

/// Whether `region` is the same for heads h with one h floordiv group.
static bool isSharedBy(Region &region, unsigned head, int64_t group) {
  WalkResult result = region.walk([&](Operation *op) {
    auto map = kernel::getIndexMap(op);
    if (!map)
      return WalkResult::advance();
    for (sym::Expr expr : map.getResults()) {
      unsigned inGroup = expr.numDimsUsed();
      sym::Assumptions assumptions = getAssumptions(op->getParentRegion());
      assumptions.setExtent(inGroup, group);
      sym::Expr first = expr.substitute([&](sym::Expr leaf) {
        return leaf == sym::Expr::dim(head) ? std::optional(group * leaf) : std::nullopt;
      });
      sym::Expr other = expr.substitute([&](sym::Expr leaf) {
        return leaf == sym::Expr::dim(head) ? std::optional(group * leaf + sym::Expr::dim(inGroup))
                                            : std::nullopt;
      });
      if (!assumptions.isEqual(first, other))
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return !result.wasInterrupted();
}

/// The most heads of one query each that may become rows of one block.
static int64_t findGroup(AttentionOp op) {
  if (op.getNumBatch() == 0 || op.getCausal() || !op.getM().getValue().isConstant(1))
    return 1;
  unsigned head = op.getNumBatch() - 1;
  sym::Expr heads = op.getBatch().getSizes()[head];
  sym::Assumptions assumptions = getAssumptions(&op.getK());
  for (int64_t group = blockRows; group > 1; --group)
    if (assumptions.isMultipleOf(heads, group) && isSharedBy(op.getK(), head, group) &&
        isSharedBy(op.getV(), head, group))
      return group;
  return 1;
}

/// Nullopt: the op is left as it is.
static std::optional<Split> findSplit(AttentionOp op) {
  sym::Assumptions assumptions = getAssumptions(&op.getK());
  sym::Expr m = op.getM().getValue(), n = op.getN().getValue();
  if (op.getPart() || assumptions.isLess(n, minKeys))
    return std::nullopt;
  cuda::TargetAttr target = cuda::getTarget(op);
  int64_t busyBlocks = target.getBusyBlocks();
  Split split;
  split.group = findGroup(op);
  sym::Expr blocks = sym::product(op.getBatch().getSizes()).floorDiv(split.group) *
                     (split.group * m).ceilDiv(blockRows);
  // The results of few queries are nothing beside the keys; with many there have to be too few
  // blocks whatever the sizes are.
  if (!assumptions.isLessOrEqual(m, blockRows) && !assumptions.isLess(blocks, busyBlocks))
    return std::nullopt;
  sym::Expr parts = sym::Expr::max(
      1, sym::Expr::min(
             maxParts,
             sym::Expr(target.getBlocks() * busyBlocks).floorDiv(sym::Expr::max(blocks, 1))));
  split.part = assumptions.simplify(
      sym::Expr::max(keyMultiple, keyMultiple * n.ceilDiv(keyMultiple * parts)));
  if (assumptions.isLessOrEqual(n, split.part))
    return std::nullopt;
  return split;
}

/// The dims of the op in that of the parts.
static DimSubstitution getSubstitution(AttentionOp op, int64_t group) {
  DimSubstitution result;
  unsigned rank = op.getExtents().size(), m = op.getNumBatch();
  result.sourceDims = result.targetDims = rank;
  for (unsigned i = 0; i < rank; ++i)
    result.dims.push_back(sym::Expr::dim(i));
  if (group > 1) {
    result.dims[m - 1] = group * sym::Expr::dim(m - 1) + sym::Expr::dim(m);
    result.dims[m] = 0;
  }
  return result;
}

static AttentionOp makeParts(OpBuilder &builder, AttentionOp op, const Split &split) {
  Location loc = op.getLoc();
  MLIRContext *context = builder.getContext();
  SmallVector<sym::Expr> batch(op.getBatch().getSizes());
  sym::Expr m = split.group * op.getM().getValue();
  if (split.group > 1)
    batch.back() = getAssumptions(&op.getK()).simplify(batch.back().floorDiv(split.group));
  SmallVector<sym::Expr> rows = {op.getN().getValue().ceilDiv(split.part)};
  llvm::append_range(rows, batch);
  rows.push_back(m);
  SmallVector<sym::Expr> sums = rows;
  sums.push_back(op.getDv().getValue());
  Type element = op.getQ().front().getTerminator()->getOperand(0).getType();
  Type sumType = element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
  Type state = sym::getTensorType(rows, sumType);
  auto expr = [&](sym::Expr e) { return sym::ExprAttr::get(context, e); };
  auto parts =
      AttentionOp::create(builder, loc, sym::getTensorType(sums, sumType), TypeRange{state, state},
                          sym::ShapeAttr::get(context, batch), expr(m), op.getNAttr(),
                          op.getDAttr(), op.getDvAttr(), op.getScaleAttr(), op.getCausalAttr(),
                          op.getNanAttr(), /*perm=*/DenseI64ArrayAttr(), expr(split.part));
  DimSubstitution rowsOfGroup = getSubstitution(op, split.group), firstOfGroup = rowsOfGroup;
  if (split.group > 1)
    firstOfGroup.dims[batch.size() - 1] = split.group * sym::Expr::dim(batch.size() - 1);
  OpBuilder::InsertionGuard guard(builder);
  for (auto [source, target] : llvm::zip_equal(op->getRegions(), parts->getRegions())) {
    if (source.empty())
      continue;
    bool isOfKeys = &source == &op.getK() || &source == &op.getV();
    builder.setInsertionPointToStart(&target.emplaceBlock());
    IRMapping mapping;
    YieldOp::create(
        builder, loc,
        cloneBody(builder, source.front(), isOfKeys ? firstOfGroup : rowsOfGroup, mapping));
  }
  return parts;
}

namespace {
/// Writes the map that puts the parts together: each is scaled from its own maximum to that of all.
class Combiner {
public:
  Combiner(OpBuilder &builder, AttentionOp op, AttentionOp parts, const Split &split)
      : b(builder), loc(op.getLoc()), op(op), parts(parts), split(split),
        type(cast<RankedTensorType>(parts.getResult().getType()).getElementType()),
        rank(cast<RankedTensorType>(op.getResult().getType()).getRank()) {}

  MapOp emit() {
    auto map = MapOp::create(b, loc, op.getResult().getType());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&map.getBody().emplaceBlock());
    Value lowest = number(-std::numeric_limits<double>::infinity()), zero = number(0);
    auto add = [&](Value x, Value y) { return arith::AddFOp::create(b, loc, x, y).getResult(); };
    Value maximum = reduce(
        lowest, [&] { return read(parts.getState()[0]); },
        [&](Value x, Value y) { return arith::MaximumFOp::create(b, loc, x, y).getResult(); });
    // Nothing is to be subtracted from -inf where all keys are left out.
    Value origin = arith::SelectOp::create(b, loc, is(maximum, lowest), zero, maximum);
    auto scaled = [&](Value part) {
      return [&, part] {
        Value distance = arith::SubFOp::create(b, loc, read(parts.getState()[0]), origin);
        return arith::MulFOp::create(b, loc, math::ExpOp::create(b, loc, distance), read(part))
            .getResult();
      };
    };
    Value sum = reduce(zero, scaled(parts.getState()[1]), add);
    Value none = op.getNan() ? isZero(op.getN().getValue()) : is(sum, zero);
    if (none)
      sum = arith::SelectOp::create(b, loc, none, number(1), sum);
    Value result = arith::DivFOp::create(b, loc, reduce(zero, scaled(parts.getResult()), add), sum);
    Type element = cast<RankedTensorType>(op.getResult().getType()).getElementType();
    if (element != type)
      result = arith::TruncFOp::create(b, loc, element, result);
    YieldOp::create(b, loc, result);
    return map;
  }

private:
  Value number(double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  }

  Value is(Value value, Value special) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, value, special);
  }

  /// True (i1) if a size is 0; null if it is known not to be.
  Value isZero(sym::Expr size) {
    if (getAssumptions(&op.getK()).isPositive(size))
      return {};
    auto map = sym::MapAttr::get(b.getContext(), sym::IndexMap{rank, {size}});
    Value value = IndexOp::create(b, loc, b.getI64Type(), map, ValueRange());
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 64);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, value, zero);
  }

  Value reduce(Value init, function_ref<Value()> body, function_ref<Value(Value, Value)> combine) {
    auto count = sym::ShapeAttr::get(b.getContext(), ArrayRef<sym::Expr>(*parts.getNumParts()));
    auto result = ReduceOp::create(b, loc, TypeRange(type), count, init);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&result.getBody().emplaceBlock());
    YieldOp::create(b, loc, body());
    Block &block = result.getCombine().emplaceBlock();
    b.setInsertionPointToStart(&block);
    Value x = block.addArgument(type, loc), y = block.addArgument(type, loc);
    YieldOp::create(b, loc, combine(x, y));
    return result.getResult(0);
  }

  /// The value of the reduction's part for the map's element.
  Value read(Value tensor) {
    unsigned numBatch = op.getNumBatch();
    SmallVector<sym::Expr> dims(op.getExtents().size());
    for (auto [i, dim] : llvm::enumerate(op.getResultDims()))
      dims[dim] = sym::Expr::dim(i);
    if (split.group > 1) {
      dims[numBatch] = dims[numBatch - 1].mod(split.group);
      dims[numBatch - 1] = dims[numBatch - 1].floorDiv(split.group);
    }
    sym::IndexMap index{rank + 1, {sym::Expr::dim(rank)}};
    index.results.append(dims.begin(), dims.begin() + numBatch + 1);
    if (tensor == parts.getResult())
      index.results.push_back(dims.back());
    return ReadOp::create(b, loc, tensor, index);
  }

  OpBuilder &b;
  Location loc;
  AttentionOp op, parts;
  const Split &split;
  Type type;
  unsigned rank;
};

struct SplitAttention : kiln::cuda::impl::CudaSplitAttentionBase<SplitAttention> {
  void runOnOperation() override {
    SmallVector<AttentionOp> ops;
    getOperation().walk([&](AttentionOp op) { ops.push_back(op); });
    for (AttentionOp op : ops)
      if (std::optional<Split> split = findSplit(op)) {
        OpBuilder builder(op);
        AttentionOp parts = makeParts(builder, op, *split);
        op.getResult().replaceAllUsesWith(Combiner(builder, op, parts, *split).emit().getResult(0));
        op.erase();
      }
  }
};

} // namespace
