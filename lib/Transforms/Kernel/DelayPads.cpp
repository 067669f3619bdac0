// kernel-delay-pads: what makes bytes of a padded tensor makes them of the tensor, and the bytes are padded.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELDELAYPADS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// `op` is an inside that only masks reads.
static bool isMask(Operation &op) {
  return isa<InsideOp>(op) && llvm::all_of(op.getUsers(), llvm::IsaPred<ReadOp>);
}

/// The only read of a map that is nothing but arithmetic on it; null: it is more.
static ReadOp getOnlyRead(MapOp map) {
  ReadOp only;
  for (Operation &op : map.getBody().front()) {
    auto read = dyn_cast<ReadOp>(op);
    bool isMore = read ? only || !read.getValues().empty() : op.getNumRegions() != 0;
    if (isMore || (!read && getIndexMap(&op) && !isMask(op)))
      return {};
    if (read)
      only = read;
  }
  return map->getNumResults() == 1 ? only : ReadOp();
}

/// The read of a map that pads by a constant; null: it does more.
static ReadOp getPad(MapOp map) {
  ReadOp read = getOnlyRead(map);
  if (!read || !read.getMask() || !read.getMask().getDefiningOp<InsideOp>() ||
      read.getMask().getDefiningOp()->getNumOperands() != 0 ||
      !matchPattern(read.getOther(), m_Constant()) ||
      map.getBody().front().getTerminator()->getOperand(0) != read.getResult())
    return {};
  return read;
}

namespace {

struct DelayPads : kiln::impl::KernelDelayPadsBase<DelayPads> {
  void runOnOperation() override {
    SmallVector<MapOp> maps;
    getOperation()->walk([&](MapOp map) { maps.push_back(map); });
    IRRewriter rewriter(&getContext());
    for (MapOp map : maps) {
      ReadOp read = getOnlyRead(map);
      auto pad = read ? read.getTensor().getDefiningOp<MapOp>() : MapOp();
      Type yielded = map.getBody().front().getTerminator()->getOperand(0).getType();
      if (pad && pad->hasOneUse() && !read.getMask() && readsOwnPlaces(read) && getPad(pad) &&
          yielded.isInteger(8) && isa<FloatType>(read.getType()) &&
          map.getExtents() == pad.getExtents())
        delay(pad, map, rewriter);
    }
  }

private:
  /// Clones what `map` computes of its read, with `value` in the place of that.
  static Value cloneArithmetic(MapOp map, Value value, OpBuilder &builder) {
    IRMapping mapping;
    mapping.map(getOnlyRead(map).getResult(), value);
    for (Operation &op : map.getBody().front().without_terminator())
      if (!isa<ReadOp>(op))
        builder.clone(op, mapping);
    return mapping.lookupOrDefault(map.getBody().front().getTerminator()->getOperand(0));
  }

  static void delay(MapOp pad, MapOp map, IRRewriter &rewriter) {
    ReadOp padded = getPad(pad);
    Value tensor = padded.getTensor();
    Type element = cast<RankedTensorType>(map.getResult(0).getType()).getElementType();
    SmallVector<sym::Expr> shape = sym::getShape(tensor);
    Location loc = map.getLoc();
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(map);
    auto bytes = MapOp::create(rewriter, loc, TypeRange(sym::getTensorType(shape, element)));
    rewriter.setInsertionPointToStart(&bytes.getBody().emplaceBlock());
    sym::IndexMap identity{static_cast<unsigned>(shape.size()), {}};
    for (unsigned i = 0; i < shape.size(); ++i)
      identity.results.push_back(sym::Expr::dim(i));
    Value value = ReadOp::create(rewriter, loc, tensor, identity);
    YieldOp::create(rewriter, loc, cloneArithmetic(map, value, rewriter));

    rewriter.setInsertionPoint(map);
    auto result = MapOp::create(rewriter, pad.getLoc(), TypeRange(map.getResult(0).getType()));
    rewriter.setInsertionPointToStart(&result.getBody().emplaceBlock());
    IRMapping mapping;
    for (Operation &op : pad.getBody().front().without_terminator())
      if (!isa<ReadOp>(op))
        rewriter.clone(op, mapping);
    Value other = cloneArithmetic(map, mapping.lookup(padded.getOther()), rewriter);
    Value read =
        ReadOp::create(rewriter, pad.getLoc(), bytes.getResult(0), padded.getMap().getMap(),
                       ValueRange(), mapping.lookup(padded.getMask()), other);
    YieldOp::create(rewriter, pad.getLoc(), read);
    rewriter.replaceOp(map, result);
    rewriter.eraseOp(pad);
  }
};

} // namespace
