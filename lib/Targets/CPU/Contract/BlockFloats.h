// Products of a few rows of f32 and words of four bits, with a scale for each group of steps and perhaps a zero point, by
// instructions for bytes.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_BLOCKFLOATS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_BLOCKFLOATS_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// Steps of the sum that have one exponent.
constexpr int64_t blockFloatSteps = 32;

/// Vectors of a panel whose sums, three of a row and column, are in registers.
constexpr int64_t digitVectors = 2;

/// Elements (i32) of a row of `steps` block floats, a multiple of `blockFloatSteps`.
int64_t countBlockFloatWords(int64_t steps);

/// The most rows that bytes multiply faster than floats; 0: this CPU has other ways to widen four bits.
int64_t maxBlockFloatRows(const codegen::CPUInfo &target, int64_t lanes);

/// Writes a block of `numbers`, vectors of f32, to `to`.
void emitBlockFloats(codegen::KernelFrame &frame, mlir::ValueRange numbers, mlir::Value to);

/// As `emitMicrokernel` for a shape with `groupWords` whose left operand is of block floats.
llvm::SmallVector<mlir::Value>
emitBlockFloatProducts(codegen::KernelFrame &frame, const MicrokernelShape &shape, mlir::Value lhs,
                       mlir::Value rhs, mlir::ValueRange init, const Prefetch &prefetch);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_BLOCKFLOATS_H
