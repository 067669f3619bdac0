// The sym dialect's attributes, and the only helpers that look at or make symbolic tensor types.
#ifndef KILN_DIALECT_SYM_SYMDIALECT_H
#define KILN_DIALECT_SYM_SYMDIALECT_H

#include "kiln/Sym/Expr.h"
#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"

#include "kiln/Dialect/Sym/SymDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Sym/SymAttributes.h.inc"

namespace kiln::sym {

/// The sizes of a tensor type, static ones as constants.
llvm::SmallVector<Expr> getShape(mlir::RankedTensorType type);
llvm::SmallVector<Expr> getShape(mlir::Value tensor);
/// The tensor type of these sizes: a plain static type when all are constants.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<Expr> shape, mlir::Type elementType);

/// Pieces of the textual form shared by the attributes and by other dialects' assembly formats.
mlir::ParseResult parseExpr(mlir::AsmParser &parser, Expr &expr);
mlir::ParseResult parseExprList(mlir::AsmParser &parser, llvm::SmallVectorImpl<Expr> &exprs,
                                mlir::AsmParser::Delimiter delimiter);
mlir::ParseResult parseIndexMap(mlir::AsmParser &parser, IndexMap &map);
/// `custom<IndexMap>` and `custom<ExprList>` in op assembly formats: `(d0) -> (d0)` and `[s0, 8]`.
mlir::ParseResult parseIndexMap(mlir::OpAsmParser &parser, MapAttr &map);
void printIndexMap(mlir::OpAsmPrinter &printer, mlir::Operation *op, MapAttr map);
mlir::ParseResult parseExprList(mlir::OpAsmParser &parser, ShapeAttr &shape);
void printExprList(mlir::OpAsmPrinter &printer, mlir::Operation *op, ShapeAttr shape);

} // namespace kiln::sym

#endif // KILN_DIALECT_SYM_SYMDIALECT_H
