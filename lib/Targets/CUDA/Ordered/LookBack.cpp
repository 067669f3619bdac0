// What blocks in front have come to, which a block finds by looking back from one to the next.
#include "CUDA/Ordered/LookBack.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

int64_t cuda::getBytes(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * getBytes(complex.getElementType());
  return std::max(8u, type.getIntOrFloatBitWidth()) / 8;
}

LookBack::LookBack(DeviceFrame &frame, TypeRange state)
    : frame(frame), b(frame.builder), loc(frame.loc), types(state), warp(frame, warpSize),
      memory(frame, nothing) {
  memory.setLanes(1);
  for (Type type : types) {
    offsets.push_back(llvm::alignTo(stateBytes, getBytes(type)));
    stateBytes = offsets.back() + getBytes(type);
  }
  stateBytes = llvm::alignTo(stateBytes, vectorBytes);
  for (Type type : types)
    places.push_back(frame.allocateShared(getBytes(type)));
  isLast = frame.allocateShared(4);
  workspace = frame.addSharedWorkspace((maxParts + 2 * maxGroups) * stateBytes);
}

Value LookBack::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value LookBack::compare(arith::CmpIPredicate predicate, Value x, Value y) {
  return arith::CmpIOp::create(b, loc, predicate, x, y);
}

Value LookBack::sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }

Value LookBack::add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }

Value LookBack::flag(Value number) {
  return frame.gep(workspace, b.getI32Type(), add(number, frame.constant(1))); // the count
}

Value LookBack::address(Value number, unsigned i) {
  Value offset = add(arith::MulIOp::create(b, loc, number, frame.constant(stateBytes)),
                     frame.constant(KILN_RT_WORKSPACE_FLAGS + offsets[i]));
  return frame.gep(workspace, b.getI8Type(), offset);
}

Value LookBack::groupState(Value group, Value isLine) {
  Value pair = arith::MulIOp::create(b, loc, group, frame.constant(2));
  return add(add(pair, frame.constant(maxParts)),
             arith::ExtUIOp::create(b, loc, b.getI64Type(), isLine));
}

LookBack::State LookBack::load(Value number) {
  State state;
  for (auto [i, type] : llvm::enumerate(types))
    state.push_back(memory.load(address(number, i), type, sym::Expr(0)));
  return state;
}

