// Runs the steps of a host program on images of memory, which begin as poison.
//
// A launch reads every element of its operands and writes every element of its results: elements are where
// sizes and strides say, so that what lies between them is not touched. A byte belongs to one buffer at a
// time. What is freed belongs to the arena again, and is poison.
#include "MemoryRun.h"
#include "kiln/Dialect/Kernel/Groups.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

MemoryRun::MemoryRun(ProgramOp program, const SymbolTable &symbols, uint64_t seed, unsigned rounds,
                     int64_t maxSteps)
    : program(program), symbols(symbols), random(seed), rounds(rounds), maxSteps(maxSteps) {}

//===-- Numbers -----------------------------------------------------------------------------===//

std::optional<int64_t> MemoryRun::evaluate(sym::Expr expr) const {
  bool isKnown = true;
  std::optional<int64_t> value = expr.evaluate([&](sym::Expr leaf) {
    auto found = state.values.find(leaf);
    isKnown &= found != state.values.end();
    return isKnown ? found->second : 1;
  });
  return isKnown ? value : std::nullopt;
}

Outcome MemoryRun::getNumber(Operation *op, sym::Expr expr, int64_t &number) {
  std::optional<int64_t> value = evaluate(expr);
  if (!value)
    return fail(op, "uses " + expr.str() + ", which has no value");
  number = *value;
  return Outcome::Continues;
}

Outcome MemoryRun::fail(Operation *op, const Twine &message) {
  InFlightDiagnostic error = op->emitError(message);
  std::vector<std::string> values;
  for (auto [symbol, value] : state.values)
    values.push_back(symbol.str() + " = " + std::to_string(value));
  llvm::sort(values);
  if (!values.empty())
    error.attachNote(program.getLoc()) << "with " << llvm::join(values, ", ");
  return Outcome::Wrong;
}

SmallVector<int64_t> MemoryRun::getCandidates(sym::Expr symbol,
                                              ArrayRef<AssertOp> assertions) const {
  DictionaryAttr table = ProgramOp(program).getSymbolsAttr();
  auto range = table ? table.getAs<DictionaryAttr>(symbol.symbolName()) : DictionaryAttr();
  auto min = range ? range.getAs<IntegerAttr>("min") : IntegerAttr();
  auto max = range ? range.getAs<IntegerAttr>("max") : IntegerAttr();
  int64_t lower = min ? min.getInt() : 0, upper = max ? max.getInt() : INT64_MAX;
  llvm::SetVector<int64_t> candidates;
  auto add = [&](int64_t value) {
    if (value >= lower && value <= upper)
      candidates.insert(value);
  };
  for (AssertOp assertion : assertions) {
    std::optional<sym::Linear> linear = sym::splitLinear(assertion.getExpr().getValue(), symbol);
    if (!linear)
      continue;
    int64_t slope = evaluate(linear->coefficient).value_or(0);
    std::optional<int64_t> rest = evaluate(linear->rest);
    if (slope && rest)
      add(evaluate(sym::Expr(-*rest).floorDiv(slope)).value_or(lower));
  }
  for (int64_t value : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 32, 33, 64, 100, 128, 256})
    add(value);
  add(lower);
  add(lower + static_cast<int64_t>(lower < upper));
  if (max)
    add(upper);
  return candidates.takeVector();
}

unsigned MemoryRun::countViolated(ArrayRef<AssertOp> assertions) const {
  return llvm::count_if(assertions, [&](AssertOp assertion) {
    return evaluate(assertion.getExpr().getValue()).value_or(0) < 0;
  });
}

/// Draws what data gives: a value with which the assertions hold that follow, as far as they can be told.
void MemoryRun::chooseSymbol(sym::Expr symbol, DefineOp define) {
  SmallVector<AssertOp> assertions;
  for (Operation *op = define; op; op = op->getNextNode())
    if (auto assertion = dyn_cast<AssertOp>(op))
      assertions.push_back(assertion);
  SmallVector<int64_t> candidates = getCandidates(symbol, assertions);
  size_t first = draw() % candidates.size();
  unsigned fewest = UINT_MAX;
  int64_t best = 0;
  for (size_t i = 0; i < candidates.size() && fewest; ++i) {
    state.values[symbol] = candidates[(first + i) % candidates.size()];
    if (unsigned violated = countViolated(assertions); violated < fewest) {
      fewest = violated;
      best = state.values[symbol];
    }
  }
  state.values[symbol] = best;
}

//===-- Access ------------------------------------------------------------------------------===//

