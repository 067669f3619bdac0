// The wrapper dialect: what the host does.
#ifndef KILN_WRAPPER_OPS_TD
#define KILN_WRAPPER_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

include "kiln/Dialect/Sym/SymOps.td"
include "kiln/Dialect/Wrapper/WrapperInterfaces.td"

def Wrapper_Dialect : Dialect {
  let name = "wrapper";
  let cppNamespace = "::kiln::wrapper";
  let summary = "What the host does: buffers, launches, copies";
  let description = [{
    A program is a straight line of steps over *buffers*: pieces of memory with a symbolic size. Where
    the kernel dialect has values, this one has places, and the order of the steps matters. Nothing in
    it is text of some other language: a back end reads sizes, strides and offsets as expressions.

    **Storage.** Every buffer belongs to one root: an input, an output, a constant or an `alloc`.
    `view` and `reuse` give further names to the same memory. A root made by `alloc` or `reuse` lives
    until it is passed to `free` or `reuse`; `wrapper-plan-memory` gives each `alloc` an offset in the
    arena, writes the arena's size on the program, and so makes the plan visible in the text.

    **The arena** has segments. Segment 0 is there when the program starts; its size depends on the
    inputs' sizes alone. What has a size that only data gives lies in a further segment, which `reserve`
    makes long enough once the symbols are known.

    **Symbols** have their values from the inputs' shapes, or from a `define`: in a run it comes
    before everything that uses the symbol.

    **Nested graphs** (branches, loop bodies) are `wrapper.func`s. Each is planned on its own, with an
    arena of its own, which its caller allocates like any other buffer and hands over as `workspace`:
    what a branch needs is taken only while a branch runs. A function writes its results where the
    caller wants them; only a result whose size the function itself finds out is memory of its own,
    which it gives to the caller (`give`).
  }];
  let dependentDialects = ["::kiln::sym::SymDialect"];
  let useDefaultTypePrinterParser = 1;
}

class Wrapper_Op<string mnemonic, list<Trait> traits = []> : Op<Wrapper_Dialect, mnemonic, traits>;

//===-- Types -----------------------------------------------------------------------------------===//

def Wrapper_BufferType : TypeDef<Wrapper_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a strided piece of memory: `!wrapper.buffer<[s0, 8], [8, 1], f32>`";
  let description = [{
    Sizes, strides (in elements) and the element type. Element (i0, i1, …) is i0*stride0 + i1*stride1 + …
    elements past the start. A bool (`i1`) takes one byte.

    Constraints:
    - (C1) as many strides as sizes
    - (C2) no size or stride is negative or depends on a loop dim
    - (C3) the element type has a size in whole bytes, or is i1
  }];
  let parameters = (ins ArrayRefParameter<"::kiln::sym::Expr">:$sizes,
                        ArrayRefParameter<"::kiln::sym::Expr">:$strides,
                        "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The row-major buffer for a tensor.
    static BufferType get(::mlir::RankedTensorType tensor);
    static BufferType getContiguous(llvm::ArrayRef<::kiln::sym::Expr> sizes,
                                    ::mlir::Type elementType);
    /// Row-major without gaps. A stride of a dimension of size 1 does not matter.
    bool isContiguous();
    ::kiln::sym::Expr getNumElements();
    /// Bytes from the first element to the end of the last one; for a contiguous buffer that is all
    /// of its elements.
    ::kiln::sym::Expr getBytes();
  }];
}

//===-- The program -----------------------------------------------------------------------------===//

