// Runs a program in the reference interpreter before the passes over kernels, and behind them.
#ifndef KILN_TEST_FUZZ_RESULTCHECK_H
#define KILN_TEST_FUZZ_RESULTCHECK_H

#include "kiln/Reference/Inputs.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include <optional>

/// Results of one function, with made-up inputs; nothing if they are no yardstick: the run fails, calls a library or takes too
/// long, or rounding alone decides on a result.
using Results = std::optional<llvm::SmallVector<kiln::reference::Tensor>>;

class ResultCheck : public mlir::PassInstrumentation {
public:
  /// Outlives the pass managers of a compilation.
  struct State {
    Results rounded, wide;
    unsigned numCompared = 0;
  };
  explicit ResultCheck(State &state) : state(state) {}

  void runAfterPass(mlir::Pass *pass, mlir::Operation *op) override {
    auto module = llvm::dyn_cast<mlir::ModuleOp>(op);
    bool isFirst = pass->getArgument() == "kernel-guard-symbols";
    if (!module || (!isFirst && (pass->getArgument() != "kernel-verify" || !state.wide)))
      return;
    for (auto function : module.getOps<mlir::func::FuncOp>())
      if (function.isPublic() && !function.isExternal())
        isFirst ? keep(function) : compare(function);
  }

private:
  /// Rounding may make this much of a difference, and no more.
  static constexpr kiln::reference::Tolerance tolerance = {1000, 100000};

  static Results run(mlir::func::FuncOp function, bool wide, bool *fails = nullptr) {
    kiln::reference::InterpreterOptions options;
    options.wide = wide;
    options.strict = !fails; // the runs that the later ones are measured by
    options.maxSteps = 1 << 20;
    kiln::reference::Interpreter interpreter(options);
    kiln::reference::chooseSymbols(function, interpreter.symbols);
    auto inputs = kiln::reference::makeInputs(function, interpreter.symbols,
                                              kiln::reference::InputKind::Random, /*seed=*/1,
                                              options.maxSteps);
    if (!inputs) {
      llvm::consumeError(inputs.takeError());
      return std::nullopt;
    }
    auto results = interpreter.run(function, *inputs);
    if (results)
      return std::move(*results);
    if (fails)
      *fails = results.errorIsA<kiln::reference::RunFailure>();
    llvm::consumeError(results.takeError());
    return std::nullopt;
  }

  void keep(mlir::func::FuncOp function) {
    state.rounded = run(function, /*wide=*/false);
    state.wide = state.rounded ? run(function, /*wide=*/true) : std::nullopt;
    if (!state.wide)
      return;
    for (auto [rounded, wide] : llvm::zip(*state.rounded, *state.wide))
      if (!compareTensors(rounded, wide, wide, tolerance).empty()) {
        state.wide.reset();
        return;
      }
  }

  void compare(mlir::func::FuncOp function) {
    bool fails = false;
    Results now = run(function, /*wide=*/false, &fails);
    std::string difference = fails ? "the run fails" : "";
    for (size_t i = 0; now && i < now->size() && difference.empty(); ++i)
      difference = compareTensors((*now)[i], (*state.rounded)[i], (*state.wide)[i], tolerance);
    state.numCompared += now.has_value();
    if (difference.empty())
      return;
    llvm::errs() << "passes over kernels have changed a result: " << difference << "\n";
    abort();
  }

  State &state;
};

#endif // KILN_TEST_FUZZ_RESULTCHECK_H
