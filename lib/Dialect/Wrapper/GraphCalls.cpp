// Steps that run nested graphs: their verifiers, and the order of the functions they name.
#include "kiln/Dialect/Wrapper/WrapperDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

#include "kiln/Dialect/Wrapper/WrapperInterfaces.cpp.inc"

BufferType wrapper::getSliceType(BufferType buffer) {
  return BufferType::get(buffer.getContext(), buffer.getSizes().drop_front(),
                         buffer.getStrides().drop_front(), buffer.getElementType());
}

template <typename Op> static SmallVector<Op> getAll(ProgramOp program) {
  SmallVector<Op> ops;
  for (auto function : program->getParentOfType<ModuleOp>().getOps<HostFunctionOpInterface>())
    llvm::append_range(ops, function.getFunctionBody().getOps<Op>());
  return ops;
}

SmallVector<ConstantOp> wrapper::getConstants(ProgramOp program) {
  return getAll<ConstantOp>(program);
}

SmallVector<FoldOp> wrapper::getFolds(ProgramOp program) { return getAll<FoldOp>(program); }

/// Adds to `done` all functions below `function`, then itself; `path` is the way to it.
static LogicalResult visitFunctions(HostFunctionOpInterface function, SymbolTable &symbols,
                                    llvm::SetVector<Operation *> &done,
                                    llvm::SetVector<Operation *> &path) {
  if (done.contains(function))
    return success();
  if (!path.insert(function))
    return function.emitError("function @") << function.getName() << " calls itself";
  for (Operation &op : function.getFunctionBody().getOps())
    if (auto call = dyn_cast<GraphCallOpInterface>(op))
      for (FlatSymbolRefAttr graph : call.getGraphs())
        if (failed(visitFunctions(symbols.lookup<FuncOp>(graph.getValue()), symbols, done, path)))
          return failure();
  path.pop_back();
  done.insert(function);
  return success();
}

FailureOr<SmallVector<HostFunctionOpInterface>> wrapper::getFunctionsInOrder(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::SetVector<Operation *> done, path;
  for (auto program : module.getOps<ProgramOp>())
    if (failed(visitFunctions(program, symbols, done, path)))
      return failure();
  return llvm::map_to_vector(done, [](Operation *op) { return cast<HostFunctionOpInterface>(op); });
}

/// Adds what `op` gives a value to `symbols`; each graph is looked at once.
static void collectDefined(Operation *op, SymbolTableCollection &tables,
                           llvm::SmallPtrSetImpl<Operation *> &seen,
                           llvm::SetVector<sym::Expr> &symbols) {
  if (auto define = dyn_cast<DefineOp>(op))
    symbols.insert(sym::Expr::symbol(define.getSymbol()));
  auto call = dyn_cast<GraphCallOpInterface>(op);
  if (!call)
    return;
  for (FlatSymbolRefAttr name : call.getGraphs())
    if (auto graph = tables.lookupNearestSymbolFrom<FuncOp>(op, name); seen.insert(graph).second)
      for (Operation &step : graph.getBody().getOps())
        collectDefined(&step, tables, seen, symbols);
}

llvm::SetVector<sym::Expr> wrapper::getDefinedSymbols(Operation *step) {
  SymbolTableCollection tables;
  llvm::SmallPtrSet<Operation *, 8> seen;
  llvm::SetVector<sym::Expr> symbols;
  collectDefined(step, tables, seen, symbols);
  return symbols;
}

llvm::SetVector<sym::Expr> wrapper::getDefinedSymbols(HostFunctionOpInterface function) {
  SymbolTableCollection tables;
  llvm::SmallPtrSet<Operation *, 8> seen;
  llvm::SetVector<sym::Expr> symbols;
  for (Operation &step : function.getFunctionBody().getOps())
    collectDefined(&step, tables, seen, symbols);
  return symbols;
}

//===-- What all share ----------------------------------------------------------------------===//

/// `graph` is a function of these buffers, which gives the op's results (C1).
static LogicalResult verifyGraph(Operation *op, FlatSymbolRefAttr graph, ArrayRef<Type> arguments,
                                 ArrayRef<Type> written, SymbolTableCollection &symbols) {
  auto func = symbols.lookupNearestSymbolFrom<FuncOp>(op, graph);
  if (!func)
    return op->emitOpError("'") << graph.getValue() << "' is not a wrapper.func";
  TypeRange given = op->getResultTypes();
  SmallVector<Type> results;
  for (unsigned i = 0; i < func.getNumResults(); ++i) {
    if (!func.isGiven(i) && !written.empty()) {
      results.push_back(written.front());
      written = written.drop_front();
    } else if (func.isGiven(i) && !given.empty()) {
      results.push_back(given.front());
      given = given.drop_front();
    }
  }
  llvm::append_range(results, written);
  llvm::append_range(results, given);
  auto type = FunctionType::get(op->getContext(), arguments, results);
  if (func.getFunctionType() != type)
    return op->emitOpError("runs @")
           << graph.getValue() << " as " << type << ", it is " << func.getFunctionType();
  return success();
}

