// wrapper-verify: checks a finished host program, for all values of its symbols.
#include "Elementwise.h"
#include "MemoryProof.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

namespace kiln {
#define GEN_PASS_DEF_WRAPPERVERIFY
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

/// State that all functions share.
struct VerifiedModule {
  explicit VerifiedModule(ModuleOp module, ProgramOp program) : symbols(module), program(program) {}

  SymbolTable symbols;
  ProgramOp program;
  llvm::SmallDenseSet<int64_t> reserved; // segments
};

class Verifier {
public:
  Verifier(HostFunctionOpInterface function, VerifiedModule &module)
      : function(function), module(module), program(module.program), symbols(module.symbols),
        proof(function), unknown(getDefinedSymbols(function)) {
    if (sym::ExprAttr bytes = function.getArenaBytesAttr())
      segments[0] = bytes.getValue();
    for (auto alloc : function.getFunctionBody().getOps<AllocOp>())
      if (alloc.getOffset())
        taken[alloc.getSegment()].push_back(getTaken(alloc));
    for (BlockArgument argument : function.getArguments())
      proof.setWritten(proof.getSpan(argument));
  }

  LogicalResult run() {
    if (!function.getArenaBytesAttr() || !program.getWeightsBytes()) // V1
      return function.emitError("memory and constants have no places yet");
    Block &body = function.getFunctionBody().front();
    for (Operation &op : body)
      if (failed(step(op)))
        return failure();
    for (unsigned i = 0; i < function.getNumResults(); ++i) // V5
      if (!function.isNone(i) && !isWrittenOutput(i))
        return function.emitError("output ") << i << " is never written, or a part of it is not";
    return success();
  }

private:
  LogicalResult step(Operation &op) {
    if (failed(checkAlive(op)) || failed(checkSymbols(op)))
      return failure();
    return llvm::TypeSwitch<Operation *, LogicalResult>(&op)
        .Case<ConstantOp>([&](auto constant) { return placed(constant); })
        .Case<ReserveOp>([&](auto reserve) { return this->reserve(reserve); })
        .Case<AllocOp>([&](auto alloc) { return begin(alloc); })
        .Case<ViewOp>([&](auto view) { return isInside(view); })
        .Case<FreeOp>([&](auto free) { return end(free, free.getBuffer(), {}); })
        .Case<ReuseOp>([&](auto reuse) { return end(reuse, reuse.getBuffer(), reuse); })
        .Case<LaunchOp>([&](auto launch) { return this->launch(launch); })
        .Case<ExternCallOp>([&](auto call) { return access(op, call.getIns(), call.getOuts()); })
        .Case<CopyOp>([&](auto copy) { return access(op, copy.getSource(), copy.getTarget()); })
        .Case<DefineOp, CheckOp>([&](Operation *) { return access(op, op.getOperands(), {}); })
        .Case<GiveOp>([&](auto give) { return this->give(give); })
        .Case<FoldOp>([&](auto fold) { return foldable(fold); })
        .Case<GraphCallOpInterface>([&](auto call) { return run(call); })
        .Default([](Operation *) { return success(); });
  }

  //===-- Lives -------------------------------------------------------------------------------===//

  LogicalResult checkAlive(Operation &op) { // V3
    for (Value operand : op.getOperands()) {
      auto end = ended.find(getStorage(operand));
      if (end == ended.end())
        continue;
      InFlightDiagnostic error = op.emitError("uses a buffer whose memory was freed");
      error.attachNote(end->second->getLoc()) << "here";
      return error;
    }
    return success();
  }

  static Span getTaken(AllocOp alloc) {
    sym::Expr offset = alloc.getOffset()->getValue();
    return {offset, offset + alignBytes(alloc.getType().getBytes())};
  }

  LogicalResult reserve(ReserveOp reserve) {
    if (!module.reserved.insert(reserve.getSegment()).second) // V1
      return reserve.emitError("reserves a segment again");
    segments[reserve.getSegment()] = reserve.getBytes().getValue();
    return success();
  }

  LogicalResult begin(AllocOp alloc) {
    if (!alloc.getOffset()) // V1
      return alloc.emitError("has no place in the arena");
    auto segment = segments.find(alloc.getSegment());
    if (segment == segments.end()) // V1
      return alloc.emitError("is in a segment that is not reserved");
    if (alloc.getType().getBytes().isConstant(0))
      return success();
    Span span = getTaken(alloc);
    ArrayRef<Span> steps = taken[alloc.getSegment()];
    if (!proof.isReached(0, span.begin, steps) ||
        !proof.isReached(span.end, segment->second, steps)) // V2
      return alloc.emitError("lies outside the arena");
    if (!proof.isMultipleOf(span.begin, bufferAlignment)) // V2
      return alloc.emitError("is not at a multiple of ") << bufferAlignment << " bytes";
    if (AllocOp other = findOverlapping(alloc, span, steps)) { // V4
      InFlightDiagnostic error = alloc.emitError("overlaps a buffer that is alive");
      error.attachNote(other.getLoc()) << "this one";
      return error;
    }
    owner[alloc] = alloc;
    if (auto place = getFixedPlace(alloc))
      fixed[*place] = alloc;
    else
      live.insert(alloc);
    return success();
  }

