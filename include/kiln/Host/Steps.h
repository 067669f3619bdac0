// The steps of a program that are code of the model's: launches of kernels, and calls of C
// functions. A host that is no machine code (kiln/Fx/Fx.h) runs them by their names.
#ifndef KILN_HOST_STEPS_H
#define KILN_HOST_STEPS_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <string>
#include <vector>

namespace kiln::host {

struct Step {
  std::string name;
  /// The first of the launches of this kernel, or the call.
  mlir::Operation *op;
  /// Symbols that it computes with, without the names of sizes.
  llvm::SmallVector<sym::Expr> symbols;
  /// The named sizes that follow from these.
  llvm::SmallVector<wrapper::DefineOp> sizes;
};

class Steps {
public:
  explicit Steps(mlir::ModuleOp module);

  llvm::ArrayRef<Step> get() const { return steps; }
  /// The step that `op` is; null if it is none.
  const Step *lookup(mlir::Operation *op) const;

private:
  void add(mlir::Operation *op, std::string name, llvm::ArrayRef<sym::Expr> symbols);

  /// The program's named sizes, and their names.
  llvm::SmallVector<wrapper::DefineOp> sizes;
  llvm::DenseSet<sym::Expr> names;
  std::vector<Step> steps;
  llvm::DenseMap<mlir::Operation *, size_t> numbers;
};

/// The call is of a C function, of a custom operator's or the runtime's.
bool isFunctionCall(wrapper::ExternCallOp call);

} // namespace kiln::host

#endif // KILN_HOST_STEPS_H
