// Passes that give parts of a program to external code generators. A pass, its file in lib/Extern and
// its test share one name.
#ifndef KILN_EXTERN_PASSES_TD
#define KILN_EXTERN_PASSES_TD

include "mlir/Pass/PassBase.td"

class Kiln_ExternPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::kiln::torch::TorchDialect", "::kiln::kernel::KernelDialect",
                           "::mlir::func::FuncDialect"];
}

class Kiln_GeneratorPass<string name> : Kiln_ExternPass<name> {
  let constructor = "::kiln::externs::create" # NAME # "()";
  let options = [
    ListOption<"generators", "generators", "std::string", "NAME or NAME{OPTIONS}, in order">
  ];
}

def MarkExtern : Kiln_GeneratorPass<"mark-extern"> {
  let summary = "Mark the subgraphs that external code generators have patterns for";
  let description = [{
    Each generator in order, and each of its patterns in order, is asked about every op of a function's body, the
    last one first. Ops of the torch and of the kernel dialect can be matched. The ops of a subgraph get
    `kernel.extern = {generator, pattern, group}`. A match is taken if its ops are in one block and unmarked, write
    nothing and define no symbol, if only its results are used by others, and these come after its last
    op. So no value would have to be computed both before and after the subgraph. Ops that are marked stay as
    they are: a second run changes nothing.
  }];
}

def OutlineExtern : Kiln_GeneratorPass<"outline-extern"> {
  let summary = "Make functions of marked subgraphs, which equal ones share";
  let description = [{
    A marked subgraph becomes `kernel.invoke_extern` of a private function. Symbols in it are
    renamed to `p.0`, `p.1`, … in their order, and the call says what they are, so subgraphs over
    different sizes can share a function. The name comes from a cache of symbols that is keyed by the
    function's structure (everything but locations, names of nodes and of symbols), and has a hash of it. Modules that are
    compiled apart agree on it. If something else in the module has the name, another one is taken.

    Functions marked `inline`, by their pattern or because a `func.call` or `kernel.invoke` calls a function that has
    `kernel.extern` with `inline`, are outlined, too: the mark does not keep a generator from seeing a function of its own for them.
    Values that regions of the ops read from outside become operands. With `capture`, constants are put inside.
  }];
}

def GenerateExtern : Kiln_GeneratorPass<"generate-extern"> {
  let summary = "Hand the module to each external code generator";
  let description = [{
    Once for each generator, with all functions that have its name. What it has compiled gets
    `kernel.extern_code`: who runs the function and how, its workspace, and which operands it writes.
  }];
}

def DeclareExtern : Kiln_ExternPass<"declare-extern"> {
  let summary = "Drop the bodies of functions that external code generators have compiled";
  let description = [{
    A function with `kernel.extern_code` becomes a declaration: its body goes, and so do attributes other than
    that one. What is left says all that callers need. The sizes of its results, over those of its
    operands, are in its type, and workspace and aliases in the attribute. A function that
    has not been compiled goes back to where it is called.
  }];
}

def LowerExtern : Kiln_ExternPass<"lower-extern"> {
  let summary = "Call what external code generators have compiled";
  let description = [{
    `kernel.invoke_extern` of a declaration becomes `kernel.extern`, with the sizes of this call in its
    arguments. The workspace is one more result, of bytes, so memory for it is planned like any other.
  }];
}

#endif // KILN_EXTERN_PASSES_TD
