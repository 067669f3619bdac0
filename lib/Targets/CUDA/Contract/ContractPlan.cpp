// Chooses the tiles and threads of a product on a GPU.
#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/MatrixFragments.h"
#include "CUDA/Contract/WidenedOperand.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "cuda-choose-schedule"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Limits for products with few rows; and reads of the right operand that a lane has under way.
static constexpr int64_t dotThreads = 256, maxDotRows = 4, readsAhead = 4;
/// The most rows whose products wait for the right operand's small integers rather than for arithmetic.
static constexpr int64_t maxWaitingRows = 64;
/// Places of parts that are copied asynchronously, and of parts of small integers that wait for memory.
static constexpr int64_t copyStages = 4, widenedStages = 8;

static bool walksAlong(ArrayRef<codegen::Access> accesses, ArrayRef<codegen::DimGroup> groups) {
  return !groups.empty() && llvm::any_of(accesses, [&](const codegen::Access &access) {
    return access.isOffset &&
           codegen::classify(access.expr, groups.back().lastDim()) == codegen::Walk::Consecutive;
  });
}

ContractDims::ContractDims(kernel::ContractOp op)
    : operandType(op.getLhs().front().getTerminator()->getOperand(0).getType()),
      sumType(op.getEpilogue().getArgument(0).getType()) {
  auto lhs = codegen::collectAccesses(op.getLhs()), rhs = codegen::collectAccesses(op.getRhs());
  auto all = codegen::collectAccesses(op.getEpilogue());
  llvm::append_range(all, lhs);
  llvm::append_range(all, rhs);
  SmallVector<sym::Expr> index;
  for (int64_t dim : op.getResultDims())
    index.push_back(sym::Expr::dim(dim));
  SmallVector<sym::Expr> shape = sym::getShape(op.getResult());
  all.push_back({op, true, sym::linearize(index, ArrayRef(shape).take_back(index.size()))});

  unsigned first = 0;
  auto collapse = [&](sym::ShapeAttr extents, sym::Expr &total) {
    auto groups = codegen::collapseDims(first, extents.getSizes(), all);
    first += extents.getSizes().size();
    total = sym::product(extents.getSizes());
    return groups;
  };
  batchGroups = collapse(op.getBatch(), numBatch);
  mGroups = collapse(op.getM(), m);
  nGroups = collapse(op.getN(), n);
  kGroups = collapse(op.getK(), k);
  part = op.getPart() ? op.getPartAttr().getValue() : k;
  numParts = op.getNumParts().value_or(1);
  lhsAlongM = walksAlong(lhs, mGroups) && !walksAlong(lhs, kGroups);
  rhsAlongN = walksAlong(rhs, nGroups) && !walksAlong(rhs, kGroups);
}

/// bf16 and f16, and f32 that may be rounded, summed in f32; bytes, summed in i32.
static bool mayUseTensorCores(const ContractDims &dims, unsigned tf32) {
  if (dims.areBytes())
    return dims.sumType.isInteger(32);
  return dims.sumType.isF32() && (dims.operandType.isF16() || dims.operandType.isBF16() ||
                                  (tf32 > 0 && dims.operandType.isF32()));
}

bool cuda::isDot(const ContractDims &dims) {
  return dims.numParts.isConstant(1) && dims.m.constant() && *dims.m.constant() >= 1 &&
         *dims.m.constant() <= maxDotRows && !dims.rhsAlongN && !dims.n.isConstant(1);
}

bool cuda::isWide(kernel::FuncOp func, const ContractDims &dims, Side side) {
  sym::Assumptions assumptions = kernel::getAssumptions(&func.getRoot()->getRegion(0));
  int64_t elements =
      vectorBytes / std::max<int64_t>(1, dims.operandType.getIntOrFloatBitWidth() / 8);
  ArrayRef<codegen::DimGroup> groups = !dims.isAlongRows(side) ? dims.kGroups
                                       : side == Side::Left    ? dims.mGroups
                                                               : dims.nGroups;
  return func.getAligned() && !groups.empty() &&
         assumptions.isMultipleOf(groups.back().extent, elements);
}

