// Sums a tile's products along the lanes, and turns the sums in registers.
#include "CPU/Contract/TurnedSums.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class TurnedSums {
public:
  TurnedSums(KernelFrame &frame, const ContractLayout &layout, const ContractTask &task,
             sym::Expr panel, Value lhs, ArrayRef<int64_t> rowOffsets)
      : frame(frame), b(frame.builder), loc(frame.loc), layout(layout), task(task), lhs(lhs),
        rowOffsets(rowOffsets), lanes(layout.lanes), firstColumn(panel * layout.panel()),
        type(VectorType::get(lanes, layout.sumType)) {}

  SmallVector<Value> emit() {
    sym::Expr left = frame.assumptions.simplify(layout.columns.extent - firstColumn);
    int64_t count = std::min(left.constant().value_or(lanes), lanes);
    int64_t size = layout.turnedColumns(rowOffsets.size(), count);
    int64_t groups = llvm::divideCeilSigned(count, size);
    SmallVector<SmallVector<Value>> rows(rowOffsets.size());
    if (groups == 1) {
      for (auto [row, sum] : llvm::zip(rows, emitGroup(0, size)))
        row.push_back(sum);
    } else {
      // Through memory: LLVM would move the shuffles behind the last group, and spill all sums.
      emitRange(frame, 0, groups, groups, [&](sym::Expr group) {
        for (auto [row, sum] : llvm::enumerate(emitGroup(group * size, size)))
          LLVM::StoreOp::create(b, loc, sum, scratchOf(row, group));
      });
      for (auto [i, row] : llvm::enumerate(rows))
        for (int64_t group = 0; group < groups; ++group)
          row.push_back(LLVM::LoadOp::create(b, loc, type, scratchOf(i, group)));
    }
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    SmallVector<Value> results;
    for (SmallVector<Value> &row : rows) {
      row.resize(lanes / size, zero);
      Value sums = inOrder(addUp(row, lanes / size));
      if (layout.columnLanes() == 1)
        sums = vector::ExtractOp::create(b, loc, sums, 0);
      results.push_back(sums);
    }
    return results;
  }

