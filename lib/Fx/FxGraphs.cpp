// Steps that run nested graphs: each graph is a submodule, and takes the symbols that it computes
// with behind its buffers.
#include "FxFunction.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::fx;
using namespace kiln::wrapper;

SmallVector<sym::Expr> FunctionWriter::getSymbols(ArrayRef<const GraphSignature *> graphs) {
  llvm::SetVector<sym::Expr> all;
  for (const GraphSignature *graph : graphs)
    all.insert_range(graph->symbols);
  return all.takeVector();
}

std::string FunctionWriter::values(ArrayRef<sym::Expr> symbols) {
  return list(llvm::map_to_vector(
      symbols, [&](sym::Expr symbol) { return symbolName(symbol.symbolName()); }));
}

/// `FUNCTION, [SYMBOL, ...]` as a helper of the prelude takes it: the positions of the graph's own
/// symbols among all.
static std::string reference(const GraphSignature &graph, ArrayRef<sym::Expr> all) {
  SmallVector<std::string> positions;
  for (sym::Expr symbol : graph.symbols)
    positions.push_back(std::to_string(llvm::find(all, symbol) - all.begin()));
  return "(" + graph.name + ", " + list(positions) + ")";
}

void FunctionWriter::takeResults(Operation *op, ValueRange outs, ValueRange given, FuncOp first,
                                 const std::string &call) {
  std::string results = names.add("results");
  line(results + " = " + call);
  unsigned number = 0;
  SmallVector<std::pair<Value, unsigned>> late;
  for (unsigned i = 0; i < first.getNumResults(); ++i) {
    if (first.isGiven(i)) {
      late.push_back({given.front(), number++});
      given = given.drop_front();
      continue;
    }
    std::string result = results + "[" + std::to_string(number++) + "]";
    Value out = outs.front();
    outs = outs.drop_front();
    // Memory of its own that nobody has seen needs no copy.
    if (isPending(out) && pending[out].second.empty() && !isa<WhileOp>(op) &&
        cast<BufferType>(out.getType()).isContiguous())
      assign(out, pending[out].first, result);
    else
      store(out, result);
  }
  for (sym::Expr symbol : getGivenSymbols(first))
    setSymbol(symbol.symbolName(), "g.item(" + results + "[" + std::to_string(number++) + "])");
  for (auto [buffer, position] : late) {
    auto bufferType = cast<BufferType>(buffer.getType());
    assign(buffer, "given",
           "g.resized(" + results + ", " + std::to_string(position) + ", " + type(bufferType) +
               ")");
  }
}

void FunctionWriter::writeIf(IfOp op) {
  SmallVector<FuncOp> functions;
  SmallVector<const GraphSignature *> graphs;
  for (FlatSymbolRefAttr graph : op.getGraphs()) {
    functions.push_back(context.module.lookupSymbol<FuncOp>(graph.getValue()));
    graphs.push_back(&context.graphs[graph.getValue()]);
  }
  if (getGivenSymbols(functions[0]) != getGivenSymbols(functions[1]))
    return refuse(op, "branches that find out different sizes");
  SmallVector<sym::Expr> all = getSymbols(graphs);
  std::string predicate =
      op.getPredicate() ? use(op.getPredicate()) : size(op.getWhen()->getValue()) + " >= 0";
  std::string ins = uses(op.getIns());
  takeResults(op, op.getOuts(), op.getGiven(), functions[0],
              "g.cond(" + predicate + ", " + reference(*graphs[0], all) + ", " +
                  reference(*graphs[1], all) + ", " + ins + ", " + values(all) + ")");
}

void FunctionWriter::writeGraphCall(CallOp call) {
  const GraphSignature &graph = context.graphs[call.getGraph()];
  auto callee = context.module.lookupSymbol<FuncOp>(call.getGraph());
  std::string ins = uses(call.getIns());
  takeResults(call, call.getOuts(), call.getGiven(), callee,
              "g.call_graph(" + reference(graph, graph.symbols) + ", " + ins + ", " +
                  values(graph.symbols) + ")");
}

void FunctionWriter::writeWhile(WhileOp loop) {
  const GraphSignature *condition = &context.graphs[loop.getCondition()],
                       *body = &context.graphs[loop.getBody()];
  auto callee = context.module.lookupSymbol<FuncOp>(loop.getBody());
  SmallVector<sym::Expr> all = getSymbols({condition, body});
  std::string carried = uses(loop.getCarried()), ins = uses(loop.getIns());
  takeResults(loop, loop.getOuts(), {}, callee,
              "g.while_loop(" + reference(*condition, all) + ", " + reference(*body, all) + ", " +
                  carried + ", " + ins + ", " + values(all) + ")");
}

void FunctionWriter::writeFor(ForOp loop) {
  const GraphSignature &graph = context.graphs[loop.getBody()];
  auto callee = context.module.lookupSymbol<FuncOp>(loop.getBody());
  sym::Expr length = loop.getLength().getValue();
  size_t count = loop.getCarried().size();
  if (length.constant().value_or(1) < 1) {
    for (auto [carried, out] : llvm::zip(loop.getCarried(), loop.getOuts().take_front(count)))
      store(out, use(carried));
    return;
  }
  std::string operands = size(length) + ", " + uses(loop.getCarried()) + ", " +
                         uses(loop.getSlices()) + ", " + uses(loop.getIns()) + ", " +
                         values(graph.symbols);
  std::string call = "g.scan(" + reference(graph, graph.symbols) + ", " + operands + ")";
  if (!length.isConstant())
    call = "g.scan_any(" + reference(graph, graph.symbols) + ", " + operands + ", " +
           uses(loop.getOuts().drop_front(count)) + ")";
  takeResults(loop, loop.getOuts(), {}, callee, call);
}
