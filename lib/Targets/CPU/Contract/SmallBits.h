// Numbers of four bits, widened where they are multiplied.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// The signed numbers in bits `first` to `first` + 3 of words (i32, or a vector of them), as f32.
mlir::Value widenSmallBits(codegen::KernelFrame &frame, mlir::Value words, int64_t first);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_SMALLBITS_H