namespace {
/// A block and its tiles, of threads or of warps.
struct BlockCandidate {
  TileShape tile;
  ContractBlock block;
  int64_t stages = copyStages;
};
/// Blocks on tensor cores that take `step` steps at once, or with ordinary multiplications (1).
struct BlockChoice {
  BlockCandidate plan;
  int64_t step;
  StringRef reason;
};
} // namespace

/// The largest block of which there are enough.
static BlockChoice chooseBlock(kernel::FuncOp func, const ContractDims &dims, unsigned tf32) {
  // A step of the largest takes several times as long as a copy.
  static constexpr BlockCandidate scalar[] = {{{8, 8}, {128, 128, 16}, /*stages=*/2},
                                              {{4, 4}, {64, 64, 16}},
                                              {{2, 4}, {32, 64, 16}},
                                              {{2, 2}, {16, 32, 32}}};
  static constexpr BlockCandidate halves[] = {{{64, 64}, {128, 128, 32}},
                                              {{32, 32}, {64, 64, 64}},
                                              {{16, 32}, {32, 64, 64}},
                                              {{16, 8}, {16, 32, 64}}};
  static constexpr BlockCandidate rounded[] = {{{64, 64}, {128, 128, 16}},
                                               {{32, 32}, {64, 64, 32}},
                                               {{16, 32}, {32, 64, 32}},
                                               {{16, 8}, {16, 32, 32}}};
  static constexpr BlockCandidate bytes[] = {{{64, 64}, {128, 128, 64}},
                                             {{32, 32}, {64, 64, 128}},
                                             {{16, 32}, {32, 64, 128}},
                                             {{16, 8}, {16, 32, 128}}};
  // The chunks of operands whose elements come one by one.
  static constexpr BlockCandidate single[] = {
      {{32, 32}, {64, 64, 32}}, {{16, 32}, {32, 64, 32}}, {{16, 8}, {16, 32, 32}}};
  auto candidates = ArrayRef(scalar);
  int64_t step = 1;
  if (mayUseTensorCores(dims, tf32)) {
    // Otherwise the elements that threads hold take a register each.
    bool wide = isWide(func, dims, Side::Left) && isWide(func, dims, Side::Right);
    step = mmaStepBytes * 8 / dims.operandType.getIntOrFloatBitWidth();
    if (dims.operandType.isF32())
      candidates = ArrayRef(rounded).drop_front(wide ? 0 : 1);
    else if (!wide)
      candidates = ArrayRef(single);
    else
      candidates = dims.areBytes() ? ArrayRef(bytes) : ArrayRef(halves);
  }
  // Wide sums take two registers.
  if (dims.sumType.getIntOrFloatBitWidth() > 32)
    candidates = candidates.drop_front();
  int64_t busy = getTarget(func).getBusyBlocks();
  auto isGood = [&](const BlockCandidate &plan) {
    int64_t blocks = codegen::estimate(plan.block.grid(dims));
    LDBG() << "kernel @" << func.getSymName() << ": " << blocks << " blocks of " << plan.block.m
           << " x " << plan.block.n << ", of which " << busy << " fill a GPU";
    return blocks >= busy && codegen::estimate(dims.m) > plan.block.m / 2 &&
           codegen::estimate(dims.n) > plan.block.n / 2;
  };
  const BlockCandidate *plan = llvm::find_if(candidates, isGood);
  if (plan == candidates.end())
    return {candidates.back(), step, "no blocks are enough to fill a GPU: the smallest"};
  return {*plan, step, "the largest blocks of which enough fill a GPU"};
}

bool cuda::waitsForSmallIntegers(kernel::FuncOp func, const ContractDims &dims) {
  return dims.m.constant().value_or(maxWaitingRows + 1) <= maxWaitingRows &&
         WidenedOperand::find(func, cast<kernel::ContractOp>(func.getRoot()), dims);
}

/// Bits of `read` for a step along `dim`, if neighbours are side by side: an element has one step, or several that are
/// small integers.
static std::optional<int64_t> getStepBits(kernel::ReadOp read, sym::Expr dim,
                                          const sym::Assumptions &assumptions) {
  auto type = cast<RankedTensorType>(read.getTensor().getType());
  Type storage = codegen::getStorageType(type.getElementType());
  if (!read.getValues().empty() || !storage.isIntOrFloat())
    return std::nullopt;
  sym::Expr offset = sym::linearize(read.getMap().getResults(), sym::getShape(type));
  int64_t bits = storage.getIntOrFloatBitWidth();
  for (int64_t steps = 1; steps <= bits / 4; steps *= 2) {
    sym::Expr sparse = assumptions.simplify(offset.substitute(
        [&](sym::Expr leaf) { return leaf == dim ? std::optional(dim * steps) : std::nullopt; }));
    if (codegen::classify(sparse, dim) == codegen::Walk::Consecutive)
      return bits / steps;
  }
  return std::nullopt;
}

