// Writes the function of a kernel.repeat: a task walks the elements of its chunk and appends to the
// result from where the chunks before it end.
//
// A mask is evaluated in vectors, and the numbers of the lanes where it holds are stored side by
// side (one instruction with AVX-512). Other counts come one by one. Nothing is stored past the
// result, whatever the counts and starts say: they are data.
#include "kiln/Codegen/BodyEmitter.h"
#include "kiln/Codegen/KernelEmitters.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

namespace {

class RepeatEmitter {
public:
  RepeatEmitter(KernelFrame &frame, kernel::RepeatOp repeat, int64_t lanes)
      : frame(frame), b(frame.builder), loc(frame.loc), repeat(repeat),
        count(frame, repeat.getCount()), start(frame, repeat.getStart()), lanes(lanes),
        chunk(repeat.getChunk().getValue()) {}

  void emit() {
    number = frame.addVariable(frame.task, repeat.getExtents()[0]);
    size = frame.emit(sym::getShape(repeat.getResult())[0]);
    start.setDim(0, number);
    start.setLanes(1);
    Value first = clamp(start.emitYield()[0], size);
    count.setDim(0, number);
    count.emitAvailable();
    sym::Expr places = sym::Expr::min(chunk, repeat.getTotal().getValue() - number * chunk);
    places = frame.assumptions.simplify(places);
    sym::Expr whole = 0;
    if (isMask() && lanes > 1) {
      whole = frame.assumptions.simplify(places.floorDiv(lanes) * lanes);
      first = frame
                  .emitLoop(frame.constant(0), frame.emit(whole), lanes, first,
                            [&](Value iv, ValueRange at) -> SmallVector<Value> {
                              return {emitVector(iv, at.front())};
                            })
                  .front();
    }
    frame.emitLoop(frame.emit(whole), frame.emit(places), 1, first,
                   [&](Value iv, ValueRange at) -> SmallVector<Value> {
                     return {emitElement(iv, at.front())};
                   });
  }

private:
  bool isMask() {
    return repeat.getCount().front().getTerminator()->getOperand(0).getType().isInteger(1);
  }

  /// `value` in [0, limit].
  Value clamp(Value value, Value limit) {
    value = arith::MaxSIOp::create(b, loc, value, frame.constant(0));
    return arith::MinSIOp::create(b, loc, value, limit);
  }

  Value address(Value at) { return frame.gep(frame.resultBuffer(0), b.getI64Type(), at); }

  /// The mask of `lanes` places.
  Value emitMask(sym::Expr base) {
    BodyEmitter::Scope scope(count);
    count.setDim(1, base + count.setLanes(lanes));
    return count.emitYield()[0];
  }

  /// Appends the elements of `lanes` places where the mask holds; returns the new end.
  Value emitVector(Value place, Value at) {
    sym::Expr base = frame.addSteppedVariable(place, lanes, chunk);
    Value mask = emitMask(base);
    auto bits = b.getIntegerType(lanes);
    Value packed = LLVM::BitcastOp::create(b, loc, bits, mask);
    Value added = LLVM::CtPopOp::create(b, loc, bits, packed);
    added = arith::ExtUIOp::create(b, loc, b.getI64Type(), added);
    Value end = arith::AddIOp::create(b, loc, at, added);
    Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, end, size);

    auto branch = scf::IfOp::create(b, loc, b.getI64Type(), fits, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    auto type = VectorType::get(lanes, b.getI64Type());
    auto offsets = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
    Value numbers = vector::BroadcastOp::create(b, loc, type, frame.emit(number * chunk + base));
    numbers = arith::AddIOp::create(
        b, loc, numbers,
        arith::ConstantOp::create(b, loc,
                                  DenseElementsAttr::get(type, ArrayRef<int64_t>(offsets))));
    LLVM::masked_compressstore::create(b, loc, numbers, address(at), mask, /*align=*/8);
    scf::YieldOp::create(b, loc, end);
    // The result ends here.
    b.setInsertionPointToStart(branch.elseBlock());
    Value behind = arith::AddIOp::create(b, loc, place, frame.constant(lanes));
    end = frame
              .emitLoop(place, behind, 1, at,
                        [&](Value iv, ValueRange end) -> SmallVector<Value> {
                          return {emitElement(iv, end.front())};
                        })
              .front();
    scf::YieldOp::create(b, loc, end);
    return branch.getResult(0);
  }

  /// Appends one element as often as its count says.
  Value emitElement(Value place, Value at) {
    BodyEmitter::Scope scope(count);
    sym::Expr base = frame.addVariable(place, chunk);
    count.setLanes(1);
    count.setDim(1, base);
    Value times = count.emitYield()[0];
    if (isMask())
      times = arith::ExtUIOp::create(b, loc, b.getI64Type(), times);
    times = clamp(times, arith::SubIOp::create(b, loc, size, at));
    Value end = arith::AddIOp::create(b, loc, at, times);
    Value element = frame.emit(number * chunk + base);
    frame.emitLoop(at, end, 1, {}, [&](Value iv, ValueRange) -> SmallVector<Value> {
      LLVM::StoreOp::create(b, loc, element, address(iv));
      return {};
    });
    return end;
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::RepeatOp repeat;
  BodyEmitter count, start;
  int64_t lanes;
  sym::Expr chunk, number;
  Value size;
};

} // namespace

FailureOr<KernelPlan> codegen::planRepeat(kernel::FuncOp func, const CPUInfo &target) {
  auto repeat = cast<kernel::RepeatOp>(func.getRoot());
  if (failed(verifyValueTypes(repeat)))
    return failure();
  FailureOr<RepeatAttr> schedule = getGivenSchedule<RepeatAttr>(func);
  if (failed(schedule))
    return failure();
  if (*schedule)
    return KernelPlan{*schedule, repeat.getExtents()[0]};
  // The results are i64.
  int64_t lanes = preferredLanes(repeat.getCount(), target) == 1 ? 1 : target.vectorBytes / 8;
  KernelPlan plan{RepeatAttr::get(func.getContext(), lanes), repeat.getExtents()[0]};
  plan.reason = lanes == 1 ? "counts come one by one" : "vectors of the numbers that are stored";
  return plan;
}

LogicalResult codegen::emitRepeat(KernelFrame &frame, kernel::RepeatOp repeat) {
  RepeatEmitter(frame, repeat, getSchedule<RepeatAttr>(frame.func).getLanes()).emit();
  return success();
}
