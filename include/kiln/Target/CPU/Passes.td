// Passes that turn kernels into code for CPUs, in the order they run. A pass, its file in
// lib/Target/CPU and its test share one name.
#ifndef KILN_TARGET_CPU_PASSES_TD
#define KILN_TARGET_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

defvar CpuOption = [
  Option<"cpu", "cpu", "std::string", "\"native\"", "LLVM's name of the CPU, or `native`">
];

def CpuFoldConstants : Pass<"cpu-fold-constants", "::mlir::ModuleOp"> {
  let summary = "Run the maps that depend on constants alone, and keep their results";
  let description = [{
    The maps are compiled with the code generator that also writes the program's kernels, for the CPU that the program is
    for if this machine runs its code, and run on all cores. What would grow the constants much (an expanded
    vector) stays in the program; so does what depends on symbols.

    What depends on parameters or buffers refers to the kernel that computed it, which the program keeps
    as `@fold_0`, `@fold_1`, …: these can be replaced in a compiled model.

    A view of a constant is left to its readers unless `views` is set: then nobody reads through
    views any more, and what is left of them (packed operands of contracts) is data.
  }];
  let options = CpuOption # [
    Option<"views", "views", "bool", "false", "fold views, and maps that read nothing, too">,
    Option<"jobs", "jobs", "unsigned", "0", "threads; 0: one for each core">
  ];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def CpuPackOperands : Pass<"cpu-pack-operands", "::mlir::ModuleOp"> {
  let summary = "Lay out constants that maps and contracts read as vectors want them";
  let description = [{
    A map that is vectorised over channels reads the weights [c, 1, kh, kw] of a depthwise convolution with a
    stride of kh * kw elements. The vectorised dim of such a constant becomes its last one, as a view that
    constant folding evaluates. Likewise, if the right operand of a contract has no panels (small integers
    that are dequantized where they are used), the columns become the last dim of the constant that it reads.
    Must run after all passes that read through views.
  }];
  let options = [
    Option<"vectorBytes", "vector-bytes", "int64_t", "64", "bytes of a vector register">
  ];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuPadWindows : Pass<"cpu-pad-windows", "::mlir::ModuleOp"> {
  let summary = "Give windows that slide over images of unknown size a padded image";
  let description = [{
    A task of a convolution copies the part of the image that its windows see to memory of its own, whose size
    has to be known at compile time (`ContractLayout`). If the size of the image is not known, the left operand
    becomes a tensor instead: a map computes it for every place that a window can see, including the zeros of
    the padding, and the contract reads it in place. This is not done if copying each row's window is cheap
    beside the products, that is with many columns and runs of elements that fill vectors.
  }];
  let options = [
    Option<"vectorBytes", "vector-bytes", "int64_t", "64", "bytes of a vector register">
  ];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuChooseSchedule : Pass<"cpu-choose-schedule", "::kiln::kernel::FuncOp"> {
  let summary = "Decide how each kernel's loops are run";
  let description = [{
    Sets `schedule`, unless the kernel has one, and what follows from it: `grid`, the number of tasks
    as an expression over symbols, and `scratch`, the bytes of private memory of a task. A map's
    schedule is `tile = [lanes, first dim, number of dims]` (the dims that are one loop in vectors;
    `[1]` when there is none) and `block = [rows, columns]`, 0 columns being all of them.
  }];
  let options = CpuOption;
  let dependentDialects = ["::kiln::sym::SymDialect"];
}

def MaterializeSizes : Pass<"materialize-sizes", "::mlir::ModuleOp"> {
  let summary = "Compute sizes once, on the host";
  let description = [{
    Every expression over symbols that a launched kernel has in its loops and indices, or that is its
    grid, gets a name if it takes more than one operation with a number: `wrapper.define "size.0" = s0
    ceildiv 8` behind the `wrapper.bind`s, or where the last of its symbols is defined. Such a symbol
    has its expression as `size` in the tables of symbols; from there code generation knows that it need
    not compute it. Nothing else in the program mentions it, so that what is known of sizes stays known.
  }];
  let dependentDialects = ["::kiln::wrapper::WrapperDialect"];
}

def CpuEmitKernels : Pass<"cpu-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Write each kernel as a function of the runtime's ABI";
  let description = [{
    Every `kernel.func` becomes an `llvm.func` of type `kiln_rt_kernel` whose body is loops (scf) over
    scalars and vectors (arith, math, vector) and memory accesses through pointers (llvm).
  }];
  let options = CpuOption;
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::complex::ComplexDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

def CpuExpandMath : Pass<"cpu-expand-math", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Replace elementary functions by polynomials";
  let description = [{
    On scalars and vectors alike, without calls: generated code needs no libm, and a vector has no slow
    lanes. f32 results are within about 2 ulp over the whole range, infinities, NaN and denormals
    included; f16 and bf16 are computed in f32. Remainders (arith.remf) are exact. What LLVM has an
    instruction for (sqrt, floor, fma, …) is left alone.
  }];
  let options = [
    Option<"avx512", "avx512", "bool", "false", "the CPU multiplies by powers of two in one instruction">,
    Option<"gpu", "gpu", "bool", "false", "a thread of a GPU: exponentials of f32 take its instruction for them">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def CpuConvertToLLVM : Pass<"cpu-convert-to-llvm", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Convert a function's loops, scalars and vectors to the LLVM dialect";
  let description = [{
    Upstream's patterns for scf, arith, math, complex and vector, applied function by function, so that kernels
    are converted in parallel.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

def CpuExpandSmallFloats : Pass<"cpu-expand-small-floats", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Make integers of bf16 and f16, and compute on them in f32";
  let description = [{
    Values of bf16 and f16 become the integers that hold their bits: loads, stores, choices and whatever else moves them
    have integers' types from here on, on every CPU. Everything else is done in f32 and rounded to the nearest, as PyTorch does it;
    from f64 and from integers by way of f32, too. What is left of f16 are conversions from and to f32, which are instructions of
    every CPU, with fences that keep LLVM from putting them together with others. It would call functions of a library where a CPU has
    no instruction, and use those for bf16 that flush denormals where it has some.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def WrapperLowerToLLVM : Pass<"wrapper-lower-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Write the host program as functions and tables of the runtime's ABI";
  let description = [{
    The `wrapper.program` becomes `kiln_program` (runtime/ir_interface.h): `kiln_main` and the
    functions of nested graphs call the runtime for each launch, `kiln_bind` solves the symbols from the inputs' shapes, `kiln_eval` and
    `kiln_sizes` compute sizes and give -1 when they overflow; the tables describe inputs,
    outputs, constants and symbols. Kernels, which must have been scheduled, are referred to by name
    and dropped from the module.
  }];
  let options = [
    Option<"name", "name", "std::string", "\"model\"", "the model's name in kiln_model_info">,
    Option<"target", "target", "std::string", "\"cpu\"", "the target in kiln_model_info">,
    Option<"compiler", "compiler", "std::string", "\"kiln\"", "the compiler in kiln_model_info">,
    Option<"externalWeights", "external-weights", "bool", "false", "weights are in a file">,
    Option<"weightsHash", "weights-hash", "uint64_t", "0", "what identifies that file">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // KILN_TARGET_CPU_PASSES_TD
