#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHINLINESUBGRAPHS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

struct InlineSubgraphs : kiln::impl::TorchInlineSubgraphsBase<InlineSubgraphs> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    IRRewriter rewriter(&getContext());
    SmallVector<HigherOrderOp> calls;
    getOperation()->walk([&](HigherOrderOp call) {
      if (call.getTarget() == "wrap_with_set_grad_enabled")
        calls.push_back(call);
    });
    for (HigherOrderOp call : calls)
      inlineCall(call, symbols, rewriter);
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function.isPrivate() && SymbolTable::symbolKnownUseEmpty(function, getOperation()))
        function.erase();
  }

  /// Leaves the call, which lowering will refuse, if its arguments are not plainly the graph's.
  void inlineCall(HigherOrderOp call, SymbolTable &symbols, IRRewriter &rewriter) {
    func::FuncOp graph;
    SmallVector<Value> operands;
    for (Attribute argument : call.getArgs()) {
      if (auto reference = dyn_cast<FlatSymbolRefAttr>(argument)) {
        if (graph)
          return;
        graph = symbols.lookup<func::FuncOp>(reference.getValue());
      } else if (auto operand = dyn_cast<ArgAttr>(argument)) {
        operands.push_back(call->getOperand(operand.getIndex()));
      } else if (graph) {
        return; // a symbolic integer or a constant for the graph
      }
    }
    if (!graph || graph.isExternal() || !graph.getBody().hasOneBlock() ||
        TypeRange(operands) != TypeRange(graph.getArgumentTypes()) ||
        call->getResultTypes() != graph.getResultTypes())
      return;
    IRMapping mapping;
    mapping.map(graph.getArguments(), operands);
    rewriter.setInsertionPoint(call);
    Block &body = graph.getBody().front();
    for (Operation &op : body.without_terminator())
      rewriter.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : body.getTerminator()->getOperands())
      results.push_back(mapping.lookup(result));
    rewriter.replaceOp(call, results);
  }
};

} // namespace
