// Products with so few columns that several rows of sums lie side by side in a vector:
//
//   sums   = [ row 0, columns 0 1 2 3 | row 1, columns 0 1 2 3 ]
//   step k : [ a(0,k) a(0,k) a(0,k) a(0,k) | a(1,k) … ] × [ b(k,0) b(k,1) b(k,2) b(k,3) | b(k,0) … ]
//
// A vector of the left operand has as many steps of each row as there are columns, and a shuffle
// picks one of them. Each sum adds up in the same order as in a vector of its own.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_VECTORROWS_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_VECTORROWS_H

#include "kiln/Targets/CPU/Microkernel.h"

namespace kiln::cpu {

/// The sums of a tile, `rows` rows of it in each vector. Sums are one loop of a known number of
/// steps, a multiple of the lanes, which lie next to each other in the left operand.
llvm::SmallVector<mlir::Value> emitVectorRows(codegen::KernelFrame &frame,
                                              const MicrokernelShape &shape, int64_t rows,
                                              mlir::Value lhs, mlir::Value rhs);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_VECTORROWS_H
