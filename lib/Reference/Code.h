// Regions of kernel ops made into steps over numbered slots, so that an element costs no look at the IR.
#ifndef KILN_LIB_REFERENCE_CODE_H
#define KILN_LIB_REFERENCE_CODE_H

#include "kiln/Reference/Interpreter.h"
#include <functional>

namespace kiln::reference {

/// Values while elements are computed.
struct Frame {
  std::vector<Scalar> slots;
  std::vector<int64_t> dims;
  int64_t stepsLeft = 0;
  std::string error;      // the first one
  bool isFailure = false; // of the run, and not the interpreter's or the program's fault

  void stop(const llvm::Twine &message, bool failure) {
    if (!error.empty())
      return;
    error = message.str();
    isFailure = failure;
  }
  void fail(const llvm::Twine &message) { stop(message, true); }
  /// Counts steps; false if there are too many by now.
  bool spend(int64_t steps) {
    stepsLeft -= steps;
    if (stepsLeft < 0)
      stop("it takes too many steps to interpret the program", false);
    return stepsLeft >= 0;
  }
  llvm::Error takeError() const {
    if (error.empty())
      return llvm::Error::success();
    return isFailure ? llvm::make_error<RunFailure>(error) : llvm::createStringError(error);
  }
};

using Step = std::function<void(Frame &)>;
/// The value of an expression over dims.
using Index = std::function<int64_t(const int64_t *dims)>;

struct Code {
  std::vector<Step> steps;
  llvm::SmallVector<unsigned> arguments, results; // slots

  void run(Frame &frame) const {
    if (!frame.spend(static_cast<int64_t>(steps.size()) + 1))
      return;
    for (const Step &step : steps)
      step(frame);
  }
  Scalar getResult(const Frame &frame, unsigned i) const { return frame.slots[results[i]]; }
};

/// Slots of a scalar op, and what is known of it.
struct ScalarOp {
  mlir::Operation *op;
  llvm::SmallVector<unsigned> operands;
  unsigned result;
  bool wide, strict;
};
/// The step that computes an op of arith, math or complex; null if it is none that can be interpreted.
Step makeScalarStep(const ScalarOp &op);
/// The value of an arith.constant or complex.constant; nullopt for other ops.
std::optional<Scalar> getConstant(mlir::Operation *op);

/// Makes code of the regions of one structured op.
class CodeBuilder {
public:
  /// `tensors` and `symbols` are what the regions read; they have to outlive the code.
  CodeBuilder(const llvm::DenseMap<mlir::Value, Tensor> &tensors,
              const llvm::DenseMap<sym::Expr, int64_t> &symbols, bool wide, bool strict);

  llvm::Expected<Code> build(mlir::Region &region);
  llvm::Expected<Index> build(sym::Expr expr);
  llvm::Expected<int64_t> evaluate(sym::Expr expr) const;
  llvm::Expected<llvm::SmallVector<int64_t>> evaluate(llvm::ArrayRef<sym::Expr> exprs) const;
  /// For all code that has been built.
  Frame makeFrame(int64_t maxSteps) const;

private:
  using Indices = std::vector<Index>;
  unsigned getSlot(mlir::Value value);
  llvm::Error add(mlir::Operation *op, Code &code);
  llvm::Error addOutside(mlir::Operation *op, Code &code);
  llvm::Expected<Indices> buildMap(mlir::Operation *op);
  llvm::Error addRead(kernel::ReadOp op, Code &code);
  llvm::Error addInside(kernel::InsideOp op, Code &code);
  llvm::Error addReduce(kernel::ReduceOp op, Code &code);
  llvm::Error addIterate(kernel::IterateOp op, Code &code);
  /// Puts the `values` of an op behind the dims.
  std::function<void(Frame &)> bindValues(kernel::IndexedOpInterface op);

  const llvm::DenseMap<mlir::Value, Tensor> &tensors;
  const llvm::DenseMap<sym::Expr, int64_t> &symbols;
  bool wide, strict;
  llvm::DenseMap<mlir::Value, unsigned> slots;
  unsigned numDims = 0;
};

/// Calls `visit` for every index below `extents`, row-major, with the index in frame.dims from `first` on, until there is an error.
void forEach(Frame &frame, llvm::ArrayRef<int64_t> extents, unsigned first,
             llvm::function_ref<void()> visit);

/// The results of a structured op. Fails with the frame's error or with what cannot be interpreted.
llvm::Expected<llvm::SmallVector<Tensor>> runStructured(mlir::Operation *op, CodeBuilder &builder,
                                                        bool wide, int64_t &stepsLeft);

} // namespace kiln::reference

#endif // KILN_LIB_REFERENCE_CODE_H
