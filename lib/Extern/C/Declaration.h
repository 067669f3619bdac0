// Declarations of C functions: MLIR files with a function for each, whose body is the subgraph that
// it computes.
#ifndef KILN_LIB_EXTERN_C_DECLARATION_H
#define KILN_LIB_EXTERN_C_DECLARATION_H

#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Error.h"

namespace kiln::externs {

struct Declaration {
  /// The subgraph. Its arguments stand for any value of their type; a symbol in types or in
  /// arguments of calls for any size or integer.
  mlir::func::FuncOp subgraph;
  std::string symbol;                 // the C function
  sym::Expr workspace;                // bytes; 0: none
  llvm::SmallVector<sym::Expr> where; // each at least zero, or it does not match
  mlir::ArrayAttr args;               // null: all arguments of the subgraph
  llvm::SmallVector<int64_t> writes;  // arguments that the function writes in place

  /// `(f32[n, 8], i64[n]) -> f32[n]`, as in KILN_SIGNATURE.
  std::string getSignature() const;
};

/// The declarations of a file, which `modules` keeps. The error is one line, with the file's line and
/// column.
llvm::Error readDeclarations(llvm::StringRef path, mlir::MLIRContext *context,
                             std::vector<mlir::OwningOpRef<mlir::ModuleOp>> &modules,
                             std::vector<Declaration> &declarations);

/// A subgraph of a program under comparison with a declared one.
class DeclarationMatcher {
public:
  /// The subgraph that ends with `root`. In a function that has been made of one, nothing is known
  /// of its symbols: conditions on them were checked where it came from.
  static mlir::FailureOr<DeclarationMatcher> match(const Declaration &declaration,
                                                   mlir::Operation *root, bool isOutlined = false);

  llvm::MapVector<mlir::Operation *, mlir::Operation *> ops; // by the declaration's
  llvm::DenseMap<mlir::Value, mlir::Value> values;           // of arguments and results of ops
  /// `expr` of the declaration, in the program.
  sym::Expr substitute(sym::Expr expr) const;

private:
  bool matchValue(mlir::Value pattern, mlir::Value value);
  bool matchCall(torch::CallOp pattern, torch::CallOp call);
  bool matchArgument(mlir::Attribute pattern, mlir::Attribute given, torch::CallOp patternCall,
                     torch::CallOp call);
  bool matchType(mlir::Type pattern, mlir::Type type);
  bool matchExpr(sym::Expr pattern, sym::Expr expr);
  /// The number that is left once all symbols are known.
  bool checkExprs(const Declaration &declaration, mlir::Operation *root) const;

  llvm::DenseMap<sym::Expr, sym::Expr> symbols;
  llvm::SmallVector<std::pair<sym::Expr, sym::Expr>> equalities;
};

} // namespace kiln::externs

#endif // KILN_LIB_EXTERN_C_DECLARATION_H
