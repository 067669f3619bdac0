// Questions that the passes of the wrapper dialect ask of functions and of the ops that call them.
#ifndef KILN_WRAPPER_INTERFACES_TD
#define KILN_WRAPPER_INTERFACES_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/FunctionInterfaces.td"

def Wrapper_HostFunctionOpInterface : OpInterface<"HostFunctionOpInterface", [FunctionOpInterface]> {
  let cppNamespace = "::kiln::wrapper";
  let description = "Steps over buffers with an arena of their own: the program or a nested graph.";
  let methods = [
    InterfaceMethod<"the bytes of the arena, once memory has been planned", "::kiln::sym::ExprAttr",
                    "getArenaBytesAttr">,
    InterfaceMethod<"", "void", "setArenaBytesAttr", (ins "::kiln::sym::ExprAttr":$bytes)>,
    InterfaceMethod<"whether the function may write to argument `index`", "bool", "isMutated",
                    (ins "unsigned":$index)>,
    InterfaceMethod<"whether result `index` has no memory", "bool", "isNone",
                    (ins "unsigned":$index)>,
    InterfaceMethod<"whether result `index` is in memory of the function's own", "bool", "isGiven",
                    (ins "unsigned":$index)>
  ];
}

def Wrapper_GraphCallOpInterface : OpInterface<"GraphCallOpInterface"> {
  let cppNamespace = "::kiln::wrapper";
  let description = [{
    A step that runs nested graphs, one at a time, each with its arena in the same workspace.
  }];
  let methods = [
    InterfaceMethod<"the functions that may be run", "::llvm::SmallVector<::mlir::FlatSymbolRefAttr>",
                    "getGraphs">,
    InterfaceMethod<"the memory that the step writes and that is used after it", "::mlir::ValueRange",
                    "getResultBuffers">,
    InterfaceMethod<"memory for the largest arena among the graphs', if any has one",
                    "::mlir::MutableOperandRange", "getWorkspaceMutable">
  ];
}

#endif // KILN_WRAPPER_INTERFACES_TD
