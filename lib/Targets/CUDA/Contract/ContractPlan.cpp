#include "CUDA/Contract/ContractPlan.h"
#include "CUDA/Contract/MatrixFragments.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Blocks that keep a GPU busy.
static constexpr int64_t manyBlocks = 128;
/// Limits for products with few rows.
static constexpr int64_t dotThreads = 256, maxDotRows = 4;
/// The number of warps that keep a GPU's memory busy, with one row each; with more rows, half of
/// them.
static constexpr int64_t manyWarps = 4096;

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

ContractPlan cuda::readContractPlan(kernel::ScheduleAttr schedule) {
  auto tile = schedule.getTile(), block = schedule.getBlock();
  return {tile[0], tile[1], block[0], block[1], block[2], schedule.getLanes()};
}

/// bf16 and f16, and f32 that may be rounded, summed in f32.
static bool mayUseTensorCores(const ContractDims &dims, bool tf32) {
  return dims.sumType.isF32() && (dims.operandType.isF16() || dims.operandType.isBF16() ||
                                  (tf32 && dims.operandType.isF32()));
}

static bool isValid(kernel::ScheduleAttr schedule, const ContractDims &dims) {
  if (schedule.getTile().size() != 2 || schedule.getBlock().size() != 3 ||
      llvm::any_of(schedule.getTile(), [](int64_t size) { return size < 1; }) ||
      llvm::any_of(schedule.getBlock(), [](int64_t size) { return size < 1; }))
    return false;
  ContractPlan plan = readContractPlan(schedule);
  if (plan.blockM % plan.tileM || plan.blockN % plan.tileN)
    return false;
  if (plan.depth != 1) {
    int64_t bytes = dims.operandType.getIntOrFloatBitWidth() / 8;
    auto isLine = [&](int64_t length) {
      return llvm::isPowerOf2_64(length) && length * bytes >= vectorBytes;
    };
    if (!mayUseTensorCores(dims, /*tf32=*/true) || plan.depth * bytes != mmaStepBytes ||
        plan.tileM % mmaM || plan.tileN % mmaN || plan.blockK % plan.depth ||
        !isLine(plan.blockM) || !isLine(plan.blockN) || !isLine(plan.blockK))
      return false;
  }
  int64_t threads = plan.threads();
  return threads >= warpSize && threads <= 1024 && threads % warpSize == 0 &&
         plan.blockM * plan.blockK % threads == 0 && plan.blockN * plan.blockK % threads == 0;
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

/// The largest block of which there are enough.
static ContractPlan choosePlan(kernel::FuncOp func, const ContractDims &dims, bool tf32) {
  static constexpr ContractPlan scalar[] = {
      {8, 8, 128, 128, 8, 1}, {4, 4, 64, 64, 16, 1}, {2, 4, 32, 64, 16, 1}, {2, 2, 16, 32, 32, 1}};
  static constexpr ContractPlan halves[] = {{64, 64, 128, 128, 32, 16},
                                            {32, 32, 64, 64, 64, 16},
                                            {16, 32, 32, 64, 64, 16},
                                            {16, 8, 16, 32, 64, 16}};
  static constexpr ContractPlan rounded[] = {{64, 64, 128, 128, 16, 8},
                                             {32, 32, 64, 64, 32, 8},
                                             {16, 32, 32, 64, 32, 8},
                                             {16, 8, 16, 32, 32, 8}};
  // The chunks of operands whose elements come one by one.
  static constexpr ContractPlan single[] = {
      {32, 32, 64, 64, 32, 16}, {16, 32, 32, 64, 32, 16}, {16, 8, 16, 32, 32, 16}};
  auto candidates = ArrayRef(scalar);
  if (mayUseTensorCores(dims, tf32)) {
    // Otherwise the elements that threads hold take a register each.
    bool wide = isWide(func, dims, Side::Left) && isWide(func, dims, Side::Right);
    if (dims.operandType.isF32())
      candidates = ArrayRef(rounded).drop_front(wide ? 0 : 1);
    else
      candidates = wide ? ArrayRef(halves) : ArrayRef(single);
  }
  // Wide sums take two registers.
  if (dims.sumType.getIntOrFloatBitWidth() > 32)
    candidates = candidates.drop_front();
  auto isGood = [&](const ContractPlan &plan) {
    return codegen::estimate(plan.grid(dims)) >= manyBlocks &&
           codegen::estimate(dims.m) > plan.blockM / 2 &&
           codegen::estimate(dims.n) > plan.blockN / 2;
  };
  const ContractPlan *plan = llvm::find_if(candidates, isGood);
  return plan == candidates.end() ? candidates.back() : *plan;
}

/// A lane reads 16 bytes of the right operand at a time, and what it has converted of the left one
/// serves some columns, if warps are enough.
static kernel::ScheduleAttr chooseDot(kernel::FuncOp func, kernel::ContractOp op,
                                      const ContractDims &dims) {
  auto assumptions = kernel::getAssumptions(&op.getRhs());
  int64_t bytes = std::max<int64_t>(1, dims.operandType.getIntOrFloatBitWidth() / 8);
  if (!dims.kGroups.empty())
    op.getRhs().walk([&](kernel::ReadOp read) {
      auto type = cast<RankedTensorType>(read.getTensor().getType());
      Type storage = codegen::getStorageType(type.getElementType());
      sym::Expr offset = sym::linearize(read.getMap().getResults(), sym::getShape(type));
      if (read.getValues().empty() && storage.isIntOrFloat() &&
          codegen::classify(offset, dims.kGroups.back().lastDim()) == codegen::Walk::Consecutive)
        bytes = std::min<int64_t>(bytes, storage.getIntOrFloatBitWidth() / 8);
    });
  int64_t lanes = vectorBytes / bytes;
  while (lanes > 1 && (!func.getAligned() || dims.kGroups.empty() ||
                       !assumptions.isMultipleOf(dims.kGroups.back().extent, lanes)))
    lanes /= 2;
  int64_t rows = *dims.m.constant(), columns = 1, enough = rows == 1 ? manyWarps : manyWarps / 2;
  while (columns < (rows == 1 ? 2 : 4) && assumptions.isMultipleOf(dims.n, 2 * columns) &&
         codegen::estimate(dims.numBatch * dims.n) >= 2 * columns * enough)
    columns *= 2;
  return kernel::ScheduleAttr::get(func.getContext(), {rows}, {dotThreads, columns}, lanes,
                                   /*stage=*/false);
}

FailureOr<KernelPlan> cuda::planContract(kernel::FuncOp func, bool tf32) {
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
  kernel::ScheduleAttr schedule = getSchedule(func);
  if (!schedule && isDot(dims))
    schedule = chooseDot(func, op, dims);
  if (schedule && schedule.getTile().size() == 1) {
    auto assumptions = kernel::getAssumptions(&op.getRhs());
    if (!isDot(dims) || schedule.getTile()[0] != dims.m.constant() ||
        schedule.getBlock().size() != 2 || schedule.getBlock()[0] != dotThreads ||
        schedule.getBlock()[1] < 1 || schedule.getBlock()[1] > 8 ||
        !assumptions.isMultipleOf(dims.n, schedule.getBlock()[1]) || schedule.getLanes() < 1 ||
        !assumptions.isMultipleOf(dims.k, schedule.getLanes()))
      return func.emitError("a schedule tile = [m] is for contracts of few rows");
    sym::Expr warps = (dims.numBatch * dims.n).floorDiv(schedule.getBlock()[1]);
    return KernelPlan{schedule, warps.ceilDiv(dotThreads / warpSize), dotThreads};
  }
  if (!schedule) {
    ContractPlan plan = choosePlan(func, dims, tf32);
    schedule = kernel::ScheduleAttr::get(func.getContext(), {plan.tileM, plan.tileN},
                                         {plan.blockM, plan.blockN, plan.blockK}, plan.depth,
                                         /*stage=*/false);
  }
  if (!isValid(schedule, dims))
    return func.emitError("a contract's schedule needs tile = [m, n] and block = [m, n, k], which "
                          "fit each other and a block's threads");
  ContractPlan plan = readContractPlan(schedule);
  if (op.getPart() && !kernel::getAssumptions(&op.getLhs()).isMultipleOf(dims.part, plan.blockK))
    return func.emitError("a contract's part has to be a multiple of ") << plan.blockK << " steps";
  return KernelPlan{schedule, plan.grid(dims), plan.threads()};
}
