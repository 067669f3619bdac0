// Products of groups of four bytes, or of two halves of 16 bits, summed in 32 bits.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// `sum` and the products of the four bytes in each i32 of `a`, which are unsigned, with those of
/// `x`, which are signed. Values are i32 or vectors of it; sums wrap around.
mlir::Value multiplyAddBytes(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                             mlir::Value sum);

/// The same for the two halves of each i32, which are signed.
mlir::Value multiplyAddHalves(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                              mlir::Value sum);
/// The two signed bytes in each i16 of `x`, or a vector of it, as the halves of an i32.
mlir::Value widenBytes(codegen::KernelFrame &frame, mlir::Value x);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H
