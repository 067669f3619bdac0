// kernel-sink-constants: moves constants into the nested graphs that use them.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELSINKCONSTANTS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// Whether `tensor` costs nothing to make again where it is used: a constant, a view of one, or a
/// map that every reader puts in place of its reads.
bool isSinkable(Value tensor) {
  Operation *op = tensor.getDefiningOp();
  if (isa_and_nonnull<ConstantOp>(op))
    return !op->hasAttr(mutatedAttrName);
  auto map = dyn_cast_or_null<MapOp>(op);
  if (!map || !isMemoryEffectFree(map))
    return false;
  SmallVector<Value> operands = getReadTensors(map);
  if (!operands.empty())
    return map.getView() && isSinkable(operands.front());
  BodyCost cost = getCost(map.getBody());
  return cost.arithmetic <= 4 && cost.transcendental == 0 && !cost.reduces;
}

/// Makes `tensor` again at the builder's place.
Value cloneTensor(Value tensor, OpBuilder &builder) {
  Operation *op = tensor.getDefiningOp();
  IRMapping mapping;
  // A constant takes along the values that it was folded from.
  for (Value operand : isa<MapOp>(op) ? getReadTensors(op) : SmallVector<Value>(op->getOperands()))
    mapping.map(operand, cloneTensor(operand, builder));
  return builder.clone(*op, mapping)->getResult(cast<OpResult>(tensor).getResultNumber());
}

struct SinkConstants : kiln::impl::KernelSinkConstantsBase<SinkConstants> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    llvm::MapVector<Operation *, unsigned> callers; // of each graph
    SmallVector<GraphCallOpInterface> calls;
    SmallVector<func::FuncOp> functions;
    // A graph comes after its callers, so that what sinks into it can sink on.
    auto visit = [&](func::FuncOp function) {
      for (auto call : function.getBody().getOps<GraphCallOpInterface>()) {
        calls.push_back(call);
        for (Operation *graph : getGraphs(call, symbols))
          if (++callers[graph] == 1)
            functions.push_back(cast<func::FuncOp>(graph));
      }
    };
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function.isPublic())
        visit(function);
    for (size_t i = 0; i < functions.size(); ++i)
      visit(functions[i]);
    for (GraphCallOpInterface call : calls) {
      SmallVector<Operation *> graphs = getGraphs(call, symbols);
      if (llvm::all_of(graphs, [&](Operation *graph) { return callers[graph] == 1; }))
        sinkInto(call, graphs);
    }
  }

  /// Each once.
  static SmallVector<Operation *> getGraphs(GraphCallOpInterface call, SymbolTable &symbols) {
    llvm::SetVector<Operation *> graphs;
    for (FlatSymbolRefAttr graph : call.getGraphs())
      graphs.insert(symbols.lookup<func::FuncOp>(graph.getValue()));
    return graphs.takeVector();
  }

  static void sinkInto(GraphCallOpInterface call, ArrayRef<Operation *> graphs) {
    for (unsigned fromEnd = call.getInvariantsMutable().size(); fromEnd > 0; --fromEnd) {
      MutableOperandRange invariants = call.getInvariantsMutable();
      unsigned index = invariants.size() - fromEnd;
      Value tensor = invariants[index].get();
      bool sinks = isSinkable(tensor), isUsed = false;
      for (Operation *op : graphs) {
        auto graph = cast<func::FuncOp>(op);
        BlockArgument argument = graph.getArgument(graph.getNumArguments() - fromEnd);
        if (sinks && !argument.use_empty()) {
          auto builder = OpBuilder::atBlockBegin(&graph.getBody().front());
          argument.replaceAllUsesWith(cloneTensor(tensor, builder));
        }
        isUsed |= !argument.use_empty();
      }
      if (isUsed)
        continue;
      for (Operation *op : graphs) {
        auto graph = cast<func::FuncOp>(op);
        (void)graph.eraseArgument(graph.getNumArguments() - fromEnd);
      }
      invariants.erase(index);
    }
  }
};

} // namespace
