// The generator `c`: its patterns are declarations in files, its code calls of C functions.
#include "CGenerator.h"
#include "Declaration.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/OpSchema.h"
#include "kiln/Extern/ExternGenerator.h"
#include "mlir/Pass/PassOptions.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

namespace {

struct Options : PassPipelineOptions<Options> {
  ListOption<std::string> declarations{*this, "declarations",
                                       llvm::cl::desc("files that declare C functions")};
};

class CGenerator : public ExternGenerator {
public:
  static llvm::Expected<std::unique_ptr<ExternGenerator>> create(StringRef text,
                                                                 MLIRContext *context) {
    Options options;
    if (llvm::Error error = parseGeneratorOptions(options, text))
      return std::move(error);
    if (options.declarations.empty())
      return llvm::createStringError("expected c{declarations=FILE.mlir}, which says what the "
                                     "functions of --link compute");
    auto generator = std::make_unique<CGenerator>();
    for (const std::string &path : options.declarations)
      if (llvm::Error error =
              readDeclarations(path, context, generator->modules, generator->declarations))
        return error;
    if (llvm::Error error = generator->addPatterns())
      return error;
    return generator;
  }

  StringRef getName() const override { return "c"; }
  ArrayRef<ExternPattern> getPatterns() const override { return patterns; }

  std::vector<std::string> getPureOperators() const override {
    std::vector<std::string> operators;
    for (func::FuncOp subgraph :
         llvm::map_range(declarations, [](auto &one) { return one.subgraph; }))
      subgraph.walk([&](torch::CallOp call) {
        if (!torch::lookupSchema(call.getTarget()))
          operators.push_back(call.getTarget().str());
      });
    return operators;
  }

  LogicalResult generate(ModuleOp module, ArrayRef<func::FuncOp> functions) const override {
    NamedAttrList signatures(module->getAttrOfType<DictionaryAttr>(signaturesAttrName));
    for (func::FuncOp function : functions) {
      auto mark = function->getAttrOfType<DictionaryAttr>(markAttrName);
      const Declaration *declaration = find(mark.getAs<StringAttr>("pattern"));
      auto end = cast<func::ReturnOp>(function.getBody().front().getTerminator());
      auto match = declaration
                       ? DeclarationMatcher::match(*declaration, end.getOperand(0).getDefiningOp(),
                                                   /*isOutlined=*/true)
                       : FailureOr<DeclarationMatcher>();
      if (failed(match))
        continue; // somebody else's mark
      function->setAttr(codeAttrName, makeCode(*declaration, *match));
      addSignature(*declaration, signatures);
    }
    module->setAttr(signaturesAttrName, signatures.getDictionary(module.getContext()));
    return success();
  }

private:
  /// A function may be declared with several.
  static void addSignature(const Declaration &declaration, NamedAttrList &signatures) {
    func::FuncOp subgraph = declaration.subgraph;
    Builder b(subgraph.getContext());
    SmallVector<Attribute> texts;
    if (auto known = dyn_cast_or_null<ArrayAttr>(signatures.get(declaration.symbol)))
      llvm::append_range(texts, known);
    StringAttr text = b.getStringAttr(declaration.getSignature());
    if (llvm::is_contained(texts, text))
      return;
    texts.push_back(text);
    signatures.set(declaration.symbol, b.getArrayAttr(texts));
  }

  /// Each declaration is a pattern; those with more ops come first.
  llvm::Error addPatterns() {
    llvm::StringSet<> names;
    // The number of calls, and where equal ones were declared.
    std::vector<std::pair<int64_t, const Declaration *>> order;
    for (const Declaration &declaration : declarations) {
      func::FuncOp subgraph = declaration.subgraph;
      order.emplace_back(-static_cast<int64_t>(llvm::range_size(subgraph.getBody().front())),
                         &declaration);
    }
    llvm::sort(order);
    for (auto [count, declared] : order) {
      func::FuncOp subgraph = declared->subgraph;
      if (!names.insert(subgraph.getSymName()).second)
        return llvm::createStringError("@" + subgraph.getSymName() + " is declared twice");
      ExternPattern &pattern = patterns.emplace_back();
      pattern.name = subgraph.getSymName().str();
      pattern.match = [declared](Operation *root) { return match(*declared, root); };
    }
    return llvm::Error::success();
  }

  static FailureOr<ExternMatch> match(const Declaration &declaration, Operation *root) {
    auto found = DeclarationMatcher::match(declaration, root);
    if (failed(found))
      return failure();
    ExternMatch match;
    for (auto [declared, op] : found->ops)
      match.ops.push_back(op);
    func::FuncOp subgraph = declaration.subgraph;
    for (Value result : subgraph.getBody().front().getTerminator()->getOperands())
      match.results.push_back(found->values.lookup(result));
    return match;
  }

  const Declaration *find(StringAttr name) const {
    auto it = llvm::find_if(declarations, [&](const Declaration &declaration) {
      func::FuncOp subgraph = declaration.subgraph;
      return name && subgraph.getSymNameAttr() == name;
    });
    return it == declarations.end() ? nullptr : &*it;
  }

  static kernel::ExternCodeAttr makeCode(const Declaration &declaration,
                                         const DeclarationMatcher &match) {
    func::FuncOp subgraph = declaration.subgraph;
    Builder b(subgraph.getContext());
    auto numberOf = [&](unsigned argument) {
      return cast<BlockArgument>(match.values.lookup(subgraph.getArgument(argument)))
          .getArgNumber();
    };
    SmallVector<Attribute> all;
    for (unsigned i = 0; i < subgraph.getNumArguments(); ++i)
      all.push_back(sym::ArgAttr::get(b.getContext(), i));
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](sym::ArgAttr attr) -> Attribute {
      return sym::ArgAttr::get(b.getContext(), numberOf(attr.getIndex()));
    });
    replacer.addReplacement([&](sym::ExprAttr attr) -> Attribute {
      return sym::ExprAttr::get(b.getContext(), match.substitute(attr.getValue()));
    });
    ArrayAttr given = declaration.args ? declaration.args : b.getArrayAttr(all);
    auto args = cast<ArrayAttr>(replacer.replace(given));
    sym::ExprAttr workspace;
    if (!declaration.workspace.isConstant(0))
      workspace = sym::ExprAttr::get(b.getContext(), match.substitute(declaration.workspace));
    DenseI64ArrayAttr writes;
    if (!declaration.writes.empty())
      writes = b.getDenseI64ArrayAttr(llvm::map_to_vector(
          declaration.writes, [&](int64_t argument) -> int64_t { return numberOf(argument); }));
    return kernel::ExternCodeAttr::get(b.getContext(), torch::cLibrary, declaration.symbol, args,
                                       workspace, writes);
  }

  std::vector<OwningOpRef<ModuleOp>> modules;
  std::vector<Declaration> declarations;
  std::vector<ExternPattern> patterns;
};

} // namespace

void externs::registerCGenerator() {
  registerExternGenerator(
      {"c", "C functions of the files in --link: c{declarations=FILE.mlir}", &CGenerator::create});
}