  using Place = std::pair<int64_t, int64_t>; // segment, first byte

  /// The place of an allocation that is the same for all sizes.
  static std::optional<Place> getFixedPlace(AllocOp alloc) {
    Span span = getTaken(alloc);
    if (!span.begin.isConstant() || !span.end.isConstant())
      return std::nullopt;
    return Place(alloc.getSegment(), *span.begin.constant());
  }

  /// An allocation that is alive and not proved to be elsewhere; null if there is none.
  AllocOp findOverlapping(AllocOp alloc, const Span &span, ArrayRef<Span> steps) {
    auto overlaps = [&](AllocOp other) {
      return other.getSegment() == alloc.getSegment() &&
             !proof.areApart(span, getTaken(other), steps);
    };
    for (AllocOp other : live)
      if (overlaps(other))
        return other;
    auto place = getFixedPlace(alloc);
    if (!place) {
      for (auto &[begin, other] : fixed)
        if (overlaps(other))
          return other;
      return {};
    }
    // Those are apart from each other: one that overlaps is a neighbour.
    auto next = fixed.lower_bound(*place);
    if (next != fixed.end() && overlaps(next->second))
      return next->second;
    return next != fixed.begin() && overlaps(std::prev(next)->second) ? std::prev(next)->second
                                                                      : AllocOp();
  }

  LogicalResult end(Operation *op, Value buffer, Value next) {
    if (given.contains(buffer)) // V13
      return op->emitError("ends the life of a buffer that the caller reads");
    ended[buffer] = op;
    AllocOp alloc = owner.lookup(buffer);
    if (next)
      owner[next] = alloc;
    else if (alloc)
      endLife(alloc);
    return success();
  }

  void endLife(AllocOp alloc) {
    if (auto place = getFixedPlace(alloc))
      fixed.erase(*place);
    else
      live.remove(alloc);
  }

  LogicalResult give(GiveOp give) {
    Value storage = getStorage(give.getBuffer());
    AllocOp alloc = owner.lookup(storage);
    if (!alloc || alloc.getSegment() == 0) // V10
      return give.emitError("gives memory that is the caller's");
    given.insert(storage);
    written.insert(give.getIndex());
    return access(*give, give.getBuffer(), {});
  }

  LogicalResult isInside(ViewOp view) { // V2
    BufferSpan viewed = proof.getSpan(view.getBuffer()), span = proof.getSpan(view);
    ArrayRef<Span> steps = proof.getViews(span.storage);
    if (view.getType().getNumElements().isConstant(0) ||
        (proof.isReached(viewed.begin, span.begin, steps) &&
         proof.isReached(span.end, viewed.end, steps)))
      return success();
    return view.emitError("lies outside the viewed buffer");
  }

  //===-- What steps read and write -----------------------------------------------------------===//

  LogicalResult launch(LaunchOp launch) {
    for (FlatSymbolRefAttr name : launch.getKernels()) { // V14
      auto kernel = symbols.lookup<kernel::FuncOp>(name.getValue());
      for (auto [updated, result] : kernel::getUpdated(kernel)) {
        BufferSpan old = proof.getSpan(launch.getIns()[updated]);
        BufferSpan next = proof.getSpan(launch.getOuts()[result]);
        if (old.storage != next.storage || !proof.areEqual(old.begin, next.begin) ||
            !proof.areEqual(old.end, next.end))
          return launch.emitError("@") << kernel.getSymName() << " updates operand " << updated
                                       << ", which is not the memory of its result";
      }
    }
    return access(*launch, launch.getIns(), launch.getOuts());
  }

  /// `op` reads all of `ins` and writes all of `outs`.
  LogicalResult access(Operation &op, ValueRange ins, ValueRange outs) {
    if (failed(read(op, ins)) || failed(checkApart(op, ins, outs)))
      return failure();
    return write(op, outs);
  }

  LogicalResult read(Operation &op, ValueRange buffers) { // V11
    for (auto [i, buffer] : llvm::enumerate(buffers))
      if (!isKnown(buffer) && !proof.isWritten(proof.getSpan(buffer)))
        return op.emitError("reads buffer ")
               << i << ", which is not written or a part of it is not";
    return success();
  }

