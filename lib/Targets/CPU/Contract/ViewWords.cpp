// cpu-view-words: words of four bytes that lie next to each other in memory are read there.
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUVIEWWORDS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

static constexpr unsigned wordBytes = 4;
static constexpr uint64_t wordBits = 32;

/// The reads whose bytes make up `value`, which is moved by `shift` bits. False if it is anything else.
static bool collectBytes(Value value, uint64_t shift, ReadOp (&bytes)[wordBytes]) {
  if (auto either = value.getDefiningOp<arith::OrIOp>())
    return collectBytes(either.getLhs(), shift, bytes) &&
           collectBytes(either.getRhs(), shift, bytes);
  APInt amount;
  if (auto moved = value.getDefiningOp<arith::ShLIOp>())
    return matchPattern(moved.getRhs(), m_ConstantInt(&amount)) && amount.ult(wordBits) &&
           collectBytes(moved.getLhs(), shift + amount.getZExtValue(), bytes);
  auto wide = value.getDefiningOp<arith::ExtUIOp>();
  auto read = wide ? wide.getIn().getDefiningOp<ReadOp>() : ReadOp();
  if (!read || !read.getType().isInteger(8) || shift % 8 != 0 || shift >= wordBits ||
      bytes[shift / 8])
    return false;
  bytes[shift / 8] = read;
  return true;
}

/// The tensor of whose bytes the elements of `map` are words; null if they are anything else.
static Value findBytes(MapOp map) {
  if (map->getNumResults() != 1 || map.getView())
    return {};
  auto type = cast<RankedTensorType>(map.getResult(0).getType());
  ReadOp bytes[wordBytes];
  if (!type.getElementType().isInteger(32) || type.getRank() == 0 ||
      !collectBytes(map.getBody().front().getTerminator()->getOperand(0), 0, bytes) ||
      !llvm::all_of(bytes, [](ReadOp read) { return bool(read); }))
    return {};
  Value tensor = bytes[0].getTensor();
  SmallVector<sym::Expr> shape = sym::getShape(tensor), words = map.getExtents();
  if (shape.size() != words.size() || shape.back() != words.back() * wordBytes)
    return {};
  size_t last = shape.size() - 1;
  for (auto [number, read] : llvm::enumerate(bytes)) {
    if (read.getTensor() != tensor || read.getMask() || !read.getValues().empty())
      return {};
    ArrayRef<sym::Expr> index = read.getMap().getResults();
    for (size_t i = 0; i < last; ++i)
      if (shape[i] != words[i] || (index[i] != sym::Expr::dim(i) && !shape[i].isConstant(1)))
        return {};
    sym::Expr first = words[last].isConstant(1) ? sym::Expr(0) : sym::Expr::dim(last) * wordBytes;
    if (index[last] != first + static_cast<int64_t>(number))
      return {};
  }
  // The host's tensors may lie at any byte.
  Operation *source = tensor.getDefiningOp();
  bool isOwn = isStructured(source) && !(isa<MapOp>(source) && cast<MapOp>(source).getView());
  return isOwn ? tensor : Value();
}

namespace {

struct ViewWords : kiln::cpu::impl::CpuViewWordsBase<ViewWords> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<MapOp> maps;
    getOperation()->walk([&](MapOp map) { maps.push_back(map); });
    for (MapOp map : maps) {
      Value bytes = findBytes(map);
      if (!bytes)
        continue;
      emitRemark(RemarkKind::Done, map, getArgument(), "Viewed",
                 [&] { return RemarkText{"words of bytes are read where these are"}; });
      rewriter.setInsertionPoint(map);
      rewriter.replaceOpWithNewOp<BitcastOp>(map, map.getResult(0).getType(), bytes);
    }
  }
};

} // namespace
