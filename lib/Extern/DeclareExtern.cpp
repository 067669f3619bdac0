// declare-extern: drops the bodies of functions that external code generators have compiled.
#include "Subgraph.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Extern/Passes.h"

namespace kiln::externs {
#define GEN_PASS_DEF_DECLAREEXTERN
#include "kiln/Extern/Passes.h.inc"
} // namespace kiln::externs

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

/// A declaration: the function's type, and the code's attribute.
static void declare(func::FuncOp function) {
  function.eraseBody();
  function.setPrivate();
  for (NamedAttribute attr : llvm::to_vector(function->getDiscardableAttrs()))
    if (attr.getName() != codeAttrName)
      function->removeAttr(attr.getName());
  function.removeArgAttrsAttr();
  function.removeResAttrsAttr();
}

namespace {

struct DeclareExtern : kiln::externs::impl::DeclareExternBase<DeclareExtern> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    getOperation().walk([&](kernel::InvokeExternOp call) {
      auto function = symbols.lookup<func::FuncOp>(call.getFunction());
      if (!function.isExternal() && !function->hasAttr(codeAttrName))
        inlineCall(call, function);
    });
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal())
        continue;
      if (function->hasAttr(codeAttrName))
        declare(function);
      else if (getMark(function) && SymbolTable::symbolKnownUseEmpty(function, getOperation()))
        function.erase();
    }
  }
};

} // namespace