  /// Inputs and constants have values.
  static bool isKnown(Value buffer) {
    Value storage = getStorage(buffer);
    return isa<BlockArgument>(storage) || storage.getDefiningOp<ConstantOp>();
  }

  LogicalResult write(Operation &op, ValueRange buffers) {
    for (Value buffer : buffers) {
      Value storage = getStorage(buffer);
      auto argument = dyn_cast<BlockArgument>(storage); // V6
      if (argument && !mayWriteArgument(function, argument.getArgNumber()))
        return op.emitError("writes to input ")
               << argument.getArgNumber() << ", which is not mutated";
      auto constant = storage.getDefiningOp<ConstantOp>();
      if (constant && !constant.getMutated())
        return op.emitError("writes to a constant that is not mutated");
      if (isa_and_present<GraphCallOpInterface>(storage.getDefiningOp()))
        return op.emitError("writes to memory that a graph has given");
      proof.setWritten(proof.getSpan(buffer));
    }
    return success();
  }

  LogicalResult checkApart(Operation &op, ValueRange ins, ValueRange outs) { // V12
    for (auto [i, out] : llvm::enumerate(outs)) {
      for (Value other : outs.drop_front(i + 1))
        if (!areApart(out, other))
          return op.emitError("writes two buffers that overlap");
      for (auto [number, in] : llvm::enumerate(ins))
        if (!areApart(out, in) && !mayBeInPlace(op, number, in, out))
          return op.emitError("writes a buffer that overlaps one it reads");
    }
    return success();
  }

  bool areApart(Value a, Value b) {
    BufferSpan left = proof.getSpan(a), right = proof.getSpan(b);
    return left.storage != right.storage ||
           proof.areApart(left, right, proof.getViews(left.storage));
  }

  /// The two are the same memory, and the step reads an element before it writes there.
  bool mayBeInPlace(Operation &op, unsigned number, Value in, Value out) {
    BufferSpan read = proof.getSpan(in), written = proof.getSpan(out);
    if (!proof.areEqual(read.begin, written.begin) || !proof.areEqual(read.end, written.end) ||
        getElementBytes(read.type.getElementType()) !=
            getElementBytes(written.type.getElementType()))
      return false;
    if (auto launch = dyn_cast<LaunchOp>(op)) {
      auto kernel = symbols.lookup<kernel::FuncOp>(launch.getKernel());
      unsigned result = llvm::find(launch.getOuts(), out) - launch.getOuts().begin();
      return mayWriteOver(kernel, kernel.getArgument(number), result);
    }
    auto call = dyn_cast<ExternCallOp>(op);
    if (!call)
      return false;
    OperandRange updated = call.getOuts().take_back(call.getUpdates().size());
    return llvm::any_of(llvm::zip_equal(call.getUpdates(), updated), [&](auto pair) {
      return std::get<0>(pair) == number && std::get<1>(pair) == out;
    });
  }

  bool isWrittenOutput(unsigned i) {
    if (written.contains(i))
      return true;
    for (auto output : function.getFunctionBody().getOps<OutputOp>())
      if (output.getIndex() == i)
        return proof.isWritten(proof.getSpan(output));
    return cast<BufferType>(function.getResultTypes()[i]).getNumElements().isConstant(0);
  }

  //===-- Nested graphs -----------------------------------------------------------------------===//

  LogicalResult run(GraphCallOpInterface call) {
    sym::Expr workspace;
    SmallVector<Value> outs(call.getResultBuffers()), scratch, ins;
    if (MutableOperandRange operand = call.getWorkspaceMutable(); !operand.empty()) {
      scratch.push_back(operand[0].get());
      workspace = cast<BufferType>(operand[0].get().getType()).getBytes();
    }
    for (FlatSymbolRefAttr graph : call.getGraphs()) { // V9
      sym::ExprAttr arena = symbols.lookup<FuncOp>(graph.getValue()).getArenaBytesAttr();
      if (!arena || !proof.isAtMost(arena.getValue(), workspace))
        return call.emitError("the workspace is too small for @") << graph.getValue();
    }
    if (auto loop = dyn_cast<WhileOp>(*call)) {
      llvm::append_range(scratch, loop.getSpare());
      scratch.push_back(loop.getFlag());
    } else if (auto loop = dyn_cast<ForOp>(*call)) {
      llvm::append_range(scratch, loop.getSpare());
    }
    // An operand that a graph updates is read as well, and given once.
    SmallVector<Value> updated = getWrittenOperands(call, symbols);
    for (Value buffer : updated)
      if (llvm::count(call->getOperands(), buffer) != 1)
        return call.emitError("gives a buffer that a graph writes for something else, too");
    llvm::append_range(outs, updated);
    SmallVector<Value> changed(outs);
    llvm::append_range(changed, scratch);
    for (Value operand : call->getOperands())
      if (!llvm::is_contained(changed, operand))
        ins.push_back(operand);
    if (failed(read(*call, ins)) || failed(read(*call, updated)) ||
        failed(checkApart(*call, ins, changed)) || failed(write(*call, outs)))
      return failure();
    for (Value buffer : scratch) // it holds nothing that is of use
      proof.setUnwritten(proof.getSpan(buffer).storage);
    return endGiven(call);
  }

