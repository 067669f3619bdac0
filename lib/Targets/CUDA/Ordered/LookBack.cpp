// What blocks in front have come to, which a block finds by looking back from one to the next.
#include "CUDA/Ordered/LookBack.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static int64_t getBytes(Type type) {
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
    found.push_back(frame.allocateShared(getBytes(type)));
  isLast = frame.allocateShared(4);
  workspace = frame.addSharedWorkspace(maxParts * 2 * stateBytes);
}

Value LookBack::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value LookBack::compare(arith::CmpIPredicate predicate, Value x, Value y) {
  return arith::CmpIOp::create(b, loc, predicate, x, y);
}

Value LookBack::sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }

Value LookBack::flag(Value distance) {
  Value number =
      arith::AddIOp::create(b, loc, sub(frame.block, distance), frame.constant(1)); // the count
  return frame.gep(workspace, b.getI32Type(), number);
}

Value LookBack::address(Value distance, Value kind, unsigned i) {
  Value number = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, sub(frame.block, distance), frame.constant(2)), kind);
  Value offset = arith::AddIOp::create(
      b, loc, arith::MulIOp::create(b, loc, number, frame.constant(stateBytes)),
      frame.constant(KILN_RT_WORKSPACE_FLAGS + offsets[i]));
  return frame.gep(workspace, b.getI8Type(), offset);
}

LookBack::State LookBack::load(Value distance, Value isLine) {
  Value kind = arith::ExtUIOp::create(b, loc, b.getI64Type(), isLine);
  State state;
  for (auto [i, type] : llvm::enumerate(types))
    state.push_back(memory.load(address(distance, kind, i), type, sym::Expr(0)));
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
void LookBack::publish(ValueRange state, int64_t what) {
  Value here = frame.constant(0), kind = frame.constant(what - partKnown);
  for (auto [i, value] : llvm::enumerate(state))
    memory.store(address(here, kind, i), types[i], sym::Expr(0), value);
  emitOnFlag(frame, TypeRange(), {flag(here), i32(what)}, "st.release.gpu.b32 [$0], $1;",
             "l,r,~{memory}", publishAttrName);
}

LookBack::State LookBack::search(Value part, ValueRange start, Combine combine) {
  Type i64 = b.getI64Type();
  Value one = frame.constant(1), none = frame.constant(-1), lanes = frame.constant(warpSize);
  // The part that is the lane's in window `window`, of which the first one ends in front of this
  // block's: lower lanes have those nearer by.
  auto getPart = [&](Value window) {
    Value skipped = arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, window, lanes),
                                          arith::AddIOp::create(b, loc, warp.rank, one));
    return sub(part, skipped);
  };
  // From window to window, up to one with a part behind which the line is known; it is the nearest.
  auto loop = scf::WhileOp::create(b, loc, TypeRange{i64, i64}, ValueRange{frame.constant(0)});
  {
    OpBuilder::InsertionGuard guard(b);
    Value window = b.createBlock(&loop.getBefore(), {}, TypeRange{i64}, {loc})->getArgument(0);
    Value mine = getPart(window);
    Value status =
        frame
            .emitWhere(compare(arith::CmpIPredicate::sge, mine, frame.constant(0)), {i32(0)},
                       [&]() -> State {
                         return {emitOnFlag(frame, b.getI32Type(), flag(sub(part, mine)),
                                            "{ .reg .pred waits; "
                                            "AGAIN: ld.acquire.gpu.b32 $0, [$1]; "
                                            "setp.eq.b32 waits, $0, 0; "
                                            "@waits nanosleep.u32 32; "
                                            "@waits bra AGAIN; }",
                                            "=r,l,~{memory}", lookAttrName)
                                     .getResult(0)};
                       })
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
    scf::YieldOp::create(b, loc,
                         ValueRange{arith::AddIOp::create(b, loc, next->getArgument(0), one)});
  }
  Value last = loop.getResult(0), known = loop.getResult(1);
  // And back. Each lane reads what it has waited for.
  Value numWindows = arith::AddIOp::create(b, loc, last, one);
  return frame.emitLoop(
      frame.constant(0), numWindows, 1, start, [&](Value step, ValueRange before) -> State {
        Value window = sub(last, step), mine = getPart(window);
        State read = frame.emitWhere(compare(arith::CmpIPredicate::sge, mine, known), start, [&] {
          return load(sub(part, mine), compare(arith::CmpIPredicate::eq, mine, known));
        });
        Value left =
            sub(part,
                arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, window, lanes), known));
        Value count = arith::MinSIOp::create(b, loc, lanes, left);
        return frame.emitLoop(
            frame.constant(0), count, 1, before, [&](Value i, ValueRange state) -> State {
              Value lane = sub(sub(count, one), i);
              Value source = arith::TruncIOp::create(b, loc, b.getI32Type(), lane);
              State next;
              for (Value value : read)
                next.push_back(warp.shuffleFrom(value, source));
              Value isFirst = compare(arith::CmpIPredicate::eq,
                                      arith::AddIOp::create(b, loc, step, i), frame.constant(0));
              State both = combine(state, next);
              for (auto [value, alone] : llvm::zip(both, next))
                value = arith::SelectOp::create(b, loc, isFirst, alone, value);
              return both;
            });
      });
}

LookBack::State LookBack::find(Value part, Value numBlocks, ValueRange start, ValueRange total,
                               Combine combine) {
  Value zero = frame.constant(0);
  frame.emitIf(compare(arith::CmpIPredicate::eq, warp.number, zero), [&] {
    Value isFirstLane = compare(arith::CmpIPredicate::eq, warp.rank, zero);
    Value hasOthers = compare(arith::CmpIPredicate::ne, part, zero);
    frame.emitIf(frame.both(isFirstLane, hasOthers), [&] { publish(total, partKnown); });
    State before = frame.emitWhere(hasOthers, start, [&] { return search(part, start, combine); });
    State behind = combine(before, total);
    // Other lanes have looked at flags before this one counts.
    NVVM::SyncWarpOp::create(b, loc, i32(-1));
    frame.emitIf(isFirstLane, [&] {
      publish(behind, lineKnown);
      Value limit =
          arith::TruncIOp::create(b, loc, b.getI32Type(), sub(numBlocks, frame.constant(1)));
      Value count = emitOnFlag(frame, b.getI32Type(), {workspace, limit},
                               "atom.acq_rel.gpu.inc.u32 $0, [$1], $2;", "=r,l,r,~{memory}",
                               countBlocksAttrName)
                        .getResult(0);
      Value last = arith::ExtUIOp::create(b, loc, b.getI32Type(),
                                          compare(arith::CmpIPredicate::eq, count, limit));
      LLVM::StoreOp::create(b, loc, last, isLast);
      for (auto [place, value] : llvm::zip(found, before))
        memory.store(place, value.getType(), sym::Expr(0), value);
    });
  });
  frame.emitBarrier();
  Value lowers = compare(arith::CmpIPredicate::ne,
                         LLVM::LoadOp::create(b, loc, b.getI32Type(), isLast), i32(0));
  frame.emitIf(lowers, [&] {
    frame.emitLoop(frame.thread, numBlocks, frame.numThreads, {}, [&](Value i, ValueRange) {
      Value number = arith::AddIOp::create(b, loc, i, frame.constant(1)); // behind the count
      LLVM::StoreOp::create(b, loc, i32(0), frame.gep(workspace, b.getI32Type(), number));
      return State();
    });
  });
  State before;
  for (auto [place, type] : llvm::zip(found, types))
    before.push_back(memory.load(place, type, sym::Expr(0)));
  return before;
}
