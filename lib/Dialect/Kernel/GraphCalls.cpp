// Ops that call nested graphs: what they call, and their verifiers.
#include "kiln/Dialect/Kernel/GraphCalls.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

#include "kiln/Dialect/Kernel/KernelInterfaces.cpp.inc"

RankedTensorType kernel::getSliceType(RankedTensorType tensor) {
  return sym::getTensorType(ArrayRef(sym::getShape(tensor)).drop_front(), tensor.getElementType());
}

/// Adds what `function` defines to `symbols`; each function is looked at once.
static void collectDefined(func::FuncOp function, SymbolTableCollection &tables,
                           llvm::SmallPtrSetImpl<Operation *> &seen,
                           llvm::SetVector<sym::Expr> &symbols) {
  if (!function || !seen.insert(function).second)
    return;
  for (Operation &op : function.getBody().getOps()) {
    if (auto define = dyn_cast<DefineOp>(op))
      symbols.insert(sym::Expr::symbol(define.getSymbol()));
    if (auto call = dyn_cast<GraphCallOpInterface>(op))
      for (FlatSymbolRefAttr name : call.getGraphs())
        collectDefined(tables.lookupNearestSymbolFrom<func::FuncOp>(&op, name), tables, seen,
                       symbols);
  }
}

llvm::SetVector<sym::Expr> kernel::getDefinedSymbols(func::FuncOp function) {
  SymbolTableCollection tables;
  llvm::SmallPtrSet<Operation *, 8> seen;
  llvm::SetVector<sym::Expr> symbols;
  collectDefined(function, tables, seen, symbols);
  return symbols;
}

/// `graph` is a function of this type (C1).
static LogicalResult verifyGraph(Operation *op, FlatSymbolRefAttr graph, TypeRange arguments,
                                 TypeRange results, SymbolTableCollection &symbols) {
  auto func = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, graph);
  if (!func)
    return op->emitOpError("'") << graph.getValue() << "' is not a function";
  auto type = FunctionType::get(op->getContext(), arguments, results);
  if (func.getFunctionType() != type)
    return op->emitOpError("calls @")
           << graph.getValue() << " as " << type << ", it is " << func.getFunctionType();
  return success();
}

static bool isOneBool(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getElementType().isInteger(1) &&
         sym::product(sym::getShape(tensor)).isConstant(1);
}

static SmallVector<Type> getTypes(ValueRange first, ValueRange second) {
  SmallVector<Type> types(first.getTypes());
  llvm::append_range(types, second.getTypes());
  return types;
}

//===-- invoke ------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> InvokeOp::getGraphs() { return {getGraphAttr()}; }

LogicalResult InvokeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyGraph(*this, getGraphAttr(), getOperandTypes(), getResultTypes(), symbols);
}

//===-- cond --------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> CondOp::getGraphs() {
  return {getThenGraphAttr(), getElseGraphAttr()};
}

LogicalResult CondOp::verify() {
  if (!getPredicate() == !getWhen()) // C2
    return emitOpError("needs either a predicate or an expression");
  if (getPredicate() && !isOneBool(getPredicate().getType()))
    return emitOpError("predicate is ") << getPredicate().getType() << ", expected one bool";
  return success();
}

LogicalResult CondOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr graph : getGraphs())
    if (failed(verifyGraph(*this, graph, getInvariants().getTypes(), getResultTypes(), symbols)))
      return failure();
  return success();
}

//===-- while -------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> WhileOp::getGraphs() { return {getConditionAttr(), getBodyAttr()}; }

LogicalResult WhileOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (getResultTypes() != getCarried().getTypes()) // C1
    return emitOpError("results differ in type from the carried values");
  SmallVector<Type> arguments = getTypes(getCarried(), getInvariants());
  if (failed(verifyGraph(*this, getBodyAttr(), arguments, getResultTypes(), symbols)))
    return failure();
  auto condition = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getConditionAttr());
  if (!condition || condition.getNumResults() != 1 ||
      !isOneBool(condition.getResultTypes()[0])) // C2
    return emitOpError("'") << getCondition() << "' is not a function that gives one bool";
  return verifyGraph(*this, getConditionAttr(), arguments, condition.getResultTypes(), symbols);
}

//===-- for ---------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> ForOp::getGraphs() { return {getBodyAttr()}; }

LogicalResult ForOp::verifySymbolUses(SymbolTableCollection &symbols) {
  size_t numCarried = getCarried().size();
  if (getNumResults() < numCarried ||
      getResults().take_front(numCarried).getTypes() != getCarried().getTypes()) // C1
    return emitOpError("the first results differ in type from the carried values");
  SmallVector<Type> arguments(getCarried().getTypes()), results = arguments;
  auto addSlices = [&](ValueRange tensors, SmallVectorImpl<Type> &types) -> LogicalResult {
    for (Value tensor : tensors) {
      SmallVector<sym::Expr> shape = sym::getShape(tensor);
      if (shape.empty() || shape.front() != getLength().getValue()) // C2
        return emitOpError("slices ")
               << tensor.getType() << " into " << getLength().getValue().str();
      types.push_back(getSliceType(cast<RankedTensorType>(tensor.getType())));
    }
    return success();
  };
  if (failed(addSlices(getSliced(), arguments)) ||
      failed(addSlices(getResults().drop_front(numCarried), results)))
    return failure();
  llvm::append_range(arguments, getInvariants().getTypes());
  return verifyGraph(*this, getBodyAttr(), arguments, results, symbols);
}
