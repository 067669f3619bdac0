// A kernel as a C function.
#ifndef KILN_C_KERNELWRITER_H
#define KILN_C_KERNELWRITER_H

#include "CWriter.h"

namespace cbackend {

/// Writes `static int NAME(operands, results, symbols)`: plain loops over the dims of the kernel's op.
/// The function returns 0, or which failure there was.
class KernelWriter {
public:
  KernelWriter(CWriter &out, kiln::kernel::FuncOp kernel) : out(out), kernel(kernel) {}
  void write();

  /// The symbols that the kernel's sizes and indices use, which the function takes last.
  static llvm::SmallVector<kiln::sym::Expr> getSymbols(kiln::kernel::FuncOp kernel);

private:
  using Dims = llvm::SmallVector<std::string>;

  void writeMap(kiln::kernel::MapOp map);
  void writeContract(kiln::kernel::ContractOp contract);
  /// The result of element `index`.
  void store(unsigned result, llvm::ArrayRef<std::string> index, llvm::StringRef value);

  /// Loops over `extents`, the dims that `region` has behind `dims`. Each op stands in the outermost
  /// loop that knows all of its dims, none where a loop has no rounds; `finish` is called in the
  /// innermost one.
  void writeLoops(mlir::Region &region, llvm::ArrayRef<kiln::sym::Expr> extents, Dims dims,
                  llvm::function_ref<void(llvm::ArrayRef<std::string> dims)> finish);
  /// All ops of the region; the values that it yields.
  llvm::SmallVector<std::string> writeRegion(mlir::Region &region,
                                             llvm::ArrayRef<std::string> dims);
  llvm::SmallVector<std::string> getYielded(mlir::Region &region);

  void writeOp(mlir::Operation *op, llvm::ArrayRef<std::string> dims);
  void writeRead(kiln::kernel::ReadOp read, llvm::ArrayRef<std::string> dims);
  void writeInside(kiln::kernel::InsideOp inside, llvm::ArrayRef<std::string> dims);
  void writeReduce(kiln::kernel::ReduceOp reduce, llvm::ArrayRef<std::string> dims);
  void writeIterate(kiln::kernel::IterateOp iterate);

  std::string newName(llvm::StringRef stem) { return stem.str() + std::to_string(numbers++); }
  /// A variable for a value that does not change.
  void define(mlir::Value value, const llvm::Twine &expression);
  /// A variable for each of `values`, which later code assigns.
  llvm::SmallVector<std::string> declare(mlir::ValueRange values, mlir::ValueRange initial);
  void assign(llvm::ArrayRef<std::string> variables, llvm::ArrayRef<std::string> values,
              mlir::ValueRange results);
  std::string openLoop(kiln::sym::Expr extent);

  CWriter &out;
  kiln::kernel::FuncOp kernel;
  llvm::DenseMap<mlir::Value, std::string> names;
  unsigned numbers = 0;
};

/// The name of a kernel's function.
std::string functionName(llvm::StringRef kernel);

/// The expression for an op of arith or math; empty if there is none.
std::string writeScalarOp(mlir::Operation *op, llvm::ArrayRef<std::string> operands);

} // namespace cbackend

#endif // KILN_C_KERNELWRITER_H
