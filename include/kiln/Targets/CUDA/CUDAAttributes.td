// The cuda dialect: attributes that say how kernels are run on NVIDIA GPUs. It has no ops.
#ifndef KILN_TARGETS_CUDA_CUDAATTRIBUTES_TD
#define KILN_TARGETS_CUDA_CUDAATTRIBUTES_TD

include "mlir/IR/AttrTypeBase.td"

include "kiln/Dialect/Kernel/KernelInterfaces.td"

def CUDA_Dialect : Dialect {
  let name = "cuda";
  let cppNamespace = "::kiln::cuda";
  let summary = "How kernels are run on NVIDIA GPUs";
  let description = [{
    Attributes alone: one for each strategy that a kernel may be run with, chosen by
    `cuda-choose-schedule` and `cuda-specialize-kernels` and read by `cuda-emit-kernels`. An attribute
    holds all that is decided; its verifier refuses what no kernel could have, and planning refuses
    what does not fit the kernel that it is on.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

//===-- GPUs ------------------------------------------------------------------------------------===//

def CUDA_TargetAttr : AttrDef<CUDA_Dialect, "Target"> {
  let mnemonic = "target";
  let summary = "the GPU that kernels are planned for";
  let description = [{
    Everything about a GPU that planners and the passes that divide work depend on. A module has it as
    `cuda.target`; without, kernels are planned for `sm_90`. Kernels run on all GPUs wherever they
    have been planned for, since those that are not for one architecture alone take no more shared memory
    of a block than every GPU has.

    - `arch`: the architecture, as LLVM calls it.
    - `multiprocessors`: of the GPU.
    - `shared`: bytes of shared memory that a block may have.
    - `cache`: bytes of the cache that all multiprocessors share.
    - `products`: of two bytes summed in f32, that a multiprocessor's tensor cores make in a cycle.
    - `cache_rate`: bytes that the cache gives to each multiprocessor in a cycle, if all of them want some.
    - `copy_rate`: bytes that one multiprocessor takes in a cycle.
    - `memory_rate`: bytes that memory gives to all multiprocessors together in a cycle.
    - `schedulers`: of a multiprocessor; with fewer warps than that some have nothing to do.
    - `warps`: that read memory and keep a multiprocessor's share of it busy.
    - `blocks`: of attention in parts that keep a multiprocessor busy.
    - `load_latency`: cycles until a thread has what it reads from memory.
    - `share_latency`: cycles until sums that a block leaves in memory can be added by another, beside those
      in which they move.
    - `product_latency`: cycles between the products of two steps where no other warpgroup fills them.
    - `meeting`: cycles in which the blocks of a cluster meet.
    - `copy_cost`: cycles of a warpgroup whose threads copy 16 bytes each to shared memory.
    - `write_rate`: elements of a tile that a multiprocessor writes in a cycle.
  }];
  let parameters = (ins StringRefParameter<"architecture">:$arch, "int64_t":$multiprocessors,
                        "int64_t":$shared, "int64_t":$cache, "int64_t":$products,
                        "int64_t":$cache_rate, "int64_t":$copy_rate, "int64_t":$memory_rate,
                        "int64_t":$schedulers, "int64_t":$warps, "int64_t":$blocks, "int64_t":$load_latency,
                        "int64_t":$share_latency, "int64_t":$product_latency, "int64_t":$meeting,
                        "int64_t":$copy_cost, "int64_t":$write_rate);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Blocks that keep the GPU busy: one on almost every multiprocessor, in a number that sizes are
    /// often multiples of.
    int64_t getBusyBlocks() const;
  }];
}

/// Rows and columns, written `[m, n]`.
class CUDA_Tile<string description> : AttrParameter<"::kiln::cuda::TileShape", description>;
class CUDA_DefaultTile<string value>
    : DefaultValuedParameter<"::kiln::cuda::TileShape", value>;
class CUDA_DefaultInt<string value> : DefaultValuedParameter<"int64_t", value>;
/// Registers of a thread that copies, and of one that multiplies, written `[56, 224]`.
def CUDA_Registers : OptionalParameter<"std::optional<::kiln::cuda::WarpgroupRegisters>">;

/// A schedule of these ops of the kernel dialect.
class CUDA_Schedule<string name, string attrMnemonic, string ops>
    : AttrDef<CUDA_Dialect, name # "Schedule",
              [DeclareAttrInterfaceMethods<Kernel_ScheduleAttrInterface>]> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDefinition = [{
    bool $cppClass::appliesTo(::mlir::Operation *root) const {
      using namespace ::kiln::kernel;
      return ::llvm::isa<}] # ops # [{>(root);
    }
  }];
}