/// A lane reads 16 bytes of the right operand at a time, or 16 small integers, and what it has converted of the left one
/// serves some columns, if warps are enough.
static DotScheduleAttr chooseDot(kernel::FuncOp func, kernel::ContractOp op,
                                 const ContractDims &dims) {
  auto assumptions = kernel::getAssumptions(&op.getRhs());
  int64_t bits = std::max<int64_t>(8, dims.operandType.getIntOrFloatBitWidth());
  if (!dims.kGroups.empty())
    op.getRhs().walk([&](kernel::ReadOp read) {
      if (auto own = getStepBits(read, dims.kGroups.back().lastDim(), assumptions))
        bits = std::min(bits, *own);
    });
  int64_t lanes = std::min(vectorBytes * 8 / bits, vectorBytes);
  while (lanes > 1 && (!func.getAligned() || dims.kGroups.empty() ||
                       !assumptions.isMultipleOf(dims.kGroups.back().extent, lanes)))
    lanes /= 2;
  int64_t rows = *dims.m.constant(), columns = 1;
  TargetAttr target = getTarget(func);
  // With more rows, half of the warps keep memory busy.
  int64_t enough =
      target.getBusyBlocks() * std::max<int64_t>(target.getWarps() / (rows == 1 ? 1 : 2), 1);
  while (columns < (rows == 1 ? 2 : 4) && assumptions.isMultipleOf(dims.n, 2 * columns) &&
         codegen::estimate(dims.numBatch * dims.n) >= 2 * columns * enough)
    columns *= 2;
  int64_t ahead = std::max<int64_t>(1, readsAhead / columns);
  // Fewer warps than fill a GPU have room for more reads each.
  if (rows == 1 && codegen::estimate(dims.numBatch * dims.n) < columns * enough)
    ahead *= 2;
  // As many as a lane has, or none would be.
  if (std::optional<int64_t> k = dims.k.constant())
    ahead = std::min<int64_t>(
        ahead, std::max<uint64_t>(llvm::bit_floor<uint64_t>(*k / (lanes * warpSize)), 1));
  return DotScheduleAttr::get(func.getContext(), dotThreads, rows, columns, lanes, ahead);
}

static FailureOr<KernelPlan> planWith(DotScheduleAttr schedule, kernel::FuncOp func,
                                      const ContractDims &dims, StringRef reason) {
  auto assumptions = kernel::getAssumptions(&cast<kernel::ContractOp>(func.getRoot()).getRhs());
  int64_t columns = schedule.getColumns();
  if (!isDot(dims) || schedule.getRows() != dims.m.constant())
    return func.emitError("a schedule of ")
           << schedule.getRows() << " rows is for a contract of so few, whose steps lie side by "
           << "side in the right operand";
  if (!assumptions.isMultipleOf(dims.n, columns) ||
      !assumptions.isMultipleOf(dims.k, schedule.getVector()))
    return func.emitError("a warp's ")
           << columns << " columns, " << schedule.getVector()
           << " steps of which are read at once, do not divide the contract's";
  int64_t threads = schedule.getThreads();
  sym::Expr warps = (dims.numBatch * dims.n).floorDiv(columns);
  return KernelPlan{schedule, warps.ceilDiv(threads / warpSize), threads, reason};
}

/// Bytes of shared memory that blocks take with so many places for parts of operands. Between the steps of what ordinary
/// multiplications read are `apart` bytes.
static int64_t countSharedBytes(ContractBlock block, int64_t places, int64_t apart,
                                kernel::FuncOp func, const ContractDims &dims) {
  int64_t bytes = std::max<int64_t>(1, dims.operandType.getIntOrFloatBitWidth() / 8),
          left = (block.m * bytes + apart) * block.k, right = (block.n * bytes + apart) * block.k;
  auto widened = WidenedOperand::find(func, cast<kernel::ContractOp>(func.getRoot()), dims);
  if (!widened)
    return places * (left + right);
  int64_t sources = block.n * block.k * bytes / vectorBytes * widened->bytes();
  return places * (left + sources) + evaluatedPlaces * right;
}

