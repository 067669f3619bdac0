// Lowerings that need one result after the other.
#ifndef KILN_LIB_LOWERING_CORE_LOOP_H
#define KILN_LIB_LOWERING_CORE_LOOP_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"

namespace kiln::lowering {

using namespace kernel; // elements and builders

/// The values that the steps of a loop compute with: the tensors of its own graph, and no others.
struct LoopStep {
  KernelBuilder &kernels;
  mlir::Value number; // of the step: a 0-d tensor of i64
  llvm::ArrayRef<mlir::Value> carried, invariants;
};

/// The values after `length` steps, each of which gives the next ones of the same types: a
/// kernel.for.
llvm::SmallVector<mlir::Value>
loop(KernelBuilder &kernels, Expr length, llvm::ArrayRef<mlir::Value> carried,
     llvm::ArrayRef<mlir::Value> invariants,
     llvm::function_ref<llvm::SmallVector<mlir::Value>(const LoopStep &)> step);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_LOOP_H
