// The attention that warpgroups compute, and its blocks.
#include "CUDA/Hopper/WarpgroupAttention.h"
#include "CUDA/Attention/AttentionKernel.h"
#include "CUDA/Hopper/WarpgroupPlan.h"
#include "kiln/Codegen/LoopNest.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// The most places of use.
static constexpr int64_t maxStages = 8;
/// Fewer queries are left to the path of all GPUs, whose blocks are smaller.
static constexpr int64_t minQueries = 64;
static constexpr int64_t maxDepth = 256;
/// The most ops of a bias, which each thread evaluates for 64 scores together.
static constexpr int64_t maxBiasOps = 24;

static constexpr int64_t consumers = 2;
/// Features up to which products in turns are worth what the turns take: above, the fewer keys of a
/// block leave less to overlap.
static constexpr int64_t maxOrderedFeatures = 128;

/// Keys of a block: as many as there are registers for beside sums of so many features, what a bias
/// or the comparison of keys and queries is computed with, and a length that only a run shows.
static int64_t findMostKeys(kernel::AttentionOp op, int64_t features) {
  bool hasBias = !op.getBias().empty(), isKnown = op.getN().getValue().isConstant();
  if (features > 192 && hasBias)
    return isKnown ? 32 : 16;
  if (features > 192 && op.getCausal())
    return isKnown ? 48 : 32;
  if (features > 128 && hasBias)
    return isKnown ? 64 : 32;
  if (features > 128)
    return isKnown ? 80 : 64;
  if (hasBias && features > 64)
    return isKnown ? 96 : 64;
  // On an H200 they take 0.97 (16384 keys of 128 features) and 0.93 (4096) of the time of blocks of 128
  // keys. 160 take 0.91 and 0.96, but have no registers left where the last block is not full.
  return isKnown && !hasBias && !op.getCausal() && features > 64 ? 144 : 128;
}

static int64_t chooseKeys(kernel::AttentionOp op, int64_t features) {
  int64_t most = findMostKeys(op, features);
  if (!op.getPart())
    return most;
  // Parts fit the blocks of other GPUs, which have 16 to 64 keys.
  sym::Assumptions assumptions = kernel::getAssumptions(&op.getK());
  int64_t keys = llvm::bit_floor<uint64_t>(most);
  while (keys > wgmmaK && !assumptions.isMultipleOf(op.getPartAttr().getValue(), keys))
    keys /= 2;
  return keys;
}

int64_t cuda::countStages(const WarpgroupAttentionPlan &plan,
                          const WarpgroupAttentionOperands &operands, TargetAttr target) {
  int64_t room = target.getShared() - overheadBytes - plan.bytes(plan.queries(), operands.depth);
  return std::min<int64_t>(maxStages, llvm::bit_floor<uint64_t>(room / plan.stageBytes(operands)));
}

/// With a single warpgroup that multiplies there are registers enough. Where a part is takes the
/// copying thread some.
static std::optional<WarpgroupRegisters> chooseRegisters(kernel::AttentionOp op,
                                                         const WarpgroupAttentionPlan &plan) {
  if (plan.consumers == 1)
    return std::nullopt;
  return op.getPart() ? WarpgroupRegisters{56, 224} : WarpgroupRegisters{40, 232};
}

static bool isShort(Region &bias) {
  return bias.empty() ||
         (llvm::range_size(bias.front()) <= maxBiasOps &&
          llvm::all_of(bias.front(), [](Operation &op) { return op.getNumRegions() == 0; }));
}

std::optional<WarpgroupAttentionOperands> cuda::findWarpgroupAttention(kernel::FuncOp func,
                                                                       const char *&reason) {
  auto op = dyn_cast<kernel::AttentionOp>(func.getRoot());
  if (!op)
    return std::nullopt;
  auto no = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  if (!func.getAligned())
    return no("a buffer may begin where vectors do not");
  if (!isShort(op.getBias()))
    return no("its bias takes too many operations");
  if (codegen::estimate(op.getM().getValue()) < minQueries)
    return no("it has too few queries");
  auto typeOf = [](Region &region) {
    return region.front().getTerminator()->getOperand(0).getType();
  };
  Type type = typeOf(op.getQ());
  auto depth = op.getD().getValue().constant(), valueDepth = op.getDv().getValue().constant();
  // The product with values has as many columns as these have features.
  if (!(type.isF16() || type.isBF16()) || type != typeOf(op.getK()) || type != typeOf(op.getV()))
    return no("queries, keys and values are not all f16 or all bf16");
  if (!depth || !valueDepth || *depth < 1 || *depth > maxDepth || *valueDepth < 8 ||
      *valueDepth > maxDepth || *valueDepth % 8)
    return no("the number of features is unknown, above 256 or no multiple of 8");
  unsigned m = op.getNumBatch(), n = m + 1, d = m + 2, dv = m + 3;
  auto q = findTensorView(op, op.getQ(), m, d), k = findTensorView(op, op.getK(), n, d),
       v = findTensorView(op, op.getV(), n, dv);
  if (!q || !k || !v)
    return no("queries, keys or values are not tensors as they lie in memory");
  return WarpgroupAttentionOperands{std::move(*q), std::move(*k), std::move(*v),
                                    type,          *depth,        *valueDepth};
}

