#include "kiln/Target/CPU/LoopNest.h"
#include "kiln/Target/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITREDUCTIONS
#include "kiln/Target/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// As many blocks as this keep a GPU busy; a part shorter than this is not worth a block.
static constexpr int64_t manyBlocks = 64, minPart = 2048;
static constexpr int64_t maxParts = 512;

namespace {
/// The dims of the map that a reduction depends on, and how its first dim is cut.
struct Split {
  SmallVector<unsigned> dims;
  int64_t parts = 1, part = 1;
};
} // namespace

static bool isNumber(Type type) { return type.isIntOrFloat(); }

/// Nullopt: the reduction is left as it is.
static std::optional<Split> findSplit(MapOp map, ReduceOp reduce) {
  SmallVector<sym::Expr> domain = map.getDomain();
  ArrayRef<sym::Expr> extents = reduce.getExtents().getSizes();
  std::optional<int64_t> total = sym::product(extents).constant();
  if (!total || extents.empty() || !llvm::all_of(reduce.getResultTypes(), isNumber))
    return std::nullopt;
  llvm::SmallBitVector used(domain.size());
  bool isAlone = true;
  reduce->walk([&](Operation *op) {
    if (auto indices = op->getAttrOfType<sym::MapAttr>("map"))
      for (sym::Expr expr : indices.getResults())
        expr.walkLeaves([&](sym::Expr leaf) {
          if (leaf.kind() == sym::Kind::Dim && leaf.dimIndex() < domain.size())
            used.set(leaf.dimIndex());
        });
    // What the map has computed before is not there where the parts are.
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
  if (!isAlone || cpu::estimate(rows) >= manyBlocks)
    return std::nullopt;
  int64_t first = *extents.front().constant(), rest = *total / std::max<int64_t>(first, 1);
  for (int64_t parts = 2; parts <= std::min(first, maxParts); ++parts)
    if (first % parts == 0 && first / parts * rest >= minPart) {
      split.parts = parts;
      split.part = first / parts;
    }
  return split.parts < 8 ? std::nullopt : std::optional(split);
}

/// The map of the reduction's parts: its results are what each has accumulated.
static MapOp makeParts(OpBuilder &builder, MapOp map, ReduceOp reduce, const Split &split) {
  SmallVector<sym::Expr> domain = map.getDomain(), shape;
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
  SmallVector<Value> init;
  for (Value value : reduce.getInit())
    init.push_back(mapping.lookup(value));
  SmallVector<sym::Expr> extents(reduce.getExtents().getSizes());
  extents.front() = split.part;
  auto inner = ReduceOp::create(builder, reduce.getLoc(), reduce.getResultTypes(),
                                sym::ShapeAttr::get(builder.getContext(), extents), init);
  YieldOp::create(builder, reduce.getLoc(), inner.getResults());

  unsigned rank = domain.size(), count = extents.size();
  DimSubstitution substitution;
  substitution.sourceDims = rank + count;
  substitution.targetDims = partDim + 1 + count;
  substitution.dims.assign(rank, sym::Expr(0));
  for (auto [i, dim] : llvm::enumerate(split.dims))
    substitution.dims[dim] = sym::Expr::dim(i);
  for (unsigned i = 0; i < count; ++i)
    substitution.dims.push_back(sym::Expr::dim(partDim + 1 + i));
  substitution.dims[rank] = split.part * sym::Expr::dim(partDim) + sym::Expr::dim(partDim + 1);
  builder.setInsertionPointToStart(&inner.getBody().emplaceBlock());
  SmallVector<Value> yielded = cloneBody(builder, reduce.getBody().front(), substitution, mapping);
  YieldOp::create(builder, reduce.getLoc(), yielded);
  reduce.getCombine().cloneInto(&inner.getCombine(), mapping);
  return parts;
}

/// `reduce` becomes one over what the parts have accumulated.
static void reduceParts(OpBuilder &builder, MapOp map, ReduceOp reduce, MapOp parts,
                        const Split &split) {
  builder.setInsertionPoint(reduce);
  Location loc = reduce.getLoc();
  auto outer = ReduceOp::create(
      builder, loc, reduce.getResultTypes(),
      sym::ShapeAttr::get(builder.getContext(), ArrayRef<sym::Expr>(sym::Expr(split.parts))),
      reduce.getInit());
  unsigned rank = map.getDomain().size();
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
  outer.getCombine().takeBody(reduce.getCombine());
  reduce.replaceAllUsesWith(outer.getResults());
  reduce.erase();
}

namespace {

struct SplitReductions : kiln::cuda::impl::CudaSplitReductionsBase<SplitReductions> {
  void runOnOperation() override {
    SmallVector<MapOp> maps;
    getOperation().walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp map : maps)
      for (auto reduce : llvm::make_early_inc_range(map.getBody().front().getOps<ReduceOp>()))
        if (std::optional<Split> split = findSplit(map, reduce)) {
          OpBuilder builder(map);
          MapOp parts = makeParts(builder, map, reduce, *split);
          reduceParts(builder, map, reduce, parts, *split);
        }
  }
};

} // namespace
