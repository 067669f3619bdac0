// Errors of the program's, in passes whose other errors are the compiler's own.
#ifndef KILN_DIALECT_WRAPPER_REFUSAL_H
#define KILN_DIALECT_WRAPPER_REFUSAL_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

namespace kiln::wrapper {

inline constexpr llvm::StringLiteral refusalMark = "refusal";

/// An error that says of the program why it cannot be compiled.
inline mlir::InFlightDiagnostic emitRefusal(mlir::Operation *op, llvm::StringRef message) {
  mlir::InFlightDiagnostic error = op->emitError(message);
  error.getUnderlyingDiagnostic()->getMetadata().emplace_back(refusalMark);
  return error;
}

inline bool isRefusal(mlir::Diagnostic &diagnostic) {
  return llvm::any_of(diagnostic.getMetadata(), [](const mlir::DiagnosticArgument &argument) {
    return argument.getKind() == mlir::DiagnosticArgument::DiagnosticArgumentKind::String &&
           argument.getAsString() == refusalMark;
  });
}

} // namespace kiln::wrapper

#endif // KILN_DIALECT_WRAPPER_REFUSAL_H