static LLVM::InlineAsmOp emitOnFlag(DeviceFrame &frame, TypeRange results, ValueRange operands,
                                    StringRef text, StringRef constraints, StringRef name) {
  auto op = LLVM::InlineAsmOp::create(
      frame.builder, frame.loc, results, operands, text, constraints, /*has_side_effects=*/true,
      /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
  op->setAttr(name, frame.builder.getUnitAttr());
  return op;
}

/// By one lane.
void LookBack::publish(Value flagNumber, Value stateNumber, ValueRange state, int64_t what) {
  for (auto [i, value] : llvm::enumerate(state))
    memory.store(address(stateNumber, i), types[i], sym::Expr(0), value);
  emitOnFlag(frame, TypeRange(), {flag(flagNumber), i32(what)}, "st.release.gpu.b32 [$0], $1;",
             "l,r,~{memory}", publishAttrName);
}

Value LookBack::wait(Value number) {
  return emitOnFlag(frame, b.getI32Type(), flag(number),
                    "{ .reg .pred waits; "
                    "AGAIN: ld.acquire.gpu.b32 $0, [$1]; "
                    "setp.eq.b32 waits, $0, 0; "
                    "@waits nanosleep.u32 32; "
                    "@waits bra AGAIN; }",
                    "=r,l,~{memory}", lookAttrName)
      .getResult(0);
}

LookBack::State LookBack::combineParts(Value rank, ValueRange otherwise, Combine combine) {
  Value first = sub(frame.block, rank);
  State sums = frame.emitWhere(compare(arith::CmpIPredicate::slt, warp.rank, rank), otherwise, [&] {
    Value number = add(first, warp.rank);
    wait(number);
    return load(number);
  });
  // Each lane gets what comes before it from ever further away.
  Value lane = arith::TruncIOp::create(b, loc, b.getI32Type(), warp.rank);
  for (int64_t distance = 1; distance < warpSize; distance *= 2) {
    Value isBehind = compare(arith::CmpIPredicate::sge, lane, i32(distance));
    Value source = arith::SelectOp::create(b, loc, isBehind, sub(lane, i32(distance)), lane);
    State others;
    for (Value value : sums)
      others.push_back(warp.shuffleFrom(value, source));
    for (auto [sum, both] : llvm::zip(sums, combine(others, sums)))
      sum = arith::SelectOp::create(b, loc, isBehind, both, sum);
  }
  // Where there are no parts nobody asks.
  Value last = arith::TruncIOp::create(
      b, loc, b.getI32Type(),
      arith::MaxSIOp::create(b, loc, sub(rank, frame.constant(1)), frame.constant(0)));
  for (Value &sum : sums)
    sum = warp.shuffleFrom(sum, last);
  return sums;
}

LookBack::State LookBack::search(Value before, Value count, ValueRange start, Combine combine) {
  Type i64 = b.getI64Type();
  Value one = frame.constant(1), none = frame.constant(-1), lanes = frame.constant(warpSize);
  Value nearest = sub(count, one);
  // The line's group that is the lane's in window `window`: lower lanes have those nearer by.
  auto getGroup = [&](Value window) {
    return sub(nearest, add(arith::MulIOp::create(b, loc, window, lanes), warp.rank));
  };
  auto getNumber = [&](Value group) { return sub(before, sub(nearest, group)); };
  // From window to window, up to one with a group behind which the line is known; it is the
  // nearest.
  auto loop = scf::WhileOp::create(b, loc, TypeRange{i64, i64}, ValueRange{frame.constant(0)});
  {
    OpBuilder::InsertionGuard guard(b);
    Value window = b.createBlock(&loop.getBefore(), {}, TypeRange{i64}, {loc})->getArgument(0);
    Value mine = getGroup(window);
    Value status =
        frame
            .emitWhere(
                compare(arith::CmpIPredicate::sge, mine, frame.constant(0)), {i32(0)},
                [&]() -> State { return {wait(add(getNumber(mine), frame.constant(maxParts)))}; })
            .front();
    Value known = arith::SelectOp::create(
        b, loc, compare(arith::CmpIPredicate::eq, status, i32(lineKnown)), mine, none);
    known = warp.combineLanes(known, warpSize,
                              [&](ValueRange x, ValueRange y) -> State {
                                return {arith::MaxSIOp::create(b, loc, x.front(), y.front())};
                              })
                .front();
    scf::ConditionOp::create(b, loc, compare(arith::CmpIPredicate::slt, known, frame.constant(0)),
                             ValueRange{window, known});
    Block *next = b.createBlock(&loop.getAfter(), {}, TypeRange{i64, i64}, {loc, loc});
    scf::YieldOp::create(b, loc, ValueRange{add(next->getArgument(0), one)});
  }
  Value last = loop.getResult(0), known = loop.getResult(1);
  // And back. Each lane reads what it has waited for.
  Value numWindows = add(last, one);
  return frame.emitLoop(
      frame.constant(0), numWindows, 1, start, [&](Value step, ValueRange soFar) -> State {
        Value window = sub(last, step), mine = getGroup(window);
        State read = frame.emitWhere(compare(arith::CmpIPredicate::sge, mine, known), start, [&] {
          Value isLine = compare(arith::CmpIPredicate::eq, mine, known);
          return load(groupState(getNumber(mine), isLine));
        });
        Value left = sub(count, add(arith::MulIOp::create(b, loc, window, lanes), known));
        Value numRead = arith::MinSIOp::create(b, loc, lanes, left);
        return frame.emitLoop(
            frame.constant(0), numRead, 1, soFar, [&](Value i, ValueRange state) -> State {
              Value lane = sub(sub(numRead, one), i);
              Value source = arith::TruncIOp::create(b, loc, b.getI32Type(), lane);
              State next;
              for (Value value : read)
                next.push_back(warp.shuffleFrom(value, source));
              Value isFirst = compare(arith::CmpIPredicate::eq, add(step, i), frame.constant(0));
              State both = combine(state, next);
              for (auto [value, alone] : llvm::zip(both, next))
                value = arith::SelectOp::create(b, loc, isFirst, alone, value);
              return both;
            });
      });
}

LookBack::State LookBack::find(Value part, Value numBlocks, ValueRange start, ValueRange total,
                               Combine combine) {
  Value zero = frame.constant(0), one = frame.constant(1), lanes = frame.constant(warpSize);
  frame.emitIf(compare(arith::CmpIPredicate::eq, warp.number, zero), [&] {
    Value isFirstLane = compare(arith::CmpIPredicate::eq, warp.rank, zero);
    // The part's place in its group, the line's groups before that one, and the number of the last
    // of these among all groups.
    Value rank = arith::RemUIOp::create(b, loc, part, lanes);
    Value count = arith::DivUIOp::create(b, loc, part, lanes);
    Value group = arith::DivUIOp::create(b, loc, sub(frame.block, rank), lanes);
    Value before = sub(group, one);
    Value hasParts = compare(arith::CmpIPredicate::ne, rank, zero);
    Value hasGroups = compare(arith::CmpIPredicate::ne, count, zero);
    Value endsGroup = frame.both(
        isFirstLane, compare(arith::CmpIPredicate::eq, rank, frame.constant(warpSize - 1)));
    frame.emitIf(isFirstLane, [&] { publish(frame.block, frame.block, total, sumKnown); });
    State parts =
        frame.emitWhere(hasParts, total, [&] { return combineParts(rank, total, combine); });
    State sum = combine(parts, total);
    auto publishGroup = [&](ValueRange state, int64_t what) {
      Value isLine = arith::ConstantIntOp::create(b, loc, what == lineKnown, 1);
      publish(add(group, frame.constant(maxParts)), groupState(group, isLine), state, what);
    };
    frame.emitIf(frame.both(endsGroup, hasGroups), [&] { publishGroup(sum, sumKnown); });
    State line =
        frame.emitWhere(hasGroups, start, [&] { return search(before, count, start, combine); });
    frame.emitIf(endsGroup, [&] { publishGroup(combine(line, sum), lineKnown); });
    State found = combine(line, parts);
    for (auto [value, alone] : llvm::zip(found, line))
      value = arith::SelectOp::create(b, loc, hasParts, value, alone);
    // Other lanes have looked at flags before this one counts.
    NVVM::SyncWarpOp::create(b, loc, i32(-1));
    frame.emitIf(isFirstLane, [&] {
      Value limit = arith::TruncIOp::create(b, loc, b.getI32Type(), sub(numBlocks, one));
      Value counted = emitOnFlag(frame, b.getI32Type(), {workspace, limit},
                                 "atom.acq_rel.gpu.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                                 countBlocksAttrName)
                          .getResult(0);
      Value last = arith::ExtUIOp::create(b, loc, b.getI32Type(),
                                          compare(arith::CmpIPredicate::eq, counted, limit));
      LLVM::StoreOp::create(b, loc, last, isLast);
      for (auto [place, value] : llvm::zip(places, found))
        memory.store(place, value.getType(), sym::Expr(0), value);
    });
  });
  frame.emitBarrier();
  Value lowers = compare(arith::CmpIPredicate::ne,
                         LLVM::LoadOp::create(b, loc, b.getI32Type(), isLast), i32(0));
  auto lower = [&](Value count, Value first) {
    frame.emitLoop(frame.thread, count, frame.numThreads, {}, [&](Value i, ValueRange) {
      LLVM::StoreOp::create(b, loc, i32(0), flag(add(first, i)));
      return State();
    });
  };
  frame.emitIf(lowers, [&] {
    lower(numBlocks, zero);
    lower(arith::DivUIOp::create(b, loc, numBlocks, lanes), frame.constant(maxParts));
  });
  State before;
  for (auto [place, type] : llvm::zip(places, types))
    before.push_back(memory.load(place, type, sym::Expr(0)));
  return before;
}
