// Passes over the torch, kernel and wrapper dialects. A pass, its file in lib/Transforms and its test
// share one name.
#ifndef KILN_TRANSFORMS_PASSES_TD
#define KILN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

//===-- Torch: from what PyTorch said to what is computed ---------------------------------------===//

def TorchFunctionalize : Pass<"torch-functionalize", "::mlir::ModuleOp"> {
  let summary = "Replace calls that write their arguments by calls that return new values";
  let description = [{
    Whatever shares memory with a written tensor sees the new value through its own views: a write
    through `x[0].t()` gives a new `x`, and every other view of `x` that is used afterwards is taken again.
    New values of inputs and buffers become results with `torch.mutates`. An operator without a
    functional form gets `updates`: it writes to copies and returns those. Writes through views that
    cannot be undone are refused. Strides that export recorded decide which calls of `reshape` and
    the like are views, for sizes from two on if sizes of one leave it open; where that, or an operator
    such as `as_strided`, makes a difference to the results, inputs on whose strides it depends get
    `torch.check_strides`, and ranges of such sizes in `sym.symbols` begin at two. Symbolic strides that
    decide nothing are refused.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchRenameSymbols : Pass<"torch-rename-symbols", "::mlir::ModuleOp"> {
  let summary = "Give symbols that different graphs define different names";
  let description = [{
    Export may use one name both for the size that `nonzero` finds in one branch and for the size that it
    finds in the other. A run has a single place for the value of a symbol. So the symbol of the later
    graph gets a new name, in that graph and in those that it calls, and keeps its range.
  }];
}

def TorchSpecializeSubgraphs : Pass<"torch-specialize-subgraphs", "::mlir::ModuleOp"> {
  let summary = "Give calls of one subgraph with other sizes a copy of it each";
  let description = [{
    A region of a model that is marked to be compiled once is one graph, in which the sizes of its first call
    have names: with `s0`, a call with tensors of size `s1` gets a copy in which `s0` is `s1`. Calls with the
    same sizes share one. A call for which no choice of the graph's symbols fits is left alone.
  }];
}

def TorchListConstants : Pass<"torch-list-constants", "::mlir::ModuleOp"> {
  let summary = "Write down which parameters and buffers the program has";
  let description = [{
    The module attribute `torch.constants` gets a list of `{name, type}` in program order. A tied
    parameter has an entry for each of its names; all but the first say in `storage` what the first is.
    The list is made early, since a parameter that is later folded into other data is no longer in the
    program, but still one of the model's.
  }];
}

def TorchInlineSubgraphs : Pass<"torch-inline-subgraphs", "::mlir::ModuleOp"> {
  let summary = "Put nested graphs that run exactly once in place of their calls";
  let description = [{
    Most higher-order operators that call a graph exactly once say how something is computed, not what:
    without gradients, with checkpoints, with hints, by a compiled copy. A `cond` is such a call, too, if
    its predicate depends on sizes and their ranges leave one branch. Private functions that nobody
    refers to any more are removed.
  }];
}

def TorchSimplifyGuards : Pass<"torch-simplify-guards", "::mlir::ModuleOp"> {
  let summary = "Reduce what must hold of the inputs to what has to be checked";
  let description = [{
    `torch.guards` lists the conditions under which the exported program is right, `torch.ranges` lists
    ranges of expressions. Whatever follows from the ranges of symbols is dropped. A condition on a single
    symbol becomes part of its range. An equality that can be solved for a symbol puts the solution in the
    symbol's place in the whole module, so that the shape of an input states it: with `s1 == s0 + 1`, `[s1]`
    becomes `[s0 + 1]`. The known value of a product is put in its place, too, except in the inputs: with
    `s0*s1 == 64`, `[s0*s1]` becomes `[64]`.
    What is left in `torch.guards` is checked on every run. Constraints:
    - (C1) no guard is false for all values of the symbols
  }];
}

def TorchNormalizeFloorDiv : Pass<"torch-normalize-floor-div", "::mlir::ModuleOp"> {
  let summary = "Bring divisions in sizes to their normal form";
  let description = [{
    Every expression over symbols in types and attributes is rewritten under the symbols' ranges
    (`kiln/Sym/Assumptions.h`): `(s0*s1) floordiv s1` is `s0` where s1 is positive, `(s0 floordiv s1)
    floordiv 8` is `s0 floordiv (8*s1)`, and both ways to round up are one. Each rewrite is then
    proved independently, by bounding the difference of both sides from above and below; one that cannot be
    proved is not made.
  }];
  let statistics = [
    Statistic<"numRewritten", "rewritten", "expressions rewritten">,
    Statistic<"numUnproved", "unproved", "rewrites not made since no proof was found">
  ];
}

def TorchLowerAutocast : Pass<"torch-lower-autocast", "::mlir::ModuleOp"> {
  let summary = "Make the casts of an autocast context explicit";
  let description = [{
    Export leaves `torch.autocast` as `wrap_with_autocast` around a graph whose calls have the operands
    that the program gave, and the result types that the context made of them. The operands of operators
    that a context computes in its own type, or in f32, are cast to that; the wrapper becomes a plain one.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchLowerAutoFunctionalized : Pass<"torch-lower-auto-functionalized", "::mlir::ModuleOp"> {
  let summary = "Turn functionalized calls of custom operators into plain ones";
  let description = [{
    With decompositions, export leaves a custom operator that writes its arguments as
    `auto_functionalized_v2`, which returns the new values of the tensors behind those arguments. It becomes
    a `torch.call` with `updates`. An argument that is a view of such a tensor is taken before the call, and
    its new value is written back into the tensor after it.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchBindCustomOps : Pass<"torch-bind-custom-ops", "::mlir::ModuleOp"> {
  let summary = "Give calls of declared custom operators to the C functions that compute them";
  let description = [{
    `ops` declares operators: a schema and a C function (`kiln-c/custom_op.h`), such as
    `lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale`. A call of such an operator gets the function's
    name in `torch.symbol`, and `args` are what the function is given: those of the schema in order, with defaults
    for what the program leaves out, and a list of tensors as their number and they. `torch.writes` lists the
    operands that the schema says are written; for the operators in `pure` there are none.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
  let options = [
    ListOption<"ops", "ops", "std::string", "operators and their functions, SCHEMA=FUNCTION">,
    ListOption<"pure", "pure", "std::string", "operators that write nothing, lib.scale.default">
  ];
}

def TorchExpandRnn : Pass<"torch-expand-rnn", "::mlir::ModuleOp"> {
  let summary = "Write recurrent layers as scans over their steps";
  let description = [{
    `aten.lstm.input`, `aten.gru.input`, `aten.rnn_tanh.input` and `aten.rnn_relu.input` become, for each
    layer and direction, one product of all steps with the input's weights, and a `scan` whose graph computes
    the product with the hidden state and the gates. A cell (`aten.lstm_cell`, …) becomes one such step, in
    place. A call with dropout in training, or with weights that do not fit, is left for lowering to refuse.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchExpandEncoderLayer : Pass<"torch-expand-encoder-layer", "::mlir::ModuleOp"> {
  let summary = "Write a transformer's encoder layer as attention and a feed-forward network";
  let description = [{
    `aten._transformer_encoder_layer_fwd`, which `torch.nn.TransformerEncoderLayer` calls for inference where
    gradients are off, and `aten._native_multi_head_attention` become the products, the softmax and the norms that they
    stand for. Nested tensors, layers without biases and weights of attention that are returned without having been
    asked for are left for lowering to refuse.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchConvolveBeforeUpsample : Pass<"torch-convolve-before-upsample", "::mlir::ModuleOp"> {
  let summary = "Convolve images before they are made larger";
  let description = [{
    A convolution of single pixels (a 1x1 window) and a bilinear interpolation may change places, since the sums of
    both are over different dims. If an image has been made at least twice as large, the small one is convolved and
    what comes of it made larger. Where the convolution reads several images side by side (`aten.cat`), it is taken apart into one
    for each of them that is worth it and one for the others, whose results are added.

    float32 and float64 only, where a sum differs by no more than one in another order does; with sizes that are
    known.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchExpandForeach : Pass<"torch-expand-foreach", "::mlir::ModuleOp"> {
  let summary = "Call operators on lists of tensors for each tensor";
  let description = [{
    `aten._foreach_add.List` becomes a call of `aten.add.Tensor` for each pair of tensors, and
    `aten._foreach_add_.List` one of `aten.add_.Tensor`, one after the other. Forms that take a list and have no
    operator for its elements, and lists of different lengths, are left for lowering to refuse.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchThreadRandom : Pass<"torch-thread-random", "::mlir::ModuleOp"> {
  let summary = "Give nested graphs that draw random numbers a state of their own";
  let description = [{
    A branch, a loop's body or a subgraph that draws gets an argument with `torch.random_state`, a key and a
    number, and draws from that alone. Its caller draws the state with `aten.randint.low`: one for a call, one for each slice that
    `scan` or `map_impl` goes through. The body of `while_loop` draws that of the next round itself.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchOutlineVmap : Pass<"torch-outline-vmap", "::mlir::ModuleOp"> {
  let summary = "Turn what is computed inside vmap into a graph mapped over slices";
  let description = [{
    Export leaves vmap as calls that enter and leave a level, take a tensor's slices at a level, and put
    results back together; the calls in between compute with one slice. These become a graph of their own,
    and the level a `map_impl` over it. Export writes `associative_scan` in this way, too.
  }];
  let dependentDialects = ["::kiln::torch::TorchDialect"];
}

def TorchLowerToKernel : Pass<"torch-lower-to-kernel", "::mlir::ModuleOp"> {
  let summary = "Say what each PyTorch operator computes";
  let description = [{
    Every op of the torch dialect becomes kernel ops over the same tensors; the table of lowerings
    (`kiln/Lowering/Lowering.h`) says how. Calls of nested graphs become `kernel.cond`, `kernel.while`,
    `kernel.for` and `kernel.invoke`; a symbolic integer is no longer an argument of a graph, but an
    expression inside it. Operators without a lowering, and arguments that a lowering does not support,
    are collected and named in one error. With `fallback`, such calls become calls of that library
    (`kernel.extern`) instead, and an error names only what no library can run. Calls with `torch.symbol`
    are `kernel.extern "c"`, calls of C functions of the model itself. With `triton`, launches of Triton kernels are
    `kernel.extern "triton"`, whose operands lie in memory as export has recorded their strides.
  }];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
  let options = [
    Option<"fallback", "fallback", "std::string", "\"none\"",
           "library that runs what has no lowering, or none">,
    Option<"triton", "triton", "bool", "false", "the target launches Triton kernels">
  ];
}

//===-- Kernel: from lowered ops to outlined kernels --------------------------------------------===//

class Kiln_KernelPass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

/// Works on the program or a nested graph, and never on a kernel that says how a constant was
/// folded: those stay single structured ops.
class Kiln_GraphPass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def KernelGuardSymbols : Kiln_KernelPass<"kernel-guard-symbols"> {
  let summary = "Check what is known of a symbol where it gets its value";
  let description = [{
    `sym.symbols` says which values a symbol may have, and every pass relies on it. The bounds of a
    symbol that the program defines are asserted right after its `kernel.define`. The program's own
    assertions about it move there, too, so that a user reads their text; of equal ones, one is left.
    Assertions of the program, not of its graphs, that are about inputs alone come first of all.
  }];
}

def KernelBatchLoops : Kiln_KernelPass<"kernel-batch-loops"> {
  let summary = "Compute all rounds of a loop at once";
  let description = [{
    A `kernel.for` that carries nothing computes each slice independently. If its graph has structured ops
    only, these take the place of the loop, and the dim that was sliced becomes one more dim of each: of a
    map's domain, or of a contract's rows, columns or batch, whichever makes the largest product. Loops
    whose rounds compute large tensors are left alone, since each round reuses the memory of the one before.
  }];
}

def KernelSinkConstants : Kiln_KernelPass<"kernel-sink-constants"> {
  let summary = "Move constants into the nested graphs that use them";
  let description = [{
    A weight that a branch or a loop body takes as an argument should be folded and packed like any other.
    In graphs with one caller, arguments that are constants, views of constants, or tensors that are one
    number everywhere are replaced by these; arguments that a graph does not use are removed.
  }];
}

def KernelSimplifyIndices : Kiln_KernelPass<"kernel-simplify-indices"> {
  let summary = "Simplify index maps and bounds checks with what is known of dims and symbols";
  let description = [{
    Every index map inside a region is simplified under 0 <= dim < extent and the symbols' ranges; a
    `kernel.inside` loses the conditions that always hold, and becomes a constant if none is left or
    one never holds; reads under a constant mask lose it. Sums, products and comparisons of
    `kernel.index` values are evaluated. An index that was passed as data becomes part of the read's map if
    it is proved to lie inside the tensor.
  }];
}

def KernelHoistInvariants : Kiln_KernelPass<"kernel-hoist-invariants"> {
  let summary = "Move what does not depend on a reduction's dims out of it";
  let description = [{
    An op inside a `kernel.reduce` whose operands and index map use none of the reduction's dims moves in
    front of the reduction. There, CSE can merge it with equal ones, and code generation places it at the
    outer loop.
  }];
}

def KernelShareReductions : Kiln_GraphPass<"kernel-share-reductions"> {
  let summary = "Compute a reduction once that elements of a map share";
  let description = [{
    A `kernel.reduce` directly in a map's body that depends on an inner dim of the map and not on one around it,
    as the sum of a softmax over channels does, would be computed again for each step of the latter. Where at least four elements
    share it and there is enough to compute, it becomes a map over the dims that it depends on, whose result the map reads.
    A map that checks an index is left alone.
  }];
}

def KernelFindCausal : Kiln_GraphPass<"kernel-find-causal"> {
  let summary = "Leave out the keys that a mask hides from all queries before them";
  let description = [{
    Models hand their attention a mask that a chain of operators has made: keys up to the query, and of those the ones
    that are no padding. Where the bias of a `kernel.attention` is -inf for all keys after the query whatever the data, it becomes
    `causal`, of which targets compute half. The comparison is gone then, and with it a bias that says no more.
  }];
}

def KernelFoldViews : Kiln_GraphPass<"kernel-fold-views"> {
  let summary = "Read through views: compose index maps";
  let description = [{
    A view is a `kernel.map` whose body is one unmasked read. Every read of its result becomes a read of
    what it views; views that nobody reads any more go away.
  }];
}

def KernelDelayPads : Kiln_GraphPass<"kernel-delay-pads"> {
  let summary = "Pad what has been quantized, not what is quantized";
  let description = [{
    A map that makes bytes of each element of a tensor padded by a constant makes them of the tensor itself, and
    the bytes are padded, by what it makes of the constant. A product before the padding then has the map as its
    epilogue, and writes a quarter of the bytes.
  }];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def KernelMergeUpdates : Kiln_GraphPass<"kernel-merge-updates"> {
  let summary = "Write parts of what the program mutates by scatters on the whole";
  let description = [{
    What `cache[layer, :, 3:5] = x` and `cache[layer].index_copy_(…)` become is a map over all of `cache` that takes each element
    from there or from the part. If such maps and scatters alone lead from an input or a buffer to its new value, each
    map becomes a `kernel.scatter` that begins as all of what it writes to; a scatter on a part is merged with the map
    that puts the part back, and what else reads the part reads it in the whole. Then nothing need be copied
    (`wrapper-update-in-place`).

    A map stays as it is if its bounds are not ranges of single dims, or if it writes short pieces of rows that make up more
    than an eighth of the whole. A scatter on a part stays if its indices go along a dim of which the part is only a
    piece: they are checked against that.
  }];
}

def KernelPropagateLayouts : Kiln_GraphPass<"kernel-propagate-layouts"> {
  let summary = "Order the dims of maps as most of the data they read is laid out";
  let description = [{
    A map that reads channels-last data in the order of a channels-first view would write its result
    transposed. Each read votes for the order of domain dims in which it walks memory, with the bytes that
    it reads as its weight. If an order other than the present one wins, the domain is permuted, and users
    see the old order through a view. Maps are visited in program order, so that the layout chosen by one
    convolution reaches the next. The bias of attention keeps its order.
  }];
}

def KernelFuseMaps : Kiln_GraphPass<"kernel-fuse-maps"> {
  let summary = "Put producers' bodies in place of the reads of their results";
  let description = [{
    In program order, each read of a `kernel.map` result is replaced by that map's body if this does not
    compute anything expensive more often than before:

    - views and bodies of trivial cost always;
    - other bodies without reductions when every element is asked for once (a single read, whose
      surrounding loops run over no more elements than the producer has);
    - bodies with reductions when the read depends only on leading dims of a map, so that the reduction
      stays at an outer loop and is run no more often than before.

    Operands of contracts and attention take only trivial bodies, since they are evaluated again for
    every block of columns; and they do so only with `operands`, since the producer may read a contract whose
    epilogue is the better place for it. They also take maps that dequantize constants, which constant
    folding leaves because the results are much larger than the constants.
  }];
  let options = [
    Option<"operands", "operands", "bool", "true", "put bodies into operands of contracts too">
  ];
}

def KernelFuseEpilogues : Kiln_GraphPass<"kernel-fuse-epilogues"> {
  let summary = "Move element-wise users of a contract into its epilogue";
  let description = [{
    A `kernel.map` that is the only user of a contract's result, and that reads each element once, in
    order but for a permutation or a reshape, is evaluated on the accumulators instead.

    Attention whose only user writes the result in another order, with the features still last, writes it in
    that order itself.
  }];
}

def KernelFuseAttention : Kiln_GraphPass<"kernel-fuse-attention"> {
  let summary = "Compute a softmax between two products as attention";
  let description = [{
    A product of a softmax over the rows of another product, of which nothing else is read, becomes a
    `kernel.attention` (Dao et al., FlashAttention, 2022): the scores are never in memory. Element-wise maps between the
    first product and the softmax, which become its epilogue, may scale the scores, add a bias that does not depend on
    them, and leave out scores by a number that is at most -1e30. In f32 and f64 they may compute any other function of the
    scaled scores and one further number or condition (a cap, -1e9 where a mask says so), the attention's `score`. A row that is left out as a whole gives NaN or 0, as the
    softmax does. Products with one batch dim get those of the softmax, as before a decomposition to `bmm`.
  }];
}

def KernelReadPackedRows : Kiln_KernelPass<"kernel-read-packed-rows"> {
  let summary = "Gather rows of a table from the panels that a product has it in";
  let description = [{
    The table of an embedding is often the weight of the last product, too, which has it in panels. If
    nothing but gathers of rows reads the table itself, and what they read is little beside the function's
    products, they read the panels: the table need not be stored twice. An element of a row is then
    `panel` elements from the next one. A row that is out of range still fails the run.

    Must run after `cpu-pack-contracts`, and before its maps are folded.
  }];
}

def KernelMergeEqual : Kiln_KernelPass<"kernel-merge-equal"> {
  let summary = "Compute once what equal ops compute, and drop what nobody uses";
  let description = [{
    Ops without side effects that are equal, regions included, become the first of them in the same or an
    enclosing block. As MLIR's own pass, but in time that is linear in the program: ops are told apart by what is
    in their regions, too.
  }];
}

def KernelOutline : Kiln_KernelPass<"kernel-outline"> {
  let summary = "Give each structured op a kernel function; equal ones share it";
  let description = [{
    The tensors that an op's regions read become the function's arguments, its results the function's
    results; the op is replaced by `kernel.call`. Structurally equal functions are emitted once. Ops that are
    equal but for constant offsets at which they read, as the steps of an unrolled recurrence are, share a
    function, too: they are called with spans of the tensors (`kernel.span`), whose first elements are at
    multiples of 64 bytes.
  }];
}

def KernelListFailures : Kiln_KernelPass<"kernel-list-failures"> {
  let summary = "Number the messages that kernels may fail with";
  let description = [{
    Each `kernel.expect` gets the `code` that its kernel reports, and the module's `kernel.failures` lists the
    messages in the order of their codes.
  }];
}

def KernelVerify : Kiln_KernelPass<"kernel-verify"> {
  let summary = "Check what the kernel stage leaves";
  let description = [{
    What the wrapper stage and the targets may rely on:
    - (V1) functions hold `kernel.call`, `kernel.span`, `kernel.extern`, calls of nested graphs, `kernel.constant`,
      `kernel.define`, `kernel.assert`, `kernel.check`, `torch.none` and their return only
    - (V2) every kernel is called, or says what a constant is
    - (V3) nothing uses a symbol before its `kernel.define`, and none is defined twice
  }];
}

//===-- Wrapper: the host program ----------------------------------------------------------------===//
// Each works on one function at a time, the program or a nested graph, unless it says otherwise.

def KernelLowerToWrapper : Pass<"kernel-lower-to-wrapper", "::mlir::ModuleOp"> {
  let summary = "Turn calls of kernels and of nested graphs into steps on buffers";
  let description = [{
    `func.func @main` becomes `wrapper.program @main`, and every other function a `wrapper.func`: every
    value becomes a buffer, every `kernel.call` a launch, every `kernel.extern` an `extern_call`, and every
    call of nested graphs the step of the same name. A result that is returned row-major is computed in the
    caller's memory; anything else that is returned (an input, a constant, a value returned before, a
    value with other strides recorded) is copied there. New values of mutated inputs and buffers
    are copied last, after everything that reads the old ones. The program begins by asserting what is left
    in `torch.guards`; a size that is computed from data, and may be negative, is asserted not to be before
    its first use. A result of a nested graph whose size that graph defines is given by it and copied by its
    caller.

    Constraints on the input:
    - (C1) functions have one block, of calls, `kernel.constant`, `kernel.define`, `kernel.assert`,
      `kernel.check` and `func.return`, @main of `torch.none` too
    - (C2) arguments and results of @main have `torch.name`
    - (C3) `torch.mutates` names an input or a constant of the result's type
    - (C4) `sym.symbols` has what is defined
  }];
  let dependentDialects = ["::kiln::wrapper::WrapperDialect"];
}

def WrapperUpdateInPlace : Pass<"wrapper-update-in-place", "::mlir::ModuleOp"> {
  let summary = "Let scatters write into the tensor that they begin as, and programs into what they mutate";
  let description = [{
    A `kernel.scatter` that begins as one of its operands gets a kernel with `updates`, which writes only what the
    scatter's places say, and that operand's memory as its result:
    - if the operand is memory of the function's and ends at the launch: the result becomes a view of it, or the operand
      is computed in the result's memory if that is an output;
    - if the operand is an input or a buffer that the program mutates, and the result is what a `wrapper.copy` moves
      there: the copy is removed.

    The same holds of what is moved into a mutated input or buffer by a `kernel.map` that reads this element-wise, by a
    call that updates it, or by a step that does not read it at all.

    What a loop carries, and its body begins a scatter as, is in one buffer, if the body can write the new value there
    as it would into a mutated input: the argument of the body gets the attribute `wrapper.mutated`, and the buffer becomes an operand
    of all rounds. What is carried first is copied there once, unless nobody wants it any more.

    Constraints on the memory that is written:
    - (C1) nothing reads the old value afterwards; a launch or copy that does is moved in front of the update, if what
      it depends on is there or can be moved, too
    - (C2) no other operand of the step is in the same memory
    - (C3) the new value has the size and the element size of the old one, and takes all of the memory
    - (C4) of a constant, no other op stands for the same buffer
  }];
}

def WrapperJoinBuffers : Pass<"wrapper-join-buffers", "::mlir::ModuleOp"> {
  let summary = "Compute the parts of a concatenation in place";
  let description = [{
    The launch of a kernel that does nothing but put its operands one after the other in memory is removed:
    the buffer of each operand becomes a view of a piece of the result, which is allocated before the first
    of them. An operand whose memory is not the program's to choose (an input, a constant) is copied into
    its piece; if that holds of more than half of the operands, the launch stays.
  }];
}

def WrapperSolveSymbols : Pass<"wrapper-solve-symbols", "::mlir::ModuleOp"> {
  let summary = "Say how symbols follow from the inputs";
  let description = [{
    Puts a `wrapper.bind` at the start of the program for every symbol that follows from the inputs. First,
    each size or value that is a plain symbol is read, and each stride that the program computes with; then
    equations that are linear in a single unknown are solved, until none is left. `wrapper.strides` stays
    on inputs of which a stride has been read, and on those with `wrapper.check_strides`. Constraints:
    - (C1) every symbol that is used and not defined by the program follows from the inputs
  }];
  let dependentDialects = ["::kiln::wrapper::WrapperDialect"];
}

def WrapperReuseInPlace : Pass<"wrapper-reuse-in-place", "::mlir::ModuleOp"> {
  let summary = "Let element-wise kernels write their result over an operand";
  let description = [{
    If an operand's last use is a launch of a `kernel.map` that reads it nowhere but at the place it
    writes, the result becomes a view of that operand. So does an `updates` result of a call of a library,
    if the operand that it is a copy of has its last use there.
  }];
}

def WrapperInsertFrees : Pass<"wrapper-insert-frees", "::mlir::ModuleOp"> {
  let summary = "Free every allocation after its last use";
  let description = [{
    A `wrapper.free` is put after the last step that uses an allocation, or a view of it. Memory planning
    takes the life of a buffer from these, and `wrapper-verify` checks that nothing is used after it.
  }];
}

def WrapperReuseBuffers : Pass<"wrapper-reuse-buffers", "::mlir::ModuleOp"> {
  let summary = "Give freed memory of symbolic size to the next allocation of that size";
  let description = [{
    Buffers whose sizes are numbers are packed by `wrapper-plan-memory`, better than by any pairing. Of
    sizes that are expressions, all that can be known at compile time is that two of them are equal: an
    allocation of such a size takes the memory of that size that was freed last, and that `free` is removed.
  }];
}

def WrapperShareKernels : Pass<"wrapper-share-kernels", "::mlir::ModuleOp"> {
  let summary = "Make one kernel of those that differ in the names of symbols alone";
  let description = [{
    The rows that data sends to each of many experts are as many symbols, and as many kernels that compute the
    same. One of them stays; launches in place of the others say in `symbols` which of the program's sizes the
    kernel's are. What is known of the symbols has to be the same. Comes when schedules are chosen.
  }];
  let dependentDialects = ["::kiln::kernel::KernelDialect"];
}

def WrapperPlaceConstants : Pass<"wrapper-place-constants", "::mlir::ModuleOp"> {
  let summary = "Give every constant its place in the weights";
  let description = [{
    Constants of all functions are placed in program order, each at a multiple of 64 bytes: first the buffers
    that the program writes to, which each session has for itself. Constants with
    the same value (tied or duplicated weights) share a place, unless a name or a mutation tells them apart.
    Sets `weights_bytes`.

    A constant that only folds read, such as a weight that is packed, needs no place as long as every
    replacement that runs the fold again also brings a new value of the constant. It is kept if the fold
    depends on further parameters or buffers, which can be replaced without it. Folds that depend on
    nothing that can be replaced are dropped.
  }];
}

def WrapperPlanMemory : Pass<"wrapper-plan-memory", "::mlir::ModuleOp"> {
  let summary = "Give every allocation its place in the arena";
  let description = [{
    Buffers whose sizes are numbers are placed in order of decreasing size, each into the smallest gap between
    those buffers placed so far whose lives overlap with its own (Pisarchyk and Lee, Efficient
    Memory Management for Deep Neural Net Inference, 2020: greedy by size). Buffers whose sizes are expressions
    come after those, each in a place of its own (see `wrapper-reuse-buffers`). All offsets are multiples of
    64 bytes. Sets `offset` on each alloc and `arena_bytes` on the function.

    An allocation whose size uses a symbol that the function defines is placed in a further segment
    of the arena: in the latest one if all its symbols were known where that was reserved, otherwise in
    a new one, which is reserved in front of it. So there is one reservation for each point after which memory
    of a new size is needed, and none if all sizes follow from the inputs. No two functions share a segment.

    Functions come before their callers: a step that runs nested graphs gets a workspace as large as
    the largest of their arenas, allocated in front of it and freed after it.
  }];
}

def WrapperVerify : Pass<"wrapper-verify", "::mlir::ModuleOp"> {
  let summary = "Check a finished host program";
  let description = [{
    What every back end may rely on, for all values of the symbols. What cannot be proved is refused.
    - (V1) every allocation and constant has its place, and the program its totals; a constant that
      only folds read or make may have none; a segment is reserved, once, before it is used
    - (V2) no allocation lies outside its segment, no constant outside the weights, no view outside its buffer; allocations
      lie at multiples of 64 bytes
    - (V3) no buffer is used after its memory was freed or reused, or freed twice; none that a graph has given is used
      after the graph has run again
    - (V4) two allocations that are alive together do not overlap; constants only if nothing can tell them apart
    - (V5) all of every output that is not None is written
    - (V6) nothing writes to a constant or an input that is not marked as mutated
    - (V7) what a fold reads has a place, a name, or was made by a fold before it
    - (V8) nothing uses a symbol before its `define`, and none is defined twice
    - (V9) a step that runs nested graphs has a workspace for each of their arenas
    - (V10) what a function gives is not in the workspace that its caller has lent
    - (V11) a step reads only what has been written, all of it; spare buffers, flags and workspaces of nested graphs hold nothing afterwards
    - (V12) what a step writes overlaps neither itself nor what the step reads, unless they are the same memory and the kernel reads
      each element where it writes it, or the callee updates it
    - (V13) what a function gives is not freed
    - (V14) a kernel that updates an operand is launched with the memory of that operand as its result

    `wrapper-interpret-memory` checks V2 to V6 and V9 to V13 in another way.
  }];
}

def WrapperCommentSteps : Pass<"wrapper-comment-steps", "::mlir::ModuleOp"> {
  let summary = "Say before each step which nodes of the model it computes";
  let description = [{
    A `wrapper.comment` before each launch, call of an operator and call of a nested graph, for outputs that people read: the
    wrapper program itself, and the FX module. A step without a location gets none.
  }];
}

def WrapperInterpretMemory : Pass<"wrapper-interpret-memory", "::mlir::ModuleOp"> {
  let summary = "Run a planned host program on poisoned memory";
  let description = [{
    For tests: no pipeline has it. Each run draws values for the symbols, as ranges and assertions allow, and then does what
    the host program does, with memory alone: it knows whose each byte is and whether it was written. The arena
    begins as poison, as does what is allocated, freed, or lent to a nested graph. A step reads every
    element of its operands and writes every element of its results; what lies between elements that are strided is
    no part of them. Both branches of a `wrapper.if` are run; a `wrapper.while` runs for 0, 1, 2 or 3 rounds, which is
    the number of the run modulo 4, and data that gives a symbol is drawn. A run that an assertion ends has shown what it
    could; one of them has to come to the end. A remark says how many do.

    Reported are:
    - (M1) a read of a byte that nothing has written, or that belongs to another buffer
    - (M2) a write to such a byte, or to an operand of a nested graph, an input or a constant that is not for it to write
    - (M3) an allocation outside its arena, or of a byte that another buffer has
    - (M4) a buffer that is freed or reused twice
    - (M5) a step whose results overlap each other, or an operand that its kernel does not read at that very place
    - (M6) a result that is not written, byte for byte
    - (M7) a symbol that is used and has no value
  }];
  let options = [
    ListOption<"symbols", "symbols", "std::string", "values of symbols that the inputs give, NAME=VALUE">,
    Option<"runs", "runs", "unsigned", "8", "how many runs, each with values of its own">,
    Option<"steps", "steps", "int64_t", "200000", "steps after which a run ends early">
  ];
}

#endif // KILN_TRANSFORMS_PASSES_TD
