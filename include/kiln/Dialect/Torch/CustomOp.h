// Custom operators that C functions compute (kiln-c/custom_op.h).
#ifndef KILN_DIALECT_TORCH_CUSTOMOP_H
#define KILN_DIALECT_TORCH_CUSTOMOP_H

#include "kiln/Dialect/Torch/OpSchema.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace kiln::torch {

/// `torch.symbol`: the C function that computes a torch.call. Its `args` are then what the function
/// is given, in order.
inline constexpr llvm::StringLiteral symbolAttrName = "torch.symbol";
/// `torch.writes`: the operands that such a call writes.
inline constexpr llvm::StringLiteral writesAttrName = "torch.writes";
/// The library of calls that are C functions of the model itself.
inline constexpr llvm::StringLiteral cLibrary = "c";
/// The library of calls that are C functions of Kiln's own runtime (runtime/linalg), which take
/// tensors in the host's memory.
inline constexpr llvm::StringLiteral runtimeLibrary = "kiln";
/// The one of them that prints. It takes the letters of its pieces, then these (runtime/print.c).
inline constexpr llvm::StringLiteral printFunction = "kiln_rt_print";

struct CustomOp {
  std::unique_ptr<std::string> text; // which the schema refers to
  OpSchema schema;                   // name as in torch.call: `lib.scale.default`
  std::string symbol;
};

/// Parses `lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale`: the operator's schema as
/// PyTorch prints it, and the name of a C function. The error says what is wrong, in one line.
llvm::Expected<CustomOp> parseCustomOp(llvm::StringRef declaration);

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_CUSTOMOP_H
