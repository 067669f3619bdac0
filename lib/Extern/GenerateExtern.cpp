// generate-extern: hands the module to each external code generator, once.
#include "Subgraph.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Extern/Passes.h"
#include "mlir/Pass/PassManager.h"

namespace kiln::externs {
#define GEN_PASS_DEF_GENERATEEXTERN
#include "kiln/Extern/Passes.h.inc"
} // namespace kiln::externs

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

/// The statements of a generator fit the function that they are about.
static LogicalResult verifyCode(func::FuncOp function, const ExternGenerator &generator) {
  auto code = function->getAttrOfType<kernel::ExternCodeAttr>(codeAttrName);
  auto fail = [&]() -> InFlightDiagnostic {
    return function.emitError() << "the external code generator " << generator.getName()
                                << " has compiled @" << function.getSymName() << " wrongly: ";
  };
  if (!code)
    return fail() << codeAttrName << " is not #kernel.extern_code";
  if (failed(sym::verifyArguments(code.getArgs(), function.getNumArguments(), fail)))
    return failure();
  ArrayRef<int64_t> writes = code.getWrittenOperands();
  if (writes.size() > function.getNumResults())
    return fail() << "it writes more operands than there are results";
  TypeRange written = TypeRange(function.getResultTypes()).take_back(writes.size());
  llvm::SmallDenseSet<int64_t> seen;
  for (auto [operand, type] : llvm::zip_equal(writes, written)) {
    if (operand < 0 || operand >= function.getNumArguments() || !seen.insert(operand).second)
      return fail() << "operand " << operand << " cannot be written";
    if (function.getArgument(operand).getType() != type)
      return fail() << "operand " << operand << " is written, but is returned as " << type;
  }
  return success();
}

namespace {

struct GenerateExtern : kiln::externs::impl::GenerateExternBase<GenerateExtern> {
  explicit GenerateExtern(Session session) : session(std::move(session)) {}
  GenerateExtern(const GenerateExtern &other) : GenerateExternBase(other), session(other.session) {}

  LogicalResult initialize(MLIRContext *context) override {
    return ExternSession::ensure(session, llvm::to_vector(generators), context);
  }

  void runOnOperation() override {
    for (const auto &generator : session->generators)
      if (failed(run(*generator)))
        return signalPassFailure();
  }

private:
  LogicalResult run(const ExternGenerator &generator) {
    SmallVector<func::FuncOp> functions;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      DictionaryAttr mark = getMark(function);
      auto name = mark ? mark.getAs<StringAttr>("generator") : StringAttr();
      if (name && name.getValue() == generator.getName() && !function.isExternal() &&
          !function->hasAttr(codeAttrName))
        functions.push_back(function);
    }
    if (functions.empty())
      return success();
    if (failed(generator.generate(getOperation(), functions)))
      return failure();
    for (func::FuncOp function : functions)
      if (function->hasAttr(codeAttrName)) {
        if (failed(verifyCode(function, generator)))
          return failure();
        ++session->counts[generator.getName()].compiled;
        leaveSlow(function, generator.getName());
      }
    return success();
  }

  /// Takes the code away that own code is faster than.
  void leaveSlow(func::FuncOp function, StringRef generator) {
    if (!session->choose)
      return;
    kernel::InvokeExternOp first;
    getOperation().walk([&](kernel::InvokeExternOp call) {
      if (call.getFunction() != function.getSymName())
        return WalkResult::advance();
      first = call;
      return WalkResult::interrupt();
    });
    if (!first || session->choose(first, function))
      return;
    function->removeAttr(codeAttrName);
    ++session->counts[generator].slower;
  }

  Session session;
};

} // namespace

std::unique_ptr<Pass> externs::createGenerateExtern(Session session) {
  return std::make_unique<GenerateExtern>(std::move(session));
}

void externs::buildExternPipeline(OpPassManager &pm, const Session &session) {
  pm.addPass(createMarkExtern(session));
  pm.addPass(createOutlineExtern(session));
  pm.addPass(createGenerateExtern(session));
  // Once the generators have seen everything.
  pm.addPass(createDeclareExtern());
  pm.addPass(createLowerExtern());
}
