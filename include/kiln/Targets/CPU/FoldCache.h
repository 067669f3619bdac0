// Results of folded maps that several programs of one context have in common.
#ifndef KILN_TARGETS_CPU_FOLDCACHE_H
#define KILN_TARGETS_CPU_FOLDCACHE_H

#include "mlir/IR/BuiltinAttributeInterfaces.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace kiln::cpu {

/// By what has been computed, and of which constants: programs over one set of weights compute much of
/// the same.
class FoldCache {
public:
  using Values = llvm::SmallVector<mlir::ElementsAttr>;

  /// The results of the kernel that has this fingerprint of these operands; none yet: an empty list.
  Values &get(llvm::StringRef fingerprint, mlir::ArrayAttr operands) {
    return results[fingerprint][operands];
  }

private:
  llvm::StringMap<llvm::DenseMap<mlir::Attribute, Values>> results;
};

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_FOLDCACHE_H