def Wrapper_ProgramOp : Wrapper_Op<"program", [IsolatedFromAbove, FunctionOpInterface,
    Wrapper_HostFunctionOpInterface, OpAsmOpInterface, SingleBlock,
    NoTerminator]> {
  let summary = "the whole model as the host runs it";
  let description = [{
    ```mlir
    wrapper.program @main(%x: !wrapper.buffer<[1, 784], [784, 1], f32> {wrapper.name = "x"})
        -> (!wrapper.buffer<[1, 10], [10, 1], f32> {wrapper.name = "y"})
        attributes {arena_bytes = #sym.expr<2048>} {
      …
    }
    ```
    Arguments are the model's inputs, results its outputs, which `wrapper.output` gives as buffers of
    the body. `symbols` maps every symbol to its range, `{min = …, max = …}` with either bound left
    out where there is none. The argument attribute `wrapper.mutated` marks an input that the program
    writes, `wrapper.value` says which expression an integer is, `wrapper.number` that a float or bool is a Python
    number, `wrapper.strides` which strides the
    caller's memory must have (the buffer is contiguous all the same: a run copies what is not). Before
    `wrapper-solve-symbols`, `wrapper.check_strides` says that the strides matter. An output that is always None has type `none`.
    `arena_bytes` and `weights_bytes` are set once memory and constants have been placed.

    Constraints:
    - (C1) inputs are contiguous buffers; outputs are buffers or `none`
    - (C2) every input and output has a `wrapper.name`
    - (C3) sizes use only symbols of `symbols`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<DictionaryAttr>:$symbols,
                       OptionalAttr<Sym_ExprAttr>:$arena_bytes,
                       OptionalAttr<I64Attr>:$weights_bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    llvm::ArrayRef<mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    llvm::ArrayRef<mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    mlir::Region *getCallableRegion() { return &getBody(); }
    llvm::StringRef getInputName(unsigned index);
    llvm::StringRef getOutputName(unsigned index);
    bool isMutated(unsigned input);
    bool isNone(unsigned output);
    bool isGiven(unsigned) { return false; }
  }];
  let builders = [OpBuilder<(ins "llvm::StringRef":$name, "mlir::FunctionType":$type,
    "llvm::ArrayRef<mlir::DictionaryAttr>":$argAttrs,
    "llvm::ArrayRef<mlir::DictionaryAttr>":$resAttrs, "mlir::DictionaryAttr":$symbols)>];
  let skipDefaultBuilders = 1;
  let hasVerifier = 1;
}

def Wrapper_FuncOp : Wrapper_Op<"func", [IsolatedFromAbove, FunctionOpInterface,
    Wrapper_HostFunctionOpInterface, OpAsmOpInterface, SingleBlock,
    NoTerminator]> {
  let summary = "a nested graph as the host runs it";
  let description = [{
    ```mlir
    wrapper.func private @true_graph_0(%x: !wrapper.buffer<[8], [1], f32>)
        -> !wrapper.buffer<[8], [1], f32> attributes {arena_bytes = #sym.expr<64>} {
      …
    }
    ```
    Arguments are buffers that the function reads; results are memory of the caller's, which
    `wrapper.output` gives as buffers of the body and every element of which is written. Arguments and
    results do not overlap. Symbols mean what they mean in the program.

    A result with the attribute `wrapper.given` has a size that the function defines. There is no
    memory for it when the function begins: `wrapper.give` says where it is, in memory of the function's
    that is good until it runs again.

    Constraints:
    - (C1) arguments and results are contiguous buffers
    - (C2) sizes use only symbols of the program in the same module
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<Sym_ExprAttr>:$arena_bytes);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    llvm::ArrayRef<mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    llvm::ArrayRef<mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    mlir::Region *getCallableRegion() { return &getBody(); }
    bool isMutated(unsigned) { return false; }
    bool isNone(unsigned) { return false; }
    bool isGiven(unsigned result);
    void setGiven(unsigned result);
  }];
  let builders = [OpBuilder<(ins "llvm::StringRef":$name, "mlir::FunctionType":$type)>];
  let skipDefaultBuilders = 1;
  let hasVerifier = 1;
}

//===-- Where buffers come from -----------------------------------------------------------------===//