/// Blocks of a product that is run like this, with so many places for parts of operands; fails
/// where a part does not begin with a step of one, or shared memory is too small.
template <typename Schedule>
static FailureOr<KernelPlan> planBlocks(Schedule schedule, int64_t places, kernel::FuncOp func,
                                        const ContractDims &dims, StringRef reason) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  ContractBlock block = ContractBlock::of(schedule);
  if (op.getPart() && !kernel::getAssumptions(&op.getLhs()).isMultipleOf(dims.part, block.k))
    return func.emitError("a contract's part has to be a multiple of ") << block.k << " steps";
  int64_t apart = isa<FmaScheduleAttr>(schedule) ? vectorBytes : 0,
          shared = countSharedBytes(block, places, apart, func, dims);
  if (shared > getLeastSharedBytes())
    return func.emitError("blocks take ")
           << shared << " bytes of shared memory, of which GPUs have " << getLeastSharedBytes();
  return KernelPlan{schedule, block.grid(dims), schedule.getThreads(), reason};
}

static FailureOr<KernelPlan> planWith(MmaScheduleAttr schedule, kernel::FuncOp func,
                                      const ContractDims &dims, StringRef reason) {
  int64_t bytes = dims.operandType.getIntOrFloatBitWidth() / 8;
  if (!mayUseTensorCores(dims, /*tf32=*/1) || schedule.getStep() * bytes != mmaStepBytes)
    return func.emitError("tensor cores do not multiply ")
           << dims.operandType << " by " << schedule.getStep() << " steps, summed in "
           << dims.sumType;
  return planBlocks(schedule, schedule.getStages(), func, dims, reason);
}

FailureOr<KernelPlan> cuda::planContract(kernel::FuncOp func, unsigned tf32) {
  auto op = cast<kernel::ContractOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(op)))
    return failure();
  ContractDims dims(op);
  bool floats = isa<FloatType>(dims.operandType) && isa<FloatType>(dims.sumType);
  bool integers = isa<IntegerType>(dims.operandType) && isa<IntegerType>(dims.sumType);
  if ((!floats && !integers) || dims.operandType.isInteger(1) ||
      dims.operandType.getIntOrFloatBitWidth() > dims.sumType.getIntOrFloatBitWidth())
    return op.emitError("cannot be compiled for CUDA: a product of ")
           << dims.operandType << " summed in " << dims.sumType;
  MLIRContext *context = func.getContext();
  kernel::ScheduleAttrInterface given = func.getScheduleAttr();
  if (auto schedule = dyn_cast_if_present<DotScheduleAttr>(given))
    return planWith(schedule, func, dims, givenReason);
  if (auto schedule = dyn_cast_if_present<FmaScheduleAttr>(given))
    return planBlocks(schedule, schedule.getStages(), func, dims, givenReason);
  if (auto schedule = dyn_cast_if_present<MmaScheduleAttr>(given))
    return planWith(schedule, func, dims, givenReason);
  if (given)
    return emitUnknownSchedule(func);
  if (isDot(dims))
    return planWith(chooseDot(func, op, dims), func, dims, "rows are few: memory is the limit");
  BlockChoice choice = chooseBlock(func, dims, tf32);
  auto [tile, block, stages] = choice.plan;
  if (waitsForSmallIntegers(func, dims)) {
    // Twice the steps take fewer instructions each.
    if (kernel::getAssumptions(&op.getLhs()).isMultipleOf(dims.part, 2 * block.k))
      block.k *= 2;
    for (stages = widenedStages; stages > copyStages; --stages)
      if (countSharedBytes(block, stages, /*apart=*/0, func, dims) <= getLeastSharedBytes())
        break;
  }
  if (choice.step == 1)
    return planBlocks(FmaScheduleAttr::get(context, block.m, block.n, block.k, tile, stages),
                      stages, func, dims, choice.reason);
  return planWith(MmaScheduleAttr::get(context, block.m, block.n, block.k, tile, choice.step,
                                       stages, dims.operandType.isF32() ? tf32 : 1),
                  func, dims, choice.reason);
}
