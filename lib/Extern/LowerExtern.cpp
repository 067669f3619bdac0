// lower-extern: calls what external code generators have compiled.
#include "Subgraph.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Extern/Passes.h"

namespace kiln::externs {
#define GEN_PASS_DEF_LOWEREXTERN
#include "kiln/Extern/Passes.h.inc"
} // namespace kiln::externs

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

/// Arguments of the function with the sizes of one call.
static ArrayAttr substitute(ArrayAttr args, kernel::InvokeExternOp call) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](sym::ExprAttr attr) -> Attribute {
    sym::Expr expr = call.substitute(attr.getValue());
    if (std::optional<int64_t> value = expr.constant())
      return IntegerAttr::get(IntegerType::get(call.getContext(), 64), *value);
    return sym::ExprAttr::get(call.getContext(), expr);
  });
  return cast<ArrayAttr>(replacer.replace(args));
}

static void lower(kernel::InvokeExternOp call, kernel::ExternCodeAttr code) {
  OpBuilder b(call);
  unsigned numWritten = code.getWrittenOperands().size();
  SmallVector<Type> types(TypeRange(call.getResultTypes()).drop_back(numWritten));
  unsigned numOwn = types.size();
  if (sym::ExprAttr workspace = code.getWorkspace()) {
    // A size below zero is a mistake of the generator's for this size; zero bytes fit any call.
    sym::Expr bytes = sym::Expr::max(call.substitute(workspace.getValue()), 0);
    types.push_back(sym::getTensorType({bytes}, b.getIntegerType(8, /*isSigned=*/false)));
  }
  auto projection = llvm::to_vector(llvm::seq<int64_t>(0, types.size()));
  llvm::append_range(types, TypeRange(call.getResultTypes()).take_back(numWritten));
  auto lowered = kernel::ExternOp::create(
      b, call.getLoc(), types, code.getLibrary(), code.getCallee(), call.getOperands(),
      substitute(code.getArgs(), call), ArrayAttr(), projection, /*sizes=*/ArrayRef<int64_t>(),
      code.getWrittenOperands(), /*impure=*/false);
  SmallVector<Value> values(lowered->getResults().take_front(numOwn));
  llvm::append_range(values, lowered->getResults().take_back(numWritten));
  call->replaceAllUsesWith(values);
  call.erase();
}

namespace {

struct LowerExtern : kiln::externs::impl::LowerExternBase<LowerExtern> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    WalkResult result = getOperation().walk([&](kernel::InvokeExternOp call) {
      auto function = symbols.lookup<func::FuncOp>(call.getFunction());
      auto code = function->getAttrOfType<kernel::ExternCodeAttr>(codeAttrName);
      if (!function.isExternal() || !code) {
        call.emitError() << "@" << call.getFunction() << " is no declaration of compiled code";
        return WalkResult::interrupt();
      }
      lower(call, code);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    for (auto function : llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (function.isExternal() && function->hasAttr(codeAttrName))
        function.erase();
  }
};

} // namespace