MemoryRun::Place MemoryRun::makeImage(int64_t size, bool isWritten, bool isWritable) {
  Place place{static_cast<unsigned>(state.images.size()), 0, ++numOwners, isWritable};
  state.images.emplace_back(size, place.owner, isWritten);
  return place;
}

/// Calls `range` with the bytes of all elements, neighbours together.
Outcome MemoryRun::visit(Operation *op, Place place, BufferType type,
                         function_ref<Outcome(int64_t, int64_t)> range) {
  SmallVector<int64_t> sizes(type.getSizes().size()), strides(sizes.size());
  int64_t run = getElementBytes(type.getElementType()), element = run;
  for (auto [i, size, stride] : llvm::enumerate(type.getSizes(), type.getStrides())) {
    if (getNumber(op, size, sizes[i]) == Outcome::Wrong ||
        getNumber(op, stride, strides[i]) == Outcome::Wrong)
      return Outcome::Wrong;
    if (sizes[i] < 0)
      return fail(op, "has a buffer of the size " + Twine(sizes[i]));
  }
  if (llvm::is_contained(sizes, 0))
    return Outcome::Continues;
  // Dims from the inside that leave no gaps are one run of bytes; a contiguous buffer is one.
  size_t rank = sizes.size();
  while (rank > 0 && (sizes[rank - 1] == 1 || strides[rank - 1] * element == run))
    run *= sizes[--rank];
  if (rank > 0 && type.isContiguous()) {
    int64_t bytes;
    if (getNumber(op, type.getBytes(), bytes) == Outcome::Wrong)
      return Outcome::Wrong;
    return range(place.begin, place.begin + bytes);
  }
  SmallVector<int64_t> index(rank);
  while (true) {
    int64_t begin = place.begin;
    for (size_t i = 0; i < rank; ++i)
      begin += index[i] * strides[i] * element;
    if (Outcome outcome = range(begin, begin + run); outcome != Outcome::Continues)
      return outcome;
    size_t dim = rank;
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return Outcome::Continues;
  }
}

Outcome MemoryRun::read(Operation *op, Place place, BufferType type) {
  const MemoryImage &image = state.images[place.memory];
  return visit(op, place, type, [&](int64_t begin, int64_t end) {
    if (std::optional<int64_t> byte = image.findForeign(begin, end, place.owner))
      return fail(op, "reads byte " + Twine(*byte - place.begin) +
                          " of a buffer, which is not the buffer's any more");
    if (std::optional<int64_t> byte = image.findUnwritten(begin, end))
      return fail(op, "reads byte " + Twine(*byte - place.begin) +
                          " of a buffer, which nothing has written");
    return Outcome::Continues;
  });
}

Outcome MemoryRun::write(Operation *op, Place place, BufferType type) {
  if (!place.isWritable)
    return fail(op, "writes to memory that is not for it to write");
  MemoryImage &image = state.images[place.memory];
  return visit(op, place, type, [&](int64_t begin, int64_t end) {
    if (std::optional<int64_t> byte = image.findForeign(begin, end, place.owner))
      return fail(op, "writes byte " + Twine(*byte - place.begin) +
                          " of a buffer, which is not the buffer's any more");
    image.assign(begin, end, place.owner, /*isWritten=*/true);
    return Outcome::Continues;
  });
}

MemoryRun::Places MemoryRun::lookUp(Frame &frame, ValueRange buffers) {
  return llvm::map_to_vector(buffers, [&](Value buffer) { return frame.places.lookup(buffer); });
}

/// Whether two buffers have bytes in common, those between strided elements counted.
bool MemoryRun::overlap(Frame &frame, Value a, Value b) {
  Place left = frame.places.lookup(a), right = frame.places.lookup(b);
  int64_t leftBytes = evaluate(cast<BufferType>(a.getType()).getBytes()).value_or(0);
  int64_t rightBytes = evaluate(cast<BufferType>(b.getType()).getBytes()).value_or(0);
  return left.memory == right.memory && leftBytes > 0 && rightBytes > 0 &&
         left.begin < right.begin + rightBytes && right.begin < left.begin + leftBytes;
}

