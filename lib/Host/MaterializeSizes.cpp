// Sizes that take more than an addition or a product with a number are computed once a run, on the
// host, and get a name: a symbol that the program defines. Kernels read it from the table of
// symbols, as any other.
#include "kiln/Codegen/KernelEmitters.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Host/Device.h"
#include "kiln/Host/Passes.h"
#include "mlir/IR/AttrTypeSubElements.h"

namespace kiln::host {
#define GEN_PASS_DEF_WRAPPERMATERIALIZESIZES
#include "kiln/Host/Passes.h.inc"
} // namespace kiln::host

using namespace mlir;
using namespace kiln;
using sym::Expr;

namespace {

bool isCheap(Expr expr) {
  if (expr.kind() == sym::Kind::Symbol || expr.isConstant())
    return true;
  if (expr.kind() != sym::Kind::Add && expr.kind() != sym::Kind::Mul)
    return false;
  unsigned symbols = 0;
  expr.walkLeaves([&](Expr) { ++symbols; });
  return symbols == 1;
}

class Sizes {
public:
  explicit Sizes(wrapper::ProgramOp program)
      : program(program), module(program->getParentOfType<ModuleOp>()) {
    walker.addWalk([&](sym::ExprAttr attr) { collect(attr.getValue()); });
    walker.addWalk([&](sym::ShapeAttr attr) { llvm::for_each(attr.getSizes(), collector()); });
    walker.addWalk([&](sym::MapAttr attr) { llvm::for_each(attr.getResults(), collector()); });
  }

  void run() {
    llvm::SmallPtrSet<Operation *, 16> seen;
    module.walk([&](wrapper::LaunchOp launch) {
      llvm::for_each(launch.getConditions(), collector());
      for (FlatSymbolRefAttr name : launch.getKernels()) {
        auto kernel = SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(launch, name);
        if (!seen.insert(kernel).second)
          continue;
        collect(codegen::getGrid(kernel));
        kernel.walk([&](Operation *op) {
          for (NamedAttribute attr : op->getAttrs())
            walker.walk(attr.getValue());
          for (Type type : op->getResultTypes())
            walker.walk(type);
        });
      }
    });
    if (!sizes.empty())
      define();
  }

private:
  std::function<void(Expr)> collector() {
    return [this](Expr expr) { collect(expr); };
  }

  /// The largest parts of `expr` that have no dims.
  void collect(Expr expr) {
    if (expr.hasDims()) {
      llvm::for_each(expr.operands(), collector());
      return;
    }
    if (expr.isValid() && !isCheap(expr))
      sizes.insert(expr);
  }

  /// At the start of the program, or where the last symbol of the expression is defined; null if
  /// that is inside a nested graph.
  Operation *findPlace(Expr expr, const DenseMap<Expr, Operation *> &definitions) {
    Operation *last = nullptr;
    bool isNested = false;
    expr.walkLeaves([&](Expr leaf) {
      auto definition = definitions.find(leaf);
      if (definition == definitions.end())
        return;
      isNested |= definition->second->getParentOp() != program;
      if (!isNested && (!last || last->isBeforeInBlock(definition->second)))
        last = definition->second;
    });
    return isNested ? nullptr : last ? last : start;
  }

  void define() {
    Block &body = program.getBody().front();
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    // Behind what says how symbols are found; something must be there to stand behind.
    for (auto bind : body.getOps<wrapper::BindOp>())
      start = bind;
    if (!start)
      return;
    DenseMap<Expr, Operation *> definitions;
    module.walk(
        [&](wrapper::DefineOp define) { definitions[Expr::symbol(define.getSymbol())] = define; });
    NamedAttrList symbols(program.getSymbolsAttr());
    DenseMap<Operation *, Operation *> ends; // the last size behind each place
    unsigned number = 0;
    for (Expr size : sizes) {
      Operation *place = findPlace(size, definitions);
      if (!place)
        continue;
      std::string name;
      do
        name = "size." + std::to_string(number++);
      while (symbols.get(name));
      auto expr = sym::ExprAttr::get(builder.getContext(), size);
      symbols.set(name,
                  builder.getDictionaryAttr(builder.getNamedAttr(wrapper::sizeAttrName, expr)));
      Operation *&end = ends.try_emplace(place, place).first->second;
      builder.setInsertionPointAfter(end);
      end = wrapper::DefineOp::create(builder, program.getLoc(), builder.getStringAttr(name),
                                      Value(), expr);
    }
    DictionaryAttr table = symbols.getDictionary(builder.getContext());
    program.setSymbolsAttr(table);
    module->setAttr(sym::symbolsAttrName, table);
  }

  wrapper::ProgramOp program;
  ModuleOp module;
  AttrTypeWalker walker;
  llvm::SetVector<Expr> sizes;
  Operation *start = nullptr;
};

struct MaterializeSizes : kiln::host::impl::WrapperMaterializeSizesBase<MaterializeSizes> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<wrapper::ProgramOp>())
      Sizes(program).run();
  }
};

} // namespace
