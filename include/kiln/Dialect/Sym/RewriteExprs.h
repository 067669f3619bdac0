// Rewriting the expressions of a whole program.
#ifndef KILN_DIALECT_SYM_REWRITEEXPRS_H
#define KILN_DIALECT_SYM_REWRITEEXPRS_H

#include "kiln/Dialect/Sym/SymDialect.h"

namespace kiln::sym {

/// Puts `rewrite(e)` in place of every expression over symbols alone in the attributes and types of
/// `root` and of what is in it. Maps and other expressions with dims are left alone unless
/// `inMaps`. A tensor type whose sizes become constants becomes static.
void rewriteExprs(mlir::Operation *root, llvm::function_ref<Expr(Expr)> rewrite,
                  bool inMaps = false);

} // namespace kiln::sym

#endif // KILN_DIALECT_SYM_REWRITEEXPRS_H
