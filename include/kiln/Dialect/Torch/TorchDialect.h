// The torch dialect: see TorchOps.td.
#ifndef KILN_DIALECT_TORCH_TORCHDIALECT_H
#define KILN_DIALECT_TORCH_TORCHDIALECT_H

#include "kiln/Dialect/Sym/SymDialect.h"
#include "kiln/Dialect/Torch/OpSchema.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringSet.h"

#include "kiln/Dialect/Torch/TorchDialect.h.inc"

namespace kiln::torch {

// Arguments of calls are described by attributes that later dialects have, too.
using sym::ArgAttr;
using sym::ComplexAttr;
using sym::describe;
using sym::DeviceAttr;
using sym::DTypeAttr;
using sym::Layout;
using sym::LayoutAttr;
using sym::MemoryFormat;
using sym::MemoryFormatAttr;
using sym::ScalarAttr;
using sym::symbolizeLayout;
using sym::symbolizeMemoryFormat;
using sym::symbolsAttrName;

/// Names of the attributes on functions and on the module; TorchDialect's documentation says what
/// they hold.
inline constexpr llvm::StringLiteral nameAttrName = "torch.name";
inline constexpr llvm::StringLiteral stridesAttrName = "torch.strides";
inline constexpr llvm::StringLiteral checkStridesAttrName = "torch.check_strides";
inline constexpr llvm::StringLiteral storageOffsetAttrName = "torch.storage_offset";
inline constexpr llvm::StringLiteral deviceAttrName = "torch.device";
inline constexpr llvm::StringLiteral valueAttrName = "torch.value";
inline constexpr llvm::StringLiteral numberAttrName = "torch.number";
inline constexpr llvm::StringLiteral mutatesAttrName = "torch.mutates";
inline constexpr llvm::StringLiteral mutatesKindAttrName = "torch.mutates_kind";
inline constexpr llvm::StringLiteral gradientOfAttrName = "torch.gradient_of";
inline constexpr llvm::StringLiteral lossAttrName = "torch.loss";
inline constexpr llvm::StringLiteral programAttrName = "torch.program";
inline constexpr llvm::StringLiteral signatureAttrName = "torch.signature";
inline constexpr llvm::StringLiteral rangesAttrName = "torch.ranges";
inline constexpr llvm::StringLiteral guardsAttrName = "torch.guards";
inline constexpr llvm::StringLiteral constantsAttrName = "torch.constants";
inline constexpr llvm::StringLiteral modulesAttrName = "torch.modules";
/// First values of a module's buffers that other programs read as well, by their names.
inline constexpr llvm::StringLiteral sharedStateAttrName = "torch.shared_state";

/// The names that constants with the value of a parameter or buffer have: those that the module's
/// `torch.constants` lists, or where there is no such list all names.
class StateNames {
public:
  explicit StateNames(mlir::ModuleOp module);
  bool contains(std::optional<llvm::StringRef> name) const {
    return name && (!isListed || names.contains(*name));
  }

private:
  bool isListed = false;
  llvm::StringSet<> names;
};

} // namespace kiln::torch

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Torch/TorchAttributes.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/Torch/TorchOps.h.inc"

namespace kiln::torch {

/// An entry of `args` may stand for an argument of this type (constraint C3 of torch.call).
bool fits(mlir::Attribute attr, const SchemaType &type);
/// The entry that Python's conversions make of `attr` for an argument of this type: a number of the
/// declared kind; a single number where the schema has a list, repeated to its length.
mlir::Attribute coerce(mlir::Attribute attr, const SchemaType &type);
/// An expression that is at least zero where a bool among the arguments of `op` is true; nullopt
/// for one that is computed from data.
std::optional<sym::Expr> getCondition(mlir::Attribute attr, mlir::Operation *op);
/// The entry for an argument that was not given; null when the schema has no default for it.
mlir::Attribute defaultAttr(const SchemaArgument &argument, mlir::MLIRContext *context);
/// The tensor `value` with elements of another type: itself if it has that, else a call for `node`.
mlir::Value castTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                   mlir::Type element, mlir::StringAttr node);

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_TORCHDIALECT_H
