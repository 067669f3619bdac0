// Ops of the kernel dialect that several processes compute together.
#ifndef KILN_COLLECTIVE_OPS_TD
#define KILN_COLLECTIVE_OPS_TD

include "kiln/Dialect/Kernel/KernelDialect.td"

def Kernel_CollectiveOp : Kernel_Op<"collective", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "what all processes of a group compute together";
  let description = [{
    ```mlir
    %a = kernel.collective "all_reduce" (%x) reduction "sum" group "0" of 2 : tensor<4x8xf32> -> tensor<4x8xf32>
    %b = kernel.collective "all_gather" (%x) group "0" of 2 : tensor<4x8xf32> -> tensor<8x8xf32>
    %c = kernel.collective "all_to_all" (%x) send <[3, 1]> receive <[3, 2]> group "0" of 2
        : tensor<4x8xf32> -> tensor<5x8xf32>
    ```
    `ranks` processes, which PyTorch calls ranks, run programs with the same collectives in the same order; `group` is the name that
    export gave to them.

    | kind | the result of rank r |
    | --- | --- |
    | `all_reduce` | the inputs of all ranks, combined element by element by `reduction` |
    | `reduce_scatter` | part r of what `all_reduce` gives, cut into equal parts along dim 0 |
    | `all_gather` | the inputs of all ranks along dim 0 |
    | `all_to_all` | along dim 0, the part for r of each rank's input. Parts of the input have the lengths `send`, those of the result `receive` |
    | `broadcast` | the input of rank `root` |

    Reductions are `sum`, `avg`, `min`, `max` and `product`. A NaN among the inputs of `min` and `max` is their result. Sums and
    maxima of `i1` say whether any input is true, products and minima whether all are.

    The op has an effect even if its result is not used: other processes wait for it. So no pass moves one past another.

    Constraints:
    - (C1) `kind` is one of the table's
    - (C2) `reduction` is there for `all_reduce` and `reduce_scatter` alone, and is one of the list's
    - (C3) what is combined is of floats of at least 16 bits, integers or `i1`; an average is of floats
    - (C4) `root` is there for `broadcast` alone, and a rank
    - (C5) `send` and `receive` are there for `all_to_all` alone, with a length for each rank
    - (C6) input and result have the same element type, and the sizes that the table says
  }];
  let arguments = (ins StrAttr:$kind, AnyRankedTensor:$input, OptionalAttr<StrAttr>:$reduction,
                       OptionalAttr<I64Attr>:$root, OptionalAttr<Sym_ShapeAttr>:$send,
                       OptionalAttr<Sym_ShapeAttr>:$receive, StrAttr:$group,
                       ConfinedAttr<I64Attr, [IntPositive]>:$ranks);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $kind `(` $input `)` (`reduction` $reduction^)? (`root` $root^)? (`send` $send^)? (`receive` $receive^)?
    `group` $group `of` $ranks attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The sizes of the result, by those of the input.
    static llvm::SmallVector<::kiln::sym::Expr>
    getResultShape(llvm::StringRef kind, llvm::ArrayRef<::kiln::sym::Expr> input, int64_t ranks,
                   ::kiln::sym::ShapeAttr receive);
    /// Why elements of `type` cannot be combined so, or empty.
    static llvm::StringRef checkReduction(llvm::StringRef reduction, ::mlir::Type type);
    /// All sizes are numbers.
    bool isStatic();
  }];
}

#endif // KILN_COLLECTIVE_OPS_TD
