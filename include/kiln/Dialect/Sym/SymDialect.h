// The sym dialect's attributes, and the only helpers that look at or make symbolic tensor types.
#ifndef KILN_DIALECT_SYM_SYMDIALECT_H
#define KILN_DIALECT_SYM_SYMDIALECT_H

#include "kiln/Sym/Expr.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "llvm/ADT/SetVector.h"

#include "kiln/Dialect/Sym/SymDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Sym/SymAttributes.h.inc"

namespace kiln::sym {

/// The sizes of a tensor type, static ones as constants.
llvm::SmallVector<Expr> getShape(mlir::RankedTensorType type);
llvm::SmallVector<Expr> getShape(mlir::Value tensor);
/// The tensor type of these sizes: a plain static type when all are constants.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<Expr> shape, mlir::Type elementType);

/// The symbols that operations mention in their attributes and result types.
class SymbolCollector {
public:
  SymbolCollector();
  SymbolCollector(const SymbolCollector &) = delete;
  void add(llvm::ArrayRef<Expr> exprs);
  /// `op` and everything in it.
  void add(mlir::Operation *op);
  /// In order of appearance.
  llvm::SetVector<Expr> symbols;
  /// For types of other dialects that hold expressions.
  mlir::AttrTypeWalker walker;
};

/// Pieces of the textual form shared by the attributes and by other dialects' assembly formats.
mlir::ParseResult parseExpr(mlir::AsmParser &parser, Expr &expr);
mlir::ParseResult parseExprList(mlir::AsmParser &parser, llvm::SmallVectorImpl<Expr> &exprs,
                                mlir::AsmParser::Delimiter delimiter);
mlir::ParseResult parseIndexMap(mlir::AsmParser &parser, IndexMap &map);
/// `custom<Size>`, `custom<IndexMap>` and `custom<ExprList>` in op assembly formats: `s0 + 1`,
/// `(d0) -> (d0)` and `[s0, 8]`.
mlir::ParseResult parseSize(mlir::OpAsmParser &parser, ExprAttr &size);
void printSize(mlir::OpAsmPrinter &printer, mlir::Operation *op, ExprAttr size);
mlir::ParseResult parseIndexMap(mlir::OpAsmParser &parser, MapAttr &map);
void printIndexMap(mlir::OpAsmPrinter &printer, mlir::Operation *op, MapAttr map);
mlir::ParseResult parseExprList(mlir::OpAsmParser &parser, ShapeAttr &shape);
void printExprList(mlir::OpAsmPrinter &printer, mlir::Operation *op, ShapeAttr shape);

} // namespace kiln::sym

#endif // KILN_DIALECT_SYM_SYMDIALECT_H
