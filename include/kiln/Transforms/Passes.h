// Passes over the torch, kernel and wrapper dialects; declared in Passes.td.
#ifndef KILN_TRANSFORMS_PASSES_H
#define KILN_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include <memory>
#include <string>

namespace kiln {

#define GEN_PASS_DECL
#include "kiln/Transforms/Passes.h.inc"

} // namespace kiln

namespace kiln::torch {

/// `target` is an operator that torch-expand-rnn or torch-expand-encoder-layer makes of others.
bool isRnn(llvm::StringRef target);
bool isEncoderLayer(llvm::StringRef target);
/// The operator that torch-expand-foreach calls for each tensor of a list; empty: `target` is none on lists.
std::string getForeachTarget(llvm::StringRef target);

} // namespace kiln::torch

#endif // KILN_TRANSFORMS_PASSES_H
