// Operators and subgraphs that libraries compute.
#ifndef KILN_EXTERN_OPS_TD
#define KILN_EXTERN_OPS_TD

include "kiln/Dialect/Kernel/KernelDialect.td"

def Kernel_ExternOp : Kernel_Op<"extern", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the results of an operator that a library computes";
  let description = [{
    ```mlir
    %v, %i = kernel.extern "torch" "aten.topk.default"(%x)
        args = [#sym.arg<0>, #sym.expr<s0 - 1>, -1, true, true] projection = [0, 1]
        : (tensor<8xf32>) -> (tensor<3xf32>, tensor<3xi64>)
    ```
    What is computed is not known here, so nothing is fused with it: operands and results are tensors
    in memory. `library` runs the operator `callee`; of the library "c" it is a C function that the model
    is linked with (`kiln-c/custom_op.h`), and of "kiln" one of the runtime's own (`runtime/linalg`, `runtime/print.c`). `args` are as in `torch.call`: over the operands,
    with symbolic integers as expressions; `names` are theirs if the operator's schema is not known.
    Result i is return value number `projection[i]` of the callee, lists flattened. What it would
    write to the operands in `updates` it writes to copies of them, which are the last results.

    With `impure` the call does more than its results say (it draws random numbers, it may fail): two
    equal ones are not the same, and one whose results are not used stays.

    ```mlir
    %n, %kept = kernel.extern "torch" "lib.where.default"(%x) args = [#sym.arg<0>] projection = []
        sizes = [0, 1] impure : (tensor<8xf32>) -> (tensor<i64>, tensor<i64>)
    kernel.define "u0" from %n : tensor<i64>
    %v = kernel.extern "torch" "kiln.results"(%kept) args = [#sym.arg<0>] projection = [0] impure
        : (tensor<i64>) -> tensor<2x?xf32, #sym.shape<[2, u0]>>
    ```
    A call that says by its results how large they are has `sizes`: the library keeps what comes back.
    Behind what `projection` says, results are the sizes, each of return value `sizes[2*i]` in dim
    `sizes[2*i + 1]` (-1: the value itself, a number), and one that stands for all that is kept. The
    callee `kiln.results` returns it, once.

    Constraints:
    - (C1) every operand index in `args` is in range, and every operand is used by `args`
    - (C2) `projection`, `sizes` and `updates` say of each result what it is
    - (C3) no entry of `projection` is negative; none stands there twice
    - (C4) `updates` are distinct operands, and the last results have their types
    - (C5) `names` has an entry for each of `args`
    - (C6) `sizes` are pairs of no negative number and a dim or -1; their results are 0-d tensors of i64,
      as is what stands for all
  }];
  let arguments = (ins StrAttr:$library, StrAttr:$callee, Variadic<AnyRankedTensor>:$operands,
                       ArrayAttr:$args, OptionalAttr<StrArrayAttr>:$names,
                       DenseI64ArrayAttr:$projection,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$sizes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$updates,
                       UnitAttr:$impure);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $library $callee `(` $operands `)` `args` `=` $args (`names` `=` $names^)?
    `projection` `=` $projection (`sizes` `=` $sizes^)? (`updates` `=` $updates^)?
    (`impure` $impure^)? attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
}

def Kernel_InvokeExternOp : Kernel_Op<"invoke_extern",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the results of a function of an external code generator";
  let description = [{
    ```mlir
    %y = kernel.invoke_extern @extern_c_scale_1f2e3d4c(%x) symbols [2*s0]
        : (tensor<?xf32, #sym.shape<[2*s0]>>) -> tensor<?xf32, #sym.shape<[2*s0]>>
    ```
    Stands among ops of the torch or the kernel dialect, between `outline-extern` and `lower-extern`. The
    function's own symbols are `p.0`, `p.1`, …; `symbols` says what each is in this call.

    Constraints:
    - (C1) `function` is a function with these operand and result types, once `symbols` are put in for its own
  }];
  let arguments = (ins FlatSymbolRefAttr:$function, Sym_ShapeAttr:$symbols,
                       Variadic<AnyRankedTensor>:$operands);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $function `(` $operands `)` `symbols` custom<ExprList>($symbols) attr-dict
    `:` functional-type($operands, $results)
  }];
  let extraClassDeclaration = [{
    /// Symbol number i of a function that is called so.
    static ::kiln::sym::Expr getParameter(unsigned i);
    /// `expr` of the function, in this call.
    ::kiln::sym::Expr substitute(::kiln::sym::Expr expr);
  }];
}

#endif // KILN_EXTERN_OPS_TD
