// Steps of a run on images of memory that run nested graphs. Both branches of an `if` run, and loops run
// for several numbers of rounds, each on a copy of memory.
#include "Elementwise.h"
#include "MemoryRun.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

/// Runs a graph in the step's workspace. Its arguments are read-only, its results poison at first, and so
/// is the workspace before and after.
Outcome MemoryRun::runGraph(Frame &frame, GraphCallOpInterface op, FlatSymbolRefAttr graph,
                            Places arguments, ArrayRef<Place> written) {
  if (++numSteps > maxSteps)
    return Outcome::Ends;
  auto function = symbols.lookup<FuncOp>(graph.getValue());
  Frame inner{function};
  for (auto [argument, place] : llvm::zip_equal(function.getArguments(), arguments)) {
    place.isWritable = place.isWritable && mayWriteArgument(function, argument.getArgNumber());
    if (read(op, place, cast<BufferType>(argument.getType())) == Outcome::Wrong)
      return Outcome::Wrong;
    inner.places[argument] = place;
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (function.isGiven(i)) {
      inner.results.push_back(Place());
      continue;
    }
    Place place = written.front();
    written = written.drop_front();
    auto poison = [&](int64_t begin, int64_t end) {
      if (state.images[place.memory].findForeign(begin, end, place.owner))
        return fail(op, "writes a buffer that is not there any more");
      state.images[place.memory].assign(begin, end, place.owner, false);
      return Outcome::Continues;
    };
    // The size of a result may be one that the graph defines.
    auto type = cast<BufferType>(function.getResultTypes()[i]);
    if (evaluate(type.getBytes()) && visit(op, place, type, poison) == Outcome::Wrong)
      return Outcome::Wrong;
    inner.results.push_back(place);
  }
  if (MutableOperandRange workspace = op.getWorkspaceMutable(); !workspace.empty()) {
    Value buffer = workspace[0].get();
    inner.arena.place = frame.places.lookup(buffer);
    if (getNumber(op, cast<BufferType>(buffer.getType()).getBytes(), inner.arena.size) ==
        Outcome::Wrong)
      return Outcome::Wrong;
  }
  Place arena = inner.arena.place;
  int64_t end = arena.begin + inner.arena.size;
  if (inner.arena.size && state.images[arena.memory].findForeign(arena.begin, end, arena.owner))
    return fail(op, "lends a workspace that is not there any more");
  auto poisonArena = [&] {
    if (inner.arena.size)
      state.images[arena.memory].assign(arena.begin, end, arena.owner, false);
  };
  poisonArena();
  Outcome outcome = call(inner);
  poisonArena();
  if (outcome != Outcome::Continues)
    return outcome;
  ResultRange given = op->getResults();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.isGiven(i)) {
      frame.places[given.front()] = inner.results[i];
      frame.places[given.front()].isWritable = false;
      given = given.drop_front();
    }
  return Outcome::Continues;
}

Outcome MemoryRun::runStep(Frame &frame, GraphCallOpInterface op) {
  if (auto call = dyn_cast<CallOp>(*op)) {
    SmallVector<Value> written(call.getOuts());
    if (call.getWorkspace())
      written.push_back(call.getWorkspace());
    if (checkApart(frame, op, written, call.getIns()) == Outcome::Wrong)
      return Outcome::Wrong;
    return runGraph(frame, op, call.getGraphAttr(), lookUp(frame, call.getIns()),
                    lookUp(frame, call.getOuts()));
  }
  if (auto branch = dyn_cast<IfOp>(*op))
    return runIf(frame, branch);
  if (auto loop = dyn_cast<WhileOp>(*op))
    return runWhile(frame, loop);
  return runFor(frame, cast<ForOp>(*op));
}

/// One branch runs on a copy of memory and is undone; the run goes on after the other.
Outcome MemoryRun::runIf(Frame &frame, IfOp op) {
  SmallVector<Value> written(op.getOuts());
  if (op.getWorkspace())
    written.push_back(op.getWorkspace());
  if (checkApart(frame, op, written, op.getIns()) == Outcome::Wrong)
    return Outcome::Wrong;
  SmallVector<FlatSymbolRefAttr> graphs = op.getGraphs();
  bool takesFirst = draw() % 2;
  if (Value predicate = op.getPredicate()) {
    if (read(op, frame.places.lookup(predicate), cast<BufferType>(predicate.getType())) ==
        Outcome::Wrong)
      return Outcome::Wrong;
    State before = state;
    Outcome outcome = runGraph(frame, op, graphs[takesFirst], lookUp(frame, op.getIns()),
                               lookUp(frame, op.getOuts()));
    if (outcome == Outcome::Wrong)
      return outcome;
    state = std::move(before);
  } else {
    int64_t when;
    if (getNumber(op, op.getWhen()->getValue(), when) == Outcome::Wrong)
      return Outcome::Wrong;
    takesFirst = when >= 0;
  }
  return runGraph(frame, op, graphs[!takesFirst], lookUp(frame, op.getIns()),
                  lookUp(frame, op.getOuts()));
}