def Wrapper_ConstantOp : Wrapper_Op<"constant", [Pure]> {
  let summary = "a value in the weights";
  let description = [{
    `name` is the qualified name of the parameter or buffer, if it is one. `offset` is where the value
    lies in the weights, in bytes, once `wrapper-place-constants` has run; there is none for one that
    only stands for what a `wrapper.fold` reads or makes in passing. One that is `mutated` holds `value`
    before the first run and then what the program last wrote.

    Constraints:
    - (C1) the buffer is contiguous, of the value's shape and element type
    - (C2) `offset` is not negative and a multiple of 64
  }];
  let arguments = (ins ElementsAttr:$value, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<I64Attr>:$offset, UnitAttr:$mutated);
  let results = (outs Wrapper_BufferType:$result);
  let assemblyFormat =
      "($name^)? (`at` $offset^)? (`mutated` $mutated^)? attr-dict $value `to` type($result)";
  let hasVerifier = 1;
}

def Wrapper_FoldOp : Wrapper_Op<"fold", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what constants are computed from";
  let description = [{
    `wrapper.fold @fold_0 ins(%weight : …) outs(%packed : …)` is no step of a run: the compiler ran this
    kernel already. Where the value of a parameter or buffer is replaced in the compiled model, the
    folds that depend on it are computed anew, in order.

    Constraints:
    - (C1) as (C1) and (C2) of `wrapper.launch`
    - (C2) all operands are constants; those of `outs` have no name, are not mutated and made by no
      other fold
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Wrapper_BufferType>:$ins,
                       Variadic<Wrapper_BufferType>:$outs);
  let assemblyFormat = [{
    $kernel `ins` `(` $ins `:` type($ins) `)` `outs` `(` $outs `:` type($outs) `)` attr-dict
  }];
  let hasVerifier = 1;
}

