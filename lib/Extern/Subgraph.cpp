// A marked subgraph and the function that it becomes: its symbols, its structure, and the way back.
#include "Subgraph.h"
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA1.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;

std::string externs::getPrefix(DictionaryAttr mark) {
  std::string name = ("extern_" + mark.getAs<StringAttr>("generator").getValue() + "_" +
                      mark.getAs<StringAttr>("pattern").getValue())
                         .str();
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

SmallVector<sym::Expr> externs::canonicalize(func::FuncOp function) {
  sym::SymbolCollector used;
  used.add(function);
  llvm::DenseMap<sym::Expr, sym::Expr> renamed;
  for (auto [i, symbol] : llvm::enumerate(used.symbols))
    renamed[symbol] = kernel::InvokeExternOp::getParameter(i);
  sym::rewriteExprs(
      function,
      [&](sym::Expr expr) {
        return expr.substitute([&](sym::Expr leaf) -> std::optional<sym::Expr> {
          auto it = renamed.find(leaf);
          return it == renamed.end() ? std::nullopt : std::optional(it->second);
        });
      },
      /*inMaps=*/true);
  unsigned numNodes = 0;
  function.walk([&](Operation *op) {
    if (op != function)
      op->removeAttr(markAttrName);
    if (op->hasAttr("node"))
      op->setAttr("node", StringAttr::get(op->getContext(), "n" + Twine(numNodes++)));
  });
  return used.symbols.takeVector();
}

/// The bytes of a constant, of which text has a name alone.
static ArrayRef<char> getBytes(Attribute value) {
  if (auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(value))
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      return blob->getData();
  return {};
}

std::string externs::describeStructure(func::FuncOp function) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  copy->setName("f");
  copy->removeArgAttrsAttr();
  copy->removeResAttrsAttr();
  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->walk([&](Operation *op) {
    for (NamedAttribute attr : llvm::to_vector(op->getAttrs())) {
      ArrayRef<char> bytes = getBytes(attr.getValue());
      if (bytes.empty())
        continue;
      llvm::SHA1 hash;
      hash.update(StringRef(bytes.data(), bytes.size()));
      stream << llvm::toHex(hash.final()) << ' ';
    }
  });
  copy.get()->print(stream, OpPrintingFlags()
                                .printGenericOpForm()
                                .elideLargeResourceString(/*largeResourceLimit=*/0)
                                .useLocalScope());
  return text;
}

void externs::inlineCall(kernel::InvokeExternOp call, func::FuncOp function) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  sym::rewriteExprs(*copy, [&](sym::Expr expr) { return call.substitute(expr); }, /*inMaps=*/true);
  IRMapping mapping;
  Block &body = copy->getBody().front();
  mapping.map(body.getArguments(), call.getOperands());
  OpBuilder builder(call);
  for (Operation &op : body.without_terminator())
    builder.clone(op, mapping);
  for (auto [result, value] :
       llvm::zip_equal(call.getResults(), body.getTerminator()->getOperands()))
    result.replaceAllUsesWith(mapping.lookupOrDefault(value));
  call.erase();
}