//===-- Maps ------------------------------------------------------------------------------------===//

def CUDA_MapSchedule : CUDA_Schedule<"Map", "map", "MapOp"> {
  let summary = "threads have elements of a map, or teams of threads have its rows";
  let description = [{
    `#cuda.map<threads = 256, steps = 4, vector = 4>`: a block has 256 threads, and each of them
    `steps` times `vector` neighbouring elements, the steps as far apart as the block is wide.

    `#cuda.map<threads = 256, team = 32, vector = 4, keep = 64>`: the map has reductions along rows.
    A `team` of threads (one, a warp, or all of the block) has a row; of what it reduces a thread
    keeps up to `keep` elements in registers, so that the row is read once.

    `#cuda.map<threads = 256, team = 8, across = 32, keep = 64>`: neighbouring rows are neighbours in
    memory, and rows have one result each. A block has `across` rows, and neighbouring threads have
    neighbouring ones. The `team` of a row is one thread of every `across`.
  }];
  let parameters = (ins "int64_t":$threads, CUDA_DefaultInt<"1">:$team,
                        CUDA_DefaultInt<"1">:$across, CUDA_DefaultInt<"1">:$steps,
                        CUDA_DefaultInt<"1">:$vector, CUDA_DefaultInt<"0">:$keep);
}

