// Code for sym expressions on the host: i64 arithmetic in the LLVM dialect.
//
// Kernels have their own emitter (KernelFrame::emit), which knows loop variables and leaves out
// what ranges prove away. Here an expression is computed once a run, and its sizes may be hostile:
// the checked form says when 64 bits do not hold the value.
#ifndef KILN_CODEGEN_EXPREMITTER_H
#define KILN_CODEGEN_EXPREMITTER_H

#include "kiln/Sym/Expr.h"
#include "mlir/IR/Builders.h"
#include <functional>

namespace kiln::codegen {

class ExprEmitter {
public:
  /// `symbol` gives the value (i64) of a symbol at the builder's insertion point.
  ExprEmitter(mlir::OpBuilder &builder, mlir::Location loc,
              std::function<mlir::Value(llvm::StringRef)> symbol)
      : builder(builder), loc(loc), symbol(std::move(symbol)) {}

  /// The value of a valid expression without dims, wrapping where it leaves 64 bits. Division
  /// rounds toward minus infinity; a division by zero gives zero.
  mlir::Value emit(sym::Expr expr);
  /// The same, or INT64_MIN if any step of the computation overflows.
  mlir::Value emitChecked(sym::Expr expr);

  mlir::Value constant(int64_t value);
  mlir::Value floorDiv(mlir::Value a, mlir::Value b);

private:
  /// a op b, where `intrinsic` tells of an overflow; notes it if anybody asked.
  template <typename PlainOp, typename CheckedOp> mlir::Value combine(mlir::Value a, mlir::Value b);
  mlir::Value emitTerm(sym::Expr expr);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  std::function<mlir::Value(llvm::StringRef)> symbol;
  bool checked = false;
  mlir::Value overflow; // i1, null: none so far
};

} // namespace kiln::codegen

#endif // KILN_CODEGEN_EXPREMITTER_H