/// No buffer of `written` overlaps another one of them or one of `others`.
Outcome MemoryRun::checkApart(Frame &frame, Operation *op, ValueRange written, ValueRange others) {
  for (auto [i, out] : llvm::enumerate(written)) {
    for (Value other : written.drop_front(i + 1))
      if (overlap(frame, out, other))
        return fail(op, "writes two buffers that overlap");
    for (Value other : others) {
      if (!overlap(frame, out, other))
        continue;
      auto launch = dyn_cast<LaunchOp>(op);
      if (launch && isElementwise(launch, other, out))
        continue;
      if (auto call = dyn_cast<ExternCallOp>(op)) {
        // A library writes to an operand that it updates.
        OperandRange updated = call.getOuts().take_back(call.getUpdates().size());
        auto isUpdate = [&](auto pair) {
          return std::get<1>(pair) == out && call.getIns()[std::get<0>(pair)] == other;
        };
        if (llvm::any_of(llvm::zip_equal(call.getUpdates(), updated), isUpdate) &&
            frame.places.lookup(out).begin == frame.places.lookup(other).begin)
          continue;
      }
      return fail(op, "writes a buffer that overlaps one it reads");
    }
  }
  return Outcome::Continues;
}

/// Looks at points of the kernel's loops, whether operand `in` is read nowhere but where the result is
/// written. The two start at one address.
bool MemoryRun::isElementwise(LaunchOp launch, Value in, Value out) {
  auto func = symbols.lookup<kernel::FuncOp>(launch.getKernel());
  for (auto [updated, result] : kernel::getUpdated(func))
    if (launch.getIns()[updated] == in && launch.getOuts()[result] == out)
      return true;
  auto map = dyn_cast<kernel::MapOp>(func.getRoot());
  if (!map || getElementBytes(cast<BufferType>(in.getType()).getElementType()) !=
                  getElementBytes(cast<BufferType>(out.getType()).getElementType()))
    return false;
  SmallVector<int64_t> extents;
  for (sym::Expr extent : map.getExtents())
    extents.push_back(evaluate(extent).value_or(0));
  auto getPosition = [](ArrayRef<int64_t> index, ArrayRef<int64_t> sizes) {
    int64_t position = 0;
    for (auto [i, size] : llvm::zip_equal(index, sizes))
      position = position * size + i;
    return position;
  };
  auto isSameEverywhere = [&](kernel::ReadOp read) {
    if (!read.getValues().empty())
      return false;
    SmallVector<int64_t> dims, sizes;
    for (sym::Expr extent : kernel::getDimExtents(read->getParentRegion()))
      dims.push_back(evaluate(extent).value_or(0));
    for (sym::Expr size : sym::getShape(read.getTensor()))
      sizes.push_back(evaluate(size).value_or(0));
    if (llvm::is_contained(dims, 0))
      return true;
    for (unsigned attempt = 0; attempt < 256; ++attempt) {
      SmallVector<int64_t> point, index;
      for (int64_t extent : dims) // the last point first: the ends are where a mistake shows
        point.push_back(attempt ? static_cast<int64_t>(draw() % extent) : extent - 1);
      for (sym::Expr result : read.getMap().getResults())
        index.push_back(result
                            .evaluate([&](sym::Expr leaf) {
                              return leaf.kind() == sym::Kind::Dim ? point[leaf.dimIndex()]
                                                                   : state.values.lookup(leaf);
                            })
                            .value_or(-1));
      // Outside of the operand, a mask keeps the kernel from reading.
      bool isInside = llvm::all_of(llvm::zip_equal(index, sizes), [](auto pair) {
        return std::get<0>(pair) >= 0 && std::get<0>(pair) < std::get<1>(pair);
      });
      if (isInside && getPosition(index, sizes) !=
                          getPosition(ArrayRef(point).take_front(extents.size()), extents))
        return false;
    }
    return true;
  };
  for (auto [operand, argument] : llvm::zip_equal(launch.getIns(), func.getArguments()))
    if (operand == in)
      for (Operation *user : argument.getUsers())
        if (auto read = dyn_cast<kernel::ReadOp>(user); !read || !isSameEverywhere(read))
          return false;
  return true;
}

//===-- Steps -------------------------------------------------------------------------------===//

Outcome MemoryRun::allocate(Frame &frame, AllocOp alloc) {
  if (!alloc.getOffset())
    return fail(alloc, "has no place");
  Arena arena = frame.arena;
  if (alloc.getSegment()) {
    auto segment = state.segments.find(alloc.getSegment());
    if (segment == state.segments.end())
      return fail(alloc, "is in a segment that is not reserved");
    arena = {segment->second, state.images[segment->second.memory].getSize()};
  }
  int64_t offset, bytes;
  if (getNumber(alloc, alloc.getOffset()->getValue(), offset) == Outcome::Wrong ||
      getNumber(alloc, alloc.getType().getBytes(), bytes) == Outcome::Wrong)
    return Outcome::Wrong;
  if (offset % bufferAlignment || bytes < 0)
    return fail(alloc, "takes " + Twine(bytes) + " bytes at " + Twine(offset));
  Place place{arena.place.memory, arena.place.begin + offset, ++numOwners, true};
  MemoryImage &image = state.images[place.memory];
  if (bytes && (offset < 0 || offset + bytes > arena.size))
    return fail(alloc, "takes bytes up to " + Twine(offset + bytes) + " of an arena of " +
                           Twine(arena.size));
  if (std::optional<int64_t> byte =
          image.findForeign(place.begin, place.begin + bytes, arena.place.owner))
    return fail(alloc,
                "takes byte " + Twine(*byte - arena.place.begin) + ", which another buffer has");
  image.assign(place.begin, place.begin + bytes, place.owner, false);
  parents[place.owner] = arena.place.owner;
  frame.places[alloc] = place;
  return Outcome::Continues;
}

