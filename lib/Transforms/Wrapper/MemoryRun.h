// One run of a host program in which only memory is real: every step says which bytes it reads, writes, takes
// and gives back, for given values of the symbols.
#ifndef KILN_TRANSFORMS_WRAPPER_MEMORYRUN_H
#define KILN_TRANSFORMS_WRAPPER_MEMORYRUN_H

#include "MemoryImage.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include <functional>
#include <random>

namespace kiln::wrapper {

/// How a run goes on after a step.
enum class Outcome {
  Continues,
  Ends, // an assertion does not hold, or the run is too long
  Wrong // reported
};

class MemoryRun {
public:
  /// `rounds` are those of each `wrapper.while`; `seed` stands for the data. A run of more than
  /// `maxSteps` steps ends early.
  MemoryRun(ProgramOp program, const mlir::SymbolTable &symbols, uint64_t seed, unsigned rounds,
            int64_t maxSteps);

  void setSymbol(sym::Expr symbol, int64_t value) { state.values[symbol] = value; }
  /// Values to try for a symbol: in its range, those at which one of the assertions begins to hold first.
  llvm::SmallVector<int64_t> getCandidates(sym::Expr symbol,
                                           llvm::ArrayRef<AssertOp> assertions) const;
  /// How many of the assertions do not hold; one that uses an unknown symbol does.
  unsigned countViolated(llvm::ArrayRef<AssertOp> assertions) const;
  uint64_t draw() { return random(); }
  /// Evaluates `expr`; nullopt if a symbol has no value or a result leaves 64 bits.
  std::optional<int64_t> evaluate(sym::Expr expr) const;

  Outcome run();
  int64_t getNumSteps() const { return numSteps; }

private:
  struct Place {
    unsigned memory = 0; // number of an image
    int64_t begin = 0;
    Owner owner = 0;
    bool isWritable = false;
  };
  struct State {
    std::vector<MemoryImage> images;
    llvm::DenseMap<sym::Expr, int64_t> values;
    llvm::DenseMap<int64_t, Place> segments;
  };
  struct Arena {
    Place place;
    int64_t size = 0;
  };
  struct Frame {
    explicit Frame(HostFunctionOpInterface function) : function(function) {}
    HostFunctionOpInterface function;
    Arena arena;
    llvm::DenseMap<mlir::Value, Place> places;
    llvm::SmallVector<Place> results; // of a given one, where it is
  };
  using Places = llvm::SmallVector<Place>;

  Place makeImage(int64_t size, bool isWritten, bool isWritable);
  Outcome placeConstants();
  Outcome call(Frame &frame);
  Outcome step(Frame &frame, mlir::Operation &op);
  Outcome allocate(Frame &frame, AllocOp alloc);
  Outcome release(Frame &frame, mlir::Operation *op, mlir::Value buffer, Owner next);
  Outcome launch(Frame &frame, mlir::Operation &op, mlir::ValueRange ins, mlir::ValueRange outs);
  Outcome define(Frame &frame, DefineOp define);
  Outcome finish(Frame &frame);

  Outcome runGraph(Frame &frame, GraphCallOpInterface op, mlir::FlatSymbolRefAttr graph,
                   Places arguments, llvm::ArrayRef<Place> written);
  Outcome runStep(Frame &frame, GraphCallOpInterface op);
  Outcome runIf(Frame &frame, IfOp op);
  Outcome runWhile(Frame &frame, WhileOp op);
  Outcome runRounds(Frame &frame, WhileOp op, unsigned count);
  Outcome runFor(Frame &frame, ForOp op);
  void addInvariants(GraphCallOpInterface op, mlir::ValueRange ins,
                     llvm::SmallVectorImpl<mlir::Value> &written,
                     llvm::SmallVectorImpl<mlir::Value> &others);
  Outcome copyCarried(Frame &frame, mlir::Operation *op, mlir::ValueRange outs,
                      llvm::ArrayRef<Place> current);

  Outcome read(mlir::Operation *op, Place place, BufferType type);
  Outcome write(mlir::Operation *op, Place place, BufferType type);
  Outcome visit(mlir::Operation *op, Place place, BufferType type,
                llvm::function_ref<Outcome(int64_t begin, int64_t end)> range);
  Outcome checkApart(Frame &frame, mlir::Operation *op, mlir::ValueRange written,
                     mlir::ValueRange others);
  bool overlap(Frame &frame, mlir::Value a, mlir::Value b);
  bool isElementwise(LaunchOp launch, mlir::Value in, mlir::Value out);
  Places lookUp(Frame &frame, mlir::ValueRange buffers);
  Outcome fail(mlir::Operation *op, const llvm::Twine &message);
  Outcome getNumber(mlir::Operation *op, sym::Expr expr, int64_t &number);
  void chooseSymbol(sym::Expr symbol, DefineOp define);

  ProgramOp program;
  const mlir::SymbolTable &symbols;
  std::mt19937_64 random;
  unsigned rounds;
  int64_t maxSteps, numSteps = 0;
  State state;
  Owner numOwners = 0;
  Place weights;
  llvm::DenseMap<int64_t, Place> constants; // by offset
  llvm::DenseMap<Owner, Owner> parents; // of a buffer in an arena: that of the arena's free bytes
};

} // namespace kiln::wrapper

#endif // KILN_TRANSFORMS_WRAPPER_MEMORYRUN_H
