// Passes that turn kernels into code for NVIDIA GPUs, in the order they run. A pass, its file in
// lib/Targets/CUDA and its test share one name.
#ifndef KILN_TARGETS_CUDA_PASSES_TD
#define KILN_TARGETS_CUDA_PASSES_TD

include "mlir/Pass/PassBase.td"

def CudaSetTarget : Pass<"cuda-set-target", "::mlir::ModuleOp"> {
  let summary = "Say which GPU kernels are planned for";
  let description = [{
    Sets the module's `cuda.target`, unless it has one, to what is known of GPUs of an architecture. The
    passes that divide work and planners read it; kernels run on other GPUs as well.
  }];
  let options = [
    Option<"arch", "arch", "std::string", "\"sm_90\"", "the GPU's architecture">
  ];
  let dependentDialects = ["::kiln::cuda::CUDADialect"];
}

def CudaKeepSmallWeights : Pass<"cuda-keep-small-weights", "::mlir::ModuleOp"> {
  let summary = "Widen weights of small integers where they are multiplied";
  let description = [{
    Constant weights of eight bits that a product has as floats, by scales and zero points of columns or of groups of steps, become
    the right operand's region; those of four bits are packed, eight in a word. Constants are folded next, which would
    make floats of them. A product of up to four rows, such as a decoder's step, waits for its weights to come from memory: what
    rounds them to bf16 or f16 on the way to a sum in f32 goes away. For more rows they stay halves, and are added and multiplied as such.
    Zero points that are all zero go away: a
    map of the scales beside them, which becomes a constant, checks them in case others replace them.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect",
                           "::mlir::arith::ArithDialect"];
}

def CudaExpandAttention : Pass<"cuda-expand-attention", "::mlir::ModuleOp"> {
  let summary = "Make products of attention with too many features for a block";
  let description = [{
    A block has the features of some queries, keys and values in shared memory and in registers: up to 256 of
    bf16, f16 and f32, and fewer of f64. Attention with more, with a number that only a run shows, or with a `score` region, becomes
    what it is defined as: a product of queries and keys, whose epilogue scales, adds the bias (or does as `score` says) and leaves out
    keys; a softmax over keys, 0 or NaN in rows of nothing but -inf; and a product with the values. Scores are in
    memory in the type in which sums are made, weights in that of the values.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
}

def CudaSplitReductions : Pass<"cuda-split-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduce few long rows in parts, by a kernel of their own";
  let description = [{
    A sum over a whole tensor would be the work of a single block. If a reduction has too few rows to keep
    a GPU busy, and many elements, one of its dims is cut into parts: a map in front of it reduces each
    part, and the reduction itself reduces what the parts have accumulated.
    If the length is an expression, so is the number of parts; elements left over after the last part are
    reduced together with what the parts have accumulated. If only a run shows whether a reduction is long
    enough, there is a graph for either case, and a `kernel.cond` chooses.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::func::FuncDialect",
    "::kiln::cuda::CUDADialect"
  ];
}

def CudaSplitContracts : Pass<"cuda-split-contracts", "::mlir::ModuleOp"> {
  let summary = "Divide the steps of products that have few blocks";
  let description = [{
    If a product has too few blocks to keep a GPU busy, and many steps, the steps are cut into parts: the
    contract computes the sums of each `part`, and a map adds these up, always in the same order, and runs
    the epilogue. There are as many parts as make up for the missing blocks, an expression over symbols. If
    sizes decide whether blocks are few, there is a graph for either case, and a `kernel.cond` chooses.
    Products of few rows, in which each column has a warp, stay as they are.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::kiln::cuda::CUDADialect"
  ];
}

def CudaSplitAttention : Pass<"cuda-split-attention", "::mlir::ModuleOp"> {
  let summary = "Divide the keys of attention that has few blocks";
  let description = [{
    A decoding step has few queries and many keys. The keys are cut into as many parts as keep a GPU busy, an
    expression over symbols. For each `part`, `kernel.attention` computes the weighted sum of values, the
    maximum and the sum of weights, and a map combines these, always in the same order. If each head has one
    query, heads that share keys and values become the rows of one product, so that these are read once.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::kiln::cuda::CUDADialect"
  ];
}

def CudaSplitSorts : Pass<"cuda-split-sorts", "::mlir::ModuleOp"> {
  let summary = "Sort long rows by many blocks";
  let description = [{
    A row of a known length that a block has no room for is sorted in tiles of 4096 elements, and as many
    kernels as it takes merge neighbouring runs to longer ones. Elements are words of a key and a position
    behind it where the key is known to fit 32 bits, and pairs of both otherwise; no two are equal, so that
    equal keys keep their order. What reads positions reads the last words. A long row of which only a few
    elements at the front are wanted is sorted this way if there are too few rows to keep a GPU busy.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::kiln::cuda::CUDADialect"
  ];
}

def CudaPackWindows : Pass<"cuda-pack-windows", "::mlir::ModuleOp"> {
  let summary = "Let windows over images be copied 16 bytes at a time";
  let description = [{
    The innermost steps of a convolution are the channels. If these do not lie side by side in chunks of 16
    bytes, but the steps of another dim do (patches of an image whose channels come first), that dim becomes
    the innermost one. Otherwise the image is copied with its channels last, padded with zeros to a multiple
    of 16 bytes; so are the weights, by constant folding. Must run after all passes that read through views.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect"];
}

def CudaNarrowOperands : Pass<"cuda-narrow-operands", "::mlir::ModuleOp"> {
  let summary = "Multiply bytes on tensor cores, instead of what they are widened to";
  let description = [{
    A contract whose operands are both bytes that were widened to i32 (`torch._int_mm`, and what dynamic quantization makes of linear
    layers) yields the bytes: tensor cores multiply them and sum in i32, which wraps around as before. One of floats of eight bits
    (`torch._scaled_mm`) yields them as f16, of which all 256 are found to be numbers; not where rows are few, whose products wait for
    memory. Must run before constants are folded, which would keep what weights are widened to.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::mlir::arith::ArithDialect"];
}

def CudaPackOperands : Pass<"cuda-pack-operands", "::mlir::ModuleOp"> {
  let summary = "Lay out weights that contracts read so that their steps are consecutive";
  let description = [{
    The innermost steps of a convolution are the channels, which lie side by side in the image but not in the
    weights. If neither the steps nor the rows of a contract are consecutive in a constant that it reads, the
    dim of the innermost steps becomes the constant's last, as a view that constant folding evaluates: it can
    then be copied in chunks of 16 bytes. Must run after all passes that read through views.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CudaGroupLaunches : Pass<"cuda-group-launches", "::mlir::ModuleOp"> {
  let summary = "Make one launch of several that do not wait for each other";
  let description = [{
    A launch of a decoding step takes longer to begin than many of its kernels run. Three kinds of launches become
    parts of one group (`kernel.func`), which has the blocks of all:

    - launches that read and write nothing of each other: products of few rows, maps and scatters of few elements;
    - a product of few rows that reads what another one has written, where both write it: its blocks
      come after the other's in the same place;
    - a small map, such as a normalisation of a row, that products of few rows read and nobody else: each block
      computes it for itself, into shared memory.

    A launch moves up to those that it joins, past steps that use none of its buffers in another way. Steps that
    find out sizes or call something stay between what comes before and after them.
  }];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect", "::kiln::wrapper::WrapperDialect",
    "::kiln::cuda::CUDADialect"
  ];
}

def CudaChooseSchedule : Pass<"cuda-choose-schedule", "::mlir::ModuleOp"> {
  let summary = "Decide which threads of a GPU run each kernel";
  let description = [{
    Sets `schedule`, unless the kernel has one, to an attribute of the `cuda` dialect, and what follows from
    it: `launch`, with the number of blocks as an expression over symbols and the threads of a block. Marks
    kernels whose buffers are all at multiples of 16 bytes as `aligned`.
    Kernels that fold constants (`wrapper.fold`) run on the host and are scheduled for it.
    A kernel that no code can be generated for is an error.
  }];
  let options = [
    Option<"tf32", "tf32", "unsigned", "0",
           "how many products of TF32 tensor cores sum for one of f32: 1 or 3; 0: none">
  ];
  let dependentDialects = [
    "::kiln::sym::SymDialect", "::kiln::codegen::CodegenDialect", "::kiln::cuda::CUDADialect"
  ];
}

def CudaSpecializeKernels : Pass<"cuda-specialize-kernels", "::mlir::ModuleOp"> {
  let summary = "Give products and attention variants for Hopper and Blackwell";
  let description = [{
    A product of bf16, f16 or signed bytes whose operands are memory that tensor maps describe gets a twin, `NAME_sm_90a`, with a
    schedule for warpgroups, `#cuda.wgmma`. One of floats of eight bits, which the kernel has as f16 (`cuda-narrow-operands`), has
    the floats themselves as operands there: both e4m3fn, or e5m2. Its attribute
    `cuda.variant_of` names the kernel in whose place it is launched on GPUs that run it. Its `grid` is how many
    blocks have something to do; no more run than the GPU has multiprocessors, and each goes through tiles. Where whole tiles
    would leave some of them idle, the steps of the last tiles are divided evenly among all (stream-K). So does attention over such operands of up to 256 features, with
    `#cuda.wgmma_attention`, unless its bias takes long to compute.

    For Blackwell such a product gets a twin `NAME_sm_100a` with a schedule for warpgroups and tensor memory, `#cuda.tcgen05`;
    its tiles are not divided, and attention has none.

    A kernel with `cuda.variant_schedule` says how its variant is run; autotuning sets it.
  }];
  let options = [ListOption<"architectures", "architectures", "unsigned",
                            "of variants: 90 (Hopper) and 100 (Blackwell); none: 90">];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::cuda::CUDADialect"];
}

def CudaEmitKernels : Pass<"cuda-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Write each kernel as a function of a GPU";
  let description = [{
    Every scheduled `kernel.func` becomes an `llvm.func` with the attribute `nvvm.kernel` whose parameters are
    the operands' and results' addresses, the values of the symbols in its attribute `cuda.symbols`,
    and the address of the error flag. The body is that of one thread: loops (scf) over scalars (arith, math),
    memory accesses through pointers (llvm), and the device's own instructions (nvvm).
    `cuda.buffers` has the bytes of each buffer, `cuda.shared` those of shared memory, and `cuda.workspace`, if blocks leave
    sums for each other, those that each block has in the run's workspace, whose address is a parameter behind the error
    flag; `cuda.shared_workspace`, if they leave states, those that all blocks have there. A variant has besides `cuda.variant_of`,
    `cuda.grid` and `cuda.maps`: for each tensor map, which is a parameter behind the others, its buffer, the bytes of an element, the
    box, and in `numbers` the offset, the sizes from the innermost dim on, and the strides of all dims but that.
  }];
  let dependentDialects = [
    "::kiln::wrapper::WrapperDialect", "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::arith::ArithDialect", "::mlir::complex::ComplexDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::kiln::codegen::CodegenDialect",
    "::kiln::cuda::CUDADialect"
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

#endif // KILN_TARGETS_CUDA_PASSES_TD