/// Operands that the body updates are written, every other operand of all rounds is read.
void MemoryRun::addInvariants(GraphCallOpInterface op, ValueRange ins,
                              SmallVectorImpl<Value> &written, SmallVectorImpl<Value> &others) {
  SmallVector<Value> updated = getWrittenOperands(op, symbols);
  for (Value in : ins)
    (llvm::is_contained(updated, in) ? written : others).push_back(in);
}

Outcome MemoryRun::runWhile(Frame &frame, WhileOp op) {
  SmallVector<Value> written(op.getOuts()), others(op.getCarried());
  llvm::append_range(written, op.getSpare());
  written.push_back(op.getFlag());
  if (op.getWorkspace())
    written.push_back(op.getWorkspace());
  addInvariants(op, op.getIns(), written, others);
  if (checkApart(frame, op, written, others) == Outcome::Wrong)
    return Outcome::Wrong;
  return runRounds(frame, op, rounds);
}

/// Rounds write to `outs` and `spare` by turns, beginning with `outs`.
Outcome MemoryRun::runRounds(Frame &frame, WhileOp op, unsigned count) {
  Places current = lookUp(frame, op.getCarried()), next = lookUp(frame, op.getOuts()),
         other = lookUp(frame, op.getSpare()), flag = {frame.places.lookup(op.getFlag())};
  for (unsigned round = 0;; ++round) {
    Places arguments(current);
    llvm::append_range(arguments, lookUp(frame, op.getIns()));
    Outcome outcome = runGraph(frame, op, op.getConditionAttr(), arguments, flag);
    if (outcome != Outcome::Continues)
      return outcome;
    if (read(op, flag[0], cast<BufferType>(op.getFlag().getType())) == Outcome::Wrong)
      return Outcome::Wrong;
    if (round == count)
      return copyCarried(frame, op, op.getOuts(), current);
    outcome = runGraph(frame, op, op.getBodyAttr(), arguments, next);
    if (outcome != Outcome::Continues)
      return outcome;
    current = next;
    std::swap(next, other);
  }
}

/// Carried values that are elsewhere are copied to where they belong.
Outcome MemoryRun::copyCarried(Frame &frame, Operation *op, ValueRange outs,
                               ArrayRef<Place> current) {
  for (auto [out, from] : llvm::zip_equal(outs, current)) {
    Place to = frame.places.lookup(out);
    auto type = cast<BufferType>(out.getType());
    if (from.memory == to.memory && from.begin == to.begin)
      continue;
    if (read(op, from, type) == Outcome::Wrong || write(op, to, type) == Outcome::Wrong)
      return Outcome::Wrong;
  }
  return Outcome::Continues;
}

/// The last round writes to `outs`, so their number says where the first one writes.
Outcome MemoryRun::runFor(Frame &frame, ForOp op) {
  size_t count = op.getCarried().size();
  SmallVector<Value> written(op.getOuts()), others(op.getCarried());
  llvm::append_range(written, op.getSpare());
  if (op.getWorkspace())
    written.push_back(op.getWorkspace());
  llvm::append_range(others, op.getSlices());
  addInvariants(op, op.getIns(), written, others);
  int64_t length;
  if (checkApart(frame, op, written, others) == Outcome::Wrong ||
      getNumber(op, op.getLength().getValue(), length) == Outcome::Wrong)
    return Outcome::Wrong;
  Places current = lookUp(frame, op.getCarried()),
         next = lookUp(frame, op.getOuts().take_front(count)), other = lookUp(frame, op.getSpare());
  if (length % 2 == 0)
    std::swap(next, other);
  for (int64_t round = 0; round < length; ++round) {
    auto addSlices = [&](Places &places, ValueRange buffers) {
      for (Value buffer : buffers) {
        Place slice = frame.places.lookup(buffer);
        BufferType type = getSliceType(cast<BufferType>(buffer.getType()));
        slice.begin += round * evaluate(type.getBytes()).value_or(0);
        places.push_back(slice);
      }
    };
    Places arguments(current), results(next);
    addSlices(arguments, op.getSlices());
    llvm::append_range(arguments, lookUp(frame, op.getIns()));
    addSlices(results, op.getOuts().drop_front(count));
    Outcome outcome = runGraph(frame, op, op.getBodyAttr(), arguments, results);
    if (outcome != Outcome::Continues)
      return outcome;
    current = next;
    std::swap(next, other);
  }
  return copyCarried(frame, op, op.getOuts().take_front(count), current);
}
