// Passes that turn kernels into code for NVIDIA GPUs, in the order they run. A pass, its file in
// lib/Target/CUDA and its test share one name.
#ifndef KILN_TARGET_CUDA_PASSES_TD
#define KILN_TARGET_CUDA_PASSES_TD

include "mlir/Pass/PassBase.td"

def CudaSplitReductions : Pass<"cuda-split-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduce few long rows in parts, by a kernel of their own";
  let description = [{
    A sum over everything would be one block's work. Where a reduction of a map has few rows, which would not
    keep a GPU busy, and many elements, one of its dims is cut: a map before
    reduces the parts, and what they have accumulated is reduced in the reduction's place.
    Of a length that only a run knows there is a number of parts over symbols, and what is left behind
    them is reduced with what they have accumulated. If only the run shows whether a reduction is long,
    there is a graph for either case, and a `kernel.cond` between them.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::func::FuncDialect"
  ];
}

def CudaSplitScans : Pass<"cuda-split-scans", "::mlir::ModuleOp"> {
  let summary = "Divide few long lines of scans among blocks";
  let description = [{
    Where a scan has few lines, and these are long, a map computes what each part of a line comes to, a scan over these what comes before
    each part, always in the same order, and every part of the scan itself starts from that (the attribute `part`). Elements have
    to be such that parts may be combined in any order: sums, products, extremes without positions. If only the run shows whether lines are
    long, there is a graph for either case, and a `kernel.cond` between them.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect"
  ];
}

def CudaSplitContracts : Pass<"cuda-split-contracts", "::mlir::ModuleOp"> {
  let summary = "Divide the steps of products that are few blocks' work";
  let description = [{
    Where a product has fewer elements than keep a GPU busy, and many steps, these are cut: the contract gives the sums of each
    `part`, of which there are as many as make up for the blocks that are missing, a number over symbols, and a map adds
    them, always in the same order, and runs the epilogue. If sizes decide whether blocks are few, there is a graph for
    either case, and a `kernel.cond` between them. Few rows that have a warp for each column stay as they are.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect"
  ];
}

def CudaSplitAttention : Pass<"cuda-split-attention", "::mlir::ModuleOp"> {
  let summary = "Divide the keys of attention that is few blocks' work";
  let description = [{
    A decoding step has few queries and many keys. Its keys are cut in parts, of which there are as many as keep a GPU busy,
    an expression over symbols: `kernel.attention` gives for each `part` the weighted sum of values, the maximum and the sum
    of weights, and a map puts them together, always in the same order. Where each head has one query, those
    heads that share keys and values become rows of one product, so that these are read once.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
}

def CudaPackWindows : Pass<"cuda-pack-windows", "::mlir::ModuleOp"> {
  let summary = "Let windows over images be copied 16 bytes at a time";
  let description = [{
    A convolution's steps end with the channels. Where these do not lie side by side in chunks of 16 bytes, but steps of another
    dim do (patches of an image whose channels come first), that dim becomes the last one. Otherwise the image is copied with its
    channels last, and zeros behind them up to a multiple of 16 bytes, and so are the weights, which constant folding evaluates. To be
    run where no pass reads through views any more.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect"];
}

def CudaPackOperands : Pass<"cuda-pack-operands", "::mlir::ModuleOp"> {
  let summary = "Lay out weights that contracts read so that steps follow each other";
  let description = [{
    A convolution's steps end with the channels, which lie side by side in the images but not in its weights. A constant that
    a contract reads, and that neither steps nor rows walk along, gets the dim of the last steps last, as a view that
    constant folding evaluates: chunks of 16 bytes can then be copied. To be run where no pass reads through views any more.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CudaChooseSchedule : Pass<"cuda-choose-schedule", "::mlir::ModuleOp"> {
  let summary = "Decide which threads of a GPU run each kernel";
  let description = [{
    Sets `schedule`, unless the kernel has one, and what follows from it: `grid`, the number of blocks as an
    expression over symbols, and `threads`, those of a block. A map's schedule is `tile = [team]`, the
    threads that share a row (1, a warp, or a block), `block = [threads]`, and `lanes` the neighbouring
    elements of a thread. A contract's is `tile = [m, n]`, of a thread, or with `lanes` above 1, the steps that
    a tensor core takes at once, of a warp, and `block = [m, n, k]`. An attention's is
    `tile = [queries of a warp]`, and on tensor cores `block = [threads, keys]`, `lanes` the steps. `aligned` says that all buffers are at multiples of 16 bytes.
    Kernels that fold constants (`wrapper.fold`) run on the host and are scheduled for it.

    A kernel that there is no code for yet is an error.
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "\"native\"", "LLVM's name of the host's CPU, or `native`">,
    Option<"tf32", "tf32", "bool", "false", "round f32 operands of products to TF32, for tensor cores">
  ];
  let dependentDialects = ["::kiln::sym::SymDialect"];
}

def CudaSpecializeKernels : Pass<"cuda-specialize-kernels", "::mlir::ModuleOp"> {
  let summary = "Give products and attention a variant for Hopper";
  let description = [{
    A product of bf16 or f16 whose operands are memory that tensor maps describe gets a twin, `NAME_sm_90a`, with a schedule
    for warpgroups: `tile = [64, n]`, `block = [m, n, 64]`, `lanes` the steps of an instruction. Its attribute
    `cuda.variant_of` names the kernel in whose place it is launched on GPUs that run it. Its `grid` is the number of tiles;
    no more blocks run than the GPU has multiprocessors. So does attention over such operands of up to 128 features, with
    `tile = [64]` and `block = [queries, keys]`, unless it has a bias, or its keys are in parts.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect"];
}

def CudaEmitKernels : Pass<"cuda-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Write each kernel as a function of a GPU";
  let description = [{
    Every scheduled `kernel.func` becomes an `llvm.func` with the attribute `nvvm.kernel` whose parameters are
    the operands' and results' addresses, the values of the symbols in its attribute `cuda.symbols`,
    and the address of the error flag. The body is that of one thread: loops (scf) over scalars (arith, math),
    memory accesses through pointers (llvm), and the device's own instructions (nvvm).
    `cuda.buffers` has the bytes of each buffer, and `cuda.shared` those of shared memory. A variant has besides `cuda.variant_of`,
    `cuda.grid` and `cuda.maps`: for each tensor map, which is a parameter behind the others, its buffer, the bytes of an element, the
    box, and in `numbers` the offset, the sizes from the innermost dim on, and the strides of all dims but that.
  }];
  let dependentDialects = [
    "::kiln::wrapper::WrapperDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::complex::ComplexDialect", "::mlir::math::MathDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect"
  ];
}

def CudaEmulate : Pass<"cuda-emulate", "::mlir::ModuleOp"> {
  let summary = "Turn a GPU's kernels into host code for the emulator";
  let description = [{
    The device's instructions become calls of the emulator, which runs the threads of a block as fibres, and
    so does the address of every memory access, which it checks. Each kernel gets a twin
    `NAME_emulated` that takes the addresses of its arguments, as cuLaunchKernel does.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // KILN_TARGET_CUDA_PASSES_TD
