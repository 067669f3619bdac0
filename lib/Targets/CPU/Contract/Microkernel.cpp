// The innermost loop of products: a tile of sums that stays in registers.
#include "kiln/Targets/CPU/Microkernel.h"
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/ByteProducts.h"
#include "CPU/Contract/GroupProducts.h"
#include "CPU/Contract/Pairs.h"
#include "CPU/Contract/SmallBits.h"
#include "CPU/Contract/WordGroups.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Bytes of a cache line.
static constexpr int64_t lineBytes = 64;

int64_t cpu::maxTileRows(const CPUInfo &target, int64_t vectors) {
  // vectors * rows accumulators, `vectors` of the right operand, one broadcast.
  int64_t rows = (target.vectorRegisters - 1 - vectors) / vectors;
  return std::max<int64_t>(rows, 1);
}

void cpu::keepLoop(Operation *loop) {
  MLIRContext *context = loop->getContext();
  auto yes = BoolAttr::get(context, true);
  auto unroll = LLVM::LoopUnrollAttr::get(context, yes, {}, {}, {}, {}, {}, {});
  auto vectorize = LLVM::LoopVectorizeAttr::get(context, yes, {}, {}, {}, {}, {}, {});
  // SCF's lowering hands attributes of the LLVM dialect on to the branch.
  loop->setAttr("loop_annotation",
                LLVM::LoopAnnotationAttr::get(context, {}, vectorize, {}, unroll, {}, {}, {}, {},
                                              {}, {}, {}, {}, {}, {}, {}));
}

