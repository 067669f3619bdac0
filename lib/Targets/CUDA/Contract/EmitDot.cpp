// Writes the function of a kernel.contract with few rows (a step of a decoder): a warp has a few
// columns, along whose steps it reads the right operand side by side, and multiplies what it reads
// with all rows. The right operand is read once, so the memory is what limits it: some reads of it
// are always under way. What multiplies all that a lane reads at once, as the scale of a group of weights does, multiplies the
// sum of its products.
#include "CUDA/Contract/ContractKernel.h"
#include "CUDA/Map/ThreadTeam.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {
class DotEmitter : ContractKernel {
public:
  DotEmitter(DeviceFrame &frame, kernel::ContractOp op)
      : ContractKernel(frame, op), lhs(frame, op.getLhs()), rhs(frame, op.getRhs()),
        warp(frame, warpSize), schedule(getSchedule<DotScheduleAttr>(frame.func)),
        numRows(schedule.getRows()), numColumns(schedule.getColumns()),
        vector(schedule.getVector()) {
    findScale();
  }

  void emit() {
    int64_t numWarps = frame.numThreads / warpSize;
    sym::Expr total = frame.assumptions.simplify((dims.numBatch * dims.n).floorDiv(numColumns));
    sym::Expr block = frame.addVariable(frame.block, total.ceilDiv(numWarps));
    sym::Expr number = numWarps * block + frame.addVariable(warp.number, numWarps);
    frame.emitIf(frame.emitLess(number, total), [&] { emitColumns(frame.named(number, total)); });
  }

private:
  void emitColumns(sym::Expr number) {
    sym::Expr ofBatch = frame.assumptions.simplify(dims.n.floorDiv(numColumns));
    sym::Expr batch = frame.named(number.floorDiv(ofBatch), dims.numBatch);
    firstN = numColumns * frame.named(number.mod(ofBatch), ofBatch);
    for (codegen::BodyEmitter *body : {&lhs, &rhs, &epilogue}) {
      body->setLanes(1);
      bind(*body, dims.batchGroups, batch, /*isNamed=*/false);
    }
    rhs.emitAvailable();
    lhs.emitAvailable();

    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(dims.sumType));
    SmallVector<Value> sums(numRows * numColumns, zero);
    sym::Expr steps = frame.assumptions.simplify(dims.k.floorDiv(vector));
    std::optional<int64_t> known = steps.constant();
    bool isUniform = known && *known % warpSize == 0; // all lanes take part in every step
    sums = frame.emitStridedLoop(
        warp.rank, steps, warpSize, schedule.getAhead(), sums,
        [&](ArrayRef<sym::Expr> numbers, ValueRange carried) {
          SmallVector<Value> right, scales, next(carried);
          for (sym::Expr step : numbers)
            for (int64_t column = 0; column < numColumns; ++column) {
              for (int64_t i = 0; i < vector; ++i)
                right.push_back(
                    evaluate(rhs, rhsNumber, dims.nGroups, firstN + column, vector * step + i));
              if (rhsScale)
                scales.push_back(
                    evaluate(rhs, rhsScale, dims.nGroups, firstN + column, vector * step));
            }
          // ptxas moves no read past this. Without it, half of the reads come after the first ones'
          // products, in 32 registers, and are not under way together.
          if (isUniform && numbers.size() > 1)
            NVVM::SyncWarpOp::create(b, loc, arith::ConstantIntOp::create(b, loc, -1, 32));
          ArrayRef<Value> rest(right), ofColumns(scales);
          for (sym::Expr step : numbers) {
            for (int64_t row = 0; row < numRows; ++row) {
              MutableArrayRef<Value> all =
                  MutableArrayRef(next).slice(row * numColumns, numColumns);
              SmallVector<Value> parts(all);
              if (rhsScale)
                parts.assign(numColumns, zero);
              for (int64_t i = 0; i < vector; ++i) {
                Value left = evaluate(lhs, lhsNumber, dims.mGroups, row, vector * step + i);
                for (int64_t column = 0; column < numColumns; ++column)
                  parts[column] = multiplyAdd(left, rest[column * vector + i], parts[column]);
              }
              for (int64_t column = 0; column < numColumns; ++column)
                all[column] = rhsScale ? multiplyAdd(parts[column], ofColumns[column], all[column])
                                       : parts[column];
            }
            rest = rest.drop_front(numColumns * vector);
            ofColumns = ofColumns.drop_front(rhsScale ? numColumns : 0);
          }
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
      for (int64_t row = 0; row < numRows; ++row)
        for (int64_t column = 0; column < numColumns; ++column) {
          codegen::BodyEmitter::Scope scope(epilogue);
          bind(epilogue, dims.nGroups, firstN + column, /*isNamed=*/false);
          bind(epilogue, dims.mGroups, row, /*isNamed=*/false);
          epilogue.setArgument(0, sums[row * numColumns + column]);
          storeElement(epilogue.emitYield().front());
        }
    });
  }

  /// Finds what the right operand's `vector` steps on end have in common.
  void findScale() {
    lhsNumber = op.getLhs().front().getTerminator()->getOperand(0);
    rhsNumber = op.getRhs().front().getTerminator()->getOperand(0);
    auto product = rhsNumber.getDefiningOp<arith::MulFOp>();
    if (!product || op.getNumK() != 1 || rhsNumber.getType() != dims.sumType || vector == 1)
      return;
    sym::Assumptions known = kernel::getAssumptions(&op.getRhs());
    for (unsigned side : {1, 0}) {
      if (!isSameInSteps(product->getOperand(side), known))
        continue;
      rhsScale = product->getOperand(side);
      rhsNumber = product->getOperand(1 - side);
      return;
    }
  }

  /// No map of what `value` is computed of says anything else for another one of `vector` steps.
  bool isSameInSteps(Value value, const sym::Assumptions &known) {
    Operation *inner = value.getDefiningOp();
    if (!inner || inner->getNumRegions() != 0)
      return false;
    if (auto map = kernel::getIndexMap(inner))
      for (sym::Expr expr : map.getResults())
        if (!kernel::isSameInGroups(op.getExtents(), expr, op.getExtents().size() - 1, vector,
                                    known))
          return false;
    return llvm::all_of(inner->getOperands(), [&](Value operand) {
      return isa<RankedTensorType>(operand.getType()) || isSameInSteps(operand, known);
    });
  }

  /// An operand's `regionValue` in row or column `place` and step `k`, as the sum's type.
  Value evaluate(codegen::BodyEmitter &body, Value regionValue, ArrayRef<codegen::DimGroup> groups,
                 sym::Expr place, sym::Expr k) {
    codegen::BodyEmitter::Scope scope(body);
    bind(body, groups, place, /*isNamed=*/false);
    bind(body, dims.kGroups, k, /*isNamed=*/false);
    Value value = body.emitValue(regionValue);
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

  codegen::BodyEmitter lhs, rhs;
  ThreadTeam warp;
  DotScheduleAttr schedule;
  int64_t numRows, numColumns, vector;
  sym::Expr firstN = 0;
  /// In the operands' regions: what the right one yields is `rhsNumber` times `rhsScale` (null: 1), which `vector` steps share.
  Value lhsNumber, rhsNumber, rhsScale;
};
} // namespace

void cuda::emitDot(DeviceFrame &frame, kernel::ContractOp contract) {
  DotEmitter(frame, contract).emit();
}
