// Makes floats of integers of four bits without converting them.
#include "CUDA/Contract/FourBits.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t fourBits = (1 << stepBits) - 1, halfBits = 16;

/// The number to whose bits others are added: its last place is 1.
static APFloat getBase(FloatType type) {
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  return scalbn(APFloat(semantics, 1), APFloat::semanticsPrecision(semantics) - 1,
                APFloat::rmNearestTiesToEven);
}

static int64_t getBaseBits(FloatType type) { return getBase(type).bitcastToAPInt().getSExtValue(); }

sym::Expr cuda::getFourBitPlace(sym::Expr step) {
  return step.mod(wordSteps).floorDiv(2) * stepBits + step.mod(2) * halfBits;
}

bool cuda::mayWidenFourBits(Type type) { return type.isF32() || type.isF16() || type.isBF16(); }

Value cuda::extractFourBits(OpBuilder &b, Location loc, Value word, sym::Expr step,
                            unsigned numDims) {
  auto map = sym::MapAttr::get(b.getContext(), sym::IndexMap{numDims, {getFourBitPlace(step)}});
  Value place = arith::TruncIOp::create(
      b, loc, b.getI32Type(), kernel::IndexOp::create(b, loc, b.getI64Type(), map, ValueRange()));
  return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, word, place),
                               arith::ConstantIntOp::create(b, loc, fourBits, 32));
}

Value cuda::widenFourBits(OpBuilder &b, Location loc, Value bits, int64_t excess, FloatType type) {
  Type bitsType = b.getIntegerType(type.getWidth());
  if (bits.getType() != bitsType)
    bits = arith::TruncIOp::create(b, loc, bitsType, bits);
  Value base = arith::ConstantIntOp::create(b, loc, bitsType, getBaseBits(type));
  Value number = arith::BitcastOp::create(b, loc, type, arith::OrIOp::create(b, loc, bits, base));
  APFloat offset = getBase(type);
  offset.add(APFloat(type.getFloatSemantics(), excess), APFloat::rmNearestTiesToEven);
  return arith::SubFOp::create(b, loc, number,
                               arith::ConstantOp::create(b, loc, b.getFloatAttr(type, offset)));
}

std::optional<FourBits> cuda::matchFourBits(arith::BitcastOp number, sym::Expr step,
                                            const sym::Assumptions &known) {
  auto type = dyn_cast<FloatType>(number.getType());
  auto sum = number.getIn().getDefiningOp<arith::OrIOp>();
  APInt base, mask;
  if (!type || !mayWidenFourBits(type) || !sum ||
      !matchPattern(sum.getRhs(), m_ConstantInt(&base)) || base.getSExtValue() != getBaseBits(type))
    return std::nullopt;
  Value bits = sum.getLhs();
  if (auto narrow = bits.getDefiningOp<arith::TruncIOp>())
    bits = narrow.getIn();
  auto masked = bits.getDefiningOp<arith::AndIOp>();
  if (!masked || !matchPattern(masked.getRhs(), m_ConstantInt(&mask)) || mask != fourBits)
    return std::nullopt;
  auto shift = masked.getLhs().getDefiningOp<arith::ShRUIOp>();
  auto word = shift ? shift.getLhs().getDefiningOp<kernel::ReadOp>() : kernel::ReadOp();
  auto place = shift ? shift.getRhs().getDefiningOp<arith::TruncIOp>() : arith::TruncIOp();
  auto index = place ? place.getIn().getDefiningOp<kernel::IndexOp>() : kernel::IndexOp();
  if (!word || !word.getType().isInteger(32) || !index || !index.getValues().empty() ||
      known.simplify(index.getMap().getResults().front()) != known.simplify(getFourBitPlace(step)))
    return std::nullopt;
  return FourBits{number, word, index};
}

Value cuda::widenWord(OpBuilder &b, Location loc, Value word, FloatType type) {
  constexpr int64_t pairs = wordSteps / 2, mask = fourBits << halfBits | fourBits;
  auto constant = [&](int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); };
  int64_t base = getBaseBits(type);
  SmallVector<Value> words;
  for (int64_t i = 0; i < pairs; ++i) {
    Value bits = i == 0 ? word : arith::ShRUIOp::create(b, loc, word, constant(stepBits * i));
    bits = arith::AndIOp::create(b, loc, bits, constant(mask));
    words.push_back(arith::OrIOp::create(b, loc, bits, constant(base << halfBits | base)));
  }
  Value all = vector::FromElementsOp::create(b, loc, VectorType::get(pairs, b.getI32Type()), words);
  return vector::BitCastOp::create(b, loc, VectorType::get(wordSteps, type), all);
}
