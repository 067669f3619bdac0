// Moving a map that reads a product, element by element, into the product's epilogue.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_EPILOGUE_H
#define KILN_LIB_TRANSFORMS_KERNEL_EPILOGUE_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::kernel {

/// The only map that reads a contract. Null, with a reason, if that cannot be its epilogue.
struct EpilogueUser {
  MapOp map;
  ReadOp read; // one of its reads, which are all alike
  /// The map's dims as expressions over those of the contract's result.
  llvm::SmallVector<sym::Expr> dims;
  const char *reason = nullptr;
};
EpilogueUser findEpilogueUser(ContractOp contract);

/// Returns the contract that replaces both.
ContractOp fuseEpilogue(mlir::RewriterBase &rewriter, ContractOp contract,
                        const EpilogueUser &user);

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_EPILOGUE_H