private:
  //===-- Products ---------------------------------------------------------------------------===//

  /// A vector for each row: columns [first, first + count) of the panel, of lanes / count lanes each.
  SmallVector<Value> emitGroup(sym::Expr first, int64_t count) {
    kernel::ContractOp op = layout.op;
    columns.clear();
    for (int64_t i = 0; i < count; ++i) {
      auto body = std::make_unique<BodyEmitter>(frame, op.getRhs());
      task.bindBatch(*body);
      sym::Expr column = frame.assumptions.simplify(firstColumn + first + i);
      // Past the last column: any value will do, but from inside the tensor.
      if (!frame.assumptions.isLess(column, layout.columns.extent))
        column = frame.addVariable(
            frame.simplifyAndEmit(sym::Expr::min(column, layout.columns.extent - 1)),
            layout.columns.extent);
      layout.columns.bind(*body, column);
      body->emitAvailable();
      columns.push_back(std::move(body));
    }
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    SmallVector<Value> sums(rowOffsets.size() * count, zero), results;
    sums = emitLoops(0, 0, sums);
    for (size_t row = 0; row < rowOffsets.size(); ++row)
      results.push_back(addUp(ArrayRef(sums).slice(row * count, count), lanes));
    return results;
  }

  /// Where the sums of a group are kept.
  Value scratchOf(int64_t row, sym::Expr group) {
    int64_t bytes = lanes * layout.sumType.getIntOrFloatBitWidth() / 8;
    auto rows = static_cast<int64_t>(rowOffsets.size());
    return frame.gep(frame.scratch, b.getI8Type(),
                     frame.emit(layout.rhsScratchOffset() + (group * rows + row) * bytes));
  }

  /// The loops of the sum from `level` on; `offset` is where they are in a row of the left operand.
  SmallVector<Value> emitLoops(size_t level, sym::Expr offset, ValueRange sums) {
    const ContractAxis &axis = layout.sums[level];
    sym::Expr first = level == 0 ? task.firstSum : sym::Expr(0);
    sym::Expr extent = level == 0 ? task.numSums : axis.extent;
    if (level + 1 == layout.sums.size())
      return emitVectors(axis, first, extent, offset, sums);
    sym::Expr most = level == 0 ? sym::Expr(layout.blockSums) : extent;
    return frame.emitLoop(frame.constant(0), frame.emit(extent), 1, sums,
                          [&](Value iv, ValueRange now) {
                            sym::Expr step = frame.addVariable(iv, most);
                            SmallVector<std::unique_ptr<BodyEmitter::Scope>> scopes = enter();
                            for (auto &body : columns) {
                              axis.bind(*body, frame.assumptions.simplify(first + step));
                              body->emitAvailable();
                            }
                            return emitLoops(level + 1, offset + step * axis.lhsStride, now);
                          });
  }

  /// The innermost loop, in vectors.
  SmallVector<Value> emitVectors(const ContractAxis &axis, sym::Expr first, sym::Expr extent,
                                 sym::Expr offset, ValueRange sums) {
    extent = frame.assumptions.simplify(extent);
    sym::Expr whole = frame.assumptions.simplify(extent.floorDiv(lanes) * lanes);
    SmallVector<Value> result = frame.emitLoop(
        frame.constant(0), frame.emit(whole), lanes, sums, [&](Value iv, ValueRange now) {
          sym::Expr step = frame.addSteppedVariable(iv, lanes, whole);
          return emitStep(axis, first, step, offset, Value(), now);
        });
    if (!result.empty())
      if (auto loop = result.front().getDefiningOp<scf::ForOp>())
        keepLoop(loop);
    if (frame.assumptions.isMultipleOf(extent, lanes))
      return result;
    if (whole.isConstant() && extent.isConstant())
      return emitStep(axis, first, whole, offset, emitTailMask(frame, whole, extent, lanes),
                      result);
    Value end = frame.emit(extent);
    return frame.emitLoop(frame.emit(whole), end, lanes, result, [&](Value iv, ValueRange now) {
      sym::Expr step = frame.addSteppedVariable(iv, lanes, extent);
      return emitStep(axis, first, step, offset, emitTailMask(frame, step, extent, lanes), now);
    });
  }

  /// One vector of steps; lanes that `mask` leaves out add nothing.
  SmallVector<Value> emitStep(const ContractAxis &axis, sym::Expr first, sym::Expr step,
                              sym::Expr offset, Value mask, ValueRange sums) {
    SmallVector<std::unique_ptr<BodyEmitter::Scope>> scopes = enter();
    SmallVector<Value> rows;
    SmallVector<Value> next(sums);
    for (auto [i, body] : llvm::enumerate(columns)) {
      sym::Expr position = frame.assumptions.simplify(step + body->setLanes(lanes, mask));
      if (rows.empty())
        for (int64_t row : rowOffsets)
          rows.push_back(
              extend(body->load(lhs, layout.lhsType, row + offset + position), layout.lhsType));
      axis.bind(*body, frame.assumptions.simplify(first + position));
      Value value = extend(body->splat(body->emitYield().front()), layout.rhsType);
      for (auto [r, row] : llvm::enumerate(rows)) {
        Value &sum = next[r * columns.size() + i];
        Value added = multiplyAdd(row, value, sum);
        sum = mask ? arith::SelectOp::create(b, loc, mask, added, sum).getResult() : added;
      }
    }
    return next;
  }

  SmallVector<std::unique_ptr<BodyEmitter::Scope>> enter() {
    SmallVector<std::unique_ptr<BodyEmitter::Scope>> scopes;
    for (auto &body : columns)
      scopes.push_back(std::make_unique<BodyEmitter::Scope>(*body));
    return scopes;
  }

  /// `value`, a vector of `from`, in the type of the sum.
  Value extend(Value value, Type from) {
    if (from == layout.sumType)
      return value;
    if (isa<FloatType>(from))
      return arith::ExtFOp::create(b, loc, type, value);
    return arith::ExtSIOp::create(b, loc, type, value);
  }

  Value multiplyAdd(Value a, Value x, Value sum) {
    if (isa<FloatType>(layout.sumType))
      return vector::FMAOp::create(b, loc, a, x, sum);
    return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, a, x), sum);
  }

  //===-- Sums -------------------------------------------------------------------------------===//

  /// Elements of 128 bits, within which shuffles are cheapest.
  int64_t elementsOfPart() const {
    return std::min<int64_t>(lanes, 128 / layout.sumType.getIntOrFloatBitWidth());
  }

  /// Two vectors of columns of `length` lanes each as one, where a column has half of them: each
  /// half of a column is added to the other. Columns of `a` come before those of `b`, in the whole
  /// vector or, once a column lies in one part, in that.
  Value addHalves(Value a, Value b, int64_t length) {
    int64_t window = length > elementsOfPart() ? lanes : elementsOfPart();
    SmallVector<int64_t> low, high;
    for (int64_t start = 0; start < lanes; start += window)
      for (int64_t from : {start, lanes + start})
        for (int64_t column = from; column < from + window; column += length)
          for (int64_t i = column; i < column + length / 2; ++i) {
            low.push_back(i);
            high.push_back(i + length / 2);
          }
    Value x = vector::ShuffleOp::create(this->b, loc, a, b, low);
    Value y = vector::ShuffleOp::create(this->b, loc, a, b, high);
    if (isa<FloatType>(layout.sumType))
      return arith::AddFOp::create(this->b, loc, x, y);
    return arith::AddIOp::create(this->b, loc, x, y);
  }

  /// One vector of the columns of all `vectors`, each of which has columns of `length` lanes.
  Value addUp(ArrayRef<Value> vectors, int64_t length) {
    SmallVector<Value> values(vectors);
    for (; values.size() > 1; length /= 2) {
      for (size_t i = 0; i < values.size() / 2; ++i)
        values[i] = addHalves(values[2 * i], values[2 * i + 1], length);
      values.truncate(values.size() / 2);
    }
    return values.front();
  }

  /// The lanes of a whole panel, which has one for each column: column i is in part i mod parts.
  Value inOrder(Value sums) {
    int64_t parts = lanes / elementsOfPart();
    SmallVector<int64_t> order;
    for (int64_t column = 0; column < lanes; ++column)
      order.push_back(column % parts * elementsOfPart() + column / parts);
    return vector::ShuffleOp::create(b, loc, sums, sums, order);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  const ContractLayout &layout;
  const ContractTask &task;
  Value lhs;
  ArrayRef<int64_t> rowOffsets;
  int64_t lanes;
  sym::Expr firstColumn;
  VectorType type;
  /// The right operand at each column of the group.
  SmallVector<std::unique_ptr<BodyEmitter>> columns;
};

} // namespace

SmallVector<Value> cpu::emitTurnedSums(KernelFrame &frame, const ContractLayout &layout,
                                       const ContractTask &task, sym::Expr panel, Value lhs,
                                       ArrayRef<int64_t> rowOffsets) {
  return TurnedSums(frame, layout, task, panel, lhs, rowOffsets).emit();
}
