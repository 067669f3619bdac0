//===- Float8Operand.h - Operands of floats of eight bits -------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::cuda {

/// The format of floats of eight bits of which a region yields, whatever they are, the one that it reads, in f32 or f16; null: there is
/// none. It is evaluated for all 256 of them.
mlir::FloatType findFloat8(mlir::Region &operand);

/// Has the operands of a product of such floats, which are f16, yield the floats themselves, where tensor cores of Hopper and Blackwell
/// multiply them: both are of the same format, e4m3fn or e5m2. False: they are something else.
bool yieldFloat8(kernel::ContractOp contract);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H
