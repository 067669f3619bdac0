// Products of groups of four bytes, or of two halves of 16 bits, summed in 32 bits.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H

#include "kiln/Codegen/KernelFrame.h"

namespace kiln::cpu {

/// One instruction multiplies and adds up the four bytes in each of `lanes` i32.
bool hasByteDots(const codegen::CPUInfo &target, int64_t lanes);

/// `sum` and the products of the four bytes in each i32 of `a`, which are unsigned, with those of
/// `x`, which are signed. Values are i32 or vectors of it; sums wrap around. Narrow bytes are those whose
/// sums of two products, the first and the second of four, the third and the fourth, fit in 16 bits.
mlir::Value multiplyAddBytes(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                             mlir::Value sum, bool isNarrow = false);

/// For vectors `type` of i32 of 128, 256 or 512 bits: the sums of two products of narrow bytes, of 16 bits each,
/// and the sums of two of these, times `weight`.
mlir::Value multiplyNarrowBytes(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                                mlir::Type type);
mlir::Value sumHalves(codegen::KernelFrame &frame, mlir::Value halves, mlir::Type type,
                      int64_t weight = 1);
/// `sum`, of 16 bits, and the sums of two products.
mlir::Value addNarrowBytes(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                           mlir::Value sum, mlir::Type type);

/// The same for the two halves of each i32, which are signed.
mlir::Value multiplyAddHalves(codegen::KernelFrame &frame, mlir::Value a, mlir::Value x,
                              mlir::Value sum);
/// The two signed bytes in each i16 of `x`, or a vector of it, as the halves of an i32.
mlir::Value widenBytes(codegen::KernelFrame &frame, mlir::Value x);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_BYTEPRODUCTS_H
