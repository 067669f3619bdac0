// Pairs of bf16 in words (i32, or a vector of them), the first in the lower half.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_PAIRS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_PAIRS_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// The first (0) or second (1) of each pair, as f32.
mlir::Value widenHalf(codegen::KernelFrame &frame, mlir::Value words, int64_t which);

/// There is an instruction that multiplies vectors of `lanes` pairs.
bool multipliesPairs(const codegen::CPUInfo &target, int64_t lanes);

/// sum + the products of both of a pair (vdpbf16ps).
mlir::Value multiplyAddPairs(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                             mlir::Value sum);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_PAIRS_H
