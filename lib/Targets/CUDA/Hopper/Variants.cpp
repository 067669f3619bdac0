// Plans the variants of kernels for Hopper and Blackwell, with given schedules or with the best ones.
#include "CUDA/Hopper/Variants.h"
#include "CUDA/Hopper/WarpgroupAttention.h"
#include "CUDA/Hopper/WarpgroupPlan.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

using OptionalPlan = std::optional<KernelPlan>;

/// The plan with the given schedule, which has to be of this kind, or with the best one.
template <typename Schedule, typename Operands>
static FailureOr<OptionalPlan> planWith(kernel::FuncOp func, Attribute given,
                                        const Operands &operands) {
  auto schedule = dyn_cast_if_present<Schedule>(given);
  if (given && !schedule)
    return func.emitError("has a ") << variantScheduleAttrName << " of another kind of kernel";
  FailureOr<KernelPlan> plan = planVariantWith(func, operands, schedule);
  if (failed(plan))
    return failure();
  return OptionalPlan(std::in_place, *plan);
}

FailureOr<OptionalPlan> cuda::planVariant(kernel::FuncOp func, unsigned architecture,
                                          const char *&reason) {
  Attribute given = func->getAttr(variantScheduleAttrName);
  if (given && getVariantArchitecture(given) != architecture)
    given = nullptr;
  bool onHopper = architecture == hopper;
  if (auto operands = findWarpgroupOperands(func, reason))
    return onHopper ? planWith<WgmmaScheduleAttr>(func, given, *operands)
                    : planWith<Tcgen05ScheduleAttr>(func, given, *operands);
  if (auto operands = onHopper ? findWarpgroupAttention(func, reason) : std::nullopt)
    return planWith<WgmmaAttentionScheduleAttr>(func, given, *operands);
  if (given)
    return func.emitError("has a ") << variantScheduleAttrName << ", but no variant"
                                    << (reason ? std::string(": ") + reason : std::string());
  return OptionalPlan();
}

void cuda::addVariantCandidates(kernel::FuncOp func, kernel::ScheduleAttrInterface base,
                                Candidates &candidates) {
  if (auto schedule = dyn_cast<WgmmaScheduleAttr>(base))
    if (auto operands = findWarpgroupOperands(func))
      addWarpgroupCandidates(func, *operands, schedule, candidates);
  if (auto schedule = dyn_cast<WgmmaAttentionScheduleAttr>(base))
    if (auto operands = findWarpgroupAttention(func))
      addWarpgroupCandidates(func, *operands, schedule, candidates);
}
