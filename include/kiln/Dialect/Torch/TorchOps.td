// The torch dialect: what PyTorch said.
#ifndef KILN_TORCH_OPS_TD
#define KILN_TORCH_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

include "kiln/Dialect/Sym/SymOps.td"

def Torch_Dialect : Dialect {
  let name = "torch";
  let cppNamespace = "::kiln::torch";
  let summary = "What PyTorch said: the exported program, one op for each call";
  let description = [{
    A module in this dialect is an exported program as it was saved: nothing is decomposed and
    nothing is functionalised (`aten.add_.Tensor` is a call like any other).

    **The program** is `func.func @main`. Its arguments are the user inputs in calling order, less
    those that export specialised to a constant or to None; a Python scalar is a 0-d tensor (`i64`,
    `f64`, `i1`). Its results are the user outputs, followed by the new values of whatever a
    functionalised program mutates. Argument and result attributes:

    | attribute | on | meaning |
    | --- | --- | --- |
    | `torch.name` | both | the name of the placeholder, or of the node that makes the output |
    | `torch.strides` | both | recorded strides, `#sym.shape`, in elements |
    | `torch.check_strides` | arguments | unit: only under `torch.strides` are the results right |
    | `torch.device` | both | `#sym.device`; absent for `"cpu"` |
    | `torch.value` | both | a symbolic integer's value, `#sym.expr` |
    | `torch.number` | arguments | unit: a float or bool that is a Python number |
    | `torch.mutates` | results | the input or the buffer whose new value this is |
    | `torch.mutates_kind` | results | `"input"`, `"buffer"` or `"parameter"` |
    | `torch.gradient_of` | results | the parameter or input that this is the gradient of |
    | `torch.loss` | results | unit |

    **Module attributes**: `torch.program` (the root folder of the archive), `torch.signature` (how
    Python calls the program, JSON as in the model's description), `sym.symbols` (for each symbol of the program its inclusive range, `{s0 = {min = 2, max = 64}}`, an absent bound is
    none), `torch.ranges` (a list of `{expr = #sym.expr<2*s0 + 1>, min = 5, max = 129}`: ranges of
    expressions, from which an input dimension that is not a plain symbol is checked) and
    `torch.guards` (a list of `{expr = #sym.expr<s0 - 2>, text = "x.size()[0] >= 2"}`: conditions on
    the inputs that export could not express otherwise, each an expression that is at least zero).

    **Symbolic integers are not values.** A node that only computes sizes is not imported; where its
    result was used stands a `#sym.expr`. Symbolic booleans and floats are values, 0-d tensors of
    `i1` and `f64`.

    **Nested graphs** (branches, loop bodies) are private functions; `torch.higher_order` refers to
    them. Symbols have one meaning in the whole module.

    **Locations** are the node's name around the Python line that made it:
    `loc("linear_1"("model.py":12:0))`.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::mlir::func::FuncDialect"];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Torch_Op<string mnemonic, list<Trait> traits = []> : Op<Torch_Dialect, mnemonic, traits>;

//===-- Attributes --------------------------------------------------------------------------===//

class Torch_Attr<string name, string attrMnemonic> : AttrDef<Torch_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Torch_OperatorAttr : Torch_Attr<"Operator", "operator"> {
  let summary = "an operator given as an argument: `#torch.operator<\"aten.add.Tensor\">`";
  let parameters = (ins StringRefParameter<"target">:$target);
  let assemblyFormat = "`<` $target `>`";
}

def Torch_ObjectAttr : Torch_Attr<"Object", "object"> {
  let summary = "a script object: `#torch.object<\"obj_0\", \"my.Class\">`";
  let parameters = (ins StringRefParameter<"name in the program">:$name,
                        StringRefParameter<"qualified class name">:$className);
  let assemblyFormat = "`<` $name `,` $className `>`";
}

//===-- Operations --------------------------------------------------------------------------===//

def Torch_Value : AnyTypeOf<[AnyRankedTensor, NoneType]>;

class Torch_CallLike<string mnemonic, list<Trait> traits, dag further = (ins)>
    : Torch_Op<mnemonic, traits> {
  let arguments = !con((ins StrAttr:$target, Variadic<Torch_Value>:$operands, ArrayAttr:$args,
                            StrAttr:$node, OptionalAttr<StrArrayAttr>:$defines,
                            OptionalAttr<ArrayAttr>:$values, OptionalAttr<StrArrayAttr>:$names),
                       further);
  let results = (outs Variadic<Torch_Value>:$results);
  let assemblyFormat = [{
    $target `(` $operands `)` `args` `=` $args attr-dict `:` functional-type($operands, $results)
  }];
  let hasVerifier = 1;
}

def Torch_CallOp : Torch_CallLike<"call", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>],
    (ins OptionalAttr<DenseI64ArrayAttr>:$updates)> {
  let summary = "a call of an operator";
  let description = [{
    ```mlir
    %r:2 = torch.call "aten.split.Tensor"(%x) args = [#sym.arg<0>, 2, 0] {node = "split"}
        : (tensor<4x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
    %n = torch.call "aten.item.default"(%x) args = [#sym.arg<0>]
        {node = "item", defines = ["u0"], values = [#sym.expr<u0>]} : (tensor<i64>) -> tensor<i64>
    ```
    `target` is PyTorch's name less `torch.ops.`, always with an overload. `args` are all arguments
    of the schema in its order, those that the program did not give with their defaults:

    | attribute | argument |
    | --- | --- |
    | `#sym.arg<i>` | operand i, a tensor |
    | `#sym.scalar<i>` | operand i, a number that is computed from data or from symbols |
    | `#sym.expr<…>` | a symbolic integer (constant ones are plain integers) |
    | integer `i64`, float `f64`, `true`/`false`, string, `#sym.complex` | that |
    | `#sym.dtype`, `#sym.device`, `#sym.layout`, `#sym.memory_format` | that |
    | `unit` | None |
    | array, dictionary | a list or dictionary of the above |

    A number may stand where the schema wants a tensor. `kiln/Dialect/Torch/CallArgs.h` reads them.

    Results are the call's tensors, a list of tensors flattened. A result that is None has type
    `none`; a symbolic number is a 0-d tensor of `i64`, `f64` or `i1`, and `values` (one entry for
    each result) says which expression an integer one is, and of a bool which new symbol is 1 where it
    is true. Symbols that come into being with this
    call are named in `defines`; their values are those of the dimensions and `values` in which they
    occur. An operator without a schema (a custom one) has its arguments as they were given, and
    their names in `names`. A call whose result depends on how its first argument lies in memory
    (`as_strided`, `resize`) says so in `torch.strides` and `torch.storage_offset`.

    A call with `updates` does not write: it leaves the operands of these numbers as they are, and
    what the operator would have written to each is a further result, after its own.

    Constraints:
    - (C1) every operand index in `args` is in range
    - (C2) every operand is used by `args`
    - (C3) with a schema, `args` has its arity and every entry fits the declared type
    - (C4) `values` has an entry for each result: `#sym.expr` for a 0-d tensor of i64 or i1, or unit
    - (C5) `names` has an entry for each of `args`
    - (C6) `updates` are distinct operands, and the last results have their types
  }];
  // A call that a pass writes: it has all arguments of the schema, and defines nothing.
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$results, "::llvm::StringRef":$target,
                                 "::mlir::ValueRange":$operands,
                                 "::llvm::ArrayRef<::mlir::Attribute>":$args,
                                 "::mlir::StringAttr":$node), [{
    build($_builder, $_state, results, $_builder.getStringAttr(target), operands,
          $_builder.getArrayAttr(args), node, /*defines=*/{}, /*values=*/{}, /*names=*/{},
          /*updates=*/{});
  }]>];
}

