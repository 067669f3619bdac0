// torch-rename-symbols: gives symbols that different graphs define different names.
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHRENAMESYMBOLS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

struct RenameSymbols : kiln::impl::TorchRenameSymbolsBase<RenameSymbols> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    symbols.emplace(module);
    visited.clear();
    defined.clear();
    taken.clear();
    sym::SymbolCollector used;
    used.add(module);
    for (sym::Expr symbol : used.symbols)
      taken.insert(symbol.symbolName());
    ranges = module->getAttrOfType<DictionaryAttr>(symbolsAttrName);
    for (NamedAttribute range : ranges)
      taken.insert(range.getName().getValue());
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (function.isPublic())
        visit(function);
    if (!ranges.empty())
      module->setAttr(symbolsAttrName, ranges.getDictionary(&getContext()));
  }

  /// A graph comes after its caller, whose names stay.
  void visit(func::FuncOp function) {
    if (!visited.insert(function).second)
      return;
    SmallVector<StringAttr> names;
    function.walk([&](Operation *op) {
      if (auto defines = op->getAttrOfType<ArrayAttr>("defines"))
        llvm::append_range(names, defines.getAsRange<StringAttr>());
    });
    llvm::MapVector<StringAttr, StringAttr> renamed;
    for (StringAttr name : names) {
      if (defined.insert(name.getValue()).second)
        continue;
      StringAttr fresh = makeName(name.getValue());
      defined.insert(fresh.getValue());
      renamed[name] = fresh;
      if (Attribute range = ranges.get(name))
        ranges.set(fresh, range);
    }
    if (!renamed.empty()) {
      // A graph may use the symbols that its callers define.
      llvm::SetVector<Operation *> graphs;
      collectGraphs(function, graphs);
      for (Operation *graph : graphs)
        rename(graph, renamed);
    }
    llvm::SetVector<Operation *> callees;
    function.walk([&](HigherOrderOp call) { collectReferences(call, callees); });
    for (Operation *callee : callees)
      visit(cast<func::FuncOp>(callee));
  }

  StringAttr makeName(StringRef name) {
    std::string fresh;
    for (unsigned i = 1; fresh.empty() || !taken.insert(fresh).second; ++i)
      fresh = (name + "_" + Twine(i)).str();
    return StringAttr::get(&getContext(), fresh);
  }

  void collectReferences(HigherOrderOp call, llvm::SetVector<Operation *> &graphs) {
    call.getArgs().walk([&](FlatSymbolRefAttr reference) {
      if (auto graph = symbols->lookup<func::FuncOp>(reference.getValue()))
        graphs.insert(graph);
    });
  }

  void collectGraphs(func::FuncOp function, llvm::SetVector<Operation *> &graphs) {
    graphs.insert(function);
    for (size_t i = 0; i < graphs.size(); ++i)
      graphs[i]->walk([&](HigherOrderOp call) { collectReferences(call, graphs); });
  }

  void rename(Operation *graph, const llvm::MapVector<StringAttr, StringAttr> &renamed) {
    sym::rewriteExprs(
        graph,
        [&](sym::Expr expr) {
          return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
            if (leaf.kind() != sym::Kind::Symbol)
              return std::nullopt;
            auto *it = renamed.find(StringAttr::get(&getContext(), leaf.symbolName()));
            return it == renamed.end() ? std::nullopt
                                       : std::optional(sym::Expr::symbol(it->second.getValue()));
          });
        },
        /*inMaps=*/true);
    graph->walk([&](Operation *op) {
      auto defines = op->getAttrOfType<ArrayAttr>("defines");
      if (!defines)
        return;
      SmallVector<Attribute> names(defines.getValue());
      for (Attribute &name : names)
        if (auto *it = renamed.find(cast<StringAttr>(name)); it != renamed.end())
          name = it->second;
      op->setAttr("defines", ArrayAttr::get(&getContext(), names));
    });
  }

  std::optional<SymbolTable> symbols;
  NamedAttrList ranges;
  llvm::DenseSet<Operation *> visited;
  llvm::StringSet<> defined, taken;
};

} // namespace
