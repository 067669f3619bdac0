// A reference interpreter of the kernel dialect: plain loops over index maps, one element at a time, in the order that the ops'
// descriptions have. It shares nothing with the code generators, so it is an oracle for them and for every pass before them.
#ifndef KILN_REFERENCE_INTERPRETER_H
#define KILN_REFERENCE_INTERPRETER_H

#include "kiln/Reference/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::reference {

/// A run ends as that of the compiled model would: an assertion does not hold, an index lies outside, a divisor is zero.
class RunFailure : public llvm::ErrorInfo<RunFailure> {
public:
  static char ID;
  explicit RunFailure(const llvm::Twine &message) : message(message.str()) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string message;
};

struct InterpreterOptions {
  /// Compute and keep every floating-point value in double precision, whatever its type.
  bool wide = false;
  /// End the run where a number has no integer: processors convert it differently.
  bool strict = false;
  /// Elements and steps of sums after which a run is given up; no tensor of a run has more elements.
  int64_t maxSteps = int64_t(1) << 33;
};

class Interpreter {
public:
  explicit Interpreter(const InterpreterOptions &options = {}) : options(options) {}

  using Tensors = llvm::SmallVector<Tensor>;
  /// The results of a function of kernel ops. Symbols get their values from the sizes of `inputs` and from what `symbols` has. Fails with
  /// a RunFailure, or with an error that says which op cannot be interpreted: calls of libraries, and ops of other dialects.
  llvm::Expected<Tensors> run(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> inputs);
  /// The results of a kernel. Symbols that its operands' sizes do not give are those of `symbols`.
  llvm::Expected<Tensors> run(kernel::FuncOp kernel, llvm::ArrayRef<Tensor> inputs);

  llvm::DenseMap<sym::Expr, int64_t> symbols;

private:
  InterpreterOptions options;
  llvm::DenseMap<mlir::Attribute, Tensor> constants;
  int64_t steps = 0;
  friend class GraphRun;
};

} // namespace kiln::reference

#endif // KILN_REFERENCE_INTERPRETER_H
