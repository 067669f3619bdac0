// wrapper-share-kernels: makes one kernel of those that differ in the names of symbols alone.
//
// Data that decides on a size, such as the rows that go to an expert, gives each size a name of its
// own, and with it each kernel that computes with the size. A launch of the one that stays says
// which of the program's sizes take the places of the kernel's.
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERSHAREKERNELS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// A kernel that others may become.
struct Model {
  kernel::FuncOp func;
  SmallVector<sym::Expr> symbols; // in order of appearance
};

struct ShareKernels : kiln::impl::WrapperShareKernelsBase<ShareKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto ranges = module->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
    if (!ranges)
      return;
    OwningOpRef<ModuleOp> drafts = ModuleOp::create(module.getLoc());
    llvm::StringMap<Model> models;
    for (auto &[func, launches] : findKernels(module)) {
      sym::SymbolCollector used;
      used.add(func);
      if (launches.empty() || used.symbols.empty())
        continue;
      Model model{cast<kernel::FuncOp>(func), llvm::to_vector(used.symbols)};
      auto [known, isNew] = models.try_emplace(describe(model, ranges, *drafts), model);
      if (isNew)
        continue;
      DictionaryAttr names = nameSymbols(known->second, model);
      for (LaunchOp launch : launches) {
        launch.setKernelAttr(FlatSymbolRefAttr::get(known->second.func));
        launch.setSymbolsAttr(names);
      }
      func->erase();
    }
  }

  /// The launches of each kernel, none if it is used in another way.
  static llvm::MapVector<Operation *, SmallVector<LaunchOp>> findKernels(ModuleOp module) {
    SymbolTable symbols(module);
    llvm::MapVector<Operation *, SmallVector<LaunchOp>> launches;
    llvm::DenseSet<Operation *> others;
    module.walk([&](LaunchOp launch) {
      SmallVector<FlatSymbolRefAttr> names = launch.getKernels();
      launches[symbols.lookup(launch.getKernel())].push_back(launch);
      if (names.size() > 1)
        for (FlatSymbolRefAttr name : names)
          others.insert(symbols.lookup(name.getValue()));
    });
    module.walk([&](FoldOp fold) { others.insert(symbols.lookup(fold.getKernel())); });
    for (auto &[func, some] : launches)
      if (others.contains(func))
        some.clear();
    return launches;
  }

  /// The text of a kernel with numbers for its symbols, and what is known of these: equal for kernels
  /// that compute the same of other symbols.
  static std::string describe(const Model &model, DictionaryAttr ranges, ModuleOp drafts) {
    llvm::DenseMap<sym::Expr, sym::Expr> numbers;
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (sym::Expr symbol : model.symbols) {
      std::string name = "p" + std::to_string(numbers.size());
      numbers[symbol] = sym::Expr::symbol(name);
      stream << name << " = " << ranges.get(symbol.symbolName()) << "\n";
    }
    OpBuilder builder = OpBuilder::atBlockBegin(drafts.getBody());
    auto copy = cast<kernel::FuncOp>(builder.clone(*model.func));
    auto renumber = [&](sym::Expr leaf) -> std::optional<sym::Expr> {
      auto number = numbers.find(leaf);
      return number == numbers.end() ? std::nullopt : std::optional(number->second);
    };
    sym::rewriteExprs(
        copy, [&](sym::Expr expr) { return expr.substitute(renumber); }, /*inMaps=*/true);
    stream << kernel::getFingerprint(copy);
    copy.erase();
    return text;
  }

  /// `model`'s symbols with those of `other` for them.
  DictionaryAttr nameSymbols(const Model &model, const Model &other) {
    NamedAttrList names;
    for (auto [name, value] : llvm::zip_equal(model.symbols, other.symbols))
      names.set(name.symbolName(), sym::ExprAttr::get(&getContext(), value));
    return names.getDictionary(&getContext());
  }
};

} // namespace
