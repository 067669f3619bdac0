// Left operands of bytes for right ones of four bits with a scale for each group:
//
//   sum over groups of scale(g) * (sum over k in g of (x - zero) * w)
//
// The inner sums are of integers, and exact in f32 (`mostSteps`); the left operand's scale multiplies in the epilogue.
#include "CPU/Contract/MultiplyGroups.h"
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/Dequantized.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;
using sym::Expr;

/// Sixteen times the sum of this many products of a byte and four bits is below 2^24.
static constexpr int64_t mostSteps = 512;
static constexpr int64_t wordBytes = 4;

//===-- Patterns -----------------------------------------------------------------------------===//

std::optional<GroupedBytes> GroupedBytes::get(ContractOp contract) {
  Region &region = contract.getLhs();
  auto difference = region.front().getTerminator()->getOperand(0).getDefiningOp<arith::SubFOp>();
  if (!difference || contract.getNumK() == 0)
    return std::nullopt;
  auto number = difference.getLhs().getDefiningOp<arith::SIToFPOp>();
  auto bits = difference.getRhs().getDefiningOp<arith::BitcastOp>();
  auto byte = number ? number.getIn().getDefiningOp<arith::AndIOp>() : arith::AndIOp();
  auto down = byte ? byte.getLhs().getDefiningOp<arith::ShRUIOp>() : arith::ShRUIOp();
  auto narrow = down ? down.getRhs().getDefiningOp<arith::TruncIOp>() : arith::TruncIOp();
  auto index = narrow ? narrow.getIn().getDefiningOp<IndexOp>() : IndexOp();
  APInt mask;
  if (!bits || !index || !matchPattern(byte.getRhs(), m_ConstantInt(&mask)) || mask != 255)
    return std::nullopt;
  GroupedBytes result{down.getLhs().getDefiningOp<ReadOp>(), bits.getIn().getDefiningOp<ReadOp>()};
  if (!result.words || !result.zero || result.words.getTensor() != result.zero.getTensor() ||
      result.words.getMask() || result.zero.getMask() || !result.words.getType().isInteger(32) ||
      !result.words.getValues().empty() || !result.zero.getValues().empty())
    return std::nullopt;
  sym::Assumptions assumptions = getAssumptions(&region);
  Expr last = Expr::dim(contract.getExtents().size() - 1);
  Expr by = assumptions.simplify(index.getMap().getResults().front());
  Expr within =
      contract.getK().getSizes().back().isConstant(wordBytes) ? last : last.mod(wordBytes);
  if (by != assumptions.simplify(8 * within))
    return std::nullopt;
  // The zero point is behind the words of its row.
  SmallVector<Expr> shape = sym::getShape(result.words.getTensor());
  ArrayRef<Expr> place = result.words.getMap().getResults(), at = result.zero.getMap().getResults();
  return !shape.empty() && place.drop_back() == at.drop_back() && at.back() == shape.back() - 1
             ? std::optional(result)
             : std::nullopt;
}

//===-- Rewriting ----------------------------------------------------------------------------===//

namespace {

class GroupsRewriter {
public:
  GroupsRewriter(ContractOp contract, const Dequantized &left, RewriterBase &rewriter)
      : contract(contract), left(left), b(rewriter), loc(contract.getLoc()),
        extents(contract.getExtents()), numRows(contract.getNumBatch() + contract.getNumM()),
        k(extents.size() - 1), numWords(extents[k].floorDiv(wordBytes)) {}

  void run() {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(contract);
    Value words = createWords();
    fillLeft(words);
    widenYield(contract.getRhs(), b);
    scaleSum();
  }

private:
  Value constant(int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }

