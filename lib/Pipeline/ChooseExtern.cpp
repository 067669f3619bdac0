// Measures external code generators beside own code.
//
// The subgraph that a function has been made of becomes a program of its own, with the sizes and the
// constants of the function's first call. It is compiled twice, with the generators and without, and
// aot-tune times the two models in turns. The generator has to be faster by more than noise: own code
// needs no library. What is found is kept in the cache of tuning results.
#include "ChooseExtern.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Sym/Hints.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Tuning/Duels.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

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
    say(call, name + (duel->isWon ? " is used" : " is not used"),
        !duel->failure.empty()
            ? duel->failure
            : llvm::formatv("it takes {0:f2} of the time of own code", duel->ratio).str());
    return duel->isWon;
  }

private:
  static void say(Operation *op, const std::string &text, const std::string &reason) {
    emitRemark(RemarkKind::Chosen, op, "autotune", "Extern",
               [&] { return RemarkText{text, reason}; });
  }

  /// The size that `symbol` is measured at.
  std::optional<int64_t> getSize(ModuleOp module, StringRef symbol) const {
    if (auto given = options.tuning.sizes.find(symbol); given != options.tuning.sizes.end())
      return given->second.back();
    auto hints = module->getAttrOfType<DictionaryAttr>(sym::hintsAttrName);
    auto hint = hints ? hints.getAs<IntegerAttr>(symbol) : IntegerAttr();
    return hint ? std::optional(hint.getInt()) : std::nullopt;
  }

  /// A program that is the call alone; null: the size `unknown` is.
  OwningOpRef<ModuleOp> makeProgram(kernel::InvokeExternOp call, func::FuncOp function,
                                    std::string &unknown) {
    auto module = call->getParentOfType<ModuleOp>();
    OwningOpRef<ModuleOp> program = ModuleOp::create(call.getLoc());
    OpBuilder builder(program->getBodyRegion());
    (*program)->setAttr("torch.program", builder.getStringAttr("extern"));
    if (Attribute layout = module->getAttr("torch.int4_layout"))
      (*program)->setAttr("torch.int4_layout", layout);
    SmallVector<Value> inputs;
    for (Value operand : call.getOperands())
      if (!isConstant(operand))
        inputs.push_back(operand);
    auto main = func::FuncOp::create(
        builder, call.getLoc(), "main",
        builder.getFunctionType(ValueRange(inputs).getTypes(), call.getResultTypes()));
    builder.setInsertionPointToStart(main.addEntryBlock());
    IRMapping mapping;
    mapping.map(inputs, main.getArguments());
    for (Value operand : call.getOperands())
      if (isConstant(operand) && !mapping.contains(operand))
        builder.clone(*operand.getDefiningOp(), mapping);
    for (auto [argument, operand] : llvm::zip_equal(function.getArguments(), call.getOperands()))
      mapping.map(argument, mapping.lookup(operand));
    // With the function's own symbols, which are numbers in the end as all others.
    for (Operation &op : function.getBody().front().without_terminator())
      builder.clone(op, mapping);
    SmallVector<Value> results;
    for (Value result : function.getBody().front().getTerminator()->getOperands())
      results.push_back(mapping.lookup(result));
    func::ReturnOp::create(builder, call.getLoc(), results);
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      main.setArgAttr(i, torch::nameAttrName, builder.getStringAttr("x" + Twine(i)));
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      main.setResultAttr(i, torch::nameAttrName, builder.getStringAttr("y" + Twine(i)));
    main.walk([](Operation *op) { op->removeAttr(externs::markAttrName); });
    sym::rewriteExprs(
        main,
        [&](sym::Expr expr) {
          return call.substitute(expr).substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
            std::optional<int64_t> size = getSize(module, leaf.symbolName());
            if (!size)
              unknown = leaf.symbolName().str();
            return sym::Expr(size.value_or(1));
          });
        },
        /*inMaps=*/true);
    if (!unknown.empty())
      return {};
    return program;
  }

  static bool isConstant(Value value) {
    Operation *op = value.getDefiningOp();
    return op && (isa<torch::ConstantOp>(op) || matchPattern(op, m_Constant()));
  }

  llvm::Expected<tuning::Duel> measure(ModuleOp program) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (failed(writeBytecodeToFile(program, stream)))
      return llvm::createStringError("it cannot be written");
    std::string key = text;
    for (const std::string &spec : options.externs)
      key += spec + '\0';
    for (const std::string &file : options.linkFiles)
      if (auto contents = llvm::MemoryBuffer::getFile(file))
        key += (*contents)->getBuffer();
    key += options.cpu + '\0' + getCompilerVersion();
    return tuning::runDuel(key, options.tuning, [&](bool challenger, StringRef path) {
      return build(text, challenger, path);
    });
  }

  llvm::Error build(StringRef program, bool isExtern, StringRef path) {
    CompileOptions own;
    own.input = options.input;
    own.program = program;
    own.output = path;
    own.target = options.target;
    own.cpu = options.cpu;
    own.int4Layout = options.int4Layout;
    own.level = options.level;
    own.customOps = options.customOps;
    own.linkFiles = options.linkFiles;
    own.libraryFolder = options.libraryFolder;
    own.jobs = options.jobs;
    if (isExtern)
      own.externs = options.externs;
    return compile(own);
  }

  const CompileOptions &options;
};

} // namespace

void kiln::chooseByTime(externs::ExternSession &session, const CompileOptions &options) {
  session.choose = [&options](kernel::InvokeExternOp call, func::FuncOp function) {
    return Chooser(options).choose(call, function);
  };
}
