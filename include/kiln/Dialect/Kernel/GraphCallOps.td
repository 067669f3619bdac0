// Ops of the kernel dialect that call nested graphs: branches, loop bodies.
#ifndef KILN_GRAPH_CALL_OPS_TD
#define KILN_GRAPH_CALL_OPS_TD

include "kiln/Dialect/Kernel/KernelDialect.td"

class Kernel_GraphCall<string mnemonic, list<Trait> traits = []> : Kernel_Op<mnemonic,
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>,
     Kernel_GraphCallOpInterface] # traits> {
  let extraClassDeclaration = [{
    llvm::SmallVector<mlir::FlatSymbolRefAttr> getGraphs();
  }];
}

def Kernel_InvokeOp : Kernel_GraphCall<"invoke"> {
  let summary = "the results of a nested graph";
  let description = [{
    `%y = kernel.invoke @graph(%x) : (tensor<8xf32>) -> tensor<8xf32>`.
    Constraint (C1): `graph` is a function with these operand and result types.
  }];
  let arguments = (ins FlatSymbolRefAttr:$graph, Variadic<AnyRankedTensor>:$invariants);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$graph `(` $invariants `)` attr-dict `:` functional-type($invariants, $results)";
}

def Kernel_CondOp : Kernel_GraphCall<"cond", [AttrSizedOperandSegments]> {
  let summary = "the results of one of two nested graphs";
  let description = [{
    ```mlir
    %y = kernel.cond %p : tensor<i1> then @true_graph else @false_graph (%x)
        : (tensor<8xf32>) -> tensor<8xf32>
    %z = kernel.cond when s0 - 5 then @true_graph else @false_graph (%x)
        : (tensor<8xf32>) -> tensor<8xf32>
    ```
    Of the first graph if the one element of the predicate is true, or if the expression is at least
    zero. Both take the same operands.

    Constraints:
    - (C1) both graphs are functions with these operand and result types
    - (C2) there is either a predicate, a bool with one element, or an expression
  }];
  let arguments = (ins OptionalAttr<Sym_ExprAttr>:$when, Optional<AnyRankedTensor>:$predicate,
                       FlatSymbolRefAttr:$then_graph, FlatSymbolRefAttr:$else_graph,
                       Variadic<AnyRankedTensor>:$invariants);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    ($predicate^ `:` type($predicate))? (`when` custom<Size>($when)^)? `then` $then_graph `else`
    $else_graph `(` $invariants `)` attr-dict `:` functional-type($invariants, $results)
  }];
  let hasVerifier = 1;
}

def Kernel_WhileOp : Kernel_GraphCall<"while", [AttrSizedOperandSegments]> {
  let summary = "the results of a nested graph applied as long as another one says so";
  let description = [{
    ```mlir
    %r:2 = kernel.while @condition do @body (%n, %x) with(%w)
        : (tensor<i64>, tensor<8xf32>, tensor<8x8xf32>) -> (tensor<i64>, tensor<8xf32>)
    ```
    `condition` and `body` take the carried values, first those given, and what follows `with`; `body`
    gives the next ones. The results are the carried values for which the condition does not hold.

    Constraints:
    - (C1) `body` is a function from both groups to the types of the carried values
    - (C2) `condition` is a function from both groups to a bool with one element
  }];
  let arguments = (ins FlatSymbolRefAttr:$condition, FlatSymbolRefAttr:$body,
                       Variadic<AnyRankedTensor>:$carried, Variadic<AnyRankedTensor>:$invariants);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $condition `do` $body `(` $carried `)` `with` `(` $invariants `)` attr-dict
    `:` functional-type(operands, results)
  }];
}

def Kernel_ForOp : Kernel_GraphCall<"for", [AttrSizedOperandSegments]> {
  let summary = "the results of a nested graph applied to each slice of some tensors";
  let description = [{
    ```mlir
    %c1, %ys = kernel.for @body length s0 (%c) over(%xs) with(%w) : (tensor<8xf32>,
        tensor<?x4xf32, #sym.shape<[s0, 4]>>, tensor<8x4xf32>)
        -> (tensor<8xf32>, tensor<?x2xf32, #sym.shape<[s0, 2]>>)
    ```
    `body` takes the carried values, first those given, slice i (of the outermost dim) of what follows
    `over`, and what follows `with`; it gives the next carried values and slices. The results are the
    last carried values and the slices put together. Without carried values this is a map over slices.

    Constraints:
    - (C1) `body` is a function from the three groups to carried values and slices of the results
    - (C2) the outermost size of what is sliced and of what is put together is `length`
  }];
  let arguments = (ins FlatSymbolRefAttr:$body, Sym_ExprAttr:$length,
                       Variadic<AnyRankedTensor>:$carried, Variadic<AnyRankedTensor>:$sliced,
                       Variadic<AnyRankedTensor>:$invariants);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $body `length` custom<Size>($length) `(` $carried `)` `over` `(` $sliced `)` `with`
    `(` $invariants `)` attr-dict `:` functional-type(operands, results)
  }];
}

#endif // KILN_GRAPH_CALL_OPS_TD