  /// [batch…, m…, words and a zero point]
  Value createWords() {
    SmallVector<Expr> shape(ArrayRef(extents).take_front(numRows)), dims(extents.size(), Expr(0));
    shape.push_back(numWords + 1);
    for (unsigned i = 0; i < numRows; ++i)
      dims[i] = Expr::dim(i);
    Expr word = Expr::dim(numRows);
    unsigned numDims = shape.size();
    auto map = MapOp::create(b, loc, TypeRange(sym::getTensorType(shape, b.getI32Type())));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&map.getBody().emplaceBlock());
    MLIRContext *context = b.getContext();
    Value inside = InsideOp::create(b, loc, b.getI1Type(),
                                    sym::MapAttr::get(context, sym::IndexMap{numDims, {word}}),
                                    sym::ShapeAttr::get(context, {numWords}), ValueRange());
    Value none = arith::ConstantIntOp::create(b, loc, b.getI8Type(), 0), all;
    for (int64_t i = 0; i < wordBytes; ++i) {
      dims[k] = word * wordBytes + i;
      sym::IndexMap place{numDims, {}};
      for (Expr expr : left.index)
        place.results.push_back(expr.substituteDims(dims));
      Value byte = ReadOp::create(b, loc, left.tensor(), place, ValueRange(), inside, none);
      byte = arith::ExtUIOp::create(b, loc, b.getI32Type(), byte);
      if (!left.isUnsigned)
        byte = arith::XOrIOp::create(b, loc, byte, constant(left.offset()));
      byte = arith::ShLIOp::create(b, loc, byte, constant(8 * i));
      all = all ? arith::OrIOp::create(b, loc, all, byte).getResult() : byte;
    }
    SmallVector<Expr> at;
    dims[k] = 0;
    for (Expr expr : left.place)
      at.push_back(expr.substituteDims(dims));
    Value zero = left.cloneParameters(b, at, numDims).second;
    if (!zero)
      zero = constant(left.zeroNumber);
    zero = arith::AddIOp::create(b, loc, zero, constant(left.offset()));
    zero = arith::SIToFPOp::create(b, loc, b.getF32Type(), zero);
    zero = arith::BitcastOp::create(b, loc, b.getI32Type(), zero);
    YieldOp::create(b, loc, arith::SelectOp::create(b, loc, inside, all, zero).getResult());
    eraseUnused(map.getBody().front());
    return map.getResult(0);
  }

  void fillLeft(Value words) {
    Block &body = contract.getLhs().front();
    while (!body.empty())
      b.eraseOp(&body.back());
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&body);
    auto read = [&](Expr word) {
      sym::IndexMap place{k + 1, {}};
      for (unsigned i = 0; i < numRows; ++i)
        place.results.push_back(Expr::dim(i));
      place.results.push_back(word);
      return ReadOp::create(b, loc, words, place).getResult();
    };
    Expr step = Expr::dim(k);
    Value value = read(step.floorDiv(wordBytes));
    sym::IndexMap down{k + 1, {8 * step.mod(wordBytes)}};
    Value by = IndexOp::create(b, loc, b.getI64Type(), sym::MapAttr::get(b.getContext(), down),
                               ValueRange());
    by = arith::TruncIOp::create(b, loc, b.getI32Type(), by);
    value = arith::ShRUIOp::create(b, loc, value, by);
    value = arith::AndIOp::create(b, loc, value, constant(255));
    value = arith::SIToFPOp::create(b, loc, b.getF32Type(), value);
    Value zero = arith::BitcastOp::create(b, loc, b.getF32Type(), read(numWords));
    YieldOp::create(b, loc, arith::SubFOp::create(b, loc, value, zero).getResult());
  }

  void scaleSum() {
    if (!left.scale)
      return;
    OpBuilder::InsertionGuard guard(b);
    Block &body = contract.getEpilogue().front();
    b.setInsertionPointToStart(&body);
    Value sum = body.getArgument(0);
    Value scale = left.cloneParameters(b, left.place, extents.size()).first;
    auto scaled = arith::MulFOp::create(b, loc, sum, scale);
    b.replaceAllUsesExcept(sum, scaled, scaled);
    eraseUnused(body);
  }

  ContractOp contract;
  const Dequantized &left;
  RewriterBase &b;
  Location loc;
  SmallVector<Expr> extents;
  unsigned numRows, k;
  Expr numWords;
};

} // namespace

void cpu::multiplyGroups(ContractOp contract, const SmallWeights &weights, RewriterBase &rewriter) {
  if (contract.getNumK() != 1 || weights.group == 0 || weights.group > mostSteps ||
      weights.group % wordSteps != 0 || weights.hasOffset() || weights.getBias() != 0)
    return;
  unsigned end = contract.getExtents().size();
  std::optional<Dequantized> left = Dequantized::get(contract.getLhs());
  if (!left || left->read.getMask() ||
      !left->areParametersFree(contract.getNumBatch() + contract.getNumM(), end))
    return;
  // Bytes of a row lie next to each other.
  std::optional<unsigned> along = findPlainDim(left->index, end - 1);
  if (along && *along + 1 == left->index.size())
    GroupsRewriter(contract, *left, rewriter).run();
}
