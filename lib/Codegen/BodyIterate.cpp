// The body emitter's iterations.
#include "kiln/Codegen/BodyEmitter.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

void BodyEmitter::emitIterate(kernel::IterateOp iterate) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  bool varying = llvm::any_of(needs(iterate).values, [&](Value value) {
    return isa<VectorType>(values.lookup(value).getType());
  });
  auto widen = [&](Value value) { return varying ? splat(value) : value; };
  auto constant = [&](TypedAttr attr) -> Value { return arith::ConstantOp::create(b, loc, attr); };

  // Carried: the number of steps, which lanes go on, the values.
  SmallVector<Value> carried{constant(b.getI64IntegerAttr(0)),
                             widen(constant(b.getBoolAttr(true)))};
  for (Value init : iterate.getInit())
    carried.push_back(widen(values.lookup(init)));

  SmallVector<Location> locations(carried.size(), loc);
  auto loop = scf::WhileOp::create(b, loc, ValueRange(carried).getTypes(), carried);
  {
    OpBuilder::InsertionGuard guard(b);
    ValueRange state =
        b.createBlock(&loop.getBefore(), {}, loop.getResultTypes(), locations)->getArguments();
    Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, state[0],
                                       constant(iterate.getLimitAttr()));
    Value active = state[1];
    if (varying)
      active = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, active);
    Value again = arith::AndIOp::create(b, loc, more, active);
    scf::ConditionOp::create(b, loc, again, state);
  }
  {
    OpBuilder::InsertionGuard guard(b);
    Scope scope(*this);
    ValueRange state =
        b.createBlock(&loop.getAfter(), {}, loop.getResultTypes(), locations)->getArguments();
    Block &body = iterate.getBody().front();
    for (auto [argument, value] : llvm::zip_equal(body.getArguments(), state.drop_front(2)))
      define(argument, value);
    for (Operation &op : body.without_terminator())
      emitElementwise(&op, values, [&](Value from, Value to) { define(from, to); });
    SmallVector<Value> yielded;
    for (Value operand : body.getTerminator()->getOperands())
      yielded.push_back(widen(values.lookup(operand)));
    Value active = state[1];
    SmallVector<Value> next{
        arith::AddIOp::create(b, loc, state[0], constant(b.getI64IntegerAttr(1))),
        arith::AndIOp::create(b, loc, active, yielded.front())};
    for (auto [value, old] : llvm::zip_equal(llvm::drop_begin(yielded), state.drop_front(2)))
      next.push_back(arith::SelectOp::create(b, loc, active, value, old));
    scf::YieldOp::create(b, loc, next);
  }
  for (auto [result, value] :
       llvm::zip_equal(iterate.getResults(), loop.getResults().drop_front(2)))
    define(result, value);
}
