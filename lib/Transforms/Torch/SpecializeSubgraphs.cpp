// torch-specialize-subgraphs: gives calls of one subgraph with other sizes a copy of it each.
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHSPECIALIZESUBGRAPHS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

/// The first argument of `invoke_subgraph` behind the graph and its name.
constexpr unsigned firstOperand = 2;

/// The values of a graph's symbols in the terms of a call, in the order of the graph's arguments.
using Sizes = llvm::MapVector<sym::Expr, sym::Expr>;

sym::Expr replace(sym::Expr expr, const Sizes &sizes) {
  return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
    const auto *known = sizes.find(leaf);
    return known == sizes.end() ? std::nullopt : std::optional(known->second);
  });
}

/// Pairs the sizes and numbers that a graph takes with those that a call gives.
class Pairing {
public:
  Pairing(HigherOrderOp call, func::FuncOp graph) : call(call), graph(graph) {}

  /// The values of the symbols; none if no choice of them makes the call fit.
  std::optional<Sizes> solve() {
    ArrayRef<Attribute> operands = call.getArgs().getValue().drop_front(firstOperand);
    if (operands.size() != graph.getNumArguments())
      return std::nullopt;
    for (auto [i, operand] : llvm::enumerate(operands))
      if (!pair(i, operand))
        return std::nullopt;
    Sizes sizes;
    for (auto [inside, outside] : pairs)
      if (inside.kind() == sym::Kind::Symbol &&
          sizes.try_emplace(inside, outside).first->second != outside)
        return std::nullopt;
    for (auto [inside, outside] : pairs)
      if (replace(inside, sizes) != outside)
        return std::nullopt;
    sizes.remove_if([](const auto &entry) { return entry.first == entry.second; });
    return sizes;
  }

private:
  bool pair(unsigned i, Attribute operand) {
    Type type = graph.getArgument(i).getType();
    if (auto inside = graph.getArgAttrOfType<sym::ExprAttr>(i, valueAttrName)) {
      if (auto number = dyn_cast<sym::ExprAttr>(operand))
        pairs.emplace_back(inside.getValue(), number.getValue());
      else if (auto number = dyn_cast<IntegerAttr>(operand))
        pairs.emplace_back(inside.getValue(), sym::Expr(number.getInt()));
      else
        return false;
      return true;
    }
    auto tensor = dyn_cast<ArgAttr>(operand);
    auto inside = dyn_cast<RankedTensorType>(type);
    auto outside = tensor
                       ? dyn_cast<RankedTensorType>(call->getOperand(tensor.getIndex()).getType())
                       : RankedTensorType();
    if (!inside || !outside)
      return true; // nothing with sizes
    if (inside.getRank() != outside.getRank())
      return false;
    for (auto [mine, theirs] : llvm::zip_equal(sym::getShape(inside), sym::getShape(outside)))
      pairs.emplace_back(mine, theirs);
    return true;
  }

  HigherOrderOp call;
  func::FuncOp graph;
  SmallVector<std::pair<sym::Expr, sym::Expr>> pairs;
};

struct SpecializeSubgraphs : kiln::impl::TorchSpecializeSubgraphsBase<SpecializeSubgraphs> {
  void runOnOperation() override {
    symbols.emplace(getOperation());
    copies.clear();
    SmallVector<HigherOrderOp> calls;
    getOperation()->walk([&](HigherOrderOp call) { calls.push_back(call); });
    // A graph that is copied may have such calls, too.
    for (size_t i = 0; i < calls.size(); ++i)
      if (func::FuncOp copy = specialize(calls[i]))
        copy.walk([&](HigherOrderOp call) { calls.push_back(call); });
  }

  /// The copy that was made for a call, if there was none yet.
  func::FuncOp specialize(HigherOrderOp call) {
    ArrayRef<Attribute> args = call.getArgs().getValue();
    if (call.getTarget() != "invoke_subgraph" || args.size() < firstOperand || call.getNames())
      return {};
    auto graph = lookup(args[0]);
    if (!graph || isRecursive(graph)) // which is refused later
      return {};
    std::optional<Sizes> sizes = Pairing(call, graph).solve();
    if (!sizes || sizes->empty())
      return {};
    size_t before = copies.size();
    auto copy = copyGraph(graph, *sizes);
    SmallVector<Attribute> changed(args);
    changed[0] = FlatSymbolRefAttr::get(copy.getSymNameAttr());
    call.setArgsAttr(ArrayAttr::get(&getContext(), changed));
    return copies.size() > before ? copy : func::FuncOp();
  }

  bool isRecursive(func::FuncOp graph) {
    llvm::SetVector<Operation *> called;
    auto collect = [&](Operation *caller) {
      caller->walk([&](HigherOrderOp call) {
        call.getArgs().walk([&](FlatSymbolRefAttr reference) {
          if (func::FuncOp callee = lookup(reference))
            called.insert(callee);
        });
      });
    };
    collect(graph);
    for (size_t i = 0; i < called.size() && !called.contains(graph); ++i)
      collect(called[i]);
    return called.contains(graph);
  }

  func::FuncOp lookup(Attribute attr) {
    auto reference = dyn_cast<FlatSymbolRefAttr>(attr);
    auto graph = reference ? symbols->lookup<func::FuncOp>(reference.getValue()) : func::FuncOp();
    return graph && graph.isPrivate() && !graph.isExternal() ? graph : func::FuncOp();
  }

  /// A copy of the graph for these sizes, and of those that it calls: they know its symbols.
  func::FuncOp copyGraph(func::FuncOp graph, const Sizes &sizes) {
    std::string key = graph.getSymName().str();
    for (const auto &[inside, outside] : sizes)
      key += ", " + inside.str() + " = " + outside.str();
    auto [entry, isNew] = copies.try_emplace(key);
    if (!isNew)
      return entry->second;
    auto copy = graph.clone();
    symbols->insert(copy);
    entry->second = copy;
    sym::rewriteExprs(copy, [&](sym::Expr expr) { return replace(expr, sizes); }, /*inMaps=*/true);
    copy.walk([&](HigherOrderOp call) {
      // A call of a subgraph with sizes of its own gets its own copy later.
      if (call.getTarget() == "invoke_subgraph")
        return;
      mlir::AttrTypeReplacer replacer;
      replacer.addReplacement([&](FlatSymbolRefAttr reference) -> std::optional<Attribute> {
        func::FuncOp callee = lookup(reference);
        if (!callee || callee == graph)
          return std::nullopt;
        return FlatSymbolRefAttr::get(copyGraph(callee, sizes).getSymNameAttr());
      });
      call.setArgsAttr(cast<ArrayAttr>(replacer.replace(call.getArgs())));
    });
    return copy;
  }

  std::optional<SymbolTable> symbols;
  llvm::StringMap<func::FuncOp> copies;
};

} // namespace