/// The memory of `buffer` gets the owner `next`, and what it holds is lost.
Outcome MemoryRun::release(Frame &frame, Operation *op, Value buffer, Owner next) {
  Place place = frame.places.lookup(buffer);
  int64_t bytes;
  if (getNumber(op, cast<BufferType>(buffer.getType()).getBytes(), bytes) == Outcome::Wrong)
    return Outcome::Wrong;
  MemoryImage &image = state.images[place.memory];
  if (image.findForeign(place.begin, place.begin + bytes, place.owner))
    return fail(op, "ends a buffer that has ended");
  image.assign(place.begin, place.begin + bytes, next, false);
  return Outcome::Continues;
}

Outcome MemoryRun::launch(Frame &frame, Operation &op, ValueRange ins, ValueRange outs) {
  if (++numSteps > maxSteps)
    return Outcome::Ends;
  if (checkApart(frame, &op, outs, ins) == Outcome::Wrong)
    return Outcome::Wrong;
  if (auto launch = dyn_cast<LaunchOp>(op)) {
    auto func = symbols.lookup<kernel::FuncOp>(launch.getKernel());
    for (auto [updated, result] : kernel::getUpdated(func)) {
      Place old = frame.places.lookup(ins[updated]), next = frame.places.lookup(outs[result]);
      if (old.memory != next.memory || old.begin != next.begin)
        return fail(&op, "updates an operand that is not the memory of its result");
    }
  }
  for (Value in : ins)
    if (read(&op, frame.places.lookup(in), cast<BufferType>(in.getType())) == Outcome::Wrong)
      return Outcome::Wrong;
  for (Value out : outs)
    if (write(&op, frame.places.lookup(out), cast<BufferType>(out.getType())) == Outcome::Wrong)
      return Outcome::Wrong;
  return Outcome::Continues;
}

Outcome MemoryRun::define(Frame &frame, DefineOp define) {
  sym::Expr symbol = sym::Expr::symbol(define.getSymbol());
  if (Value from = define.getValue()) {
    if (read(define, frame.places.lookup(from), cast<BufferType>(from.getType())) == Outcome::Wrong)
      return Outcome::Wrong;
    chooseSymbol(symbol, define);
    return Outcome::Continues;
  }
  // One that leaves 64 bits becomes -1 in a run.
  state.values[symbol] = evaluate(define.getExprAttr().getValue()).value_or(-1);
  return Outcome::Continues;
}

