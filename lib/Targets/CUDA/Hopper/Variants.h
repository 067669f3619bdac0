//===- Variants.h - What the variants of a kernel are ----------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_HOPPER_VARIANTS_H
#define KILN_LIB_TARGETS_CUDA_HOPPER_VARIANTS_H

#include "kiln/Targets/CUDA/KernelEmitters.h"
#include "kiln/Targets/Candidates.h"

namespace kiln::cuda {

/// The schedule of the variant for an architecture, `hopper` or `blackwell`: as
/// `cuda.variant_schedule` of the kernel says, or as is best. Nullopt: there is none, and `reason`
/// says why if one might be expected. Failure, with an error on the kernel: the given schedule is
/// none for it.
mlir::FailureOr<std::optional<KernelPlan>> planVariant(kernel::FuncOp func, unsigned architecture,
                                                       const char *&reason);

/// Schedules for the variant for Hopper beside `base`, the most promising first.
void addVariantCandidates(kernel::FuncOp func, kernel::ScheduleAttrInterface base,
                          Candidates &candidates);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_HOPPER_VARIANTS_H
