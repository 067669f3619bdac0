// The sym dialect: attributes over kiln/Sym expressions. It has no operations: a size is a constant
// of the program text, not a value that a pass would have to trace.
#ifndef KILN_SYM_OPS_TD
#define KILN_SYM_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/OpBase.td"

def Sym_Dialect : Dialect {
  let name = "sym";
  let cppNamespace = "::kiln::sym";
  let summary = "Integer expressions over symbols, as attributes";
  let description = [{
    Sizes, strides, launch grids, loop bounds and kernel indices are the same kind of expression,
    described in `kiln/Sym/Expr.h`. A tensor type with symbolic sizes is the builtin type with a
    `#sym.shape` encoding that lists every size: `tensor<?x8xf32, #sym.shape<[2*s0 + 1, 8]>>`.
  }];
  let useDefaultAttributePrinterParser = 1;
}

class Sym_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Sym_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
  let hasCustomAssemblyFormat = 1;
}

def Sym_ExprAttr : Sym_Attr<"Expr", "expr"> {
  let summary = "one integer expression: `#sym.expr<2*s0 + 1>`";
  let parameters = (ins "::kiln::sym::Expr":$value);
}

def Sym_ShapeAttr : Sym_Attr<"Shape", "shape",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "a list of expressions: `#sym.shape<[2*s0 + 1, 8]>`";
  let description = [{
    As the encoding of a tensor type it has one expression for each dimension; a static dimension's
    expression is that constant.
  }];
  let parameters = (ins ArrayRefParameter<"::kiln::sym::Expr">:$sizes);
}

def Sym_MapAttr : Sym_Attr<"Map", "map"> {
  let summary = "an index map: `#sym.map<(d0, d1) -> (d1, d0 floordiv 2)>`";
  let parameters = (ins "unsigned":$numDims, ArrayRefParameter<"::kiln::sym::Expr">:$results);
  let extraClassDeclaration = [{
    ::kiln::sym::IndexMap getMap() const {
      return {getNumDims(), llvm::SmallVector<::kiln::sym::Expr, 4>(getResults())};
    }
    static MapAttr get(::mlir::MLIRContext *context, const ::kiln::sym::IndexMap &map) {
      return get(context, map.numDims, map.results);
    }
  }];
}

//===-- Arguments of calls ------------------------------------------------------------------===//

// A call of an operator lists its arguments in every dialect that has calls: torch.call,
// kernel.extern, wrapper.extern_call.
class Sym_CallAttr<string name, string attrMnemonic> : AttrDef<Sym_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Sym_ArgAttr : Sym_CallAttr<"Arg", "arg"> {
  let summary = "an operand of the call: `#sym.arg<0>`";
  let parameters = (ins "unsigned":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Sym_ScalarAttr : Sym_CallAttr<"Scalar", "scalar"> {
  let summary = "an operand that stands for a Python number: `#sym.scalar<0>`";
  let description = [{
    The operand is a 0-d tensor (`f64`, `i1` or `i64`) with the value of a symbolic float, bool or
    int. Unlike a 0-d tensor argument it takes part in type promotion as a number does.
  }];
  let parameters = (ins "unsigned":$index);
  let assemblyFormat = "`<` $index `>`";
}

def Sym_DTypeAttr : Sym_CallAttr<"DType", "dtype"> {
  let summary = "an element type: `#sym.dtype<f32>`";
  let parameters = (ins "::mlir::Type":$type);
  let assemblyFormat = "`<` $type `>`";
}

def Sym_DeviceAttr : Sym_CallAttr<"Device", "device"> {
  let summary = "a device as PyTorch spells it: `#sym.device<\"cuda:0\">`";
  let parameters = (ins StringRefParameter<"kind, optionally with an index">:$name);
  let assemblyFormat = "`<` $name `>`";
  let extraClassDeclaration = [{
    /// "cpu", "cuda", …
    ::llvm::StringRef getKind() const { return getName().split(':').first; }
  }];
}

def Sym_LayoutAttr : Sym_CallAttr<"Layout", "layout"> {
  let summary = "a tensor layout: `#sym.layout<strided>`";
  let parameters = (ins "::kiln::sym::Layout":$value);
  let hasCustomAssemblyFormat = 1;
}

def Sym_MemoryFormatAttr : Sym_CallAttr<"MemoryFormat", "memory_format"> {
  let summary = "a memory format: `#sym.memory_format<channels_last>`";
  let parameters = (ins "::kiln::sym::MemoryFormat":$value);
  let hasCustomAssemblyFormat = 1;
}

def Sym_ComplexAttr : Sym_CallAttr<"Complex", "complex"> {
  let summary = "a complex Python number: `#sym.complex<1.0, -2.0>`";
  let parameters = (ins "::mlir::FloatAttr":$real, "::mlir::FloatAttr":$imag);
  let assemblyFormat = "`<` $real `,` $imag `>`";
}

#endif // KILN_SYM_OPS_TD