Outcome MemoryRun::step(Frame &frame, Operation &op) {
  auto place = [&](Value buffer) { return frame.places.lookup(buffer); };
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (constant.getOffset()) {
      Place known = constants.lookup(constant.getOffsetAttr().getInt());
      known.isWritable = constant.getMutated();
      frame.places[constant] = known;
    }
  } else if (auto output = dyn_cast<OutputOp>(op)) {
    frame.places[output] = frame.results[output.getIndex()];
  } else if (auto alloc = dyn_cast<AllocOp>(op)) {
    return allocate(frame, alloc);
  } else if (auto reserve = dyn_cast<ReserveOp>(op)) {
    int64_t bytes;
    if (getNumber(&op, reserve.getBytes().getValue(), bytes) == Outcome::Wrong)
      return Outcome::Wrong;
    if (auto old = state.segments.find(reserve.getSegment()); old != state.segments.end()) {
      MemoryImage &image = state.images[old->second.memory];
      image.assign(0, image.getSize(), /*owner=*/0, false);
    }
    state.segments[reserve.getSegment()] = makeImage(bytes, false, true);
  } else if (auto free = dyn_cast<FreeOp>(op)) {
    return release(frame, &op, free.getBuffer(), parents.lookup(place(free.getBuffer()).owner));
  } else if (auto reuse = dyn_cast<ReuseOp>(op)) {
    Place next = place(reuse.getBuffer());
    next.owner = ++numOwners;
    parents[next.owner] = parents.lookup(place(reuse.getBuffer()).owner);
    frame.places[reuse] = next;
    return release(frame, &op, reuse.getBuffer(), next.owner);
  } else if (auto view = dyn_cast<ViewOp>(op)) {
    int64_t offset;
    if (getNumber(&op, view.getOffset().getValue(), offset) == Outcome::Wrong)
      return Outcome::Wrong;
    Place viewed = place(view.getBuffer());
    viewed.begin += offset * getElementBytes(view.getType().getElementType());
    frame.places[view] = viewed;
  } else if (auto kernel = dyn_cast<LaunchOp>(op)) {
    return launch(frame, op, kernel.getIns(), kernel.getOuts());
  } else if (auto call = dyn_cast<ExternCallOp>(op)) {
    return launch(frame, op, call.getIns(), call.getOuts());
  } else if (auto copy = dyn_cast<CopyOp>(op)) {
    return launch(frame, op, copy.getSource(), copy.getTarget());
  } else if (auto definition = dyn_cast<DefineOp>(op)) {
    return define(frame, definition);
  } else if (auto check = dyn_cast<CheckOp>(op)) {
    return read(&op, place(check.getCondition()), check.getCondition().getType());
  } else if (auto assertion = dyn_cast<AssertOp>(op)) {
    if (evaluate(assertion.getExpr().getValue()).value_or(-1) < 0)
      return Outcome::Ends;
  } else if (auto give = dyn_cast<GiveOp>(op)) {
    frame.results[give.getIndex()] = place(give.getBuffer());
  } else if (auto call = dyn_cast<GraphCallOpInterface>(op)) {
    return runStep(frame, call);
  }
  return Outcome::Continues;
}

Outcome MemoryRun::call(Frame &frame) {
  for (Operation &op : frame.function.getFunctionBody().front())
    if (Outcome outcome = step(frame, op); outcome != Outcome::Continues)
      return outcome;
  return finish(frame);
}

/// Every result is there.
Outcome MemoryRun::finish(Frame &frame) {
  for (auto [i, type] : llvm::enumerate(frame.function.getResultTypes()))
    if (!frame.function.isNone(i) &&
        read(frame.function, frame.results[i], cast<BufferType>(type)) == Outcome::Wrong)
      return Outcome::Wrong;
  return Outcome::Continues;
}

/// Constants that share a place are one value, which nothing writes unless it has one name.
Outcome MemoryRun::placeConstants() {
  weights = makeImage(program.getWeightsBytes().value_or(0), false, false);
  DenseMap<int64_t, ConstantOp> first;
  for (ConstantOp constant : getConstants(program)) {
    if (!constant.getOffset())
      continue;
    int64_t begin = constant.getOffsetAttr().getInt(), bytes;
    if (getNumber(constant, constant.getType().getBytes(), bytes) == Outcome::Wrong)
      return Outcome::Wrong;
    if (bytes == 0)
      continue; // it may have the place of another
    auto [other, isNew] = first.try_emplace(begin, constant);
    if (!isNew) {
      if (other->second.getName() != constant.getName() &&
          (constant.getMutated() || other->second.getMutated()))
        return fail(constant, "is written and shares its place with another constant");
      continue;
    }
    MemoryImage &image = state.images[weights.memory];
    if (image.findForeign(begin, begin + bytes, weights.owner))
      return fail(constant, "lies in another constant or outside the weights");
    Place place{weights.memory, begin, ++numOwners, false};
    image.assign(begin, begin + bytes, place.owner, /*isWritten=*/true);
    constants[begin] = place;
  }
  return Outcome::Continues;
}

Outcome MemoryRun::run() {
  Frame frame{program};
  if (placeConstants() == Outcome::Wrong)
    return Outcome::Wrong;
  for (auto [i, input] : llvm::enumerate(program.getArguments())) {
    int64_t bytes;
    if (getNumber(program, cast<BufferType>(input.getType()).getBytes(), bytes) == Outcome::Wrong)
      return Outcome::Wrong;
    frame.places[input] = makeImage(bytes, true, program.isMutated(i));
  }
  for (auto [i, type] : llvm::enumerate(program.getResultTypes())) {
    // The size of an output may be known later only.
    frame.results.push_back(program.isNone(i) ? Place() : makeImage(INT64_MAX, false, true));
  }
  if (!program.getArenaBytesAttr())
    return fail(program, "has no arena");
  if (getNumber(program, program.getArenaBytesAttr().getValue(), frame.arena.size) ==
      Outcome::Wrong)
    return Outcome::Wrong;
  frame.arena.place = makeImage(frame.arena.size, false, true);
  return call(frame);
}
