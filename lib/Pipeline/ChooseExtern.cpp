// Measures external code generators beside own code.
//
// The subgraph that a function has been made of becomes a program of its own, with the sizes and the
// constants of the function's first call. It is compiled twice, with the generators and without, and
// aot-tune times the two models in turns. The generator has to be faster by more than noise: own code
// needs no library. What is found is kept in the cache of tuning results.
#include "ChooseExtern.h"
#include "LoneProgram.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Tuning/Duels.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace kiln;

namespace {

class Chooser {
public:
  explicit Chooser(const CompileOptions &options) : options(options) {}

  /// True: the generator's code of `function`, which `call` calls, is to be used.
  bool choose(kernel::InvokeExternOp call, func::FuncOp function) {
    std::string unknown;
    OwningOpRef<ModuleOp> program = makeProgram(call, function, unknown);
    if (!program) {
      if (options.tuning.onWarning)
        options.tuning.onWarning("--autotune: @" + function.getSymName().str() +
                                 " is left to its external code generator: nothing says what the "
                                 "size " +
                                 unknown + " is (--autotune-size)");
      return true;
    }
    llvm::Expected<tuning::Duel> duel = measure(*program);
    std::string name = ("extern " + function.getSymName()).str();
    if (!duel) {
      say(call, name + " is used, not measured", llvm::toString(duel.takeError()));
      return true;
    }
    say(call, name + (!duel->winner.empty() ? " is used" : " is not used"),
        !duel->failure.empty()
            ? duel->failure
            : llvm::formatv("it takes {0:f2} of the time of own code{1}", duel->ratio,
                            duel->winner.empty() && duel->ratio < 1 ? ", by too few runs to rely on"
                                                                    : "")
                  .str());
    return !duel->winner.empty();
  }

private:
  static void say(Operation *op, const std::string &text, const std::string &reason) {
    emitRemark(RemarkKind::Chosen, op, "autotune", "Extern",
               [&] { return RemarkText{text, reason}; });
  }

  /// A program that is the call alone; null: the size `unknown` is.
  OwningOpRef<ModuleOp> makeProgram(kernel::InvokeExternOp call, func::FuncOp function,
                                    std::string &unknown) {
    SmallVector<Value> inputs;
    for (Value operand : call.getOperands())
      if (!isConstant(operand))
        inputs.push_back(operand);
    LoneProgram program(call, inputs, call.getResultTypes());
    IRMapping &mapping = program.mapping;
    for (Value operand : call.getOperands())
      if (isConstant(operand) && !mapping.contains(operand))
        program.builder.clone(*operand.getDefiningOp(), mapping);
    for (auto [argument, operand] : llvm::zip_equal(function.getArguments(), call.getOperands()))
      mapping.map(argument, mapping.lookup(operand));
    // With the function's own symbols, which are numbers in the end as all others.
    for (Operation &op : function.getBody().front().without_terminator())
      program.builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : function.getBody().front().getTerminator()->getOperands())
      results.push_back(mapping.lookup(result));
    program.main.walk([](Operation *op) { op->removeAttr(externs::markAttrName); });
    auto module = call->getParentOfType<ModuleOp>();
    unknown = program.finish(
        results, [&](sym::Expr expr) { return call.substitute(expr); },
        [&](StringRef symbol) { return getTunedSize(module, options.tuning, symbol, SIZE_MAX); });
    return unknown.empty() ? std::move(program.module) : OwningOpRef<ModuleOp>();
  }

  static bool isConstant(Value value) {
    Operation *op = value.getDefiningOp();
    return op && (isa<torch::ConstantOp>(op) || matchPattern(op, m_Constant()));
  }

  llvm::Expected<tuning::Duel> measure(ModuleOp program) {
    llvm::Expected<std::string> text = writeLone(program);
    if (!text)
      return text.takeError();
    std::string key = *text;
    for (const std::string &spec : options.externs)
      key += spec + '\0';
    for (const std::string &file : options.linkFiles)
      if (auto contents = llvm::MemoryBuffer::getFile(file))
        key += (*contents)->getBuffer();
    key += options.cpu + '\0' + getCompilerVersion();
    return tuning::runDuels({"extern", key, {"extern"}}, options.tuning,
                            [&](StringRef challenger, StringRef path) {
                              return compileLone(*text, options, !challenger.empty(), path);
                            });
  }

  const CompileOptions &options;
};

} // namespace

void kiln::chooseByTime(externs::ExternSession &session, const CompileOptions &options) {
  session.choose = [&options](kernel::InvokeExternOp call, func::FuncOp function) {
    return Chooser(options).choose(call, function);
  };
}