/// No buffer of `written` is given elsewhere (C2); the workspace is bytes (C3).
static LogicalResult verifyBuffers(Operation *op, ValueRange written, Value workspace) {
  for (Value buffer : written)
    if (llvm::count(op->getOperands(), buffer) != 1)
      return op->emitOpError("has one buffer for a result and for something else");
  if (workspace) {
    auto type = cast<BufferType>(workspace.getType());
    if (type.getSizes().size() != 1 || !type.getElementType().isInteger(8))
      return op->emitOpError("workspace is ") << type << ", expected a vector of i8";
  }
  return success();
}

static SmallVector<Type> getTypes(std::initializer_list<ValueRange> groups) {
  SmallVector<Type> types;
  for (ValueRange group : groups)
    llvm::append_range(types, group.getTypes());
  return types;
}

static bool isOneBool(Value buffer) {
  auto type = cast<BufferType>(buffer.getType());
  return type.getElementType().isInteger(1) && type.getNumElements().isConstant(1);
}

//===-- call --------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> CallOp::getGraphs() { return {getGraphAttr()}; }

LogicalResult CallOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(verifyBuffers(*this, getOuts(), getWorkspace())))
    return failure();
  return verifyGraph(*this, getGraphAttr(), getTypes({getIns()}), getTypes({getOuts()}), symbols);
}

//===-- if ----------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> IfOp::getGraphs() {
  return {getThenGraphAttr(), getElseGraphAttr()};
}

LogicalResult IfOp::verify() {
  if (!getPredicate() == !getWhen()) // C4
    return emitOpError("needs either a predicate or an expression");
  if (getPredicate() && !isOneBool(getPredicate()))
    return emitOpError("predicate is ") << getPredicate().getType() << ", expected one bool";
  return verifyBuffers(*this, getOuts(), getWorkspace());
}

LogicalResult IfOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr graph : getGraphs())
    if (failed(verifyGraph(*this, graph, getTypes({getIns()}), getTypes({getOuts()}), symbols)))
      return failure();
  return success();
}

//===-- while -------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> WhileOp::getGraphs() { return {getConditionAttr(), getBodyAttr()}; }

LogicalResult WhileOp::verify() {
  if (getCarried().getTypes() != getOuts().getTypes() ||
      getSpare().getTypes() != getOuts().getTypes()) // C4
    return emitOpError("carried, outs and spare differ in types");
  if (!isOneBool(getFlag())) // C5
    return emitOpError("flag is ") << getFlag().getType() << ", expected one bool";
  SmallVector<Value> written(getOuts());
  llvm::append_range(written, getSpare());
  written.push_back(getFlag());
  return verifyBuffers(*this, written, getWorkspace());
}

LogicalResult WhileOp::verifySymbolUses(SymbolTableCollection &symbols) {
  SmallVector<Type> arguments = getTypes({getCarried(), getIns()});
  if (failed(verifyGraph(*this, getConditionAttr(), arguments, getFlag().getType(), symbols)))
    return failure();
  return verifyGraph(*this, getBodyAttr(), arguments, getTypes({getOuts()}), symbols);
}

//===-- for ---------------------------------------------------------------------------------===//

SmallVector<FlatSymbolRefAttr> ForOp::getGraphs() { return {getBodyAttr()}; }

LogicalResult ForOp::verify() {
  size_t carried = getCarried().size();
  if (getOuts().size() < carried || getSpare().getTypes() != getCarried().getTypes() ||
      getOuts().take_front(carried).getTypes() != getCarried().getTypes()) // C4
    return emitOpError("carried, the first outs and spare differ in types");
  for (Value buffer : llvm::concat<Value>(getSlices(), getOuts().drop_front(carried))) { // C5
    ArrayRef<sym::Expr> sizes = cast<BufferType>(buffer.getType()).getSizes();
    if (sizes.empty() || sizes.front() != getLength().getValue())
      return emitOpError("slices ") << buffer.getType() << " into " << getLength().getValue().str();
  }
  SmallVector<Value> written(getOuts());
  llvm::append_range(written, getSpare());
  return verifyBuffers(*this, written, getWorkspace());
}

LogicalResult ForOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto addSlices = [](SmallVectorImpl<Type> &types, ValueRange buffers) {
    for (Value buffer : buffers)
      types.push_back(getSliceType(cast<BufferType>(buffer.getType())));
  };
  size_t carried = getCarried().size();
  SmallVector<Type> arguments = getTypes({getCarried()}), results = arguments;
  addSlices(arguments, getSlices());
  llvm::append_range(arguments, getIns().getTypes());
  addSlices(results, getOuts().drop_front(carried));
  return verifyGraph(*this, getBodyAttr(), arguments, results, symbols);
}
