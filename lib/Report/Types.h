// Pieces of text that several parts of a report have.
#ifndef KILN_LIB_REPORT_TYPES_H
#define KILN_LIB_REPORT_TYPES_H

#include "kiln/Dialect/Sym/SymDialect.h"

namespace kiln::report {

/// "float32[1, s0]".
std::string describeType(mlir::Type elementType, llvm::ArrayRef<sym::Expr> sizes);

} // namespace kiln::report

#endif // KILN_LIB_REPORT_TYPES_H
