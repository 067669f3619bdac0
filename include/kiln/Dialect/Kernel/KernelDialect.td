// The kernel dialect itself, and what its ops are made of.
#ifndef KILN_KERNEL_DIALECT_TD
#define KILN_KERNEL_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

include "kiln/Dialect/Kernel/KernelInterfaces.td"
include "kiln/Dialect/Sym/SymOps.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::kiln::kernel";
  let summary = "What is computed: few structured ops over tensors";
  let description = [{
    A tensor is a value; an op computes all elements of its results. What one element is made of is
    said in a region, and everything that a region reads it reads with `kernel.read` through an index
    map from the loop dims around it. There are no reshape, transpose, slice, pad or concatenate ops:
    a view is a `kernel.map` whose body is a single read, and fusing a producer into its consumer is
    putting its body in place of the read, with its dims replaced by the read's map.

    **Dims.** `kernel.map` numbers the dims of its result shape d0, d1, …; a `kernel.reduce` inside
    adds its own after those of everything around it; the other structured ops number theirs as they
    document. An index map inside a region takes all dims around it, then the op's
    `values` operands (i64 scalars computed from data, for gathers).

    **Scalars.** A region computes on signless scalars with arith, math and complex: `ui8` is read as
    i8, bool as i1. Where signedness matters the op says so (`arith.divui`).

    **Symbols that data gives.** A size that is only known when the model runs is a symbol as any other.
    `kernel.define` says where in the program it gets its value; what uses the symbol comes after, and
    no pass moves anything up past a define.

    **Nested graphs** (branches, loop bodies) are private functions of the same ops, which go through
    the same passes; `kernel.cond`, `kernel.while`, `kernel.for` and `kernel.invoke` name them. They see
    nothing from outside but their arguments, constants, and symbols, which have one meaning in the
    whole module.

    **Placement.** A value in a region belongs to the outermost loop at which the dims it depends on
    are known. A row's maximum inlined into the loop over the row's elements is computed once a row.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::complex::ComplexDialect"];
  let useDefaultAttributePrinterParser = 1;
}

class Kernel_Op<string mnemonic, list<Trait> traits = []> : Op<Kernel_Dialect, mnemonic, traits>;

//===-- Attributes ------------------------------------------------------------------------------===//

def Kernel_LaunchAttr : AttrDef<Kernel_Dialect, "Launch"> {
  let mnemonic = "launch";
  let summary = "what a launch of a kernel takes";
  let description = [{
    It follows from the kernel and its schedule, and is set together with that: the host program needs
    it without knowing the target's schedules.

    `#kernel.launch<grid = <s0 ceildiv 4>, scratch = 128>`

    - `grid`: the number of tasks, or of blocks of threads, over symbols.
    - `threads`: of a block, on a device; 0 where a task is one thread's.
    - `scratch`: bytes of private memory of a task.

    Constraints. (C1) `grid` is a valid expression. (C2) `threads` and `scratch` are not negative.
  }];
  let parameters = (ins "::kiln::sym::ExprAttr":$grid, DefaultValuedParameter<"int64_t", "0">:$threads,
                        DefaultValuedParameter<"int64_t", "0">:$scratch);
  let assemblyFormat = "`<` struct(params) `>`";
  let builders = [AttrBuilderWithInferredContext<
      (ins "::kiln::sym::ExprAttr":$grid, CArg<"int64_t", "0">:$threads,
           CArg<"int64_t", "0">:$scratch),
      [{ return $_get(grid.getContext(), grid, threads, scratch); }]>];
  let genVerifyDecl = 1;
}

def Kernel_ExternCodeAttr : AttrDef<Kernel_Dialect, "ExternCode"> {
  let mnemonic = "extern_code";
  let summary = "how a function is called that an external code generator has compiled";
  let description = [{
    `#kernel.extern_code<library = "c", callee = "my_lookup", args = [#sym.arg<0>, #sym.expr<p.0>],
                         workspace = <4*p.0>, writes = [1]>`

    - `library`, `callee`, `args`: as of `kernel.extern`, over the function's operands and symbols.
    - `workspace`: bytes of memory that a call needs, over the function's symbols; absent: none. The
      callee is given it as its last result.
    - `writes`: the alias contract. The function's last results are these operands, which the callee writes
      in place. All other results are memory of their own, and operands are only read.
  }];
  let parameters = (ins StringRefParameter<>:$library, StringRefParameter<>:$callee,
                        "::mlir::ArrayAttr":$args, OptionalParameter<"::kiln::sym::ExprAttr">:$workspace,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$writes);
  let assemblyFormat = "`<` struct(params) `>`";
  let extraClassDeclaration = [{
    llvm::ArrayRef<int64_t> getWrittenOperands() const {
      return getWrites() ? getWrites().asArrayRef() : llvm::ArrayRef<int64_t>();
    }
  }];
}

#endif // KILN_KERNEL_DIALECT_TD
