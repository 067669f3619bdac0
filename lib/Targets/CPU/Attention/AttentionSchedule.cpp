// Chooses the blocks of queries and keys of an attention on a CPU.
#include "kiln/Targets/CPU/AttentionLayout.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Largest head size; scratch memory grows with it.
static constexpr int64_t maxDepth = 4096;
/// Keys that are read together for one query where the values are short.
static constexpr int64_t keysAtOnce = 4;

/// Keys of a block: scores of two vectors of queries, of 64 bytes each, take half of level 1 cache.
static int64_t getBlockKeys(const CPUInfo &target) { return target.l1Bytes / 2 / 2 / 64; }

/// Keys of a block for one query: few rescalings, and scores (of f32) that take a sixteenth of
/// level 1 cache.
static int64_t getQueryBlockKeys(const CPUInfo &target, int64_t lanes) {
  return std::max<int64_t>(llvm::alignDown(target.l1Bytes / 16 / 4, lanes), lanes);
}

static int64_t alignToLine(int64_t bytes) { return llvm::alignTo(bytes, 64); }

static int64_t bytesOf(Type type) {
  return llvm::divideCeilSigned(type.getIntOrFloatBitWidth(), 8);
}

/// The operand in place, if it is one read that is linear in key and feature, with a row stride (of
/// `rows`, the microkernel's) known now.
static AttentionOperand analyze(Region &region, unsigned keyDim, unsigned featureDim,
                                bool keysAreRows) {
  AttentionOperand operand;
  auto read = dyn_cast<kernel::ReadOp>(region.front().front());
  if (!read || read.getMask() || !read.getValues().empty() ||
      region.front().getTerminator()->getOperand(0) != read.getResult())
    return operand;
  sym::Expr offset = kernel::getAssumptions(&region).simplify(
      sym::linearize(read.getMap().getResults(), sym::getShape(read.getTensor())));
  auto key = sym::splitLinear(offset, sym::Expr::dim(keyDim));
  auto feature = key ? sym::splitLinear(key->rest, sym::Expr::dim(featureDim)) : std::nullopt;
  if (!feature || key->coefficient.hasDims() || feature->coefficient.hasDims())
    return operand;
  std::optional<int64_t> rowStride =
      (keysAreRows ? key->coefficient : feature->coefficient).constant();
  constexpr int64_t maxStride = 1 << 22;
  if (!rowStride || *rowStride < 0 || *rowStride > maxStride)
    return operand;
  return {true, read.getTensor(), feature->rest, key->coefficient, feature->coefficient};
}

FailureOr<AttentionLayout> AttentionLayout::get(kernel::AttentionOp op, const CPUInfo &target) {
  AttentionLayout layout;
  layout.op = op;
  layout.elementType = op.getQ().front().getTerminator()->getOperand(0).getType();
  if (!isa<FloatType>(layout.elementType))
    return op.emitOpError("of ") << layout.elementType << " is not supported on CPUs";
  layout.sumType = layout.elementType.getIntOrFloatBitWidth() < 32
                       ? Type(Float32Type::get(op.getContext()))
                       : layout.elementType;
  layout.m = op.getM().getValue();
  layout.n = op.getN().getValue();
  std::optional<int64_t> depth = op.getD().getValue().constant();
  std::optional<int64_t> valueDepth = op.getDv().getValue().constant();
  if (!depth || !valueDepth || *depth > maxDepth || *valueDepth > maxDepth)
    return op.emitOpError("head sizes ")
           << op.getD().getValue().str() << " and " << op.getDv().getValue().str()
           << " are not constants up to " << maxDepth;
  layout.depth = *depth;
  layout.valueDepth = *valueDepth;
  unsigned key = op.getNumBatch() + 1;
  layout.keys = analyze(op.getK(), key, key + 1, /*keysAreRows=*/true);
  layout.values = analyze(op.getV(), key, key + 2, /*keysAreRows=*/false);
  layout.lanes = std::max<int64_t>(target.lanes(layout.sumType), 1);
  return layout;
}

SmallVector<sym::Expr> AttentionLayout::gridSizes() const {
  SmallVector<sym::Expr> sizes(kernel::AttentionOp(op).getBatch().getSizes());
  sizes.push_back(numRowBlocks());
  return sizes;
}

int64_t AttentionLayout::paddedValueDepth() const { return llvm::alignTo(valueDepth, lanes); }
int64_t AttentionLayout::paddedDepth() const { return llvm::alignTo(depth, lanes); }

