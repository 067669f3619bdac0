// The kernel dialect: see KernelOps.td for what it is, and below for what region code shares.
#ifndef KILN_DIALECT_KERNEL_KERNELDIALECT_H
#define KILN_DIALECT_KERNEL_KERNELDIALECT_H

#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Sym/Assumptions.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Complex/IR/Complex.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SmallBitVector.h"

#include "kiln/Dialect/Kernel/KernelDialect.h.inc"

#include "kiln/Dialect/Kernel/KernelAttrInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Kernel/KernelAttributes.h.inc"

#include "kiln/Dialect/Kernel/KernelInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Kernel/KernelOps.h.inc"

namespace kiln::kernel {

// Custom assembly of attributes: `[2, 1]`.
mlir::ParseResult parseSizes(mlir::AsmParser &parser, llvm::SmallVectorImpl<int64_t> &sizes);
void printSizes(mlir::AsmPrinter &printer, llvm::ArrayRef<int64_t> sizes);

/// On a kernel.constant: a buffer that the program assigns. Its value is only what the first run
/// begins with, so nothing may be computed from it ahead of time.
inline constexpr llvm::StringLiteral mutatedAttrName = "kernel.mutated";

/// On a module: the messages of its kernels' `kernel.expect` ops. The message of code
/// `firstFailureCode` is the first (KILN_RT_ERROR_FAILURE in runtime/ir_interface.h).
inline constexpr llvm::StringLiteral failuresAttrName = "kernel.failures";
inline constexpr int32_t firstFailureCode = 2;

/// An op that is compiled on its own.
inline bool isStructured(mlir::Operation *op) {
  return mlir::isa_and_nonnull<StructuredOpInterface>(op);
}

/// The map of an op that looks at dims; null for other ops.
inline sym::MapAttr getIndexMap(mlir::Operation *op) {
  auto indexed = mlir::dyn_cast<IndexedOpInterface>(op);
  return indexed ? indexed.getMap() : sym::MapAttr();
}

/// The type in which region code holds an element of this type: integers lose their sign, 8-bit
/// floating-point numbers are their bits.
mlir::Type getScalarType(mlir::Type elementType);

/// Extents of all dims that are in scope in `region`, outermost first: the region of a structured
/// op or of a reduce.
llvm::SmallVector<sym::Expr> getDimExtents(mlir::Region *region);

/// The tensor that one round of a `kernel.for` sees of `tensor`: a slice of its outermost dim.
mlir::RankedTensorType getSliceType(mlir::RankedTensorType tensor);

/// The assumptions that hold inside `region`: the extents of its dims, and the ranges of symbols
/// from the enclosing module's `sym.symbols`.
sym::Assumptions getAssumptions(mlir::Region *region);

/// True if `func` is a scatter whose result begins, in memory, as operand `argument` is, and that
/// reads that operand for nothing else: then it may be written over the operand.
bool isUpdateOf(FuncOp func, mlir::BlockArgument argument);

/// Adds `d < extent` for all extents and, for every symbol of the module, its range.
void addSymbolRanges(mlir::Operation *module, sym::Assumptions &assumptions);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_KERNELDIALECT_H
