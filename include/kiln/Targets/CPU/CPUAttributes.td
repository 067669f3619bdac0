// The CPU target's attributes: CPUs, and a schedule for each way to run a structured op.
#ifndef KILN_TARGETS_CPU_CPUATTRIBUTES_TD
#define KILN_TARGETS_CPU_CPUATTRIBUTES_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

include "kiln/Dialect/Kernel/KernelInterfaces.td"

def CPU_Dialect : Dialect {
  let name = "cpu";
  let cppNamespace = "::kiln::cpu";
  let summary = "How kernels are run on CPUs";
  let description = [{
    Attributes only. One is the CPU that a module is for; each of the others is the `schedule` of a
    `kernel.func`. `cpu-choose-schedule` sets one where there is none, and `cpu-emit-kernels` writes the code
    that it describes. Schedules of the ordered ops are in the `codegen` dialect.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

def CPU_TargetAttr : AttrDef<CPU_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "the CPU that kernels are planned for";
  let description = [{
    `#cpu.target<cpu = "x86-64-v4", l2 = 2097152>`

    The name of a CPU, and every number about it that planners and the passes that lay out operands depend
    on. A module has it as `cpu.target`; without, kernels are planned for the machine that compiles them.
    Numbers that are not given are those that are known of the CPU; all of them are printed. `--cpu-tune`
    has the same names.

    What the CPU is:

    - `cpu`: LLVM's name of it, a level, or `native`. Its instruction sets follow from that.
    - `vector_bytes`, `vector_registers`: of the registers that kernels use.
    - `l1`, `l2`: bytes of a core's data caches. `cache_line`: bytes of a line. `set_period`: rows a multiple of
      as many bytes apart share so few sets of the cache that they are moved by a line.
    - `clock`: in MHz.
    - `memory_rate`: what one core reads from memory, in MB a second.
    - `fma_units`, `fma_latency`: multiplications of vectors that begin in a cycle, and the cycles that one takes;
      reductions have about as many sums under way.
    - `tile_cycles`: of a product of two whole tiles, where the CPU has them (AMX).
    - `op_rate`: other operations on vectors that begin in a cycle.
    - `access_cost`: cycles of a vector that is read or written, mostly in level 2 cache; `element_cost`: those
      of one element of a gather; `function_cost`: those of a function that becomes a polynomial, of a
      vector; `step_cost`: those of an element, or of a vector, in ops with an order (scans, scatters, sorts).
    - `cores`: those that are to have work, where there is enough.

    What has been found to be best on it:

    - `max_tasks`: of a product. `task_time`: of a task of products or attention, in microseconds. A product that
      is over sooner has up to two tasks for each of the `cores`, each of `least_task` microseconds or more.
      `task_cycles`: the least that a task of anything else takes; a launch takes some thousand.
    - `tile_sums`: vectors of sums that a tile of products keeps in registers: more are no faster.
    - `open_tile`: the most rows of a tile whose rows are of unknown number: there is code for every
      second height. `unroll`: steps of a product's sum that are written out.
    - `short_body`: cycles of a map's body below which it does not hide its own latencies, so that two
      vectors are computed together.
    - `short_sum`: steps of a sum that is over before a fetch of the next panel would have come; `long_sum`:
      steps beside which code that tiles share does not cost anything; `open_sum`: the most steps that are
      made at a time of a sum of unknown length.
    - `fewest_rows`: of a block of products, if their number is unknown; `many_rows`: those for which
      reading all of the right operand again does not count; `long_axis`: those of an axis beyond which a task
      takes a part of it.
    - `epilogue_ops`: the most operations of all sums of a tile whose epilogue is written out for registers.
    - `fetch_streams`: 1 if panels that a task reads once, one after another, are fetched ahead of use: a decoder's step
      takes 0.70 of the time on Emerald Rapids with weights of four or eight bits, and 1.3 times as long on Zen 4.

    Constraints. (C1) The CPU is known, and has AVX2. (C2) Each number is in its range. (C3) There are no more
    vectors, and no wider ones, than the CPU has. (C4) Level 2 cache is no smaller than level 1.
  }];
  let parameters = (ins StringRefParameter<"name">:$cpu, "::kiln::codegen::CPUModel":$model);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// All that is known of the CPU, with these numbers.
    ::kiln::codegen::CPUInfo getInfo() const;
  }];
}