int64_t AttentionLayout::queryBytes() const {
  return alignToLine(paddedDepth() * panel() * bytesOf(sumType));
}
int64_t AttentionLayout::stateBytes() const { return alignToLine(2 * panel() * bytesOf(sumType)); }
int64_t AttentionLayout::outputBytes() const {
  return alignToLine(paddedValueDepth() * panel() * bytesOf(sumType));
}
int64_t AttentionLayout::scoreBytes() const {
  // A bias is written in squares of `lanes` rows.
  return alignToLine(llvm::alignTo(blockKeys, lanes) * panel() * bytesOf(sumType));
}
int64_t AttentionLayout::keyBytes() const {
  return keys.direct || byQuery ? 0 : alignToLine(blockKeys * paddedDepth() * bytesOf(elementType));
}
int64_t AttentionLayout::valueBytes() const {
  return values.direct || byQuery
             ? 0
             : alignToLine(blockKeys * paddedValueDepth() * bytesOf(elementType));
}

FailureOr<AttentionLayout> cpu::getScheduledLayout(kernel::AttentionOp op, AttentionAttr schedule,
                                                   const CPUInfo &target) {
  FailureOr<AttentionLayout> layout = AttentionLayout::get(op, target);
  if (failed(layout))
    return failure();
  layout->lanes = schedule.getLanes();
  layout->vectors = schedule.getVectors();
  layout->keyTile = schedule.getTileKeys();
  layout->valueTile = schedule.getTileValues();
  layout->blockKeys = schedule.getBlockKeys();
  layout->blockPanels = schedule.getBlockPanels();
  // Strides of what is evaluated into scratch.
  auto stage = [](AttentionOperand &operand, int64_t features) {
    if (operand.direct)
      return;
    operand.keyStride = features;
    operand.featureStride = 1;
  };
  stage(layout->keys, layout->paddedDepth());
  stage(layout->values, layout->paddedValueDepth());
  return layout;
}

FailureOr<AttentionLayout> cpu::getScheduledLayout(kernel::AttentionOp op,
                                                   AttentionByQueryAttr schedule,
                                                   const CPUInfo &target) {
  FailureOr<AttentionLayout> layout = AttentionLayout::get(op, target);
  if (failed(layout))
    return failure();
  layout->byQuery = true;
  layout->lanes = schedule.getLanes();
  layout->keyTile = schedule.getLanes();
  layout->blockKeys = schedule.getBlockKeys();
  layout->sumsAtOnce = schedule.getSums();
  layout->keysAtOnce = schedule.getKeys();
  return layout;
}

/// Rows of the first product's tile: as near to the tallest as possible with little left over.
static int64_t chooseKeyTile(sym::Expr n, bool causal, int64_t most) {
  std::optional<int64_t> keys = n.constant();
  // A causal block ends at a multiple of the panel's width.
  if (causal || !keys)
    return most >= 8 ? 8 : most >= 4 ? 4 : most;
  int64_t best = most, bestRest = *keys;
  for (int64_t rows = most; rows * 3 >= most * 2 && rows > 0; --rows)
    if (int64_t rest = (rows - *keys % rows) % rows; rest < bestRest) {
      best = rows;
      bestRest = rest;
    }
  return std::min(best, *keys);
}

/// Panels of a task, which lasts as long as those of contracts; at least one task for each core.
static int64_t chooseBlockPanels(const AttentionLayout &layout, double panelSeconds,
                                 const CPUInfo &target) {
  kernel::AttentionOp op = layout.op;
  int64_t panels = std::max<int64_t>(estimate(layout.numPanels()), 1), batch = 1;
  for (sym::Expr size : op.getBatch().getSizes())
    batch *= std::clamp<int64_t>(estimate(size), 1, 1 << 20);
  constexpr int64_t mostPanels = 8;
  auto blockPanels = static_cast<int64_t>(target.taskSeconds() / panelSeconds);
  blockPanels = std::clamp<int64_t>(blockPanels, 1, mostPanels);
  blockPanels = std::min(blockPanels, std::max<int64_t>(panels * batch / target.cores, 1));
  // Even shares.
  return llvm::divideCeilSigned(panels, llvm::divideCeilSigned(panels, blockPanels));
}

/// Cycles of a vector of scores beside its products: the bias, what is made of both, and what softmax reads, computes and writes.
static double getScoreCycles(kernel::AttentionOp op, const CPUInfo &target) {
  constexpr int64_t softmaxOps = 3, softmaxAccesses = 4;
  int64_t arithmetic = softmaxOps, accesses = softmaxAccesses, functions = 1;
  for (Region *region : {&op.getBias(), &op.getScore()})
    if (!region->empty()) {
      kernel::BodyCost cost = kernel::getCost(*region);
      arithmetic += cost.arithmetic;
      accesses += cost.reads;
      functions += cost.transcendental;
    }
  return double(arithmetic) / double(target.opRate) + double(accesses * target.accessCost) +
         double(functions * target.functionCost);
}

