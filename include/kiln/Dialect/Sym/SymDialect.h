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

namespace kiln::sym {

/// In the order of their spelling in the textual form; see lib/Dialect/Sym/CallAttributes.cpp.
enum class Layout { Strided, SparseCoo, SparseCsr, SparseCsc, SparseBsr, SparseBsc, Mkldnn };
enum class MemoryFormat { Contiguous, ChannelsLast, ChannelsLast3d, Preserve };

/// PyTorch's spelling: "strided", "channels_last_3d".
llvm::StringRef stringify(Layout value);
llvm::StringRef stringify(MemoryFormat value);
std::optional<Layout> symbolizeLayout(llvm::StringRef name);
std::optional<MemoryFormat> symbolizeMemoryFormat(llvm::StringRef name);

} // namespace kiln::sym

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Sym/SymAttributes.h.inc"

namespace kiln::sym {

/// On a module: for each symbol of the program its inclusive range, `{s0 = {min = 2, max = 64}}`.
/// An absent bound is none.
inline constexpr llvm::StringLiteral symbolsAttrName = "sym.symbols";

/// The node and the Python line of an op, for messages: `node 'linear_1' (model.py:12)`.
std::string describe(mlir::Location location);

/// Every operand number in `args` is below `numOperands`, and every operand is used. Reports with
/// `emitError`.
mlir::LogicalResult verifyArguments(mlir::ArrayAttr args, unsigned numOperands,
                                    llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
/// Constraints of calls of a library: `projection`, `sizes` and `updates` of kernel.extern.
mlir::LogicalResult verifyResults(llvm::ArrayRef<int64_t> projection, llvm::ArrayRef<int64_t> sizes,
                                  llvm::ArrayRef<int64_t> updates, unsigned numOperands,
                                  unsigned numResults,
                                  llvm::function_ref<mlir::InFlightDiagnostic()> emitError);
/// Results that a call of a library has because of its `sizes`: these and what names all that is
/// kept.
inline unsigned countKept(llvm::ArrayRef<int64_t> sizes) {
  return sizes.empty() ? 0 : sizes.size() / 2 + 1;
}

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
