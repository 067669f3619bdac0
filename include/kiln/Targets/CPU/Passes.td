// Passes that turn kernels into code for CPUs, in the order they run. A pass, its file in
// lib/Targets/CPU and its test share one name.
#ifndef KILN_TARGETS_CPU_PASSES_TD
#define KILN_TARGETS_CPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def CpuSetTarget : Pass<"cpu-set-target", "::mlir::ModuleOp"> {
  let summary = "Say which CPU kernels are planned for";
  let description = [{
    Sets the module's `cpu.target`, unless it has one, to what is known of a CPU. The passes that lay out operands
    read it, and so do planners and emitters.
  }];
  let options = [
    Option<"cpu", "cpu", "std::string", "\"native\"", "LLVM's name of the CPU, a level, or `native`">,
    Option<"tune", "tune", "std::string", "\"\"", "numbers in the place of the CPU's, `l2=2097152,clock=4000`">
  ];
  let dependentDialects = ["::kiln::cpu::CPUDialect"];
}

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
  let options = [
    Option<"views", "views", "bool", "false", "fold views, and maps that read nothing, too">,
    Option<"jobs", "jobs", "unsigned", "0", "threads; 0: one for each core">
  ];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def CpuSwapOperands : Pass<"cpu-swap-operands", "::mlir::ModuleOp"> {
  let summary = "Exchange rows and columns of contracts whose columns do not fill vectors";
  let description = [{
    Kernels have a contract's columns in the lanes of vectors. With one column, the sum takes that place if the
    left operand lies along it; if its rows lie next to each other instead (a transposed matrix times a vector),
    they become the columns. So do many rows beside columns that do not fill half of a vector. If these are
    constant, which would be packed, only rows that lie next to each other do, pixels of planes beside a few
    channels; the result has planes of channels then, and what would have put them there is gone.

    Must run before operands are packed, since it exchanges them.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuViewWords : Pass<"cpu-view-words", "::mlir::ModuleOp"> {
  let summary = "Read words of four bytes where the bytes are";
  let description = [{
    `cpu-multiply-bytes` makes words of an operand's bytes. Where nothing that quantizes has been fused with the map that
    does so, and bytes without signs lie next to each other, the map would copy memory, and a `kernel.bitcast` takes its place.
    Tensors of the host, which may lie at any byte, are copied.

    Must run when nobody fuses any more.
  }];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def CpuMultiplyBytes : Pass<"cpu-multiply-bytes", "::mlir::ModuleOp"> {
  let summary = "Multiply what has been dequantized as the small integers that it was";
  let description = [{
    A product of an operand that is `(q - zero) * scale`, `q` of 8 bits, and of weights that are the same with
    zero points of zero, becomes a product of the integers (`bytes`) with sums in i32. What the zero points add to
    a sum follows from the sums of the weights, which are constants; both scales multiply in the
    epilogue. A sum is exact where that of the rounded products was not.

    Four steps of the sum are one group where the CPU has VNNI, or where clamps show that the left operand's unsigned bytes are
    `narrow`, otherwise two: the left operand is put into groups by a map, which later passes fuse with what quantizes,
    and which widens two steps to 16 bits each; the groups of the weights are constants, a quarter of the size of
    floats. A product that is of integers already (`_int_mm`) is put into groups, too.

    Weights whose zero points are replaced by others than zero, when the model runs, are refused there.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def CpuKeepSmallWeights : Pass<"cpu-keep-small-weights", "::mlir::ModuleOp"> {
  let summary = "Widen weights of small integers where they are multiplied";
  let description = [{
    Constant weights of at most eight bits that a product has as floats, by scales and zero points of columns or of
    groups of steps, become the right operand's region, from which `cpu-pack-contracts` makes panels of the
    integers. Constants are folded next, which would make floats of them. What rounds them to bf16 or f16 on the
    way to a sum in f32 goes away then.

    A left operand that was quantized with a scale for each row becomes bytes, if the weights have four bits and a scale
    for each group of steps: a map puts four into a word, and the zero point of a row behind its words. A group's sum of integers is
    exact then, and multiplied by its scale; the row's scale multiplies in the epilogue.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect",
                           "::mlir::arith::ArithDialect"];
}

def CpuPackContracts : Pass<"cpu-pack-contracts", "::mlir::ModuleOp"> {
  let summary = "Lay out constant right operands of contracts in panels";
  let description = [{
    A contract whose right operand is computed from constants alone gets it from a tensor
    [batch…, n ceildiv panel, k, panel] in which what the register tile reads for one k is consecutive.
    The tensor is the result of a map in front of the contract, which constant folding then evaluates.
    The k dims are put in the order in which the left operand lies in memory, so that its runs are long
    (a convolution of channels-last data sums over window row, window column, channel).

    Weights that are small integers with scales and zero points of columns, or of groups of steps, stay integers
    in panels of bytes, or of words of eight steps where four bits hold them; scales of groups, and offsets that
    zero points make, are panels of their own. Integers with more bits than four that take the place of such
    weights when the model runs are refused there, and so are zero points where all were zero.

    For CPUs with AVX512-BF16, weights of bf16 become words of two steps, unless rows of them are gathered, too.

    Must run after all passes that read through views, since they would undo it. Operands that are not
    constant, or that take several times the memory of what they are computed from, are put into panels by
    the kernels themselves, a panel at a time.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
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
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuSplitGathers : Pass<"cpu-split-gathers", "::mlir::ModuleOp"> {
  let summary = "Gather along one dim at a time";
  let description = [{
    A map that interpolates along rows and columns gathers four elements for each of its own, and does so again
    for every row of its result, many of which lie between the same two rows of the image. The sums along the
    columns become a map of their own, which has them for each row of the image; the first map reads from it,
    in vectors. The sums are those of before. This is done where the planner of maps reckons that it takes fewer
    cycles, with the way of the new tensor through memory.

    Must run after maps have been fused, since fusion would undo it.
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuPadWindows : Pass<"cpu-pad-windows", "::mlir::ModuleOp"> {
  let summary = "Give windows that slide over an image a padded image";
  let description = [{
    The left operand of a convolution becomes a tensor: a map computes it for every place that a window can see, with the
    zeros of the padding, channels last, and the contract reads it in place. Tasks are then free to divide rows and columns,
    where each would otherwise copy the part of the image that its windows see to memory of its own
    (`ContractLayout`): once for every block of columns, and for neighbouring rows twice.

    An image of known size is left to the tasks if it fills several level 2 caches and the rows that a window sees do not, with
    channels next to each other; if there are few channels and few products for each element; or if there is one channel
    for each column (depthwise).
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuWinograd : Pass<"cpu-winograd", "::mlir::ModuleOp"> {
  let summary = "Compute convolutions of 3 x 3 windows with fewer multiplications";
  let description = [{
    Makes a `kernel.winograd` of a contract that is a convolution of f32 with windows of 3 x 3 pixels, constant weights, channels
    last, and no stride, dilation or groups, if the cost model says that it takes less time: with `tile` 2 it takes 4/9 of the
    multiplications, with 4 a quarter, and has 16/9 and 4 times the weights, which are folded (`cpu.folded` of the map that
    computes them). Results are rounded in another way, so that it is left to the user: docs/numerics.md says how far they are off.

    Must run before `cpu-pad-windows`.
  }];
  let options = [Option<"tile", "tile", "int64_t", "4", "rows and columns of the largest tiles, 2 or 4">];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::kernel::KernelDialect"];
}

def CpuChooseSchedule : Pass<"cpu-choose-schedule", "::kiln::kernel::FuncOp"> {
  let summary = "Decide how each kernel's loops are run";
  let description = [{
    Sets `schedule`, an attribute of the `cpu` or `codegen` dialect, unless the kernel has one, and what
    follows from it: `launch`. A schedule with which the kernel cannot be run is an error. A remark says why
    each schedule was chosen (`kiln-opt --remarks-filter=cpu-choose-schedule`).
  }];
  let dependentDialects = ["::kiln::sym::SymDialect", "::kiln::codegen::CodegenDialect", "::kiln::cpu::CPUDialect"];
}

def CpuEmitKernels : Pass<"cpu-emit-kernels", "::mlir::ModuleOp"> {
  let summary = "Write each kernel as a function of the runtime's ABI";
  let description = [{
    Every `kernel.func` becomes an `llvm.func` of type `kiln_rt_kernel` whose body is loops (scf) over
    scalars and vectors (arith, math, vector) and memory accesses through pointers (llvm).
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect", "::mlir::complex::ComplexDialect",
    "::mlir::math::MathDialect", "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"
  ];
}

#endif // KILN_TARGETS_CPU_PASSES_TD
