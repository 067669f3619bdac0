//===- Float8Operand.h - Operands of floats of eight bits -------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

namespace kiln::cuda {

/// The format of floats of eight bits of which a region yields, whatever they are, the one that it reads, in f32 or f16; null: there is
/// none. It is evaluated for all 256 of them.
mlir::FloatType findFloat8(mlir::Region &operand);

/// The format of both operands of a product of such floats, which are f16, if tensor cores of Hopper and Blackwell multiply them: e4m3fn
/// or e5m2.
mlir::FloatType findFloat8(kernel::ContractOp contract);
/// Has these operands yield the floats themselves.
void yieldFloat8(kernel::ContractOp contract, mlir::FloatType type);

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_FLOAT8OPERAND_H