/// Vectors of queries of a panel. Where registers hold few sums, three vectors load less for a product than two: kernels take 0.87 to
/// 0.97 of the time on Zen 3. What is left of a known number of queries has narrower tiles; a single vector is no better than two.
static int64_t chooseVectors(const AttentionLayout &layout, const CPUInfo &target) {
  constexpr int64_t fewRegisters = 16, usual = 2, wide = 3;
  int64_t needed = llvm::divideCeilSigned(std::max<int64_t>(estimate(layout.m), 1), layout.lanes);
  bool isWide = layout.m.isConstant() && target.vectorRegisters == fewRegisters &&
                (needed == wide || needed > 2 * usual);
  return std::min(needed, isWide ? wide : usual);
}

static KernelPlan planPanels(AttentionLayout layout, const CPUInfo &target) {
  kernel::AttentionOp op = layout.op;
  layout.vectors = chooseVectors(layout, target);
  // With two vectors of columns, more rows are no faster.
  int64_t tallest = target.tileSums / 2;
  int64_t most = std::min(maxTileRows(target, layout.vectors), tallest);
  int64_t tile = std::max<int64_t>(chooseKeyTile(layout.n, op.getCausal(), most), 1);

  int64_t keys = std::max<int64_t>(estimate(layout.n), 1);
  int64_t usualBlockKeys = getBlockKeys(target);
  int64_t blocks = llvm::divideCeilSigned(keys, usualBlockKeys);
  int64_t blockKeys = llvm::alignTo(llvm::divideCeilSigned(keys, blocks), tile);
  if (op.getCausal() || !layout.n.isConstant())
    blockKeys = llvm::alignTo(std::min(keys, usualBlockKeys), tile);

  double vectors = double(layout.panel()) * double(keys) / double(layout.lanes);
  double productCycles = double(layout.depth + layout.valueDepth) / double(target.fmaUnits);
  double panelSeconds = vectors * (productCycles + getScoreCycles(op, target)) / target.hertz();
  int64_t blockPanels = chooseBlockPanels(layout, panelSeconds, target);
  KernelPlan plan{AttentionAttr::get(op.getContext(), tile, layout.vectors, layout.lanes,
                                     blockPanels, blockKeys, tallest)};
  double cycles = panelSeconds * target.hertz() * double(estimate(layout.numPanels()));
  for (sym::Expr size : op.getBatch().getSizes())
    cycles *= double(estimate(size));
  plan.cycles = cycles;
  plan.reason = llvm::formatv("a panel of {0} queries takes about {1:f1} µs", layout.panel(),
                              panelSeconds * 1e6);
  return plan;
}

static KernelPlan choose(const AttentionLayout &layout, const CPUInfo &target) {
  // From a quarter of the lanes on, keys that are read for all queries at once are worth more.
  std::optional<int64_t> m = layout.m.constant();
  if (!m || *m * 4 > layout.lanes)
    return planPanels(layout, target);
  // As many sums at once as hide an FMA's latency.
  KernelPlan plan{AttentionByQueryAttr::get(layout.elementType.getContext(), layout.lanes,
                                            getQueryBlockKeys(target, layout.lanes),
                                            target.fmaUnits * target.fmaLatency, keysAtOnce)};
  plan.reason =
      llvm::formatv("{0} queries would fill less than a quarter of {1} lanes", *m, layout.lanes);
  return plan;
}

FailureOr<AttentionLayout> cpu::getScheduledLayout(kernel::AttentionOp op,
                                                   kernel::ScheduleAttrInterface schedule,
                                                   const CPUInfo &target) {
  if (auto byQuery = dyn_cast<AttentionByQueryAttr>(schedule))
    return getScheduledLayout(op, byQuery, target);
  if (auto panels = dyn_cast<AttentionAttr>(schedule))
    return getScheduledLayout(op, panels, target);
  return op.emitOpError("cannot be run on CPUs with ") << schedule;
}

FailureOr<KernelPlan> cpu::planAttention(kernel::FuncOp func, const CPUInfo &target) {
  auto op = cast<kernel::AttentionOp>(func.getRoot());
  if (op.getPart())
    return op.emitError("cannot be compiled for CPUs: attention in parts");
  KernelPlan plan{func.getScheduleAttr()};
  if (!plan.schedule) {
    FailureOr<AttentionLayout> layout = AttentionLayout::get(op, target);
    if (failed(layout))
      return failure();
    plan = choose(*layout, target);
  }
  FailureOr<AttentionLayout> layout = getScheduledLayout(op, plan.schedule, target);
  if (failed(layout))
    return failure();
  plan.grid = sym::product(layout->gridSizes());
  plan.scratchBytes = layout->scratchBytes();
  return plan;
}