  /// What a graph has given is there until the graph runs again.
  LogicalResult endGiven(GraphCallOpInterface call) {
    llvm::SmallPtrSet<Operation *, 4> graphs;
    addGraphs(call, graphs);
    for (auto &[graph, buffers] : givenBy)
      if (graphs.contains(graph)) {
        for (Value buffer : buffers)
          ended[buffer] = call;
        buffers.clear();
      }
    for (Operation *graph : graphs)
      llvm::append_range(givenBy[graph], call->getResults());
    for (Value result : call->getResults())
      proof.setWritten(proof.getSpan(result));
    return success();
  }

  /// The graphs that a step runs, those that they run included.
  void addGraphs(GraphCallOpInterface call, llvm::SmallPtrSetImpl<Operation *> &graphs) {
    for (FlatSymbolRefAttr name : call.getGraphs())
      if (auto graph = symbols.lookup<FuncOp>(name.getValue()); graphs.insert(graph).second)
        for (auto inner : graph.getBody().getOps<GraphCallOpInterface>())
          addGraphs(inner, graphs);
  }

  //===-- Symbols and constants ---------------------------------------------------------------===//

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
      for (FlatSymbolRefAttr name : launch.getKernels())
        if (Operation *kernel = symbols.lookup(name.getValue()))
          used.add(kernel);
    if (auto define = dyn_cast<DefineOp>(op))
      unknown.remove(sym::Expr::symbol(define.getSymbol()));
    for (sym::Expr symbol : used.symbols)
      if (unknown.contains(symbol))
        return op.emitError("uses symbol ") << symbol.str() << " before it is defined";
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

  HostFunctionOpInterface function;
  VerifiedModule &module;
  ProgramOp program;
  SymbolTable &symbols;
  MemoryProof proof;
  llvm::SetVector<sym::Expr> unknown;                // symbols whose definition is still to come
  DenseMap<int64_t, sym::Expr> segments;             // size of each that is reserved
  DenseMap<int64_t, SmallVector<Span>> taken;        // by all allocations of a segment
  DenseMap<Value, Operation *> ended;                // and where
  llvm::SmallPtrSet<Value, 16> folded, given;        // given to the caller
  DenseMap<Operation *, SmallVector<Value>> givenBy; // graph: what it has given
  // Memory that is alive: allocations at places that are known, and those whose places depend on sizes.
  std::map<Place, AllocOp> fixed;
  llvm::SmallSetVector<AllocOp, 16> live;
  DenseMap<Value, AllocOp> owner;
  llvm::SmallDenseSet<uint64_t> written; // results that are given
};

/// Constants that share a place are one value, whatever is written or replaced.
LogicalResult checkConstants(ProgramOp program) { // V4
  SmallVector<ConstantOp> constants = getConstants(program);
  SmallVector<std::pair<int64_t, size_t>> places; // in order of the offsets
  for (auto [i, constant] : llvm::enumerate(constants))
    if (constant.getOffset() && !constant.getType().getBytes().isConstant(0))
      places.push_back({constant.getOffsetAttr().getInt(), i});
  llvm::sort(places);
  int64_t end = 0;
  ConstantOp last;
  for (auto [offset, i] : places) {
    ConstantOp constant = constants[i];
    int64_t next = offset + constant.getType().getBytes().constant().value_or(INT64_MAX / 2);
    bool isSame =
        last && last.getOffset() == constant.getOffset() && next == end &&
        (last.getName() == constant.getName() || !(last.getMutated() || constant.getMutated()));
    if (offset < end && !isSame) {
      InFlightDiagnostic error = constant.emitError("overlaps another constant");
      error.attachNote(last.getLoc()) << "this one";
      return error;
    }
    end = next;
    last = constant;
  }
  return success();
}

struct Verify : kiln::impl::WrapperVerifyBase<Verify> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<ProgramOp>()) {
      VerifiedModule module(getOperation(), program);
      for (auto function : getOperation().getOps<HostFunctionOpInterface>())
        if (failed(Verifier(function, module).run()))
          return signalPassFailure();
      if (failed(checkConstants(program)))
        return signalPassFailure();
    }
    markAllAnalysesPreserved();
  }
};

} // namespace