def Wrapper_OutputOp : Wrapper_Op<"output", [Pure, ParentOneOf<["ProgramOp", "FuncOp"]>]> {
  let summary = "the memory of an output of the model, or of a result of a nested graph";
  let description = [{
    The caller owns it; the function writes every element.

    Constraints:
    - (C1) `index` is an output of the function that is not None and not given, and the buffer has its
      type
  }];
  let arguments = (ins I64Attr:$index);
  let results = (outs Wrapper_BufferType:$result);
  let assemblyFormat = "$index attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Wrapper_AllocOp : Wrapper_Op<"alloc"> {
  let summary = "memory for an intermediate result";
  let description = [{
    Uninitialised. `offset` is its place in a segment of the arena, in bytes, once memory has been
    planned. Constraint (C1): the buffer is contiguous.
  }];
  let arguments = (ins OptionalAttr<Sym_ExprAttr>:$offset,
                       DefaultValuedAttr<I64Attr, "0">:$segment);
  let results = (outs Wrapper_BufferType:$result);
  let assemblyFormat = [{
    (`at` custom<Size>($offset)^)? (`in` $segment^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "BufferType":$type),
                            [{ build($_builder, $_state, type, ::kiln::sym::ExprAttr()); }]>];
}

def Wrapper_ReserveOp : Wrapper_Op<"reserve"> {
  let summary = "memory for what has a size that data gives";
  let description = [{
    `wrapper.reserve 1, 64*u0`: from here on segment 1 of the arena is at least so many bytes long.
    Constraint (C1): `segment` is positive.
  }];
  let arguments = (ins I64Attr:$segment, Sym_ExprAttr:$bytes);
  let assemblyFormat = "$segment `,` custom<Size>($bytes) attr-dict";
  let hasVerifier = 1;
}

def Wrapper_FreeOp : Wrapper_Op<"free"> {
  let summary = "ends the life of an allocated buffer";
  let description = [{
    Constraints:
    - (C1) the operand is the result of an `alloc` or a `reuse`
  }];
  let arguments = (ins Wrapper_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Wrapper_ReuseOp : Wrapper_Op<"reuse"> {
  let summary = "a new buffer in the memory of one that ends here";
  let description = [{
    `%b = wrapper.reuse %a : A -> B`: from here on %a must not be used, and what %b holds is undefined.
    (A kernel that works in place is given a `view` of an operand as its result instead.)

    Constraints:
    - (C1) the operand is the result of an `alloc` or a `reuse`
    - (C2) the result is contiguous and has as many bytes as the operand
  }];
  let arguments = (ins Wrapper_BufferType:$buffer);
  let results = (outs Wrapper_BufferType:$result);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

def Wrapper_ViewOp : Wrapper_Op<"view", [Pure]> {
  let summary = "other sizes, strides and offset over the same memory";
  let description = [{
    `%b = wrapper.view %a offset s0 : A -> B`: the first element of %b is `offset` elements of B past
    the first of %a. Constraint (C1): what can be proved to lie outside %a is refused.
  }];
  let arguments = (ins Wrapper_BufferType:$buffer, Sym_ExprAttr:$offset);
  let results = (outs Wrapper_BufferType:$result);
  let assemblyFormat =
      "$buffer `offset` custom<Size>($offset) attr-dict `:` type($buffer) `->` type($result)";
  let hasVerifier = 1;
}

//===-- Steps -----------------------------------------------------------------------------------===//

def Wrapper_LaunchOp : Wrapper_Op<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    The kernel reads `ins` and writes every element of `outs`.

    Other kernels may compute the same for some sizes: `wrapper.launch @k ins(…) outs(…)
    {alternatives = [@k1, @k2], when = [#sym.expr<s0 - 40>, #sym.expr<s0 - 160>]}`. The last one runs
    whose expression is at least zero, and `kernel` if there is none.

    A kernel may be shared by launches with other sizes: `{symbols = {u0 = #sym.expr<u5>}}` says that the
    kernel's u0 is the program's u5. Symbols that it does not name are the program's own.

    Constraints:
    - (C1) `kernel` and the alternatives are a `kernel.func`; `ins` and `outs` have its operands' and
      results' shapes, with `symbols` in place of its own, and element types
    - (C2) buffers are contiguous
    - (C3) no buffer is given twice as a result
    - (C4) each alternative has an expression
    - (C5) `symbols` are expressions, and come without alternatives
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Wrapper_BufferType>:$ins,
                       Variadic<Wrapper_BufferType>:$outs,
                       OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "kernels">>:$alternatives,
                       OptionalAttr<TypedArrayAttrBase<Sym_ExprAttr, "expressions">>:$when,
                       OptionalAttr<DictionaryAttr>:$symbols);
  let assemblyFormat = [{
    $kernel `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` $outs `:` type($outs) `)` attr-dict
  }];
  let builders = [OpBuilder<(ins "mlir::FlatSymbolRefAttr":$kernel, "mlir::ValueRange":$ins,
                                 "mlir::ValueRange":$outs)>,
                  OpBuilder<(ins "llvm::StringRef":$kernel, "mlir::ValueRange":$ins,
                                 "mlir::ValueRange":$outs)>];
  let extraClassDeclaration = [{
    /// The kernel and its alternatives.
    llvm::SmallVector<mlir::FlatSymbolRefAttr> getKernels();
    /// One for each alternative.
    llvm::SmallVector<::kiln::sym::Expr> getConditions();
    /// Rewrites an expression over the kernel's symbols as one over the program's.
    ::kiln::sym::Expr fromKernel(::kiln::sym::Expr expr);
  }];
  let hasVerifier = 1;
}

def Wrapper_ExternCallOp : Wrapper_Op<"extern_call", [AttrSizedOperandSegments]> {
  let summary = "runs an operator of a library";
  let description = [{
    ```mlir
    wrapper.extern_call "torch" "aten.topk.default" args = [#sym.arg<0>, #sym.expr<s0 - 1>, -1, true, true]
        ins(%x : …) outs(%v, %i : …) projection = [0, 1]
    ```
    `library` runs the operator `callee`. `args` are as in `torch.call`: operand numbers are those of
    `ins`, a symbolic integer is evaluated when the call is made. `names` are the arguments' names if
    the operator's schema is not known. The callee allocates what it returns; `outs[i]` receives return
    value number `projection[i]`, lists flattened. The buffers in `ins` are only read: for each operand
    number in `updates` one of the last `outs` is made a copy of that buffer (nothing to do if it is
    the same memory), and the callee writes there. With `sizes` the library keeps what comes back until
    a call of `kiln.results` fetches it, and behind the projected ones `outs` receive the sizes of return
    value `sizes[2*i]` in dim `sizes[2*i + 1]` (-1: the value itself, a number) and what the other call
    has to name.

    Constraints:
    - (C1) every operand index in `args` is in range, and all of `ins` are used
    - (C2) `projection`, `sizes` and `updates` say of each of `outs` what it is
    - (C3) no entry of `projection` is negative; none stands there twice
    - (C4) `updates` are distinct operands, and the last `outs` have their sizes and element types
    - (C5) `names` has an entry for each of `args`
    - (C6) no buffer is given twice as a result
    - (C7) `sizes` are pairs of no negative number and a dim or -1; they go to single i64, as does what
      stands for all
  }];
  let arguments = (ins StrAttr:$library, StrAttr:$callee, ArrayAttr:$args,
                       OptionalAttr<StrArrayAttr>:$names, Variadic<Wrapper_BufferType>:$ins,
                       Variadic<Wrapper_BufferType>:$outs, DenseI64ArrayAttr:$projection,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$sizes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$updates);
  let assemblyFormat = [{
    $library $callee `args` `=` $args (`names` `=` $names^)?
    `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` ($outs^ `:` type($outs))? `)`
    `projection` `=` $projection (`sizes` `=` $sizes^)? (`updates` `=` $updates^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Wrapper_CopyOp : Wrapper_Op<"copy"> {
  let summary = "copies every element from one buffer to another";
  let description = [{
    The two may differ in strides and must not overlap.

    Constraints:
    - (C1) both have the same sizes and element type
  }];
  let arguments = (ins Wrapper_BufferType:$source, Wrapper_BufferType:$target);
  let assemblyFormat = "$source `to` $target attr-dict `:` type($source) `to` type($target)";
  let hasVerifier = 1;
}

def Wrapper_BindOp : Wrapper_Op<"bind", [HasParent<"ProgramOp">]> {
  let summary = "reads a symbol from an input";
  let description = [{
    `wrapper.bind "s0" from %x size 1 as 2*s0 + 1` is no step: in every run, before all steps, s0 gets
    the value that makes size 1 of the input 2*s0 + 1; if there is none, the input is refused. `stride 0`
    stands for a stride as the caller gives it, in elements, and neither of the two for the value of an
    input that is an integer.

    Constraints:
    - (C1) the operand is an input, and `size` or `stride` is one of its dims; without them it is one i64
    - (C2) the expression is linear in the symbol
    - (C3) its other symbols are bound before
    - (C4) no symbol is bound twice
  }];
  let arguments = (ins StrAttr:$symbol, Wrapper_BufferType:$input, OptionalAttr<I64Attr>:$size,
                       OptionalAttr<I64Attr>:$stride, Sym_ExprAttr:$expr);
  let assemblyFormat = [{
    $symbol `from` $input (`size` $size^)? (`stride` $stride^)? `as` custom<Size>($expr) attr-dict
    `:` type($input)
  }];
  let hasVerifier = 1;
}

def Wrapper_DefineOp : Wrapper_Op<"define"> {
  let summary = "gives a symbol its value";
  let description = [{
    `wrapper.define "u0" from %count : !wrapper.buffer<[], [], i64>` when the host is here it reads the
    number that the launches before have left; `wrapper.define "u1" = max(s0 - u0, 0)` computes it.

    Constraints:
    - (C1) either a buffer with one i64 or an expression
    - (C2) the program has the symbol
  }];
  let arguments = (ins StrAttr:$symbol, Optional<Wrapper_BufferType>:$value,
                       OptionalAttr<Sym_ExprAttr>:$expr);
  let assemblyFormat = [{
    $symbol (`from` $value^ `:` type($value))? (`=` custom<Size>($expr)^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Wrapper_CheckOp : Wrapper_Op<"check"> {
  let summary = "fails the run unless data says that all is well";
  let description = [{
    `wrapper.check %ok, "sum is not positive" : !wrapper.buffer<[], [], i1>`, as `assert`.
    Constraint (C1): a buffer with one i1.
  }];
  let arguments = (ins Wrapper_BufferType:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

def Wrapper_AssertOp : Wrapper_Op<"assert"> {
  let summary = "fails the run unless an expression is at least zero";
  let description = [{
    `wrapper.assert s0 - 2, "s0 must be at least 2"`. The run ends with `KILN_ASSERTION_FAILED` and the
    message, which the values of the symbols follow. Constraint (C1): the expression is not a constant
    below zero.
  }];
  let arguments = (ins Sym_ExprAttr:$expr, StrAttr:$message);
  let assemblyFormat = "custom<Size>($expr) `,` $message attr-dict";
  let hasVerifier = 1;
}

//===-- Nested graphs ---------------------------------------------------------------------------===//

class Wrapper_GraphCall<string mnemonic, list<Trait> traits = []> : Wrapper_Op<mnemonic,
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
     Wrapper_GraphCallOpInterface] # traits> {
  let extraClassDeclaration = [{
    llvm::SmallVector<mlir::FlatSymbolRefAttr> getGraphs();
    mlir::ValueRange getResultBuffers() { return getOuts(); }
  }];
}

def Wrapper_GiveOp : Wrapper_Op<"give", [HasParent<"FuncOp">]> {
  let summary = "says where a result is that the function has memory for";
  let description = [{
    `wrapper.give %y as 0 : A`. Constraint (C1): `index` is a result that is `wrapper.given`, of the
    buffer's type, and the buffer is memory that the function has allocated.
  }];
  let arguments = (ins Wrapper_BufferType:$buffer, I64Attr:$index);
  let assemblyFormat = "$buffer `as` $index attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Wrapper_CallOp : Wrapper_GraphCall<"call"> {
  let summary = "runs a nested graph";
  let description = [{
    `%z = wrapper.call @f ins(%x : A) outs(%y : B) workspace(%w : W) gives(C)`. `workspace` is there if
    the function has an arena, once memory has been planned. The op's results are what the function
    gives, in memory of the function's: the caller copies them before it runs that function again.

    Constraints:
    - (C1) the symbol is a `wrapper.func`, `ins` have its arguments' types, and `outs` and the op's
      results together its results' types
    - (C2) no result has a buffer that is given elsewhere
    - (C3) the workspace is of bytes
  }];
  let arguments = (ins FlatSymbolRefAttr:$graph, Variadic<Wrapper_BufferType>:$ins,
                       Variadic<Wrapper_BufferType>:$outs, Optional<Wrapper_BufferType>:$workspace);
  let results = (outs Variadic<Wrapper_BufferType>:$given);
  let assemblyFormat = [{
    $graph `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` ($outs^ `:` type($outs))? `)`
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? (`gives` `(` type($given)^ `)`)? attr-dict
  }];
}

def Wrapper_IfOp : Wrapper_GraphCall<"if"> {
  let summary = "runs one of two nested graphs";
  let description = [{
    ```mlir
    wrapper.if %p : <[], [], i1> then @true_graph else @false_graph
        ins(%x : <[8], [1], f32>) outs(%y : <[8], [1], f32>)
    wrapper.if when s0 - 5 then @true_graph else @false_graph ins() outs(%y : <[8], [1], f32>)
    ```
    The first graph runs if the one element of the predicate is true, or the expression at least zero.

    Constraints: those of `wrapper.call`, of both graphs, and
    - (C4) there is either a predicate, a bool with one element, or an expression
  }];
  let arguments = (ins OptionalAttr<Sym_ExprAttr>:$when, Optional<Wrapper_BufferType>:$predicate,
                       FlatSymbolRefAttr:$then_graph, FlatSymbolRefAttr:$else_graph,
                       Variadic<Wrapper_BufferType>:$ins, Variadic<Wrapper_BufferType>:$outs,
                       Optional<Wrapper_BufferType>:$workspace);
  let results = (outs Variadic<Wrapper_BufferType>:$given);
  let assemblyFormat = [{
    ($predicate^ `:` type($predicate))? (`when` custom<Size>($when)^)? `then` $then_graph `else`
    $else_graph `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` ($outs^ `:` type($outs))? `)`
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? (`gives` `(` type($given)^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Wrapper_WhileOp : Wrapper_GraphCall<"while"> {
  let summary = "runs a nested graph as long as another one says so";
  let description = [{
    ```mlir
    wrapper.while @cond do @body carried(%n, %x : …) ins(%w : …) outs(%n1, %x1 : …)
        spare(%n2, %x2 : …) flag(%f : <[], [], i1>) workspace(%ws : …)
    ```
    Before each round, `@cond` computes the flag from the carried values and `ins`; a round computes
    the next carried values from the same. The first carried values are `carried`, which is only read;
    rounds write to `outs` and `spare` by turns. After the last round, the carried values are in `outs`.

    Constraints: those of `wrapper.call`, of both graphs, where each takes `carried` and `ins` and the
    body's results are the carried values, the condition's the flag; and
    - (C4) `carried`, `outs` and `spare` have the same types
    - (C5) the flag is a bool with one element
  }];
  let arguments = (ins FlatSymbolRefAttr:$condition, FlatSymbolRefAttr:$body,
                       Variadic<Wrapper_BufferType>:$carried, Variadic<Wrapper_BufferType>:$ins,
                       Variadic<Wrapper_BufferType>:$outs, Variadic<Wrapper_BufferType>:$spare,
                       Wrapper_BufferType:$flag, Optional<Wrapper_BufferType>:$workspace);
  let assemblyFormat = [{
    $condition `do` $body `carried` `(` ($carried^ `:` type($carried))? `)`
    `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` ($outs^ `:` type($outs))? `)`
    `spare` `(` ($spare^ `:` type($spare))? `)` `flag` `(` $flag `:` type($flag) `)`
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

def Wrapper_ForOp : Wrapper_GraphCall<"for"> {
  let summary = "runs a nested graph for every slice of some buffers";
  let description = [{
    ```mlir
    wrapper.for @body length s0 carried(%c : …) slices(%xs : …) ins(%w : …) outs(%c1, %ys : …)
        spare(%c2 : …) workspace(%ws : …)
    ```
    Round i computes from the carried values, slice i (of the outermost dim) of each of `slices`, and
    `ins`, the next carried values and slice i of the further `outs`. Carried values are kept as in
    `wrapper.while`.

    Constraints: those of `wrapper.call`, with slices in place of the buffers; and
    - (C4) `carried`, the first `outs` and `spare` have the same types
    - (C5) the outermost size of `slices` and of the further `outs` is the length
  }];
  let arguments = (ins FlatSymbolRefAttr:$body, Sym_ExprAttr:$length,
                       Variadic<Wrapper_BufferType>:$carried, Variadic<Wrapper_BufferType>:$slices,
                       Variadic<Wrapper_BufferType>:$ins, Variadic<Wrapper_BufferType>:$outs,
                       Variadic<Wrapper_BufferType>:$spare, Optional<Wrapper_BufferType>:$workspace);
  let assemblyFormat = [{
    $body `length` custom<Size>($length) `carried` `(` ($carried^ `:` type($carried))? `)`
    `slices` `(` ($slices^ `:` type($slices))? `)` `ins` `(` ($ins^ `:` type($ins))? `)`
    `outs` `(` ($outs^ `:` type($outs))? `)` `spare` `(` ($spare^ `:` type($spare))? `)`
    (`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict
  }];
  let hasVerifier = 1;
}

//===-- Remarks ---------------------------------------------------------------------------------===//

def Wrapper_CommentOp : Wrapper_Op<"comment"> {
  let summary = "a remark for whoever reads the program";
  let description = "Back ends that write text keep it; machine code has no trace of it.";
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
}

#endif // KILN_WRAPPER_OPS_TD
