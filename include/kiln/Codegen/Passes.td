// Passes over the functions that kernels become, whatever runs them, in the order they run. A pass and its
// test share one name.
#ifndef KILN_CODEGEN_PASSES_TD
#define KILN_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def CodegenRoundInRange : Pass<"codegen-round-in-range", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Clamp before rounding, where whole numbers are the bounds";
  let description = [{
    What quantizes rounds to nearest, adds a zero point, clamps and converts to i32. With whole numbers that are constants,
    x can be clamped first: a CPU then rounds and converts in one instruction, by the rounding mode to nearest that kernels run
    in. It is done if NaN gives what it gave before, in the low byte at least.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect"];
}

def CodegenExpandMath : Pass<"codegen-expand-math", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Replace elementary functions by polynomials";
  let description = [{
    On scalars and vectors alike, without calls: generated code needs no libm, and a vector has no slow
    lanes. f32 results are within about 2 ulp over the whole range, infinities, NaN and denormals
    included; f16 and bf16 are computed in f32. Remainders (arith.remf) are exact. What LLVM has an
    instruction for (sqrt, floor, fma, …) is left alone.
  }];
  let options = [
    Option<"avx512", "avx512", "bool", "false", "the CPU multiplies by powers of two in one instruction, and looks up in tables of 32 numbers instead of 8">,
    Option<"gpu", "gpu", "bool", "false", "a thread of a GPU: exponentials of f32 take its instruction for them">
  ];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
}

def CodegenConvertToLLVM : Pass<"codegen-convert-to-llvm", "::mlir::LLVM::LLVMFuncOp"> {
  let summary = "Convert a function's loops, scalars and vectors to the LLVM dialect";
  let description = [{
    Upstream's patterns for scf, arith, math, complex and vector, applied function by function, so that kernels
    are converted in parallel.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::cf::ControlFlowDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect"];
}

def CodegenExpandSmallFloats : Pass<"codegen-expand-small-floats", "::mlir::LLVM::LLVMFuncOp"> {
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

#endif // KILN_CODEGEN_PASSES_TD
