// cuda-split-sorts: sorts long rows in tiles, and merges these by kernels of their own.
#include "CUDA/GraphBranch.h"
#include "CUDA/Ordered/SortNetwork.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Dialect/Kernel/Sort.h"
#include "kiln/Targets/CUDA/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cuda {
#define GEN_PASS_DEF_CUDASPLITSORTS
#include "kiln/Targets/CUDA/Passes.h.inc"
} // namespace kiln::cuda

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// A row of more elements than a tile is sorted in several.
static constexpr int64_t tileElements = 4096;
/// A position behind a key has 32 bits, one by itself 31.
static constexpr int64_t maxElements = std::numeric_limits<int32_t>::max();
static constexpr int64_t positionBits = 32;
/// Shorter rows of which only the first elements are wanted are gone through by a block each.
static constexpr int64_t longRow = 1 << 17;
/// A GPU has so many blocks to keep it busy for each of such rows, or more.
static constexpr int64_t blocksPerRow = 16;

namespace {
struct Split {
  /// Key and position are one word.
  bool isPacked = false;
  std::optional<sym::Expr> when; // always
};

class Splitter {
public:
  Splitter(SortOp sort, const Split &split)
      : b(sort), loc(sort.getLoc()), sort(sort), split(split), shape(sort.getExtents()) {}

  void run() {
    MergeOp runs = makeTiles();
    for (int64_t of = tileElements; of < *shape.back().constant(); of *= 2)
      runs = merge(runs, of);
    Value last = runs.getResults().back();
    for (OpOperand &use : llvm::make_early_inc_range(sort.getPositions().getUses()))
      if (auto read = dyn_cast<ReadOp>(use.getOwner()); read && !read.getMask())
        replaceRead(read, last);
    if (!sort.getPositions().use_empty()) {
      b.setInsertionPoint(sort);
      sort.getPositions().replaceAllUsesWith(makePositions(last));
    }
    sort.erase();
  }

private:
  sym::IndexMap getIdentity() const { return identityMap(shape.size(), shape.size()); }

  MergeOp create(TypeRange elements, int64_t into, int64_t of) {
    SmallVector<Type> types;
    for (Type element : elements)
      types.push_back(sym::getTensorType(shape, element));
    auto merge = MergeOp::create(b, loc, types, into, of);
    merge.getBody().emplaceBlock();
    return merge;
  }

  /// The elements, sorted in tiles.
  MergeOp makeTiles() {
    Type i64 = b.getI64Type(), i32 = b.getI32Type();
    SmallVector<Type> types{i64};
    if (!split.isPacked)
      types.push_back(i32);
    MergeOp tiles = create(types, tileElements, 1);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&tiles.getBody().front());
    DimSubstitution same;
    same.sourceDims = same.targetDims = shape.size();
    for (unsigned i = 0; i < shape.size(); ++i)
      same.dims.push_back(sym::Expr::dim(i));
    IRMapping mapping;
    Value key = cloneBody(b, sort.getBody().front(), same, mapping).front();
    sym::IndexMap last{static_cast<unsigned>(shape.size()), {same.dims.back()}};
    Value position =
        IndexOp::create(b, loc, i64, sym::MapAttr::get(b.getContext(), last), ValueRange());
    if (split.isPacked) {
      Value bits = arith::ConstantIntOp::create(b, loc, positionBits, 64);
      Value high = arith::ShLIOp::create(b, loc, key, bits);
      YieldOp::create(b, loc, ValueRange(arith::OrIOp::create(b, loc, high, position)));
    } else {
      YieldOp::create(b, loc, ValueRange{key, arith::TruncIOp::create(b, loc, i32, position)});
    }
    return tiles;
  }

  /// Runs twice as long as those of `of` elements.
  MergeOp merge(MergeOp runs, int64_t of) {
    Block &yielded = runs.getBody().front();
    MergeOp longer = create(yielded.getTerminator()->getOperandTypes(), 2 * of, of);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&longer.getBody().front());
    SmallVector<Value> values;
    for (Value result : runs.getResults())
      values.push_back(ReadOp::create(b, loc, result, getIdentity()));
    YieldOp::create(b, loc, values);
    return longer;
  }

  Value getPosition(Value element) {
    if (!split.isPacked)
      return arith::ExtUIOp::create(b, loc, b.getI64Type(), element);
    Value mask = arith::ConstantIntOp::create(b, loc, (int64_t(1) << positionBits) - 1, 64);
    return arith::AndIOp::create(b, loc, element, mask);
  }

  /// A read of positions becomes one of what they are a part of.
  void replaceRead(ReadOp read, Value sorted) {
    b.setInsertionPoint(read);
    Value element =
        ReadOp::create(b, read.getLoc(), sorted, read.getMap().getMap(), read.getValues());
    read.replaceAllUsesWith(getPosition(element));
    read.erase();
  }

  Value makePositions(Value sorted) {
    auto map = MapOp::create(b, loc, TypeRange(sort.getPositions().getType()));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&map.getBody().emplaceBlock());
    Value position = getPosition(ReadOp::create(b, loc, sorted, getIdentity()));
    YieldOp::create(b, loc, position);
    return map.getResult(0);
  }

  OpBuilder b;
  Location loc;
  SortOp sort;
  const Split &split;
  SmallVector<sym::Expr> shape;
};
} // namespace

/// Nullopt: a block sorts a row.
static std::optional<Split> findSplit(SortOp sort) {
  SmallVector<sym::Expr> extents = sort.getExtents();
  std::optional<int64_t> length = extents.back().constant();
  if (!length || *length <= tileElements || *length > maxElements || !sort.getKeys().use_empty() ||
      !sort.getSpare().use_empty())
    return std::nullopt;
  int64_t rows = codegen::estimate(sym::product(ArrayRef(extents).drop_back()));
  int64_t blocks = cuda::getTarget(sort).getBusyBlocks();
  if (getFirst(sort) && (*length < longRow || rows * blocksPerRow > blocks))
    return std::nullopt;
  return Split{cuda::fitsWord(sort.getBody().front().getTerminator()->getOperand(0)), {}};
}

namespace {

struct SplitSorts : kiln::cuda::impl::CudaSplitSortsBase<SplitSorts> {
  void runOnOperation() override {
    cuda::divideEach<SortOp>(getOperation(), "sort", findSplit,
                             [](SortOp sort, const Split &split) { Splitter(sort, split).run(); });
  }
};

} // namespace
