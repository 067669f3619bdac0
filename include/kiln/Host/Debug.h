// Debug printing of compiled models: what it is to show.
#ifndef KILN_HOST_DEBUG_H
#define KILN_HOST_DEBUG_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace kiln::host {

struct DebugOptions {
  /// 0: none, and the model has no code for it; 1: tensors are saved; 2: printed; 3: the names of
  /// kernels are.
  unsigned level = 0;
  /// Kernels and operators of libraries to show; empty: all.
  std::vector<std::string> filter;
};

/// An error for a name in `filter` that no launch or call of the host program has.
llvm::Error checkDebugFilter(mlir::ModuleOp module, llvm::ArrayRef<std::string> filter);

} // namespace kiln::host

#endif // KILN_HOST_DEBUG_H