def Torch_HigherOrderOp : Torch_CallLike<"higher_order",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a call of a higher-order operator: cond, while_loop, scan, …";
  let description = [{
    ```mlir
    %r = torch.higher_order "cond"(%p, %x)
        args = [#sym.scalar<0>, @true_graph_0, @false_graph_0, [#sym.arg<1>, #sym.expr<s0>]]
        {node = "cond"} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
    ```
    As `torch.call`, with the arguments as they were given (there are no schemas) and nested graphs
    as references to private functions. A symbolic integer that is handed to a nested graph is a
    `#sym.expr` here and a 0-d `i64` argument with `torch.value` there.

    Constraints: (C1), (C2), (C4) and (C5) of `torch.call`, and
    - (C7) every symbol reference in `args` names a function
  }];
}

def Torch_ConstantOp : Torch_Op<"constant", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "a parameter, a buffer or a constant tensor";
  let description = [{
    ```mlir
    %w = torch.constant "fc.weight" = dense_resource<fc.weight> : tensor<10x4xf32>
        {kind = "parameter"}
    ```
    `value` is row-major; a bool takes one byte. It is usually a resource over the mapped archive.
    Parameters that are tied are one op: the others' names are in `aliases`. A buffer that is not
    saved with the model's state has `transient`; one that the program assigns has `mutated`, and
    `value` is what it holds before the first run. `overlaps` names the constants that have elements
    of it under another view: `torch-functionalize` refuses to write one of them if both are used.

    Constraints:
    - (C1) `kind` is `"parameter"`, `"buffer"` or `"constant"`
    - (C2) `mutated` and `transient` are not for constants
  }];
  let arguments = (ins StrAttr:$name, ElementsAttr:$value, StrAttr:$kind,
                       OptionalAttr<StrArrayAttr>:$aliases, UnitAttr:$transient,
                       UnitAttr:$mutated, OptionalAttr<StrArrayAttr>:$overlaps);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$name `=` $value attr-dict";
  let hasVerifier = 1;
}

def Torch_NumberOp : Torch_Op<"number", [Pure]> {
  let summary = "a Python number as a 0-d tensor";
  let description = [{
    `%n = torch.number #sym.expr<2*s0> -> tensor<i64>`; also of integer, float and bool attributes.
    Constraint (C1): the value fits the type: `i64`, `f64` or `i1`, an expression `i64`.
  }];
  let arguments = (ins AnyAttr:$value);
  let results = (outs 0DTensorOf<[I64, F64, I1]>:$result);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasVerifier = 1;
}

def Torch_NoneOp : Torch_Op<"none", [Pure]> {
  let summary = "None, as an output of the program";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

#endif // KILN_TORCH_OPS_TD