def CUDA_TransposedMapSchedule : CUDA_Schedule<"TransposedMap", "transposed_map", "MapOp"> {
  let summary = "blocks have tiles, which reads come through shared memory for";
  let description = [{
    `#cuda.transposed_map<threads = 256, read = 32, written = 64, vector = 4>`: a block has `read`
    elements of the loop along which it reads memory, by `written` elements of the loop along which
    it writes it. A thread writes `vector` neighbours at once.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$read, "int64_t":$written,
                        CUDA_DefaultInt<"1">:$vector);
}

//===-- Products --------------------------------------------------------------------------------===//

def CUDA_DotSchedule : CUDA_Schedule<"Dot", "dot", "ContractOp"> {
  let summary = "warps have columns of a product with few rows";
  let description = [{
    `#cuda.dot<threads = 256, rows = 1, columns = 2, vector = 8, ahead = 2>`: a warp has `columns`
    columns of all `rows`. A lane reads `vector` neighbouring steps of a column at once, and `ahead`
    such reads of each column are under way.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$rows, "int64_t":$columns,
                        CUDA_DefaultInt<"1">:$vector, CUDA_DefaultInt<"1">:$ahead);
}

def CUDA_FmaSchedule : CUDA_Schedule<"Fma", "fma", "ContractOp"> {
  let summary = "threads have tiles of a product";
  let description = [{
    `#cuda.fma<m = 64, n = 64, k = 16, thread = [4, 4]>`: a block has `m` x `n` elements, and brings
    `k` steps of both operands at a time to shared memory. A thread has rows, and columns, in runs of
    up to 16 bytes of neighbours, and neighbouring threads have the runs between them. What is copied
    asynchronously is under way for `stages` - 1 iterations ahead.
  }];
  let parameters = (ins "int64_t":$m, "int64_t":$n, "int64_t":$k,
                        CUDA_Tile<"elements of a thread">:$thread, CUDA_DefaultInt<"4">:$stages);
  let extraClassDeclaration = "int64_t getThreads() const;";
}

def CUDA_MmaSchedule : CUDA_Schedule<"Mma", "mma", "ContractOp"> {
  let summary = "warps have tiles of a product, on tensor cores";
  let description = [{
    `#cuda.mma<m = 128, n = 128, k = 32, warp = [64, 64], step = 16, stages = 4>`: a block has `m` x
    `n` elements and brings `k` steps of both operands at a time to shared memory. A warp has a tile
    made of instructions (`mma.sync`) of 16 x 8 elements and `step` steps: 16, 32 of bytes, or 8 of f32, which is
    rounded to TF32. With `products = 3` f32 is cut in two numbers of TF32, of which three products are
    summed. What is copied asynchronously is under way for `stages` - 1 iterations ahead.
  }];
  let parameters = (ins "int64_t":$m, "int64_t":$n, "int64_t":$k,
                        CUDA_Tile<"elements of a warp">:$warp, "int64_t":$step, "int64_t":$stages,
                        DefaultValuedParameter<"int64_t", "1">:$products);
  let extraClassDeclaration = "int64_t getThreads() const;";
}

def CUDA_WgmmaSchedule : CUDA_Schedule<"Wgmma", "wgmma", "ContractOp"> {
  let summary = "warpgroups have tiles of a product, on Hopper";
  let description = [{
    `#cuda.wgmma<m = 128, n = 256, stages = 4, registers = [56, 224], cluster = [2, 1], sharing = [4, 2]>`:
    one warpgroup copies 64 steps of both operands (128 of one byte) at a time to `stages` places of shared
    memory, and two multiply, each 64 rows by `n` columns. With `m` = 128 they have a tile together; with 64 each has
    tiles of its own, and multiplies while the other writes. Of a left operand that comes in boxes and is
    known to have fewer rows, a place has room for these alone.

    `registers` are those of a thread that copies and of one that multiplies; without, all keep what
    they start with. The blocks of a `cluster` have neighbouring tiles, [rows, columns] of them: those
    of a column need the same part of the right operand, those of a row the same of the left one, and
    each copies a share of it to all.

    `sharing` is what it takes to divide a tile among blocks, in steps of one block: leaving the sums
    to another block, and adding those of one. Tiles are divided where that saves more.
  }];
  let parameters = (ins "int64_t":$m, "int64_t":$n, "int64_t":$stages, CUDA_Registers:$registers,
                        CUDA_DefaultTile<"::kiln::cuda::TileShape()">:$cluster,
                        AttrParameter<"::kiln::cuda::SharingCost", "steps">:$sharing);
  let extraClassDeclaration = [{
    /// Warpgroups that multiply.
    static constexpr int64_t consumers = 2;
    /// Places at most: small tiles need many for memory to be busy.
    static constexpr int64_t maxStages = 16;
    int64_t getThreads() const;
  }];
}

def CUDA_Tcgen05Schedule : CUDA_Schedule<"Tcgen05", "tcgen05", "ContractOp"> {
  let summary = "warpgroups have tiles of a product in tensor memory, on Blackwell";
  let description = [{
    `#cuda.tcgen05<n = 256, stages = 4, registers = [56, 224]>`: one warpgroup copies 64 steps of both operands
    (128 of one byte) at a time to `stages` places of shared memory. Two have tiles of 128 rows by `n` columns in turns, whose
    sums are in tensor memory: a thread of one asks for the products of its tile while the other warpgroup
    reads the sums of its own, and writes them. `registers` as in `#cuda.wgmma`.
  }];
  let parameters = (ins "int64_t":$n, "int64_t":$stages, CUDA_Registers:$registers);
  let extraClassDeclaration = [{
    static constexpr int64_t consumers = WgmmaScheduleAttr::consumers;
    int64_t getThreads() const;
  }];
}

//===-- Attention -------------------------------------------------------------------------------===//

def CUDA_ScalarAttentionSchedule : CUDA_Schedule<"ScalarAttention", "scalar_attention", "AttentionOp"> {
  let summary = "lanes have keys, and then features";
  let description = [{
    `#cuda.scalar_attention<warps = 4, rows = 8>`: a warp has `rows` queries and goes through the keys
    32 at a time.
  }];
  let parameters = (ins "int64_t":$warps, "int64_t":$rows);
  let extraClassDeclaration = "int64_t getThreads() const;";
}

def CUDA_MmaAttentionSchedule : CUDA_Schedule<"MmaAttention", "mma_attention", "AttentionOp"> {
  let summary = "warps have queries, on tensor cores";
  let description = [{
    `#cuda.mma_attention<warps = 4, rows = 16, keys = 64>`: a warp has `rows` queries, whose scores,
    weights and sums stay in registers, and goes through the keys `keys` at a time.
  }];
  let parameters = (ins "int64_t":$warps, "int64_t":$rows, "int64_t":$keys);
  let extraClassDeclaration = "int64_t getThreads() const;";
}

def CUDA_WgmmaAttentionSchedule : CUDA_Schedule<"WgmmaAttention", "wgmma_attention", "AttentionOp"> {
  let summary = "warpgroups have queries, on Hopper";
  let description = [{
    `#cuda.wgmma_attention<consumers = 2, keys = 128, stages = 2, registers = [40, 232], cached = 33554432, ordered = true>`:
    one warpgroup copies, and `consumers` have 64 queries each. Keys, and then their values, come `keys`
    at a time to `stages` places of shared memory. `registers` as in `#cuda.wgmma`. Causal tiles of as
    many heads follow each other as have keys and values of `cached` bytes. If they are `ordered`, two
    consumers ask for their products in turns.
  }];
  let parameters = (ins "int64_t":$consumers, "int64_t":$keys, "int64_t":$stages,
                        CUDA_Registers:$registers, "int64_t":$cached, "bool":$ordered);
  let extraClassDeclaration = "int64_t getThreads() const;";
}

//===-- What has an order -----------------------------------------------------------------------===//

def CUDA_ScanSchedule : CUDA_Schedule<"Scan", "scan", "ScanOp"> {
  let summary = "blocks have lines, or parts of them";
  let description = [{
    `#cuda.scan<threads = 256, elements = 16, parts = true>`: a block goes along its line in pieces, of which each
    thread has `elements` neighbours. With `parts` it has a part of a line, one piece or, where there would be more
    parts than flags, several, and looks back for what the parts in front come to.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$elements, "bool":$parts);
}

def CUDA_SortSchedule : CUDA_Schedule<"Sort", "sort", "SortOp"> {
  let summary = "blocks have rows";
  let description = [{
    `#cuda.sort<threads = 256, places = 4096>`: a block sorts a row in `places` places: in registers, if
    each thread has 4 to 32 of them, else in shared memory. If the row is longer, the places are for what
    may be among its first elements, which have to be all that is wanted. With `places = 0` the row is
    sorted where the results are.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$places);
}

def CUDA_MergeSchedule : CUDA_Schedule<"Merge", "merge", "MergeOp"> {
  let summary = "blocks have neighbouring elements of what is merged";
  let description = [{
    `#cuda.merge<threads = 256, elements = 16>`: a block has 4096 elements of the result, `elements` of
    them in each thread's registers.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$elements);
}

def CUDA_ScatterSchedule : CUDA_Schedule<"Scatter", "scatter", "ScatterOp"> {
  let summary = "blocks have some of the places, and write what no later place writes over";
  let description = [{
    `#cuda.scatter<threads = 256, places = 4, batch = 256>`: a block has 4 neighbouring places, and 256 neighbouring elements
    of the batch. It reads the targets of all later places, to find which of its own are written over.
  }];
  let parameters = (ins "int64_t":$threads, "int64_t":$places, "int64_t":$batch);
}

def CUDA_TasksSchedule : CUDA_Schedule<"Tasks", "tasks", "ScanOp, ScatterOp, SortOp, RepeatOp"> {
  let summary = "threads run what are tasks on a CPU";
  let description = [{
    `#cuda.tasks<threads = 64>`: a thread has a row, or a column where these are independent, of a scan,
    scatter, sort or repeat.
  }];
  let parameters = (ins "int64_t":$threads);
}

//===-- Groups ----------------------------------------------------------------------------------===//

def CUDA_GroupSchedule : CUDA_Schedule<"Group", "group", "CallOp"> {
  let summary = "blocks are of one of several kernels";
  let description = [{
    `#cuda.group<threads = 256>`: the blocks of the first part come first, then those of the next one. All have
    as many threads. A part that reads what another one writes has its blocks, which run one after the other.
  }];
  let parameters = (ins "int64_t":$threads);
}

#endif // KILN_TARGETS_CUDA_CUDAATTRIBUTES_TD
