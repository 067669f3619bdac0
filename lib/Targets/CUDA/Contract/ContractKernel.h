//===- ContractKernel.h - What kernels of contracts share -------*- C++ -*-===//
#ifndef KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTKERNEL_H
#define KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTKERNEL_H

#include "CUDA/Contract/ContractTile.h"
#include "kiln/Codegen/BodyEmitter.h"

namespace kiln::cuda {

/// The variable of each of these loops where all of them together are at `linear`. Unless
/// `isNamed`, what is a multiple stays one, so that wide accesses can be made of neighbours.
llvm::SmallVector<sym::Expr> splitGroups(DeviceFrame &frame,
                                         llvm::ArrayRef<codegen::DimGroup> groups, sym::Expr linear,
                                         bool isNamed);
/// Binds their dims to that, in `position`, the values of all dims, and in `body` (null: in none).
void bindGroups(DeviceFrame &frame, codegen::BodyEmitter *body,
                llvm::ArrayRef<codegen::DimGroup> groups, llvm::ArrayRef<sym::Expr> values,
                llvm::MutableArrayRef<sym::Expr> position);

/// True if the epilogue reads memory that has both rows and columns.
bool readsElements(kernel::ContractOp op);

/// The function of a kernel.contract while it is written.
class ContractKernel {
protected:
  ContractKernel(DeviceFrame &frame, kernel::ContractOp op);

  /// Binds the dims of one of the four loops to its variable's value.
  void bind(codegen::BodyEmitter &body, llvm::ArrayRef<codegen::DimGroup> groups, sym::Expr linear,
            bool isNamed);
  /// The place of the result's element at `position`.
  sym::Expr resultOffset();
  /// Writes it.
  void storeElement(mlir::Value value);
  /// Whether each `count` columns are neighbours in the result, at a multiple of as many.
  bool hasRuns(int64_t count);
  /// Gives `body` each of `count` bands of this thread's sums, which have as many each, for the
  /// epilogue.
  void forEachBand(int64_t count, mlir::ValueRange sums,
                   llvm::function_ref<void(sym::Expr, mlir::ValueRange)> body);
  /// Runs the epilogue on this thread's sums, whose block begins at (firstM, firstN). What depends
  /// on the batch alone is bound.
  void storeRows(llvm::ArrayRef<ContractTile::Row> rows, mlir::ValueRange sums, sym::Expr firstM,
                 sym::Expr firstN);
  /// Computes the epilogue of sums of columns next to each other, `n` and on, which are there, and
  /// writes the results.
  llvm::SmallVector<mlir::Value> evaluate(sym::Expr n, mlir::ValueRange sums);
  void storeValues(sym::Expr n, mlir::ValueRange values);

  DeviceFrame &frame;
  mlir::OpBuilder &b;
  mlir::Location loc;
  kernel::ContractOp op;
  ContractDims dims;
  codegen::BodyEmitter epilogue;
  /// Values of the contract's dims.
  llvm::SmallVector<sym::Expr> position;
  sym::Expr partNumber = 0;
};

} // namespace kiln::cuda

#endif // KILN_LIB_TARGETS_CUDA_CONTRACT_CONTRACTKERNEL_H
