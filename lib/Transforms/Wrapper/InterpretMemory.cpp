// wrapper-interpret-memory: runs a planned host program on poisoned memory, with numbers for its symbols.
//
// `wrapper-verify` proves the same of all sizes at once. This pass shares no code with it: it knows no
// lives and no intervals, only which bytes a step touches.
#include "MemoryRun.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERINTERPRETMEMORY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

struct InterpretMemory : kiln::impl::WrapperInterpretMemoryBase<InterpretMemory> {
  using WrapperInterpretMemoryBase::WrapperInterpretMemoryBase;

  void runOnOperation() override {
    SymbolTable table(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>())
      if (failed(interpret(program, table)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }

  LogicalResult interpret(ProgramOp program, SymbolTable &table) {
    FailureOr<DenseMap<sym::Expr, int64_t>> given = parseSymbols(program);
    if (failed(given))
      return failure();
    unsigned finished = 0;
    int64_t numSteps = 0;
    for (unsigned i = 0; i < runs; ++i) {
      MemoryRun run(program, table, /*seed=*/i, /*rounds=*/i % 4, steps);
      if (!chooseSizes(program, run, *given))
        continue;
      Outcome outcome = run.run();
      numSteps += run.getNumSteps();
      if (outcome == Outcome::Wrong)
        return failure();
      finished += outcome == Outcome::Continues;
    }
    if (!finished)
      return program.emitError(
          "no run comes to its end: give other values of the symbols, or more runs");
    emitRemark(program.getLoc()) << finished << " of " << unsigned(runs)
                                 << " runs come to the end, in " << numSteps << " steps";
    return success();
  }

  FailureOr<DenseMap<sym::Expr, int64_t>> parseSymbols(ProgramOp program) {
    DenseMap<sym::Expr, int64_t> given;
    for (StringRef entry : symbols) {
      auto [name, text] = entry.split('=');
      int64_t value;
      if (text.getAsInteger(10, value))
        return program.emitError("expected NAME=VALUE, got '") << entry << "'";
      given[sym::Expr::symbol(name)] = value;
    }
    return given;
  }

  /// Values for the symbols that the inputs give, with which no size is negative and the assertions hold
  /// that depend on nothing else: each symbol in turn gets the value that violates the fewest.
  static bool chooseSizes(ProgramOp program, MemoryRun &run,
                          const DenseMap<sym::Expr, int64_t> &given) {
    for (auto [symbol, value] : given)
      run.setSymbol(symbol, value);
    SmallVector<sym::Expr> symbols;
    auto defined = getDefinedSymbols(cast<HostFunctionOpInterface>(*program));
    if (DictionaryAttr table = program.getSymbolsAttr())
      for (NamedAttribute entry : table)
        if (sym::Expr symbol = sym::Expr::symbol(entry.getName());
            !given.contains(symbol) && !defined.contains(symbol))
          symbols.push_back(symbol);
    auto assertions = llvm::to_vector(program.getBody().getOps<AssertOp>());
    auto choose = [&](sym::Expr symbol) {
      SmallVector<int64_t> candidates = run.getCandidates(symbol, assertions);
      size_t first = run.draw() % candidates.size();
      unsigned fewest = UINT_MAX;
      int64_t best = 0;
      for (size_t i = 0; i < candidates.size() && fewest; ++i) {
        int64_t value = candidates[(first + i) % candidates.size()];
        run.setSymbol(symbol, value);
        unsigned violated = countViolated(program, run, assertions);
        if (violated < fewest) {
          fewest = violated;
          best = value;
        }
      }
      run.setSymbol(symbol, best);
    };
    for (unsigned attempt = 0; attempt < 20; ++attempt) {
      for (sym::Expr symbol : symbols) {
        SmallVector<int64_t> candidates = run.getCandidates(symbol, {});
        run.setSymbol(symbol, candidates[run.draw() % candidates.size()]);
      }
      for (size_t i = 0; i < 8 * symbols.size() && countViolated(program, run, assertions); ++i)
        choose(symbols[run.draw() % symbols.size()]);
      if (!countViolated(program, run, assertions))
        return true;
    }
    return false;
  }

  static unsigned countViolated(ProgramOp program, const MemoryRun &run,
                                ArrayRef<AssertOp> assertions) {
    unsigned count = run.countViolated(assertions);
    for (Type type : program.getArgumentTypes())
      for (sym::Expr size : cast<BufferType>(type).getSizes())
        count += run.evaluate(size).value_or(-1) < 0;
    return count;
  }
};

} // namespace
