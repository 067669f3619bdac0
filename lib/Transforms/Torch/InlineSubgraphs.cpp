// torch-inline-subgraphs: puts nested graphs that run exactly once in place of their calls.
#include "kiln/Dialect/Kernel/KernelDialect.h"
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

/// An operator that calls its graph once: where among the arguments the graph is, and where what it
/// is called with begins, as the remaining arguments or (`list`) as one list.
struct Wrapper {
  StringLiteral target;
  unsigned graph, operands;
  bool list = false;
};

constexpr Wrapper wrappers[] = {
    {"dynamo_bypassing_wrapper", 1, 2},   // the wrapper
    {"hints_wrapper", 0, 1, true},        // then keyword arguments and hints
    {"invoke_subgraph", 0, 2},            // an identifier
    {"run_const_graph", 0, 1, true},      //
    {"strict_mode", 0, 1, true},          //
    {"tag_activation_checkpoint", 0, 1},  // then options by name
    {"wrap", 0, 1},                       //
    {"wrap_activation_checkpoint", 0, 1}, // then options by name
    {"wrap_with_set_grad_enabled", 1, 2}, // whether enabled
};

/// A graph to put in place of a call, and what its arguments are.
struct Inlining {
  FlatSymbolRefAttr graph;
  SmallVector<Attribute> operands;
};

struct InlineSubgraphs : kiln::impl::TorchInlineSubgraphsBase<InlineSubgraphs> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      llvm::SmallPtrSet<Operation *, 8> path;
      if (isRecursive(function, path)) {
        function.emitError("graph calls itself");
        return signalPassFailure();
      }
    }
    ranges = {};
    kernel::addSymbolRanges(getOperation(), ranges);
    IRRewriter rewriter(&getContext());
    // An inlined graph may call others that can be inlined, too.
    for (bool changed = true; changed;) {
      changed = false;
      SmallVector<HigherOrderOp> calls;
      getOperation()->walk([&](HigherOrderOp call) { calls.push_back(call); });
      for (HigherOrderOp call : calls)
        changed |= inlineCall(call, rewriter);
      eraseUnused();
    }
  }

  bool isRecursive(func::FuncOp function, llvm::SmallPtrSetImpl<Operation *> &path) {
    if (!path.insert(function).second)
      return true;
    bool found = false;
    function.walk([&](HigherOrderOp call) {
      call.getArgs().walk([&](FlatSymbolRefAttr reference) {
        auto graph = symbols->lookup<func::FuncOp>(reference.getValue());
        found = found || (graph && isRecursive(graph, path));
      });
    });
    path.erase(function);
    return found;
  }

  void eraseUnused() {
    for (bool changed = true; changed;) {
      changed = false;
      for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
        if (function.isPrivate() && SymbolTable::symbolKnownUseEmpty(function, getOperation())) {
          symbols->erase(function);
          changed = true;
        }
    }
  }

  /// The graph that runs in place of `call` whatever the data are, if it is always the same one.
  std::optional<Inlining> findGraph(HigherOrderOp call) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    if (call.getTarget() == "cond")
      return findBranch(call);
    const auto *wrapper = llvm::find_if(
        wrappers, [&](const Wrapper &candidate) { return candidate.target == call.getTarget(); });
    if (wrapper == std::end(wrappers) || args.size() < wrapper->operands)
      return std::nullopt;
    auto graph = dyn_cast<FlatSymbolRefAttr>(args[wrapper->graph]);
    if (!graph)
      return std::nullopt;
    if (wrapper->list) {
      auto list = args.size() > wrapper->operands ? dyn_cast<ArrayAttr>(args[wrapper->operands])
                                                  : ArrayAttr();
      return list ? std::optional<Inlining>({graph, llvm::to_vector(list)}) : std::nullopt;
    }
    Inlining inlining{graph, {}};
    for (size_t i = wrapper->operands; i < args.size(); ++i)
      if (!call.getNames() || cast<StringAttr>((*call.getNames())[i]).empty())
        inlining.operands.push_back(args[i]);
    return inlining;
  }

  std::optional<Inlining> findBranch(HigherOrderOp call) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    if (args.size() < 3 || args.size() > 4)
      return std::nullopt;
    std::optional<sym::Expr> condition = getCondition(args[0], call);
    if (!condition)
      return std::nullopt;
    bool holds = ranges.isNonNegative(*condition);
    if (!holds && !ranges.isNonNegative(-*condition - 1))
      return std::nullopt;
    auto graph = dyn_cast<FlatSymbolRefAttr>(args[holds ? 1 : 2]);
    auto list = args.size() == 4 ? dyn_cast<ArrayAttr>(args[3]) : ArrayAttr::get(&getContext(), {});
    if (!graph || !list)
      return std::nullopt;
    return Inlining{graph, llvm::to_vector(list)};
  }

  /// Leaves a call, which lowering will refuse, if its arguments are not plainly the graph's.
  bool inlineCall(HigherOrderOp call, IRRewriter &rewriter) {
    std::optional<Inlining> inlining = findGraph(call);
    if (!inlining)
      return false;
    auto graph = symbols->lookup<func::FuncOp>(inlining->graph.getValue());
    if (!graph || graph.isExternal() || !graph.getBody().hasOneBlock() ||
        graph == call->getParentOfType<func::FuncOp>() ||
        inlining->operands.size() != graph.getNumArguments() ||
        call->getResultTypes() != graph.getResultTypes())
      return false;
    rewriter.setInsertionPoint(call);
    IRMapping mapping;
    for (auto [operand, argument] : llvm::zip(inlining->operands, graph.getArguments())) {
      Value value = getValue(operand, call, rewriter);
      if (!value || value.getType() != argument.getType())
        return false;
      mapping.map(argument, value);
    }
    Block &body = graph.getBody().front();
    for (Operation &op : body.without_terminator())
      rewriter.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : body.getTerminator()->getOperands())
      results.push_back(mapping.lookup(result));
    rewriter.replaceOp(call, results);
    return true;
  }

  /// The tensor that stands for an operand; null for what is none.
  Value getValue(Attribute operand, HigherOrderOp call, OpBuilder &builder) {
    if (auto tensor = dyn_cast<ArgAttr>(operand))
      return call->getOperand(tensor.getIndex());
    if (auto scalar = dyn_cast<ScalarAttr>(operand))
      return call->getOperand(scalar.getIndex());
    Type type;
    if (isa<sym::ExprAttr>(operand))
      type = builder.getI64Type();
    else if (isa<IntegerAttr, FloatAttr>(operand))
      type = cast<TypedAttr>(operand).getType();
    else
      return {};
    return NumberOp::create(builder, call.getLoc(), RankedTensorType::get({}, type), operand);
  }

  std::optional<SymbolTable> symbols;
  sym::Assumptions ranges;
};

} // namespace