/// Fails, with an error on the kernel, if the schedule is not one for these operands.
static LogicalResult verifySchedule(kernel::FuncOp func, kernel::AttentionOp op,
                                    const WarpgroupAttentionOperands &operands,
                                    WgmmaAttentionScheduleAttr schedule) {
  WarpgroupAttentionPlan plan{schedule.getConsumers(), schedule.getKeys()};
  int64_t mostKeys = findMostKeys(op, std::max(operands.depth, operands.valueDepth)),
          mostStages = countStages(plan, operands, getVariantTarget(func));
  if (plan.keys > mostKeys)
    return func.emitError("keys = ")
           << plan.keys << ", of whose scores registers hold " << mostKeys;
  if (op.getPart() &&
      !kernel::getAssumptions(&op.getK()).isMultipleOf(op.getPartAttr().getValue(), plan.keys))
    return func.emitError("an attention's part has to be a multiple of ") << plan.keys << " keys";
  if (schedule.getStages() > mostStages || !llvm::isPowerOf2_64(schedule.getStages()))
    return func.emitError("stages = ")
           << schedule.getStages() << ", which have to be a power of two up to " << mostStages;
  return success();
}

FailureOr<KernelPlan> cuda::planVariantWith(kernel::FuncOp func,
                                            const WarpgroupAttentionOperands &operands,
                                            WgmmaAttentionScheduleAttr given) {
  auto op = cast<kernel::AttentionOp>(func.getRoot());
  if (given) {
    if (failed(verifySchedule(func, op, operands, given)))
      return failure();
    return KernelPlan{given, getGrid(op, given.getConsumers() * wgmmaM), given.getThreads(),
                      givenReason};
  }
  int64_t features = std::max(operands.depth, operands.valueDepth);
  WarpgroupAttentionPlan plan{consumers, chooseKeys(op, features)};
  TargetAttr target = getVariantTarget(func);
  // The rest of the cache is for what else is read and written.
  int64_t cached = llvm::bit_floor<uint64_t>(target.getCache());
  auto schedule = WgmmaAttentionScheduleAttr::get(func.getContext(), plan.consumers, plan.keys,
                                                  countStages(plan, operands, target),
                                                  chooseRegisters(op, plan), cached,
                                                  /*ordered=*/features <= maxOrderedFeatures);
  return KernelPlan{schedule, getGrid(op, plan.queries()), schedule.getThreads(),
                    "as many keys at a time as registers hold scores of"};
}

void cuda::addWarpgroupCandidates(kernel::FuncOp func, const WarpgroupAttentionOperands &operands,
                                  WgmmaAttentionScheduleAttr base, Candidates &candidates) {
  auto op = cast<kernel::AttentionOp>(func.getRoot());
  auto add = [&](int64_t warpgroups, int64_t keys, int64_t stages, int64_t cached, bool ordered) {
    WarpgroupAttentionPlan plan{warpgroups, keys};
    int64_t most = countStages(plan, operands, getVariantTarget(func));
    candidates.add<WgmmaAttentionScheduleAttr>(warpgroups, keys, std::min(stages, most),
                                               chooseRegisters(op, plan), cached,
                                               ordered && warpgroups == 2);
  };
  int64_t most = findMostKeys(op, std::max(operands.depth, operands.valueDepth)),
          cached = base.getCached(), stages = base.getStages();
  for (int64_t warpgroups : {base.getConsumers(), 3 - base.getConsumers()}) {
    for (int64_t keys :
         {base.getKeys(), most, most - wgmmaK, most - 2 * wgmmaK, most / 2, most / 4})
      if (keys >= wgmmaK)
        add(warpgroups, llvm::alignDown(keys, wgmmaK), maxStages, cached, base.getOrdered());
    add(warpgroups, base.getKeys(), stages / 2, cached, base.getOrdered());
  }
  add(base.getConsumers(), base.getKeys(), stages, cached, !base.getOrdered());
  for (int64_t bytes : {cached / 2, cached / 4, cached * 2})
    add(base.getConsumers(), base.getKeys(), stages, bytes, base.getOrdered());
}
