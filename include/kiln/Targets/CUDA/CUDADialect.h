// The cuda dialect: how kernels are run on NVIDIA GPUs (CUDAAttributes.td).
#ifndef KILN_TARGETS_CUDA_CUDADIALECT_H
#define KILN_TARGETS_CUDA_CUDADIALECT_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include <concepts>
#include <optional>

namespace kiln::cuda {

constexpr int64_t warpSize = 32;
/// Bytes that a thread reads or writes at once, at most.
constexpr int64_t vectorBytes = 16;
/// Threads and registers that a block may have, and registers of a thread.
constexpr int64_t maxThreads = 1024, registersOfBlock = 1 << 16, maxRegisters = 255;

/// Rows and columns.
struct TileShape {
  int64_t m = 1, n = 1;
  int64_t count() const { return m * n; }
  bool operator==(const TileShape &) const = default;
};

/// The registers of a thread, by what its warpgroup does: the rest of those that threads start
/// with, and what others have of these.
struct WarpgroupRegisters {
  int64_t copying, multiplying;
  bool operator==(const WarpgroupRegisters &) const = default;
};

/// The cost of dividing a tile among blocks, in steps of one: leaving sums to another block, and
/// adding those of one.
struct SharingCost {
  int64_t leave, add;
  bool operator==(const SharingCost &) const = default;
};

inline llvm::hash_code hash_value(const TileShape &shape) {
  return llvm::hash_combine(shape.m, shape.n);
}
inline llvm::hash_code hash_value(const WarpgroupRegisters &registers) {
  return llvm::hash_combine(registers.copying, registers.multiplying);
}
inline llvm::hash_code hash_value(const SharingCost &cost) {
  return llvm::hash_combine(cost.leave, cost.add);
}

/// Pairs are written in square brackets, in assembly and in messages.
template <typename Stream>
concept TextStream =
    std::derived_from<Stream, llvm::raw_ostream> || std::same_as<Stream, mlir::Diagnostic>;
template <TextStream Stream> Stream &operator<<(Stream &os, const TileShape &shape) {
  os << '[' << shape.m << ", " << shape.n << ']';
  return os;
}
template <TextStream Stream> Stream &operator<<(Stream &os, const WarpgroupRegisters &registers) {
  os << '[' << registers.copying << ", " << registers.multiplying << ']';
  return os;
}
template <TextStream Stream> Stream &operator<<(Stream &os, const SharingCost &cost) {
  os << '[' << cost.leave << ", " << cost.add << ']';
  return os;
}

/// `[first, second]`.
mlir::FailureOr<std::pair<int64_t, int64_t>> parsePair(mlir::AsmParser &parser);

} // namespace kiln::cuda

namespace mlir {
template <> struct FieldParser<kiln::cuda::TileShape> {
  static FailureOr<kiln::cuda::TileShape> parse(AsmParser &parser) {
    auto pair = kiln::cuda::parsePair(parser);
    if (failed(pair))
      return failure();
    return kiln::cuda::TileShape{pair->first, pair->second};
  }
};
template <> struct FieldParser<kiln::cuda::SharingCost> {
  static FailureOr<kiln::cuda::SharingCost> parse(AsmParser &parser) {
    auto pair = kiln::cuda::parsePair(parser);
    if (failed(pair))
      return failure();
    return kiln::cuda::SharingCost{pair->first, pair->second};
  }
};
template <> struct FieldParser<std::optional<kiln::cuda::WarpgroupRegisters>> {
  static FailureOr<std::optional<kiln::cuda::WarpgroupRegisters>> parse(AsmParser &parser) {
    auto pair = kiln::cuda::parsePair(parser);
    if (failed(pair))
      return failure();
    return std::optional(kiln::cuda::WarpgroupRegisters{pair->first, pair->second});
  }
};
} // namespace mlir

#include "kiln/Targets/CUDA/CUDADialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Targets/CUDA/CUDAAttributes.h.inc"

namespace kiln::cuda {

/// The attribute of a module that says which GPU its kernels are planned for.
constexpr llvm::StringLiteral targetAttrName = "cuda.target";
/// The attribute of a kernel that says how its variant is run, where that is not the planner's
/// choice.
constexpr llvm::StringLiteral variantScheduleAttrName = "cuda.variant_schedule";
/// The GPU that kernels are planned for where nothing says so.
constexpr llvm::StringLiteral defaultArchitecture = "sm_90";

/// Which GPUs variants of kernels are for, by their compute capability: Hopper (`sm_90a`) and
/// Blackwell (`sm_100a`).
constexpr unsigned hopper = 90, blackwell = 100;
/// The one of these that runs kernels with this schedule; nullopt: all GPUs do.
std::optional<unsigned> getVariantArchitecture(mlir::Attribute schedule);

/// A GPU of an architecture (`sm_90`); null: it is not known.
TargetAttr getTarget(mlir::MLIRContext *context, llvm::StringRef architecture);
/// The architectures of which that is known.
llvm::SmallVector<llvm::StringRef> getKnownArchitectures();
/// The GPU that the kernels of the module around `op` are planned for.
TargetAttr getTarget(mlir::Operation *op);
/// Shared memory that a block may have on each of the architectures that something is known of.
int64_t getLeastSharedBytes();

} // namespace kiln::cuda

#endif // KILN_TARGETS_CUDA_CUDADIALECT_H
