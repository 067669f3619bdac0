// Kernels that may write their result over an operand.
#ifndef KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H
#define KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H

#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"

namespace kiln::wrapper {

/// Whether element i of a result (in memory) is the only one whose value may depend on element i of
/// operand `argument`. A task may then write its elements of the result over the operand, as every
/// element is read before it is written and by nobody else.
bool isElementwise(kernel::FuncOp func, mlir::BlockArgument argument);

/// True if result `number` of `func` may be the memory of operand `argument`.
inline bool mayWriteOver(kernel::FuncOp func, mlir::BlockArgument argument, unsigned number) {
  return llvm::is_contained(kernel::getUpdated(func), std::pair(argument.getArgNumber(), number)) ||
         isElementwise(func, argument);
}

/// True if `function` may write to argument `i`: an input that the program mutates, or what a loop
/// carries in one buffer, which its body has the attribute `wrapper.mutated` for.
inline bool mayWriteArgument(HostFunctionOpInterface function, unsigned i) {
  auto graph = llvm::dyn_cast<FuncOp>(*function);
  return graph ? static_cast<bool>(graph.getArgAttr(i, mutatedAttrName)) : function.isMutated(i);
}

/// The operands that a graph which `call` runs may write.
llvm::SmallVector<mlir::Value> getWrittenOperands(GraphCallOpInterface call,
                                                  const mlir::SymbolTable &symbols);

} // namespace kiln::wrapper

#endif // KILN_TRANSFORMS_WRAPPER_ELEMENTWISE_H
