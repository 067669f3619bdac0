// Makes a program of a part of another one.
#include "LoneProgram.h"
#include "kiln/Dialect/Sym/Hints.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/Bytecode/BytecodeWriter.h"

using namespace mlir;
using namespace kiln;

LoneProgram::LoneProgram(Operation *part, ValueRange inputs, TypeRange results)
    : module(ModuleOp::create(part->getLoc())), builder(module->getBodyRegion()) {
  auto from = part->getParentOfType<ModuleOp>();
  (*module)->setAttr("torch.program", builder.getStringAttr("lone"));
  if (Attribute layout = from->getAttr("torch.int4_layout"))
    (*module)->setAttr("torch.int4_layout", layout);
  main = func::FuncOp::create(builder, part->getLoc(), "main",
                              builder.getFunctionType(inputs.getTypes(), results));
  builder.setInsertionPointToStart(main.addEntryBlock());
  mapping.map(inputs, main.getArguments());
}

std::string LoneProgram::finish(ValueRange results, function_ref<sym::Expr(sym::Expr)> substitute,
                                function_ref<std::optional<int64_t>(StringRef)> getSize) {
  func::ReturnOp::create(builder, main.getLoc(), results);
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    main.setArgAttr(i, torch::nameAttrName, builder.getStringAttr("x" + Twine(i)));
  for (unsigned i = 0; i < main.getNumResults(); ++i)
    main.setResultAttr(i, torch::nameAttrName, builder.getStringAttr("y" + Twine(i)));
  std::string unknown;
  sym::rewriteExprs(
      main,
      [&](sym::Expr expr) {
        return substitute(expr).substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
          if (leaf.kind() != sym::Kind::Symbol)
            return std::nullopt;
          std::optional<int64_t> size = getSize(leaf.symbolName());
          if (!size)
            unknown = leaf.symbolName().str();
          return sym::Expr(size.value_or(1));
        });
      },
      /*inMaps=*/true);
  return unknown;
}

std::optional<int64_t> kiln::getTunedSize(ModuleOp module, const tuning::Options &options,
                                          StringRef symbol, size_t point) {
  if (auto given = options.sizes.find(symbol); given != options.sizes.end())
    return given->second[std::min(point, given->second.size() - 1)];
  auto hints = module->getAttrOfType<DictionaryAttr>(sym::hintsAttrName);
  auto hint = hints ? hints.getAs<IntegerAttr>(symbol) : IntegerAttr();
  return hint ? std::optional(hint.getInt()) : std::nullopt;
}

llvm::Expected<std::string> kiln::writeLone(ModuleOp program) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(writeBytecodeToFile(program, stream)))
    return llvm::createStringError("it cannot be written");
  return text;
}

llvm::Error kiln::compileLone(StringRef program, const CompileOptions &options, bool isExtern,
                              StringRef path) {
  CompileOptions own;
  own.input = options.input;
  own.program = program;
  own.output = path;
  own.target = options.target;
  own.cpu = options.cpu;
  own.int4Layout = options.int4Layout;
  own.ranks = options.ranks;
  own.level = options.level;
  own.customOps = options.customOps;
  own.linkFiles = options.linkFiles;
  own.libraryFolder = options.libraryFolder;
  own.jobs = options.jobs;
  if (isExtern)
    own.externs = options.externs;
  return compile(own);
}
