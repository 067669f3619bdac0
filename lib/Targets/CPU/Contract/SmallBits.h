// Numbers of four bits, and scales of 16, widened where they are multiplied.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// `widenSmallBits` looks vectors of so many words up in a table.
bool looksUpSmallBits(const codegen::CPUInfo &target, int64_t lanes);
/// The signed numbers in bits `first` to `first` + 3 of words (i32, or a vector of them), as f32.
mlir::Value widenSmallBits(codegen::KernelFrame &frame, mlir::Value words, int64_t first);

/// `vectors` vectors of `lanes` numbers of `type` (f32, bf16 or f16) from number `first` (i64) after
/// `base` on, as f32; scalars if there is one lane, and none if `base` is null.
llvm::SmallVector<mlir::Value> loadScales(codegen::KernelFrame &frame, mlir::Value base,
                                          mlir::Type type, mlir::Value first, int64_t vectors,
                                          int64_t lanes);

/// A number that has been widened, times the scale of vector `v`; the offset (none: 0) is subtracted
/// before, or added then. Without scales, the number.
mlir::Value applyScale(codegen::KernelFrame &frame, mlir::Value number,
                       llvm::ArrayRef<mlir::Value> scales, llvm::ArrayRef<mlir::Value> offsets,
                       int64_t v, bool subtractsFirst);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H
