// The cpu dialect: CPUs, and schedules of kernels on them (CPUAttributes.td).
#ifndef KILN_TARGETS_CPU_CPUDIALECT_H
#define KILN_TARGETS_CPU_CPUDIALECT_H

#include "kiln/Codegen/CPUInfo.h"
#include "kiln/Codegen/CodegenDialect.h"

#include "kiln/Targets/CPU/CPUDialect.h.inc"
#include "kiln/Targets/CPU/CPUEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Targets/CPU/CPUAttributes.h.inc"

namespace kiln::cpu {

/// A tile register of AMX has 16 rows of 64 bytes; four of them hold the sums of a product of 32 rows
/// and 32 columns.
inline constexpr int64_t tileRegisterRows = 16, tileColumns = 16, maxProductRows = 32;
/// As many rows are multiplied in vectors, over the same layout: reading the right operand takes longer.
inline constexpr int64_t mostVectorRows = 4;

/// The attribute of a module that says which CPU its kernels are planned for.
constexpr llvm::StringLiteral targetAttrName = "cpu.target";

/// The attribute of a contract that says how its operands are laid out.
constexpr llvm::StringLiteral layoutAttrName = "cpu.layout";

/// The attribute of a map of constants that is folded however much larger than these its result is.
constexpr llvm::StringLiteral foldedAttrName = "cpu.folded";

/// The CPU that the kernels of the module around `op` are planned for. Fails, with an error on
/// `op`, if nothing says so and no code is generated for this machine.
mlir::FailureOr<codegen::CPUInfo> getTarget(mlir::Operation *op);

} // namespace kiln::cpu

#endif // KILN_TARGETS_CPU_CPUDIALECT_H
