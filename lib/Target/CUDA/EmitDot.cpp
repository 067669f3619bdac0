// Writes the function of a kernel.contract with few rows (a step of a decoder): a warp has a
// column, along whose steps it reads the right operand side by side, and multiplies what it reads
// with all rows. The right operand is read once, so the memory is what limits it.
#include "ContractKernel.h"
#include "ThreadTeam.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
class DotEmitter : ContractKernel {
public:
  DotEmitter(DeviceFrame &frame, kernel::ContractOp op)
      : ContractKernel(frame, op), lhs(frame, op.getLhs()), rhs(frame, op.getRhs()),
        warp(frame, warpSize), numRows(*dims.m.constant()),
        vector(frame.func.getScheduleAttr().getLanes()) {}

  void emit() {
    int64_t numWarps = frame.numThreads / warpSize;
    sym::Expr total = dims.numBatch * dims.n;
    sym::Expr block = frame.addVariable(frame.block, total.ceilDiv(numWarps));
    sym::Expr column = numWarps * block + frame.addVariable(warp.number, numWarps);
    frame.emitIf(frame.emitLess(column, total), [&] { emitColumn(frame.named(column, total)); });
  }

private:
  void emitColumn(sym::Expr column) {
    sym::Expr batch = frame.named(column.floorDiv(dims.n), dims.numBatch);
    n = frame.named(column.mod(dims.n), dims.n);
    for (cpu::BodyEmitter *body : {&lhs, &rhs, &epilogue}) {
      body->setLanes(1);
      bind(*body, dims.batchGroups, batch, /*isNamed=*/false);
    }
    bind(rhs, dims.nGroups, n, /*isNamed=*/false);
    rhs.emitAvailable();
    lhs.emitAvailable();

    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> sums(numRows, zero);
    sym::Expr steps = frame.assumptions.simplify(dims.k.floorDiv(vector));
    sums = frame.emitLoop(
        warp.rank, frame.emit(steps), warpSize, sums, [&](Value iv, ValueRange carried) {
          sym::Expr first = vector * frame.addVariable(iv, steps);
          SmallVector<Value> right, next(carried);
          for (int64_t i = 0; i < vector; ++i)
            right.push_back(evaluate(rhs, std::nullopt, first + i));
          for (int64_t row = 0; row < numRows; ++row)
            for (int64_t i = 0; i < vector; ++i)
              next[row] = multiplyAdd(evaluate(lhs, row, first + i), right[i], next[row]);
          return next;
        });
    auto add = [&](ValueRange x, ValueRange y) {
      SmallVector<Value> result;
      for (auto [a, c] : llvm::zip(x, y))
        result.push_back(isa<FloatType>(dims.sumType)
                             ? arith::AddFOp::create(b, loc, a, c).getResult()
                             : arith::AddIOp::create(b, loc, a, c).getResult());
      return result;
    };
    sums = warp.combineAll(frame, sums, add);
    Value isLeader =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, warp.rank, frame.constant(0));
    frame.emitIf(isLeader, [&] {
      bind(epilogue, dims.nGroups, n, /*isNamed=*/false);
      for (int64_t row = 0; row < numRows; ++row) {
        cpu::BodyEmitter::Scope scope(epilogue);
        bind(epilogue, dims.mGroups, row, /*isNamed=*/false);
        epilogue.setArgument(0, sums[row]);
        storeElement(epilogue.emitYield().front());
      }
    });
  }

  Value evaluate(cpu::BodyEmitter &body, std::optional<int64_t> row, sym::Expr k) {
    cpu::BodyEmitter::Scope scope(body);
    if (row)
      bind(body, dims.mGroups, *row, /*isNamed=*/false);
    bind(body, dims.kGroups, k, /*isNamed=*/false);
    Value value = body.emitYield().front();
    if (value.getType() == dims.sumType)
      return value;
    return isa<FloatType>(dims.sumType)
               ? arith::ExtFOp::create(b, loc, dims.sumType, value).getResult()
               : arith::ExtSIOp::create(b, loc, dims.sumType, value).getResult();
  }

  Value multiplyAdd(Value x, Value y, Value sum) {
    if (isa<FloatType>(dims.sumType))
      return math::FmaOp::create(b, loc, x, y, sum);
    return arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, x, y));
  }

  cpu::BodyEmitter lhs, rhs;
  ThreadTeam warp;
  int64_t numRows, vector;
  sym::Expr n = 0;
};
} // namespace

void cuda::emitDot(DeviceFrame &frame, kernel::ContractOp contract) {
  DotEmitter(frame, contract).emit();
}
