// Sums of several rows in a vector.
#include "CPU/Contract/VectorRows.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class RowsEmitter {
public:
  RowsEmitter(KernelFrame &frame, const MicrokernelShape &shape, int64_t rows)
      : frame(frame), b(frame.builder), shape(shape), rows(rows), lanes(shape.lanes),
        rhsStride(shape.loops.front().rhsStride) {}

  SmallVector<Value> emit(Value lhs, Value rhs) {
    auto type = VectorType::get(rows * lanes, shape.sumType);
    Value zero = arith::ConstantOp::create(b, frame.loc, b.getZeroAttr(type));
    SmallVector<Value> sums(shape.rowOffsets.size() / rows, zero);
    int64_t steps = *shape.loops.front().extent.constant();
    if (steps <= std::max(shape.unroll, lanes)) {
      for (int64_t k = 0; k < steps; k += lanes)
        sums = emitSteps(frame.constant(k), lhs, rhs, sums);
      return sums;
    }
    auto loop = scf::ForOp::create(b, frame.loc, frame.constant(0), frame.constant(steps),
                                   frame.constant(lanes), sums);
    keepLoop(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, frame.loc,
                         emitSteps(loop.getInductionVar(), lhs, rhs, loop.getRegionIterArgs()));
    return SmallVector<Value>(loop.getResults());
  }

private:
  Value load(Value pointer, Value offset, int64_t count) {
    unsigned bytes = shape.sumType.getIntOrFloatBitWidth() / 8;
    return LLVM::LoadOp::create(b, frame.loc, VectorType::get(count, shape.sumType),
                                frame.gep(pointer, shape.sumType, offset), bytes);
  }

  Value shuffle(Value x, Value y, function_ref<int64_t(int64_t)> from, int64_t count) {
    auto lanesOf = llvm::map_to_vector(llvm::seq<int64_t>(0, count), from);
    return vector::ShuffleOp::create(b, frame.loc, x, y, lanesOf);
  }

  /// `lanes` steps of the rows [first, first + rows), row after row.
  Value loadRows(Value lhs, Value k, int64_t first) {
    auto offset = [&](int64_t row) {
      return arith::AddIOp::create(b, frame.loc, k, frame.constant(shape.rowOffsets[first + row]))
          .getResult();
    };
    bool areNeighbours = llvm::all_of(llvm::seq<int64_t>(1, rows), [&](int64_t row) {
      return shape.rowOffsets[first + row] == shape.rowOffsets[first] + row * lanes;
    });
    if (areNeighbours)
      return load(lhs, offset(0), rows * lanes);
    SmallVector<Value> parts;
    for (int64_t row = 0; row < rows; ++row)
      parts.push_back(load(lhs, offset(row), lanes));
    for (int64_t width = 2 * lanes; parts.size() > 1; width *= 2) {
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] =
            shuffle(parts[2 * i], parts[2 * i + 1], [](int64_t lane) { return lane; }, width);
      parts.resize(parts.size() / 2);
    }
    return parts.front();
  }

  SmallVector<Value> emitSteps(Value k, Value lhs, Value rhs, ValueRange before) {
    SmallVector<Value> left, sums(before);
    for (size_t i = 0; i < sums.size(); ++i)
      left.push_back(loadRows(lhs, k, static_cast<int64_t>(i) * rows));
    Value stride = frame.emit(rhsStride);
    for (int64_t step = 0; step < lanes; ++step) {
      Value number = arith::AddIOp::create(b, frame.loc, k, frame.constant(step));
      Value row = load(rhs, arith::MulIOp::create(b, frame.loc, number, stride), lanes);
      Value x = shuffle(row, row, [&](int64_t lane) { return lane % lanes; }, rows * lanes);
      for (auto [sum, a] : llvm::zip(sums, left)) {
        Value picked =
            shuffle(a, a, [&](int64_t lane) { return lane / lanes * lanes + step; }, rows * lanes);
        sum = vector::FMAOp::create(b, frame.loc, picked, x, sum);
      }
    }
    return sums;
  }

  KernelFrame &frame;
  OpBuilder &b;
  const MicrokernelShape &shape;
  int64_t rows, lanes;
  sym::Expr rhsStride;
};

} // namespace

SmallVector<Value> cpu::emitVectorRows(KernelFrame &frame, const MicrokernelShape &shape,
                                       int64_t rows, Value lhs, Value rhs) {
  return RowsEmitter(frame, shape, rows).emit(lhs, rhs);
}
