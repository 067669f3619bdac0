// Questions that passes ask of ops and of schedules, so that they need not know each of them.
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

def Kernel_StructuredOpInterface : OpInterface<"StructuredOpInterface"> {
  let cppNamespace = "::kiln::kernel";
  let description = [{
    An op that becomes a kernel of its own: nested loops over dims d0, d1, …, and regions that say what
    is computed at each point. The maps of every region take all of the dims; a region that may not use
    some has the same value for each of them.
  }];
  let methods = [
    InterfaceMethod<"the sizes of the dims, in order", "::llvm::SmallVector<::kiln::sym::Expr>",
                    "getExtents">,
    InterfaceMethod<"dim i of the results, not counting that of parts, is loop dim getResultDims()[i]",
                    "::llvm::SmallVector<int64_t>", "getResultDims", (ins), "",
                    [{ return ::llvm::to_vector(::llvm::seq<int64_t>(0, $_op.getExtents().size())); }]>,
    InterfaceMethod<"the dims that maps of `region`, one of the op's, may use", "::llvm::SmallBitVector",
                    "getRegionDims", (ins "::mlir::Region &":$region), "",
                    [{ return ::llvm::SmallBitVector($_op.getExtents().size(), true); }]>,
    InterfaceMethod<"`region` gives operands that are used again and again: each element of them is worth a place in memory",
                    "bool", "isOperand", (ins "::mlir::Region &":$region), "", [{ return false; }]>
  ];
}

def Kernel_IndexedOpInterface : OpInterface<"IndexedOpInterface"> {
  let cppNamespace = "::kiln::kernel";
  let description = [{
    An op that looks at dims: it has a map from the dims around it and from `values`, integers that are
    computed from data.
  }];
  let methods = [
    InterfaceMethod<"the map", "::kiln::sym::MapAttr", "getMap">,
    InterfaceMethod<"", "void", "setMap", (ins "::kiln::sym::MapAttr":$map), "",
                    [{ $_op.setMapAttr(map); }]>,
    InterfaceMethod<"what the map takes after the dims", "::mlir::OperandRange", "getValues">,
    InterfaceMethod<"", "::mlir::MutableOperandRange", "getValuesMutable">
  ];
}

def Kernel_ScheduleAttrInterface : AttrInterface<"ScheduleAttrInterface"> {
  let cppNamespace = "::kiln::kernel";
  let description = [{
    How a target runs a kernel: every decision that its code generator does not make again. Each strategy
    of a target is an attribute of its own, with named parameters, whose verifier refuses numbers that
    can be run with no kernel. The target's planner refuses those that cannot be run with this one.
  }];
  let methods = [
    InterfaceMethod<"whether it is a schedule for ops of this kind", "bool", "appliesTo",
                    (ins "::mlir::Operation *":$root)>
  ];
}

#endif // KILN_KERNEL_INTERFACES_TD
