// kernel.collective: the sizes of its results, and its verifier.
#include "kiln/Dialect/Kernel/Collective.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

static bool isReducing(StringRef kind) { return kind == "all_reduce" || kind == "reduce_scatter"; }

StringRef CollectiveOp::checkReduction(StringRef reduction, Type type) {
  if (!llvm::is_contained({"sum", "avg", "min", "max", "product"}, reduction))
    return "only sum, avg, min, max and product are known";
  bool isFloat = isa<FloatType>(type) && type.getIntOrFloatBitWidth() >= 16;
  if (!isFloat && !isa<IntegerType>(type))
    return "only floats of at least 16 bits, integers and bool are combined";
  return reduction == "avg" && !isFloat ? "an average is of floats" : "";
}

SmallVector<sym::Expr> CollectiveOp::getResultShape(StringRef kind, ArrayRef<sym::Expr> input,
                                                    int64_t ranks, sym::ShapeAttr receive) {
  SmallVector<sym::Expr> shape(input);
  if (kind == "all_gather")
    shape.front() = shape.front() * ranks;
  else if (kind == "reduce_scatter")
    shape.front() = shape.front().floorDiv(ranks);
  else if (kind == "all_to_all")
    shape.front() = sym::sum(receive.getSizes());
  return shape;
}

bool CollectiveOp::isStatic() {
  auto isNumber = [](sym::Expr expr) { return expr.isConstant(); };
  auto areNumbers = [&](sym::ShapeAttr sizes) {
    return !sizes || llvm::all_of(sizes.getSizes(), isNumber);
  };
  return llvm::all_of(sym::getShape(cast<RankedTensorType>(getInput().getType())), isNumber) &&
         areNumbers(getSendAttr()) && areNumbers(getReceiveAttr());
}

LogicalResult CollectiveOp::verify() {
  auto from = cast<RankedTensorType>(getInput().getType());
  auto to = cast<RankedTensorType>(getType());
  StringRef kind = getKind();
  bool isExchange = kind == "all_to_all";
  bool isKnown = isReducing(kind) || kind == "all_gather" || kind == "broadcast" || isExchange;
  if (!isKnown) // C1
    return emitOpError("is of the kind '") << kind << "', which is not known";
  if (isReducing(kind) != getReduction().has_value()) // C2
    return emitOpError("is ") << (getReduction() ? "of a kind that combines nothing"
                                                 : "without reduction");
  StringRef reason =
      getReduction() ? checkReduction(*getReduction(), from.getElementType()) : StringRef();
  if (!reason.empty()) // C2, C3
    return emitOpError("combines ")
           << from.getElementType() << " by '" << *getReduction() << "': " << reason;
  if ((kind == "broadcast") != getRoot().has_value()) // C4
    return emitOpError("has ") << (getRoot() ? "a root that its kind does not have" : "no root");
  if (getRoot() && *getRoot() >= getRanks())
    return emitOpError("has root ")
           << static_cast<int64_t>(*getRoot()) << " among " << getRanks() << " ranks";
  for (sym::ShapeAttr parts : {getSendAttr(), getReceiveAttr()}) // C5
    if (isExchange != static_cast<bool>(parts) || (parts && parts.getSizes().size() != getRanks()))
      return emitOpError("has ") << (parts ? parts.getSizes().size() : 0) << " parts for "
                                 << (isExchange ? getRanks() : 0) << " ranks";
  SmallVector<sym::Expr> shape = sym::getShape(from);
  bool isCut = kind != "all_reduce" && kind != "broadcast";
  if (isCut && shape.empty()) // C6
    return emitOpError("cuts a tensor without dims");
  if (from.getElementType() != to.getElementType() ||
      getResultShape(kind, shape, getRanks(), getReceiveAttr()) != sym::getShape(to))
    return emitOpError("of ") << from << " is a " << to;
  sym::Expr rest = 0;
  if (kind == "reduce_scatter")
    rest = shape.front() - shape.front().floorDiv(getRanks()) * getRanks();
  else if (isExchange)
    rest = shape.front() - sym::sum(getSend()->getSizes());
  if (rest.constant().value_or(0) != 0)
    return emitOpError("does not cut ") << shape.front().str() << " rows into these parts";
  return success();
}

void CollectiveOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get());
  effects.emplace_back(MemoryEffects::Write::get());
}
