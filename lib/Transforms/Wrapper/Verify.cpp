#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERVERIFY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

class Verifier {
public:
  explicit Verifier(ProgramOp program) : program(program) {}

  LogicalResult run() {
    if (!program.getArenaBytes() || !program.getWeightsBytes()) // V1
      return program.emitError("memory and constants have no places yet");
    for (Operation &op : program.getBody().front())
      if (failed(step(op)))
        return failure();
    for (unsigned i = 0; i < program.getNumResults(); ++i) // V5
      if (!program.isNone(i) && !written.contains(i))
        return program.emitError("output ") << i << " is never written";
    return success();
  }

private:
  LogicalResult step(Operation &op) {
    for (Value operand : op.getOperands()) // V3
      if (ended.contains(getStorage(operand)))
        return op.emitError("uses a buffer whose memory was freed");
    if (auto constant = dyn_cast<ConstantOp>(op))
      return placed(constant);
    if (auto alloc = dyn_cast<AllocOp>(op))
      return begin(alloc);
    if (auto free = dyn_cast<FreeOp>(op)) {
      end(free.getBuffer(), {});
    } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
      end(reuse.getBuffer(), reuse);
    } else if (auto launch = dyn_cast<LaunchOp>(op)) {
      for (Value out : launch.getOuts())
        if (failed(write(op, out)))
          return failure();
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      return write(op, copy.getTarget());
    } else if (auto fold = dyn_cast<FoldOp>(op)) {
      return foldable(fold);
    }
    return success();
  }

  LogicalResult placed(ConstantOp constant) {
    if (!constant.getOffset()) { // V1
      if (!constant->use_empty() && llvm::all_of(constant->getUsers(), llvm::IsaPred<FoldOp>))
        return success();
      return constant.emitError("has no place in the weights");
    }
    int64_t end = constant.getOffsetAttr().getInt() +
                  constant.getType().getBytes().constant().value_or(INT64_MAX / 2);
    if (end > static_cast<int64_t>(*program.getWeightsBytes())) // V2
      return constant.emitError("lies outside the weights");
    return success();
  }

  LogicalResult foldable(FoldOp fold) {
    for (Value in : fold.getIns()) { // V7
      auto constant = in.getDefiningOp<ConstantOp>();
      if (!constant.getOffset() && !constant.getName() && !folded.contains(in))
        return fold.emitError("reads a constant that is nowhere");
    }
    folded.insert_range(fold.getOuts());
    return success();
  }

  LogicalResult begin(AllocOp alloc) {
    if (!alloc.getOffset()) // V1
      return alloc.emitError("has no place in the arena");
    sym::Expr offset = alloc.getOffset()->getValue(), bytes = alloc.getType().getBytes();
    sym::Expr arena = program.getArenaBytes()->getValue();
    if (offset.constant().value_or(0) < 0 ||
        (arena - offset - bytes).constant().value_or(0) < 0) // V2
      return alloc.emitError("lies outside the arena");
    for (AllocOp other : live) { // V4
      std::optional<int64_t> distance = (other.getOffset()->getValue() - offset).constant();
      if (!distance)
        continue;
      sym::Expr first = *distance >= 0 ? bytes : other.getType().getBytes();
      // Symbolic sizes are disjoint by construction only.
      if (first.constant().value_or(0) > std::abs(*distance) && !isEmpty(alloc) && !isEmpty(other))
        return alloc.emitError("overlaps a buffer that is alive").attachNote(other.getLoc())
               << "this one";
    }
    owner[alloc] = alloc;
    live.insert(alloc);
    return success();
  }

  static bool isEmpty(AllocOp alloc) { return alloc.getType().getBytes().isConstant(0); }

  void end(Value buffer, Value next) {
    ended.insert(buffer);
    AllocOp alloc = owner.lookup(buffer);
    if (next)
      owner[next] = alloc;
    else if (alloc)
      live.remove(alloc);
  }

  LogicalResult write(Operation &op, Value buffer) {
    Value storage = getStorage(buffer);
    if (auto output = storage.getDefiningOp<OutputOp>())
      written.insert(output.getIndex());
    auto argument = dyn_cast<BlockArgument>(storage); // V6
    if (argument && !program.isMutated(argument.getArgNumber()))
      return op.emitError("writes to input '")
             << program.getInputName(argument.getArgNumber()) << "', which is not mutated";
    auto constant = storage.getDefiningOp<ConstantOp>();
    if (constant && !constant.getMutated())
      return op.emitError("writes to a constant that is not mutated");
    return success();
  }

  ProgramOp program;
  llvm::SmallPtrSet<Value, 16> ended, folded;
  llvm::SmallSetVector<AllocOp, 16> live;
  DenseMap<Value, AllocOp> owner;
  llvm::SmallDenseSet<uint64_t> written;
};

struct Verify : kiln::impl::WrapperVerifyBase<Verify> {
  void runOnOperation() override {
    if (failed(Verifier(getOperation()).run()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
