// Divides the work of an op only at the sizes at which that pays: a branch between two graphs.
#include "CUDA/GraphBranch.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

void cuda::branchOnSizes(Operation *op, sym::Expr when, StringRef name, SymbolTable &symbols,
                         function_ref<void(Operation *)> divide) {
  SmallVector<Value> tensors = getReadTensors(op);
  OpBuilder builder(op);
  Location loc = op->getLoc();
  auto type = builder.getFunctionType(ValueRange(tensors).getTypes(), op->getResultTypes());
  SmallVector<FlatSymbolRefAttr> graphs;
  for (const std::string &graphName : {(name + "_in_parts").str(), name.str()}) {
    OpBuilder::InsertionGuard guard(builder);
    builder.clearInsertionPoint();
    auto graph = func::FuncOp::create(builder, loc, graphName, type);
    graph.setPrivate();
    symbols.insert(graph);
    graphs.push_back(FlatSymbolRefAttr::get(graph));
    builder.setInsertionPointToStart(graph.addEntryBlock());
    IRMapping mapping;
    mapping.map(tensors, graph.getArguments());
    Operation *copy = builder.clone(*op, mapping);
    func::ReturnOp::create(builder, loc, copy->getResults());
    if (graphs.size() == 1)
      divide(copy);
  }
  auto either = CondOp::create(builder, loc, op->getResultTypes(),
                               sym::ExprAttr::get(builder.getContext(), when),
                               /*predicate=*/Value(), graphs[0], graphs[1], tensors);
  op->replaceAllUsesWith(either.getOperation());
  op->erase();
}
