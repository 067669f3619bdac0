// Rewrites every integer expression in the types and attributes of a program.
#include "kiln/Dialect/Sym/RewriteExprs.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::sym;

void sym::rewriteExprs(Operation *root, llvm::function_ref<Expr(Expr)> rewrite, bool inMaps) {
  llvm::DenseMap<Expr, Expr> rewritten; // a program has few distinct ones
  auto rewriteOne = [&](Expr expr) {
    if (expr.isConstant() || (expr.hasDims() && !inMaps))
      return expr;
    auto it = rewritten.find(expr);
    return it != rewritten.end() ? it->second : rewritten[expr] = rewrite(expr);
  };
  auto rewriteAll = [&](ArrayRef<Expr> exprs) { return llvm::map_to_vector(exprs, rewriteOne); };

  AttrTypeReplacer replacer;
  replacer.addReplacement([&](ExprAttr attr) -> Attribute {
    return ExprAttr::get(attr.getContext(), rewriteOne(attr.getValue()));
  });
  replacer.addReplacement([&](ShapeAttr attr) -> Attribute {
    return ShapeAttr::get(attr.getContext(), rewriteAll(attr.getSizes()));
  });
  replacer.addReplacement([&](MapAttr attr) -> Attribute {
    return inMaps
               ? MapAttr::get(attr.getContext(), attr.getNumDims(), rewriteAll(attr.getResults()))
               : attr;
  });
  replacer.addReplacement([&](RankedTensorType type) -> std::pair<Type, WalkResult> {
    // The shape changes with the encoding: a size that has become a number is part of the plain
    // shape.
    if (!isa_and_nonnull<ShapeAttr>(type.getEncoding()))
      return {type, WalkResult::skip()};
    return {getTensorType(rewriteAll(getShape(type)), type.getElementType()), WalkResult::skip()};
  });
  replacer.recursivelyReplaceElementsIn(root, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}
