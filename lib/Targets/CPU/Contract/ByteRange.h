// Bounds of small integers, from what makes them.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_BYTERANGE_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_BYTERANGE_H

#include "mlir/IR/Value.h"

namespace kiln::cpu {

/// No element of `tensor`, of unsigned bytes, is more than this, whatever the inputs and constants of the
/// program are: 255 if no clamp says so.
int64_t getLargestByte(mlir::Value tensor);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_BYTERANGE_H
