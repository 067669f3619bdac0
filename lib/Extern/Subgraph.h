// A marked subgraph and the function that it becomes.
#ifndef KILN_LIB_EXTERN_SUBGRAPH_H
#define KILN_LIB_EXTERN_SUBGRAPH_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Extern/ExternGenerator.h"

namespace kiln::externs {

/// The mark of an op or a function; null: none.
inline mlir::DictionaryAttr getMark(mlir::Operation *op) {
  return op->getAttrOfType<mlir::DictionaryAttr>(markAttrName);
}

/// "@extern_c_lookup" of a generator and a pattern.
std::string getPrefix(mlir::DictionaryAttr mark);

/// Gives `function` symbols of its own, `p.0`, `p.1`, …, and nodes without names. Returns what the
/// symbols were.
llvm::SmallVector<sym::Expr> canonicalize(mlir::func::FuncOp function);

/// Text that functions share if and only if they compute the same.
std::string describeStructure(mlir::func::FuncOp function);

/// Puts what `call` calls in its place.
void inlineCall(kernel::InvokeExternOp call, mlir::func::FuncOp function);

} // namespace kiln::externs

#endif // KILN_LIB_EXTERN_SUBGRAPH_H
