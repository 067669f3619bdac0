// GPUs that kernels are planned for: #cuda.target.
#include "kiln/Targets/CUDA/CUDADialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
struct KnownTarget {
  StringLiteral arch;
  int64_t multiprocessors, shared, cache, products, cacheRate, copyRate, memoryRate;
};
} // namespace

/// One GPU of each architecture stands for all: A100, A40, L40S, H100 SXM, B200, RTX 5090. Shared
/// memory is all but 1 KiB of a multiprocessor's; products are dense ones of f16, summed in f32.
/// The rates are those that plans for H100 have been made with, for all of them, and so is what no
/// column has: latencies and the like. A multiprocessor of an H200 has taken 56 bytes a cycle.
///
/// Multiprocessors, shared memory and caches are what drivers report: those of A100, H100 and B200
/// as XLA's GPU specifications have them (a100_sxm_40, h100_sxm, b200); of A40 as a6000 has them,
/// the same chip; of L40S as "Non-Uniform L2 Cache Latency Across the Streaming Multiprocessors of
/// an NVIDIA L40" has them, the same chip; of RTX 5090 as PyTorch prints them, with the shared
/// memory of rtx6000pro. Products are those of the same specifications (H100, B200), or NVIDIA's
/// dense rates in Tflop/s (A100: 312, A40: 149.7, L40S: 362, RTX 5090: a quarter of its 838 sparse
/// ones that are summed in f16) over two, the multiprocessors and the clock (1.41, 1.74, 2.52 and
/// 2.41 GHz). Memory's rates are NVIDIA's (A100: 1555 GB/s, A40: 696, L40S: 864, H100: 3350, B200:
/// 8000, RTX 5090: 1792) over the clock (H100: 1.755, B200: 1.85 GHz).
static constexpr KnownTarget knownTargets[] = {
    {"sm_80", 108, 163 << 10, 40 << 20, 1024, 40, 64, 1103},
    {"sm_86", 84, 99 << 10, 6 << 20, 512, 40, 64, 400},
    {"sm_89", 142, 99 << 10, 96 << 20, 512, 40, 64, 343},
    {"sm_90", 132, 227 << 10, 50 << 20, 2048, 40, 56, 1909},
    {"sm_100", 148, 227 << 10, 253 << 19, 4096, 40, 64, 4324},
    {"sm_120", 170, 99 << 10, 96 << 20, 256, 40, 64, 744},
};

TargetAttr cuda::getTarget(MLIRContext *context, StringRef architecture) {
  auto *known = llvm::find_if(
      knownTargets, [&](const KnownTarget &target) { return target.arch == architecture; });
  if (known == std::end(knownTargets))
    return {};
  return TargetAttr::get(context, known->arch, known->multiprocessors, known->shared, known->cache,
                         known->products, known->cacheRate, known->copyRate, known->memoryRate,
                         /*schedulers=*/4, /*warps=*/32, /*blocks=*/4, /*load_latency=*/600,
                         /*share_latency=*/1500,
                         /*product_latency=*/64, /*meeting=*/16, /*copy_cost=*/25,
                         /*write_rate=*/8);
}

SmallVector<StringRef> cuda::getKnownArchitectures() {
  return llvm::map_to_vector(knownTargets,
                             [](const KnownTarget &target) -> StringRef { return target.arch; });
}

TargetAttr cuda::getTarget(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  if (module)
    if (auto target = module->getAttrOfType<TargetAttr>(targetAttrName))
      return target;
  return getTarget(op->getContext(), defaultArchitecture);
}

int64_t cuda::getLeastSharedBytes() {
  int64_t least = knownTargets[0].shared;
  for (const KnownTarget &target : knownTargets)
    least = std::min(least, target.shared);
  return least;
}

int64_t TargetAttr::getBusyBlocks() const {
  constexpr int64_t multiple = 32;
  return getMultiprocessors() < multiple ? getMultiprocessors()
                                         : llvm::alignDown(getMultiprocessors(), multiple);
}

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, StringRef /*arch*/,
                                 int64_t multiprocessors, int64_t shared, int64_t cache,
                                 int64_t products, int64_t cacheRate, int64_t copyRate,
                                 int64_t memoryRate, int64_t schedulers, int64_t warps,
                                 int64_t blocks, int64_t loadLatency, int64_t shareLatency,
                                 int64_t productLatency, int64_t meeting, int64_t copyCost,
                                 int64_t writeRate) {
  for (auto [name, value] : {std::pair("multiprocessors", multiprocessors),
                             {"cache", cache},
                             {"products", products},
                             {"cache_rate", cacheRate},
                             {"copy_rate", copyRate},
                             {"memory_rate", memoryRate},
                             {"schedulers", schedulers},
                             {"warps", warps},
                             {"blocks", blocks},
                             {"load_latency", loadLatency},
                             {"share_latency", shareLatency},
                             {"product_latency", productLatency},
                             {"meeting", meeting},
                             {"copy_cost", copyCost},
                             {"write_rate", writeRate}})
    if (value < 1)
      return emitError() << name << " = " << value << ", which has to be positive";
  if (shared < getLeastSharedBytes())
    return emitError() << "shared = " << shared << " bytes, of which every GPU has at least "
                       << getLeastSharedBytes();
  return success();
}
