// Numbers in the bodies of kernels that are handed to them instead, so that kernels that compute
// with other numbers become equal.
#ifndef KILN_LIB_TRANSFORMS_KERNEL_READSCALARS_H
#define KILN_LIB_TRANSFORMS_KERNEL_READSCALARS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

namespace kiln::kernel {

/// Gives each use of a constant a constant of its own in front of the user, so that neither the
/// order of constants nor numbers that happen to be equal tell kernels apart.
void separateConstants(FuncOp func);

/// The constants of such a function that may as well be read from memory: f32 and i32.
llvm::SmallVector<mlir::arith::ConstantOp> findScalars(FuncOp func);

/// Makes all of them zero, so that kernels that differ in them alone are equal.
void clearScalars(FuncOp func);

/// The numbers of scalars that have the same values in all `kernels`, which differ in nothing else.
/// Those that are one value everywhere are in none.
llvm::SmallVector<llvm::SmallVector<unsigned>> findDifferences(llvm::ArrayRef<FuncOp> kernels);

/// Makes `func` read its scalars of each of these groups from new arguments: a tensor of floats if
/// some are, then one of integers.
void readScalars(FuncOp func, llvm::ArrayRef<llvm::SmallVector<unsigned>> groups);

/// The operands that such a kernel is called with in the place of `func`.
llvm::SmallVector<mlir::DenseElementsAttr>
getScalars(FuncOp func, llvm::ArrayRef<llvm::SmallVector<unsigned>> groups);

} // namespace kiln::kernel

#endif // KILN_LIB_TRANSFORMS_KERNEL_READSCALARS_H