SmallVector<Value> cpu::emitKeptLoop(KernelFrame &frame, Value extent, ValueRange init,
                                     function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  OpBuilder &b = frame.builder;
  auto loop = scf::ForOp::create(b, frame.loc, frame.constant(0), extent, frame.constant(1), init);
  keepLoop(loop);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  scf::YieldOp::create(b, frame.loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return SmallVector<Value>(loop.getResults());
}

void cpu::fetchWord(KernelFrame &frame, const Prefetch &prefetch, Value word, int64_t steps,
                    int64_t bytes) {
  if (!prefetch.pointer)
    return;
  OpBuilder &b = frame.builder;
  Value number = arith::MulIOp::create(b, frame.loc, word, frame.constant(steps));
  Value offset = arith::MulIOp::create(b, frame.loc, number, prefetch.stride);
  Value begin = frame.gep(prefetch.pointer, b.getI8Type(), offset);
  for (int64_t at = 0; at < bytes; at += lineBytes)
    LLVM::Prefetch::create(b, frame.loc, frame.gep(begin, b.getI8Type(), frame.constant(at)),
                           /*rw=*/0, prefetch.locality, /*cache=*/1);
}

namespace {

class MicrokernelEmitter {
public:
  MicrokernelEmitter(KernelFrame &frame, const MicrokernelShape &shape, const Prefetch &prefetch)
      : frame(frame), b(frame.builder), loc(frame.loc), shape(shape), prefetch(prefetch) {}

  SmallVector<Value> emit(Value lhs, Value rhs, ValueRange sums) {
    if (shape.rowStride)
      return emitWalk(lhs, rhs, sums);
    SmallVector<Value, 2> pointers{lhs};
    if (shape.moved)
      pointers.push_back(frame.gep(lhs, shape.lhsType, shape.moved));
    return emitLoops(0, pointers, rhs, {}, sums);
  }

private:
  /// The left operand's pointer, and that of the rows that are moved.
  using Pointers = ArrayRef<Value>;

  //===-- Rows at known offsets --------------------------------------------------------------===//

  /// Loops [level, end) with the operands' pointers at this level; `iteration` counts innermost
  /// iterations so far (null is 0).
  SmallVector<Value> emitLoops(size_t level, Pointers lhs, Value rhs, Value iteration,
                               ValueRange sums) {
    if (level == numLoops())
      return emitUpdate(rhs, prefetchAddress(iteration), sums, [&](size_t row, int64_t column) {
        Value pointer = isMoved(row) ? lhs.back() : lhs.front();
        return std::pair(pointer, shape.rowOffsets[row] + column);
      });
    const SumLoop &loop = shape.loops[level];
    if (isUnrolled(level)) {
      SmallVector<Value> unrolled(sums);
      for (int64_t k = 0, e = *loop.extent.constant(); k < e; ++k) {
        stepOfElement = k;
        enterIteration(level, frame.constant(k));
        unrolled = emitLoops(level + 1, advance(lhs, k * loop.lhsStride),
                             advance(rhs, shape.rhsType, k * loop.rhsStride),
                             countIteration(level, frame.constant(k), iteration), unrolled);
      }
      return unrolled;
    }
    // How the pointers came about is nothing to this loop: LLVM's strength reduction would try
    // every way to add them up.
    SmallVector<Value, 2> from;
    for (Value pointer : lhs)
      from.push_back(LLVM::FreezeOp::create(b, loc, pointer));
    rhs = LLVM::FreezeOp::create(b, loc, rhs);
    auto emitIteration = [&](Value k, int64_t steps, ValueRange sums) {
      enterIteration(level, k);
      SmallVector<Value, 2> there;
      for (Value pointer : from)
        there.push_back(advance(pointer, shape.lhsType, k, loop.lhsStride));
      Value row = advance(rhs, shape.rhsType, k, loop.rhsStride);
      SmallVector<Value> next(sums);
      for (int64_t step = 0; step < steps; ++step)
        next = emitLoops(
            level + 1, advance(there, step * loop.lhsStride),
            advance(row, shape.rhsType, step * loop.rhsStride),
            step % stepsOfFetch() == 0 ? countIteration(level, plus(k, step), iteration) : Value(),
            next);
      return next;
    };
    auto emitLoop = [&](sym::Expr begin, sym::Expr end, int64_t steps, ValueRange sums) {
      auto op = scf::ForOp::create(b, loc, frame.emit(begin), frame.emit(end),
                                   frame.constant(steps), sums);
      keepLoop(op);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(op.getBody());
      scf::YieldOp::create(b, loc,
                           emitIteration(op.getInductionVar(), steps, op.getRegionIterArgs()));
      return SmallVector<Value>(op.getResults());
    };
    int64_t steps = countSteps(level);
    sym::Expr whole = frame.assumptions.simplify(loop.extent.floorDiv(steps) * steps);
    SmallVector<Value> next = emitLoop(0, whole, steps, sums);
    if (steps == 1 || whole == loop.extent)
      return next;
    if (std::optional<int64_t> extent = loop.extent.constant())
      return emitIteration(frame.emit(whole), *extent % steps, next);
    return emitLoop(whole, loop.extent, 1, next);
  }

  /// Loops that are emitted: not that of the steps of pairs.
  size_t numLoops() const { return shape.loops.size() - (shape.pairs ? 1 : 0); }

  /// This loop and all inside it are short enough together to be written out.
  bool isUnrolled(size_t level) const {
    if (!shape.pairs && shape.rhsSteps != 1 && level + 1 == shape.loops.size())
      return true;
    int64_t iterations = 1;
    for (const SumLoop &loop : ArrayRef(shape.loops).drop_front(level)) {
      std::optional<int64_t> extent = loop.extent.constant();
      if (!extent || *extent < 1 || *extent > shape.unroll ||
          (iterations *= *extent) > shape.unroll)
        return false;
    }
    return !rowsOverlap(level, shape.unroll);
  }

  /// The loop of an element of the right operand, all of whose steps are written out, or else the last.
  size_t innermost() const { return shape.loops.size() - (shape.rhsSteps == 1 ? 1 : 2); }

  /// Steps of this loop that an iteration has written out, but for a rest: of the innermost several, which count and
  /// branch once. A core that two threads share has little room for instructions beside the FMAs. LLVM would add up
  /// integers in another order.
  int64_t countSteps(size_t level) const {
    bool isPlain = shape.rhsSteps == 1 || shape.pairs, changesScales = level == 0 && shape.scales;
    bool isOrdered = isa<FloatType>(shape.sumType) || shape.bytes != 0;
    if (level != innermost() || !isPlain || changesScales || !isOrdered)
      return 1;
    if (shape.rowStride)
      return shape.stepsAtOnce;
    sym::Expr extent = shape.loops[level].extent;
    for (int64_t steps = maxStepsAtOnce; steps > 1; steps /= 2) {
      // A rest of the sum follows a long one only.
      bool fits = frame.assumptions.isMultipleOf(extent, steps) ||
                  extent.constant().value_or(shape.unroll) >= shape.unroll;
      if (steps <= shape.unroll && fits && !rowsOverlap(level, steps))
        return steps;
    }
    return 1;
  }

  /// Some row reads in one step of the loops [level, end) what another reads in a different one, as
  /// the windows of neighbouring pixels do. Written out, LLVM would read it once and keep it, at
  /// the price of accumulators that leave their registers. `most` steps of each loop are written out.
  bool rowsOverlap(size_t level, int64_t most) const {
    if (shape.lhsHasColumns)
      return false;
    SmallVector<int64_t> steps{0};
    for (const SumLoop &loop : ArrayRef(shape.loops).drop_front(level)) {
      std::optional<int64_t> extent = loop.extent.constant(), stride = loop.lhsStride.constant();
      if (!extent || !stride)
        return false;
      SmallVector<int64_t> next;
      for (int64_t step : steps)
        for (int64_t k = 0, e = std::min(*extent, most); k < e; ++k)
          next.push_back(step + k * *stride);
      steps = std::move(next);
    }
    llvm::DenseMap<int64_t, int64_t> stepOf;
    for (int64_t row : shape.rowOffsets)
      for (int64_t step : steps)
        if (auto [place, isNew] = stepOf.try_emplace(row + step, step);
            !isNew && place->second != step)
          return true;
    return false;
  }

  /// Loads what the right operand is multiplied with in iteration `k` of the outermost loop.
  void enterIteration(size_t level, Value k) {
    if (level != 0 || !shape.scales)
      return;
    Value first = arith::MulIOp::create(b, loc, k, frame.constant(shape.scaleStride));
    auto loadRow = [&](Value base, Type type) {
      return loadScales(frame, base, type, first, shape.vectors, shape.lanes);
    };
    scaleRow = loadRow(shape.scales, shape.scaleType);
    offsetRow = loadRow(shape.offsets, shape.sumType);
  }

  /// Innermost iterations before iteration `k` of the loop `level`; null if nobody asks.
  Value countIteration(size_t level, Value k, Value before) {
    if (!prefetch.pointer)
      return {};
    sym::Expr inner = 1;
    for (const SumLoop &next : ArrayRef(shape.loops).drop_front(level + 1))
      inner = inner * next.extent;
    Value count = arith::MulIOp::create(b, loc, k, frame.emit(inner));
    return before ? arith::AddIOp::create(b, loc, before, count).getResult() : count;
  }

  /// Innermost iterations from one line that is asked for to the next.
  int64_t stepsOfFetch() const {
    APInt stride;
    bool isKnown = prefetch.stride && matchPattern(prefetch.stride, m_ConstantInt(&stride));
    return isKnown && stride.sgt(0) ? std::max<int64_t>(lineBytes / stride.getSExtValue(), 1) : 1;
  }

  /// The address that the given innermost iteration asks for; null if it asks for none.
  Value prefetchAddress(Value iteration) {
    if (!iteration)
      return {};
    Value bytes = arith::MulIOp::create(b, loc, iteration, prefetch.stride);
    return frame.gep(prefetch.pointer, b.getI8Type(), bytes);
  }

  Value plus(Value k, int64_t step) {
    return step == 0 ? k : arith::AddIOp::create(b, loc, k, frame.constant(step)).getResult();
  }

  Value advance(Value pointer, Type type, sym::Expr offset) {
    if (offset.isConstant(0))
      return pointer;
    return frame.gep(pointer, type, frame.emit(offset));
  }

  SmallVector<Value, 2> advance(Pointers pointers, sym::Expr offset) {
    SmallVector<Value, 2> result;
    for (Value pointer : pointers)
      result.push_back(advance(pointer, shape.lhsType, offset));
    return result;
  }

  Value advance(Value pointer, Type type, Value k, sym::Expr stride) {
    Value offset = arith::MulIOp::create(b, loc, k, frame.emit(stride));
    return frame.gep(pointer, type, offset);
  }

  Type vectorOf(Type type) { return shape.lanes == 1 ? type : VectorType::get(shape.lanes, type); }

  Value addressOf(Value base, Type type, int64_t offset) {
    if (offset == 0)
      return base;
    return LLVM::GEPOp::create(b, loc, frame.ptrType(), getStorageType(type), base,
                               ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  }

  /// Vector `v` of a row of the right operand, zeros past its last column.
  Value loadRhs(Value rhs, int64_t v) {
    if (shape.rhsMasks.empty() || !shape.rhsMasks[v])
      return load(rhs, shape.rhsType, v * shape.lanes, /*scalar=*/false);
    Type type = vectorOf(getStorageType(shape.rhsType));
    unsigned bytes = getStorageType(shape.rhsType).getIntOrFloatBitWidth() / 8;
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    return LLVM::MaskedLoadOp::create(b, loc, type, addressOf(rhs, shape.rhsType, v * shape.lanes),
                                      shape.rhsMasks[v], zero, bytes);
  }

  Value load(Value base, Type type, int64_t offset, bool scalar) {
    Type storage = getStorageType(type);
    Value address = addressOf(base, type, offset);
    unsigned bytes = std::max(storage.getIntOrFloatBitWidth() / 8, 1u);
    return LLVM::LoadOp::create(b, loc, scalar ? storage : vectorOf(storage), address, bytes);
  }

  /// `value`, of type `from` or a vector of it, in the type of the sum.
  Value extend(Value value, Type from) {
    if (from == shape.sumType)
      return value;
    Type to = isa<VectorType>(value.getType()) ? vectorOf(shape.sumType) : shape.sumType;
    if (isa<FloatType>(from))
      return arith::ExtFOp::create(b, loc, to, value);
    if (isa<FloatType>(shape.sumType))
      return shape.rhsUnsigned ? arith::UIToFPOp::create(b, loc, to, value).getResult()
                               : arith::SIToFPOp::create(b, loc, to, value).getResult();
    return arith::ExtSIOp::create(b, loc, to, value);
  }

  /// Vector `v` of a row of the right operand, in the type of the sum.
  Value loadColumns(Value rhs, int64_t v) {
    Value value = loadRhs(rhs, v);
    if (shape.pairs)
      return value;
    if (shape.bytes == 2)
      return widenBytes(frame, value);
    value = shape.rhsSteps == 1 ? extend(value, shape.rhsType)
            : shape.rhsSteps == 2
                ? widenHalf(frame, value, stepOfElement)
                : widenSmallBits(frame, value, stepOfElement * 32 / shape.rhsSteps);
    return applyScale(frame, value, scaleRow, offsetRow, v, shape.subtractsFirst);
  }

  Value multiplyAdd(Value a, Value x, Value sum) {
    if (shape.bytes == 4)
      return multiplyAddBytes(frame, a, x, sum, shape.isNarrow);
    if (shape.bytes == 2)
      return multiplyAddHalves(frame, a, x, sum);
    if (shape.pairs)
      return multiplyAddPairs(frame, a, x, sum);
    if (isa<FloatType>(shape.sumType)) {
      if (shape.lanes == 1)
        return math::FmaOp::create(b, loc, a, x, sum);
      return vector::FMAOp::create(b, loc, a, x, sum);
    }
    return arith::AddIOp::create(b, loc, arith::MulIOp::create(b, loc, a, x), sum);
  }

  //===-- Rows at a stride -------------------------------------------------------------------===//

  /// Memory that moves on from one innermost iteration to the next, whatever the loops.
  struct Stream {
    Value rhs, prefetch; // null for none
  };

  SmallVector<Value> emitWalk(Value lhs, Value rhs, ValueRange sums) {
    for (int64_t row = 0, e = shape.rowOffsets.size(); row < e; ++row) {
      Value offset = arith::MulIOp::create(b, loc, frame.constant(row), shape.rowStride);
      if (isMoved(row))
        offset = arith::AddIOp::create(b, loc, offset, shape.moved);
      rowStarts.push_back(offset);
    }
    Stream stream{rhs, prefetch.pointer};
    return emitWalk(0, lhs, stream, sums);
  }

  /// Loops [level, end). `stream` is left where they end.
  SmallVector<Value> emitWalk(size_t level, Value lhs, Stream &stream, ValueRange sums) {
    const SumLoop &loop = shape.loops[level];
    SmallVector<Value> init{lhs, stream.rhs};
    if (stream.prefetch)
      init.push_back(stream.prefetch);
    size_t numPointers = init.size();
    llvm::append_range(init, sums);
    Value extent = frame.emit(loop.extent);
    int64_t steps = countSteps(level);
    auto op = scf::ForOp::create(b, loc, frame.constant(0), extent, frame.constant(steps), init);
    keepLoop(op);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(op.getBody());
      ValueRange arguments = op.getRegionIterArgs();
      Value pointer = arguments[0];
      Stream inner{arguments[1], stream.prefetch ? arguments[2] : Value()};
      sums = arguments.drop_front(numPointers);
      enterIteration(level, op.getInductionVar());
      SmallVector<Value> results = level == innermost() ? emitSteps(steps, pointer, inner, sums)
                                                        : emitWalk(level + 1, pointer, inner, sums);
      SmallVector<Value> next{advance(pointer, shape.lhsType, steps * loop.lhsStride), inner.rhs};
      if (inner.prefetch)
        next.push_back(inner.prefetch);
      llvm::append_range(next, results);
      scf::YieldOp::create(b, loc, next);
    }
    stream.rhs = op.getResult(1);
    if (stream.prefetch)
      stream.prefetch = op.getResult(2);
    return SmallVector<Value>(op.getResults().drop_front(numPointers));
  }

  /// Innermost iterations, each of one step or of all those of an element of the right operand.
  SmallVector<Value> emitSteps(int64_t iterations, Value lhs, Stream &stream, ValueRange sums) {
    SmallVector<Value> next(sums);
    const SumLoop &rows = shape.loops[innermost()];
    int64_t updates = shape.pairs ? 1 : shape.rhsSteps;
    for (int64_t i = 0; i < iterations; ++i) {
      Value row = advance(stream.rhs, shape.rhsType, i * rows.rhsStride);
      Value left = advance(lhs, shape.lhsType, i * rows.lhsStride), ahead = stream.prefetch;
      // Lines that follow each other, whatever the stride: as many are asked for as without the others.
      if (ahead)
        ahead = frame.gep(ahead, b.getI8Type(), frame.constant(i * prefetch.lines * lineBytes));
      for (stepOfElement = 0; stepOfElement < updates; ++stepOfElement) {
        Value here = advance(left, shape.lhsType, stepOfElement * shape.loops.back().lhsStride);
        next = emitUpdate(row, ahead, next, [&](size_t number, int64_t column) {
          return std::pair(frame.gep(here, shape.lhsType, rowStarts[number]), column);
        });
        if (ahead)
          ahead = frame.gep(ahead, b.getI8Type(), prefetch.stride);
      }
    }
    if (stream.prefetch) {
      Value stride = prefetch.stride, count = frame.constant(iterations * updates);
      stride = arith::MulIOp::create(b, loc, stride, count);
      stream.prefetch = frame.gep(stream.prefetch, b.getI8Type(), stride);
    }
    stream.rhs = advance(stream.rhs, shape.rhsType, iterations * rows.rhsStride);
    return next;
  }

  //===-- One step of the sum ----------------------------------------------------------------===//

  bool isMoved(int64_t row) const {
    return row + shape.numMoved >= static_cast<int64_t>(shape.rowOffsets.size());
  }

  /// `address` gives a row's element of the left operand, that of a column if it has columns: a
  /// pointer and a number of elements from there on.
  SmallVector<Value> emitUpdate(Value rhs, Value prefetched, ValueRange sums,
                                function_ref<std::pair<Value, int64_t>(size_t, int64_t)> address) {
    SmallVector<Value> row;
    for (int64_t v = 0; v < shape.vectors; ++v)
      row.push_back(loadColumns(rhs, v));
    for (int64_t line = 0; prefetched && line < prefetch.lines; ++line) {
      Value address = frame.gep(prefetched, b.getI8Type(), frame.constant(line * lineBytes));
      LLVM::Prefetch::create(b, loc, address, /*rw=*/0, prefetch.locality, /*cache=*/1);
    }
    SmallVector<Value> next;
    auto loadLhs = [&](size_t number, int64_t column, bool scalar) {
      auto [pointer, offset] = address(number, column);
      if (shape.pairs)
        return LLVM::LoadOp::create(b, loc, b.getI32Type(),
                                    addressOf(pointer, shape.lhsType, offset), /*alignment=*/2)
            .getResult();
      return extend(load(pointer, shape.lhsType, offset, scalar), shape.lhsType);
    };
    for (size_t number = 0; number < shape.rowOffsets.size(); ++number) {
      if (shape.lhsHasColumns) {
        for (auto [v, x] : llvm::enumerate(row)) {
          Value a = loadLhs(number, static_cast<int64_t>(v) * shape.lanes, /*scalar=*/false);
          next.push_back(multiplyAdd(a, x, sums[next.size()]));
        }
        continue;
      }
      Value a = loadLhs(number, 0, /*scalar=*/true);
      if (shape.lanes != 1)
        a = vector::BroadcastOp::create(b, loc, vectorOf(a.getType()), a);
      for (Value x : row)
        next.push_back(multiplyAdd(a, x, sums[next.size()]));
    }
    return next;
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  const MicrokernelShape &shape;
  const Prefetch &prefetch;
  /// The beginnings of rows at a stride, in elements from the left operand's pointer.
  SmallVector<Value> rowStarts;
  /// The row of scales, and that of offsets, at work.
  SmallVector<Value> scaleRow, offsetRow;
  /// The step of the right operand's elements at work.
  int64_t stepOfElement = 0;
};

} // namespace

SmallVector<Value> cpu::emitMicrokernel(KernelFrame &frame, const MicrokernelShape &shape,
                                        Value lhs, Value rhs, ValueRange init,
                                        const Prefetch &prefetch) {
  SmallVector<Value> sums(init);
  if (sums.empty()) {
    OpBuilder &b = frame.builder;
    Type type = shape.sumType;
    if (shape.lanes != 1)
      type = VectorType::get(shape.lanes, type);
    Value zero = arith::ConstantOp::create(b, frame.loc, b.getZeroAttr(type));
    sums.assign(shape.rowOffsets.size() * shape.vectors, zero);
  }
  if (shape.hasBlockFloats)
    return emitBlockFloatProducts(frame, shape, lhs, rhs, sums, prefetch);
  if (shape.groupWords != 0)
    return isa<FloatType>(shape.lhsType)
               ? emitWordGroups(frame, shape, lhs, rhs, sums, prefetch)
               : emitGroupProducts(frame, shape, lhs, rhs, sums, prefetch);
  return MicrokernelEmitter(frame, shape, prefetch).emit(lhs, rhs, sums);
}
