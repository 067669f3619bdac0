// Finds ops that are equal, regions included, in time that is linear in them.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_EQUALOPS_H
#define KILN_LIB_TRANSFORMS_KERNEL_EQUALOPS_H

#include "mlir/IR/Operation.h"
#include <unordered_map>

namespace kiln::kernel {

/// Ops that have been met. They must not change as long as they are known, but for their results.
class EqualOps {
public:
  /// An op equal to `op` but for its location; null if there was none, and `op` is known from now on.
  mlir::Operation *findOrAdd(mlir::Operation *op);

  size_t size() const { return order.size(); }
  /// Forgets all but the first `size` ops.
  void truncate(size_t size);

private:
  std::unordered_map<size_t, llvm::SmallVector<mlir::Operation *, 1>> ops; // by hash
  llvm::SmallVector<size_t> order;
};

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_EQUALOPS_H
