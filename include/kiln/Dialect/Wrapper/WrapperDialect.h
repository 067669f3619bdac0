// The wrapper dialect: see WrapperOps.td for what it is.
#ifndef KILN_DIALECT_WRAPPER_WRAPPERDIALECT_H
#define KILN_DIALECT_WRAPPER_WRAPPERDIALECT_H

#include "kiln/Dialect/Sym/SymDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "kiln/Dialect/Wrapper/WrapperDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/Wrapper/WrapperTypes.h.inc"

#include "kiln/Dialect/Wrapper/WrapperInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Wrapper/WrapperOps.h.inc"

namespace kiln::wrapper {

/// Attributes of a program's inputs and outputs: the name that the caller knows; of an input, that
/// the program writes it; of a function's result, that its size is one that the function defines.
inline constexpr llvm::StringLiteral nameAttrName = "wrapper.name";
inline constexpr llvm::StringLiteral mutatedAttrName = "wrapper.mutated";
inline constexpr llvm::StringLiteral givenAttrName = "wrapper.given";
/// Attributes of a program's inputs: the expression that an integer is, that a float or bool is a
/// Python number, the strides in the caller's memory, and that no others will do.
inline constexpr llvm::StringLiteral valueAttrName = "wrapper.value";
inline constexpr llvm::StringLiteral numberAttrName = "wrapper.number";
inline constexpr llvm::StringLiteral stridesAttrName = "wrapper.strides";
inline constexpr llvm::StringLiteral checkStridesAttrName = "wrapper.check_strides";

/// In a table of symbols (`sym.symbols`, and that of a program), of one that is not a symbol of
/// the model but the name of a size: its expression.
inline constexpr llvm::StringLiteral sizeAttrName = "size";
/// The names of sizes in a table of symbols, which may be null.
llvm::DenseMap<sym::Expr, sym::Expr> getNamedSizes(mlir::DictionaryAttr symbols);

/// Bytes that one element takes in memory, or 0 for a type that has no place there. A bool takes
/// one.
int64_t getElementBytes(mlir::Type elementType);

/// Everything that the runtime and generated code put in memory starts at a multiple of this.
constexpr int64_t bufferAlignment = 64;

/// `bytes` rounded up to `bufferAlignment`.
sym::Expr alignBytes(sym::Expr bytes);

/// The symbols that operations mention, buffer types included.
struct SymbolCollector : sym::SymbolCollector {
  SymbolCollector();
};

/// The symbols that a function gives a value, itself or by running nested graphs.
llvm::SetVector<sym::Expr> getDefinedSymbols(HostFunctionOpInterface function);

/// The symbols that a step gives a value.
llvm::SetVector<sym::Expr> getDefinedSymbols(mlir::Operation *step);

/// The value whose memory `buffer` is a view of: a program argument or the result of a constant,
/// output, alloc or reuse.
mlir::Value getStorage(mlir::Value buffer);

/// The steps that use the memory of `buffer`, through whatever view of it, in no order.
llvm::SmallVector<mlir::Operation *> getStorageUsers(mlir::Value buffer);

/// The buffer that one round of a `wrapper.for` sees of `buffer`: a slice of its outermost dim.
BufferType getSliceType(BufferType buffer);

/// The constants of the program and of the functions of its nested graphs.
llvm::SmallVector<ConstantOp> getConstants(ProgramOp program);

/// The folds of the program and of its nested graphs, each after those that it reads.
llvm::SmallVector<FoldOp> getFolds(ProgramOp program);

/// The program and the functions that it reaches, each after all that it calls. A function that
/// calls itself is reported.
mlir::FailureOr<llvm::SmallVector<HostFunctionOpInterface>>
getFunctionsInOrder(mlir::ModuleOp module);

/// The most memory that is allocated at one time, in bytes, and where: the sum of the sizes of live
/// allocations (which no placement can beat). Symbols take the values that `symbol` gives them;
/// nullopt when an expression overflows. `step` receives the op at which the peak is reached.
std::optional<int64_t> getPeakBytes(ProgramOp program,
                                    llvm::function_ref<int64_t(llvm::StringRef symbol)> symbol,
                                    mlir::Operation **step = nullptr);

} // namespace kiln::wrapper

#endif // KILN_DIALECT_WRAPPER_WRAPPERDIALECT_H
