// Questions that passes ask of ops that call nested graphs.
#ifndef KILN_KERNEL_INTERFACES_TD
#define KILN_KERNEL_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Kernel_GraphCallOpInterface : OpInterface<"GraphCallOpInterface"> {
  let cppNamespace = "::kiln::kernel";
  let description = "An op whose results nested graphs compute: private functions that it names.";
  let methods = [
    InterfaceMethod<"the functions that may be called",
                    "::llvm::SmallVector<::mlir::FlatSymbolRefAttr>", "getGraphs">,
    InterfaceMethod<"operands that every graph gets as they are in every call, as its last arguments",
                    "::mlir::MutableOperandRange", "getInvariantsMutable">
  ];
}

#endif // KILN_KERNEL_INTERFACES_TD