class CPU_ScheduleAttr<string name, string mnemonic_>
    : AttrDef<CPU_Dialect, name, [DeclareAttrInterfaceMethods<Kernel_ScheduleAttrInterface>]> {
  let mnemonic = mnemonic_;
  let genVerifyDecl = 1;
}

class CPU_Enum<string name, string summary, list<string> cases>
    : I32Enum<name, summary, !foreach(i, !range(cases), I32EnumCase<
          !toupper(!substr(cases[i], 0, 1)) # !substr(cases[i], 1), i, cases[i]>)> {
  let cppNamespace = "::kiln::cpu";
}

def CPU_MapAttr : CPU_ScheduleAttr<"Map", "map"> {
  let summary = "how a `kernel.map` is run";
  let description = [{
    `#cpu.map<vector = [1], lanes = 32, rows = 8>`

    A row is one position of the dims outside the loop in vectors; loops inside of which a reduction
    would be repeated are part of the row.

    - `vector`: dims that are one loop in vectors; none: elements are computed one by one.
    - `lanes`: elements of that loop that are computed together.
    - `rows`: of a task.
    - `columns`: elements of the loop in vectors in a task; 0: all of them.
    - `steps`: of the loop around a window (a pool, a depthwise convolution) that are written out
      together and share what they read; 1: the window is computed for each on its own.
    - `turn`: dims of another loop. Values are computed in vectors along it, `lanes` steps of the loop in
      vectors at a time; these squares are turned in registers, and stored along the loop in vectors. For data
      that lie in another order than the result.
    - `reduce_lanes`, `reduce_copies`: for each `kernel.reduce` directly in the body that does not depend on the
      loop in vectors, elements that are computed together, and accumulators of each of them. Reductions that
      share a loop have the fewest of both, and none more than it has elements.
    - `keep`: what such a reduction has computed of each element, and the body computes again (the exponentials
      of a softmax), is kept in the task's scratch memory until the row's elements are computed.
    - `streams`: the body's reductions, each of one dim, take a few steps for all columns of a task before they take the next, with accumulators in
      its scratch memory. For elements that lie next to each other from column to column, and far apart from step to step.

    Constraints. (C1) `vector` and `turn` have adjacent dims in order. (C2) There is a row. (C3) `lanes` is a power of
    two up to 256. (C4) `columns` is a multiple of `lanes`. (C5) There is a step. (C6) Without `vector` there
    is one lane, one step, and no `columns`. (C7) There are as many `reduce_copies` as `reduce_lanes`, and
    each is a power of two, up to 16 and up to 256. (C8) With `turn` there are 2 to 64 lanes, one step and no
    reduction. (C9) With `keep` there are `vector`, a reduction, and no `columns`.
    (C10) With `streams` there are `columns`, one row and one step, and neither `reduce_lanes`, `turn` nor `keep`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int64_t">:$vector,
                        DefaultValuedParameter<"int64_t", "1">:$lanes,
                        DefaultValuedParameter<"int64_t", "1">:$rows,
                        DefaultValuedParameter<"int64_t", "0">:$columns,
                        DefaultValuedParameter<"int64_t", "1">:$steps,
                        OptionalArrayRefParameter<"int64_t">:$reduce_lanes,
                        OptionalArrayRefParameter<"int64_t">:$reduce_copies,
                        OptionalArrayRefParameter<"int64_t">:$turn,
                        DefaultValuedParameter<"bool", "false">:$keep,
                        DefaultValuedParameter<"bool", "false">:$streams);
  let assemblyFormat = [{
    `<` struct(custom<Sizes>($vector), $lanes, $rows, $columns, $steps, custom<Sizes>($reduce_lanes),
               custom<Sizes>($reduce_copies), custom<Sizes>($turn), $keep, $streams) `>`
  }];
}

def CPU_LeftOperand : CPU_Enum<"LeftOperand", "how a contract reads its left operand",
                               ["direct", "window", "matrix"]>;
def CPU_RightOperand : CPU_Enum<"RightOperand", "where a contract reads its right operand",
                                ["panels", "direct"]>;
def CPU_EpiloguePlace : CPU_Enum<"EpiloguePlace", "where a contract's sums are when it ends",
                                 ["registers", "memory"]>;
def CPU_Turn : CPU_Enum<"Turn", "what a contract turns whose right operand lies along the sum",
                        ["none", "rhs", "sums"]>;
def CPU_ProductUnit : CPU_Enum<"ProductUnit", "what a contract multiplies in",
                               ["vectors", "tiles", "digits"]>;
def CPU_PrefetchCache : CPU_Enum<"PrefetchCache", "the cache that a contract fetches ahead into",
                                 ["none", "l1", "l2"]>;

def CPU_ContractAttr : CPU_ScheduleAttr<"Contract", "contract"> {
  let summary = "how a `kernel.contract` is run";
  let description = [{
    `#cpu.contract<tile_rows = 12, vectors = 2, lanes = 16, block_rows = 132, block_columns = 128, block_sums = 768>`

    Rows lie on one axis or several: dims that a single stride walks are one axis.

    - `tile_rows`: the most rows whose sums are in registers together.
    - `tile_axes`: the innermost axes that a tile lies on: 2 takes all of the last one, as in images of few columns.
    - `block_axes`: the innermost axes that a task's rows lie on. With one more than `tile_axes`, a task has a
      number of whole steps of that axis, otherwise a number of tiles.
    - `vectors`, `lanes`: the columns of a tile, and so of a panel: `vectors` registers of `lanes` elements.
    - `block_rows`, `block_columns`: of a task.
    - `block_sums`: steps of the sum that a task makes before it goes on to the next tile.
    - `lhs`: `direct` reads the left operand where it is, `window` copies what a convolution's windows slide
      over to the task's memory, `matrix` copies its rows.
    - `lhs_padding`: elements between the rows of a `matrix`, on top of whole vectors.
    - `rhs`: `panels` reads panels of the right operand, those that are packed or copies of them in the task's
      memory; `direct` reads the operand where it is, and its columns lie next to each other there.
    - `turn`: the way to read a right operand that is not packed, and lies in memory along the sum. `rhs`: vectors of it
      are turned in registers, and a panel copied to the task's memory. `sums`: products are summed up along
      the lanes, and the sums turned in the end; nothing is copied.
    - `tile_sums`: with `turn = sums`, the most vectors of sums in registers: all rows of a tile, times as many
      columns of the panel as that allows.
    - `epilogue`: it is computed on `registers`, or on sums in `memory`.
    - `share_tiles`: tiles of all heights run through the same code.
    - `prefetch`: the next panel of the right operand is fetched into this cache while one is at work.
    - `epilogue_prefetch`: what the epilogue reads for each row and column of a tile is fetched into this cache while the
      tile's sum is at work.
    - `unroll`: the most steps of the sum that are written out instead of a loop; of a longer one an iteration has up to four.
    - `unit`: `vectors` multiplies in the registers for vectors, `tiles` in those for tiles (AMX): up to 32 rows with 32 columns
      at a time, on two axes one or two steps of up to 16 rows. Such rows are words of four bytes or of two bf16 that follow each other. A tile of up to four
      rows of bytes whose number is known when the model runs is left to vectors. `digits` makes three bytes and an exponent
      for each 32 of a few rows of f32, and multiplies words of four bits in vectors of bytes.
    - `parts`: blocks of rows and columns that a task does one after another, those of one matrix of the batch after
      those of the one before. For matrices so small that starting a task for each would take longer than
      their product.
    - `vector_rows`: rows whose sums lie side by side in a vector, each `lanes` of it: all columns that there are, too
      few to fill one.
    - `widen_rows`: from so many rows on, where their number is known in a run only, a task widens and scales each panel of small
      integers to f32 in its memory, once for all of its rows; fewer rows have them widened in registers, tile by tile. 0: all do.

    Constraints. (C1) All sizes are positive. (C2) `lanes` is a power of two up to 256. (C3) A tile has at
    most 512 vectors. (C4) `tile_axes` is 1 or 2, `block_axes` the same or one more. (C5) `lhs_padding` is up to
    4096, and 0 but for a `matrix`. (C6) Only what has lanes is turned, and sums are in one vector of columns.
    (C7) `unroll` is at most 64. (C8) `tile_sums` is at least `tile_rows` and at most 512 with `turn = sums`,
    otherwise 0. (C9) Nothing is turned with `rhs = direct`. (C10) With `unit = tiles`, tiles have up to 32 rows, panels
    are read as a multiple of 16 columns, the epilogue is in memory, and nothing is turned.
    (C11) `parts` is positive. (C12) `vector_rows` is a power of two that divides `tile_rows`; with more than one
    there is one vector of columns, and up to 256 lanes in all, vectors are multiplied, sums are not turned, and the
    epilogue is on registers. (C13) `widen_rows` is not negative, and 0 but for vectors of panels.
  }];
  let parameters = (ins "int64_t":$tile_rows, "int64_t":$vectors, "int64_t":$lanes,
                        "int64_t":$block_rows, "int64_t":$block_columns, "int64_t":$block_sums,
                        DefaultValuedParameter<"LeftOperand", "LeftOperand::Direct">:$lhs,
                        DefaultValuedParameter<"EpiloguePlace", "EpiloguePlace::Registers">:$epilogue,
                        DefaultValuedParameter<"bool", "false">:$share_tiles,
                        DefaultValuedParameter<"PrefetchCache", "PrefetchCache::None">:$prefetch,
                        DefaultValuedParameter<"int64_t", "1">:$tile_axes,
                        DefaultValuedParameter<"int64_t", "1">:$block_axes,
                        DefaultValuedParameter<"int64_t", "0">:$lhs_padding,
                        DefaultValuedParameter<"Turn", "Turn::None">:$turn,
                        DefaultValuedParameter<"int64_t", "0">:$tile_sums,
                        DefaultValuedParameter<"int64_t", "12">:$unroll,
                        DefaultValuedParameter<"RightOperand", "RightOperand::Panels">:$rhs,
                        DefaultValuedParameter<"PrefetchCache", "PrefetchCache::None">:$epilogue_prefetch,
                        DefaultValuedParameter<"ProductUnit", "ProductUnit::Vectors">:$unit,
                        DefaultValuedParameter<"int64_t", "1">:$parts,
                        DefaultValuedParameter<"int64_t", "1">:$vector_rows,
                        DefaultValuedParameter<"int64_t", "0">:$widen_rows);
  let assemblyFormat = "`<` struct(params) `>`";
}

def CPU_OperandPlace : CPU_Enum<"OperandPlace", "where a contract reads an operand",
                                ["planned", "kept", "copied"]>;
def CPU_OperandOrder : CPU_Enum<"OperandOrder", "which operand of a contract has the columns",
                                ["planned", "kept", "swapped"]>;

def CPU_LayoutAttr : AttrDef<CPU_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "how the operands of a `kernel.contract` are laid out in memory";
  let description = [{
    `#cpu.layout<panel = 48>`

    A contract has it as `cpu.layout`, before operands are prepared; it replaces what `cpu-pad-windows`,
    `cpu-swap-operands` and `cpu-pack-contracts` would decide, and is gone behind them.

    - `lhs`: `kept` reads the left operand where it is; `copied` makes a tensor of it first, in which the rows come in
      order, and the steps of a row's sum lie next to each other. That of a convolution has its channels last, and the
      padding around it.
    - `order`: `swapped` exchanges rows and columns, and with them the operands; `kept` does not.
    - `rhs`, of what is on the right then: `copied` lays it out in panels, when the program is compiled if it is a constant,
      and otherwise in each run; `kept` leaves it to the kernel.
    - `panel`: the columns of such a panel; 0: as many as planned.

    Constraints. (C1) `panel` is from 0 to 4096, and 0 with `rhs = kept`.
  }];
  let parameters = (ins DefaultValuedParameter<"OperandPlace", "OperandPlace::Planned">:$lhs,
                        DefaultValuedParameter<"OperandOrder", "OperandOrder::Planned">:$order,
                        DefaultValuedParameter<"OperandPlace", "OperandPlace::Planned">:$rhs,
                        DefaultValuedParameter<"int64_t", "0">:$panel);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def CPU_AttentionAttr : CPU_ScheduleAttr<"Attention", "attention"> {
  let summary = "how a `kernel.attention` of many queries is run";
  let description = [{
    `#cpu.attention<tile_keys = 10, vectors = 2, lanes = 16, block_panels = 1, block_keys = 70>`

    Queries lie along the lanes. A panel is `vectors` registers of `lanes` queries.

    - `tile_keys`: keys of a panel whose scores are in registers together.
    - `tile_values`: the most features of the result whose sums are, as far as there are registers.
    - `block_panels`: panels of a task.
    - `block_keys`: keys between two corrections of the maximum.

    Constraints. (C1) All sizes are positive. (C2) `lanes` is a power of two up to 256. (C3) A tile has at
    most 512 vectors. (C4) `block_keys` is a multiple of `tile_keys`.
  }];
  let parameters = (ins "int64_t":$tile_keys, "int64_t":$vectors, "int64_t":$lanes,
                        "int64_t":$block_panels, "int64_t":$block_keys,
                        DefaultValuedParameter<"int64_t", "12">:$tile_values);
  let assemblyFormat = "`<` struct(params) `>`";
}

def CPU_AttentionByQueryAttr : CPU_ScheduleAttr<"AttentionByQuery", "attention_by_query"> {
  let summary = "how a `kernel.attention` of few queries is run";
  let description = [{
    `#cpu.attention_by_query<lanes = 16, block_keys = 512>`

    A task is one query. Features lie along the lanes.

    - `block_keys`: keys between two corrections of the maximum.
    - `sums`: vectors of the result that are summed up at the same time.
    - `keys`: the most keys that are, for results of fewer vectors than that.

    Constraints. (C1) All sizes are positive. (C2) `lanes` is a power of two up to 256, and there are two or
    more. (C3) `block_keys` is a multiple of `lanes`. (C4) `sums` and `keys` are at most 64.
  }];
  let parameters = (ins "int64_t":$lanes, "int64_t":$block_keys,
                        DefaultValuedParameter<"int64_t", "8">:$sums,
                        DefaultValuedParameter<"int64_t", "4">:$keys);
  let assemblyFormat = "`<` struct(params) `>`";
}

def CPU_WinogradAttr : CPU_ScheduleAttr<"Winograd", "winograd"> {
  let summary = "how a `kernel.winograd` is run";
  let description = [{
    `#cpu.winograd<tile_rows = 14, tiles = 28, lanes = 16>`

    A task is a few tiles of an image, with all features. Channels, and then features, lie along the lanes.

    - `tile_rows`: tiles whose sums of products are in registers together.
    - `tiles`: of a task.

    Constraints. (C1) All sizes are positive. (C2) `lanes` is a power of two up to 256, and there are two or
    more. (C3) `tiles` is a multiple of `tile_rows`, which is at most 256.
  }];
  let parameters = (ins "int64_t":$tile_rows, "int64_t":$tiles, "int64_t":$lanes);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // KILN_TARGETS_CPU_CPUATTRIBUTES_TD
