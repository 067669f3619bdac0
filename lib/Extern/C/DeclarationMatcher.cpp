// Compares a subgraph of a program with a declared one: the same calls with the same arguments, where
// symbols of the declaration stand for sizes and integers of the program.
#include "Declaration.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

FailureOr<DeclarationMatcher> DeclarationMatcher::match(const Declaration &declaration,
                                                        Operation *root, bool isOutlined) {
  func::FuncOp subgraph = declaration.subgraph;
  auto end = cast<func::ReturnOp>(subgraph.getBody().front().getTerminator());
  auto last = cast<torch::CallOp>(end.getOperand(0).getDefiningOp());
  auto call = dyn_cast<torch::CallOp>(root);
  DeclarationMatcher matcher;
  if (!call || !matcher.matchCall(last, call))
    return failure();
  if (!isOutlined && !matcher.checkExprs(declaration, root))
    return failure();
  return matcher;
}

sym::Expr DeclarationMatcher::substitute(sym::Expr expr) const {
  return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
    auto it = symbols.find(leaf);
    return it == symbols.end() ? std::nullopt : std::optional(it->second);
  });
}

bool DeclarationMatcher::matchValue(Value pattern, Value value) {
  if (Value known = values.lookup(pattern))
    return known == value;
  if (isa<BlockArgument>(pattern)) {
    values[pattern] = value;
    return matchType(pattern.getType(), value.getType());
  }
  auto result = cast<OpResult>(pattern);
  auto own = dyn_cast<OpResult>(value);
  auto call = own ? dyn_cast<torch::CallOp>(own.getOwner()) : torch::CallOp();
  return call && own.getResultNumber() == result.getResultNumber() &&
         matchCall(cast<torch::CallOp>(result.getOwner()), call);
}

bool DeclarationMatcher::matchCall(torch::CallOp pattern, torch::CallOp call) {
  if (Operation *known = ops.lookup(pattern))
    return known == call;
  if (pattern.getTarget() != call.getTarget() || call.getDefines() || call.getUpdates() ||
      pattern.getNamesAttr() != call.getNamesAttr() ||
      pattern->getNumResults() != call->getNumResults())
    return false;
  ops[pattern] = call;
  for (auto [declared, own] : llvm::zip_equal(pattern->getResults(), call->getResults())) {
    values[declared] = own;
    if (!matchType(declared.getType(), own.getType()))
      return false;
  }
  return matchArgument(pattern.getArgs(), call.getArgs(), pattern, call);
}

bool DeclarationMatcher::matchArgument(Attribute pattern, Attribute given,
                                       torch::CallOp patternCall, torch::CallOp call) {
  if (auto list = dyn_cast<ArrayAttr>(pattern)) {
    auto own = dyn_cast<ArrayAttr>(given);
    return own && own.size() == list.size() &&
           llvm::all_of(llvm::zip_equal(list, own), [&](auto pair) {
             return matchArgument(std::get<0>(pair), std::get<1>(pair), patternCall, call);
           });
  }
  auto matchOperands = [&](unsigned declared, unsigned own) {
    return matchValue(patternCall->getOperand(declared), call->getOperand(own));
  };
  if (auto tensor = dyn_cast<sym::ArgAttr>(pattern)) {
    auto own = dyn_cast<sym::ArgAttr>(given);
    return own && matchOperands(tensor.getIndex(), own.getIndex());
  }
  if (auto number = dyn_cast<sym::ScalarAttr>(pattern)) {
    auto own = dyn_cast<sym::ScalarAttr>(given);
    return own && matchOperands(number.getIndex(), own.getIndex());
  }
  if (auto expr = dyn_cast<sym::ExprAttr>(pattern)) {
    if (auto own = dyn_cast<sym::ExprAttr>(given))
      return matchExpr(expr.getValue(), own.getValue());
    auto number = dyn_cast<IntegerAttr>(given);
    return number && !isa<BoolAttr>(given) && matchExpr(expr.getValue(), number.getInt());
  }
  return pattern == given;
}

bool DeclarationMatcher::matchType(Type pattern, Type type) {
  auto declared = dyn_cast<RankedTensorType>(pattern), own = dyn_cast<RankedTensorType>(type);
  if (!declared || !own)
    return pattern == type;
  return declared.getElementType() == own.getElementType() && declared.getRank() == own.getRank() &&
         llvm::all_of(llvm::zip_equal(sym::getShape(declared), sym::getShape(own)),
                      [&](auto pair) { return matchExpr(std::get<0>(pair), std::get<1>(pair)); });
}

bool DeclarationMatcher::matchExpr(sym::Expr pattern, sym::Expr expr) {
  if (pattern.kind() == sym::Kind::Symbol && symbols.try_emplace(pattern, expr).second)
    return true;
  equalities.emplace_back(pattern, expr);
  // A condition that no choice of symbols makes true ends the comparison at once.
  return !pattern.isConstant() || !expr.isConstant() || pattern == expr;
}

bool DeclarationMatcher::checkExprs(const Declaration &declaration, Operation *root) const {
  sym::Assumptions known;
  kernel::addSymbolRanges(root, known);
  return llvm::all_of(
             equalities,
             [&](auto pair) { return known.isEqual(substitute(pair.first), pair.second); }) &&
         llvm::all_of(declaration.where,
                      [&](sym::Expr expr) { return known.isNonNegative(substitute(expr)); });
}
