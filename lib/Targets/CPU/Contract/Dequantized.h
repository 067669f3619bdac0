// Operands of contracts that are dequantized small integers.
#ifndef KILN_LIB_TARGETS_CPU_CONTRACT_DEQUANTIZED_H
#define KILN_LIB_TARGETS_CPU_CONTRACT_DEQUANTIZED_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace kiln::cpu {

/// An operand that is (bits - zero) * scale, as its region reads it.
struct Dequantized {
  /// Nothing if what `region` yields is none.
  static std::optional<Dequantized> get(mlir::Region &region);

  kernel::ReadOp read; // in the contract's region, of the result of `map`
  kernel::MapOp map;
  kernel::ReadOp bits; // in the map
  bool isUnsigned = false;
  mlir::Value scale; // in the map; null: 1
  mlir::Value zero;  // in the map, an integer; null: zeroNumber
  bool isZeroUnsigned = false;
  int64_t zeroNumber = 0;
  llvm::SmallVector<sym::Expr> place; // of the map's element, over the contract's dims
  llvm::SmallVector<sym::Expr> index; // of the bits, over the contract's dims

  mlir::Value tensor() const { return kernel::ReadOp(bits).getTensor(); }
  /// Zero points that may be replaced when the model runs.
  bool hasZeros() const { return zero != nullptr; }
  /// The number that makes bits unsigned when it is added.
  int64_t offset() const { return isUnsigned ? 0 : 128; }
  /// Scale and zero point do not change along the contract's dims [begin, end).
  bool areParametersFree(unsigned begin, unsigned end) const;
  /// Copies of the map's values for its element `at`, over `numDims` dims, as if its bits were zero.
  mlir::IRMapping cloneAt(mlir::OpBuilder &builder, llvm::ArrayRef<sym::Expr> at,
                          unsigned numDims) const;
  /// Scale and zero point (as i32) of the map's element `at`, over `numDims` dims; null as above.
  std::pair<mlir::Value, mlir::Value>
  cloneParameters(mlir::OpBuilder &builder, llvm::ArrayRef<sym::Expr> at, unsigned numDims) const;
};

/// The dim of a tensor that `dim` alone numbers, if it numbers no other.
std::optional<unsigned> findPlainDim(llvm::ArrayRef<sym::Expr> index, unsigned dim);
bool dependsOnDims(llvm::ArrayRef<sym::Expr> exprs, unsigned begin, unsigned end);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGETS_CPU_CONTRACT_DEQUANTIZED_H
