// The plug-in's passes.
#ifndef KILN_C_PASSES_H
#define KILN_C_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace cbackend {

struct CommentLaunches : mlir::PassWrapper<CommentLaunches, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CommentLaunches)
  llvm::StringRef getArgument() const final { return "c-comment-launches"; }
  llvm::StringRef getDescription() const final {
    return "Say before each launch which node of the model it computes";
  }
  void runOnOperation() final;
};

} // namespace cbackend

#endif // KILN_C_PASSES_H
