// wrapper-verify: checks a finished host program.
#include "kiln/Dialect/Kernel/KernelDialect.h"
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
  Verifier(HostFunctionOpInterface function, ProgramOp program, SymbolTable &symbols)
      : function(function), program(program), symbols(symbols),
        unknown(getDefinedSymbols(function)) {
    if (sym::ExprAttr bytes = function.getArenaBytesAttr())
      segments[0] = bytes.getValue();
  }

  LogicalResult run() {
    if (!function.getArenaBytesAttr() || !program.getWeightsBytes()) // V1
      return function.emitError("memory and constants have no places yet");
    for (Operation &op : function.getFunctionBody().front())
      if (failed(step(op)))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i) // V5
      if (!function.isNone(i) && !written.contains(i))
        return function.emitError("output ") << i << " is never written";
    return success();
  }

private:
  LogicalResult step(Operation &op) {
    for (Value operand : op.getOperands()) // V3
      if (ended.contains(getStorage(operand)))
        return op.emitError("uses a buffer whose memory was freed");
    if (failed(checkSymbols(op)))
      return failure();
    if (auto constant = dyn_cast<ConstantOp>(op))
      return placed(constant);
    if (auto reserve = dyn_cast<ReserveOp>(op)) {
      if (!segments.try_emplace(reserve.getSegment(), reserve.getBytes().getValue()).second) // V1
        return op.emitError("reserves a segment again");
      return success();
    }
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
    } else if (auto call = dyn_cast<ExternCallOp>(op)) {
      for (Value out : call.getOuts())
        if (failed(write(op, out)))
          return failure();
    } else if (auto copy = dyn_cast<CopyOp>(op)) {
      return write(op, copy.getTarget());
    } else if (auto give = dyn_cast<GiveOp>(op)) {
      AllocOp alloc = owner.lookup(getStorage(give.getBuffer()));
      if (!alloc || alloc.getSegment() == 0) // V10
        return op.emitError("gives memory that is the caller's");
      written.insert(give.getIndex());
    } else if (auto fold = dyn_cast<FoldOp>(op)) {
      return foldable(fold);
    } else if (auto call = dyn_cast<GraphCallOpInterface>(op)) {
      return run(call);
    }
    return success();
  }

  LogicalResult checkSymbols(Operation &op) { // V8
    if (auto define = dyn_cast<DefineOp>(op))
      if (!unknown.contains(sym::Expr::symbol(define.getSymbol())))
        return op.emitError("defines symbol ") << define.getSymbol() << " again";
    if (unknown.empty())
      return success();
    SymbolCollector used;
    auto call = dyn_cast<GraphCallOpInterface>(op);
    if (call) {
      // A graph defines what it uses, or it is known; what it defines, the op's results may use.
      for (FlatSymbolRefAttr graph : call.getGraphs())
        used.add(symbols.lookup(graph.getValue()));
      for (sym::Expr symbol : getDefinedSymbols(&op)) {
        used.symbols.remove(symbol);
        unknown.remove(symbol);
      }
    }
    used.add(&op);
    if (auto launch = dyn_cast<LaunchOp>(op))
      if (Operation *kernel = symbols.lookup(launch.getKernel()))
        used.add(kernel);
    if (auto define = dyn_cast<DefineOp>(op))
      unknown.remove(sym::Expr::symbol(define.getSymbol()));
    for (sym::Expr symbol : used.symbols)
      if (unknown.contains(symbol))
        return op.emitError("uses symbol ") << symbol.str() << " before it is defined";
    return success();
  }

  LogicalResult run(GraphCallOpInterface call) {
    sym::Expr workspace;
    if (MutableOperandRange operand = call.getWorkspaceMutable(); !operand.empty())
      workspace = cast<BufferType>(operand[0].get().getType()).getBytes();
    for (FlatSymbolRefAttr graph : call.getGraphs()) { // V9
      sym::ExprAttr arena = symbols.lookup<FuncOp>(graph.getValue()).getArenaBytesAttr();
      if (!arena || (workspace - arena.getValue()).constant().value_or(0) < 0)
        return call.emitError("the workspace is too small for @") << graph.getValue();
    }
    for (Value buffer : call.getResultBuffers())
      if (failed(write(*call, buffer)))
        return failure();
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
    auto segment = segments.find(alloc.getSegment());
    if (segment == segments.end()) // V1
      return alloc.emitError("is in a segment that is not reserved");
    if (offset.constant().value_or(0) < 0 ||
        (segment->second - offset - bytes).constant().value_or(0) < 0) // V2
      return alloc.emitError("lies outside the arena");
    for (AllocOp other : live) { // V4
      if (other.getSegment() != alloc.getSegment())
        continue;
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
    if (argument && !function.isMutated(argument.getArgNumber()))
      return op.emitError("writes to input ")
             << argument.getArgNumber() << ", which is not mutated";
    auto constant = storage.getDefiningOp<ConstantOp>();
    if (constant && !constant.getMutated())
      return op.emitError("writes to a constant that is not mutated");
    return success();
  }

  HostFunctionOpInterface function;
  ProgramOp program;
  SymbolTable &symbols;
  llvm::SetVector<sym::Expr> unknown;    // symbols whose definition is still to come
  DenseMap<int64_t, sym::Expr> segments; // size of each that is reserved
  llvm::SmallPtrSet<Value, 16> ended, folded;
  llvm::SmallSetVector<AllocOp, 16> live;
  DenseMap<Value, AllocOp> owner;
  llvm::SmallDenseSet<uint64_t> written;
};

struct Verify : kiln::impl::WrapperVerifyBase<Verify> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto program : getOperation().getOps<ProgramOp>())
      for (auto function : getOperation().getOps<HostFunctionOpInterface>())
        if (failed(Verifier(function, program, symbols).run()))
          return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
