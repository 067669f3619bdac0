//===- RandomState.h - The random numbers of nested graphs --------*- C++ -*-===//
#ifndef KILN_DIALECT_TORCH_RANDOMSTATE_H
#define KILN_DIALECT_TORCH_RANDOMSTATE_H

#include "llvm/ADT/StringRef.h"

namespace kiln::torch {

/// On an argument of a nested graph: the key and the number from which the graph draws.
inline constexpr llvm::StringLiteral randomStateAttrName = "torch.random_state";

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_RANDOMSTATE_H
