// Writes the function of a kernel.attention of few queries: a task is one of them.
//
//   s[n] = scale * sum_d q[d] * k[n, d] + bias[n]      features along the lanes, `lanes` keys at
//   once o[d] = sum_n exp(s[n] - max) * v[n, d]             features along the lanes
//
// `lanes` keys' partial sums are turned in a square, so that their scores come out as one vector.
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Targets/CPU/AttentionLayout.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class AttentionQueryEmitter {
public:
  AttentionQueryEmitter(KernelFrame &frame, kernel::AttentionOp op,
                        const AttentionLayout &attentionLayout)
      : frame(frame), b(frame.builder), loc(frame.loc), op(op), layout(attentionLayout),
        lanes(layout.lanes), queries(frame, op.getQ()), keys(frame, op.getK()),
        values(frame, op.getV()), dimM(op.getNumBatch()), dimN(dimM + 1), dimD(dimM + 2),
        dimDv(dimM + 3), keyRow(kernel::findGatheredRows(op.getK(), sym::Expr::dim(dimD))),
        valueRow(kernel::findGatheredRows(op.getV(), sym::Expr::dim(dimDv))),
        sumVector(VectorType::get(lanes, layout.sumType)) {
    if (!op.getBias().empty())
      bias.emplace(frame, op.getBias());
    if (!op.getScore().empty())
      scoring.emplace(frame, op.getScore());
  }

  void emit() {
    bindTask();
    zero = splat(0.0);
    lowest = splat(-std::numeric_limits<double>::infinity());
    emitQuery();
    forFeatures([&](sym::Expr first, Value) { store(zero, layout.outputOffset(), first); });

    sym::Expr blocks = numKeys.ceilDiv(layout.blockKeys);
    SmallVector<Value> state = frame.emitLoop(
        frame.constant(0), frame.simplifyAndEmit(blocks), 1, {number(lowest), number(zero)},
        [&](Value iv, ValueRange args) {
          sym::Expr first = frame.addVariable(iv, blocks) * layout.blockKeys;
          sym::Expr count =
              frame.named(sym::Expr::min(numKeys - first, layout.blockKeys), layout.blockKeys + 1);
          return emitBlock(first, count, args);
        });
    emitResult(state[1]);
  }

private:
  void bindTask() {
    SmallVector<sym::Expr> sizes = layout.gridSizes();
    sym::Expr task = frame.addVariable(frame.task, sym::product(sizes));
    SmallVector<sym::Expr> position = sym::delinearize(task, sizes);
    for (auto [value, size] : llvm::zip(position, sizes))
      value = frame.named(value, size);
    query = position.pop_back_val();
    batch = std::move(position);
    // Keys after the query do not matter.
    numKeys = layout.n;
    if (op.getCausal())
      numKeys = frame.named(sym::Expr::min(layout.n, query + 1), layout.n + 1);
    SmallVector<BodyEmitter *> bodies{&queries, &keys, &values};
    if (bias)
      bodies.push_back(&*bias);
    for (BodyEmitter *body : bodies) {
      for (auto [i, value] : llvm::enumerate(batch))
        body->setDim(i, value);
      if (body == &queries || (bias && body == &*bias))
        body->setDim(dimM, query);
      body->emitAvailable();
    }
  }

  //===-- Vectors and scratch ----------------------------------------------------------------===//

  Value splat(double value) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(sumVector, b.getFloatAttr(layout.sumType, value)));
  }
  Value splat(Value value) { return vector::BroadcastOp::create(b, loc, sumVector, value); }
  /// The number that all lanes of a constant hold.
  Value number(Value constant) { return vector::ExtractOp::create(b, loc, constant, 0); }

  Value address(int64_t bytes, sym::Expr element) {
    Value base = frame.gep(frame.scratch, b.getI8Type(), frame.constant(bytes));
    return frame.gep(base, layout.sumType, frame.simplifyAndEmit(element));
  }
  unsigned sumBytes() { return layout.sumType.getIntOrFloatBitWidth() / 8; }
  Value load(int64_t bytes, sym::Expr element, Type type) {
    return LLVM::LoadOp::create(b, loc, type, address(bytes, element), sumBytes());
  }
  void store(Value value, int64_t bytes, sym::Expr element) {
    LLVM::StoreOp::create(b, loc, value, address(bytes, element), sumBytes());
  }

  /// The offset of the row of keys or values whose key is bound, if data says that; it is looked up once.
  static std::optional<sym::Expr> locate(BodyEmitter &body, kernel::ReadOp row, unsigned dim) {
    if (!row)
      return std::nullopt;
    BodyEmitter::Scope scope(body);
    body.setDim(dim, 0);
    return body.locateRow(row);
  }

  /// The value of `body`, whose other dims are bound, at features first + lane; 0 outside `mask`. What `row` reads begins at `at`.
  Value evaluate(BodyEmitter &body, unsigned dim, sym::Expr first, Value mask,
                 kernel::ReadOp row = {}, std::optional<sym::Expr> at = std::nullopt) {
    BodyEmitter::Scope scope(body);
    sym::Expr feature = first + body.setLanes(lanes, mask);
    Value value;
    if (at) {
      value = body.load(frame.buffer(row.getTensor()), layout.elementType, *at + feature);
    } else {
      body.setDim(dim, feature);
      value = body.splat(body.emitValue(getElement(body)));
    }
    if (value.getType() != sumVector)
      value = arith::ExtFOp::create(b, loc, sumVector, value);
    return mask ? arith::SelectOp::create(b, loc, mask, value, zero) : value;
  }

  /// The value that `body` yields; of keys and values that are computed in the type of sums, that before it is rounded.
  Value getElement(BodyEmitter &body) {
    Region &region = &body == &queries ? op.getQ() : &body == &keys ? op.getK() : op.getV();
    Value element = region.front().getTerminator()->getOperand(0);
    auto rounding = element.getDefiningOp<arith::TruncFOp>();
    bool isWide = rounding && rounding.getIn().getType() == layout.sumType && &body != &queries;
    return isWide ? rounding.getIn() : element;
  }

  void forFeatures(function_ref<void(sym::Expr, Value)> body) {
    emitVectors(frame, layout.valueDepth, layout.valueDepth, lanes, body);
  }

  void emitQuery() {
    Value scale = splat(op.getScale().convertToDouble());
    emitVectors(frame, layout.depth, layout.depth, lanes, [&](sym::Expr first, Value mask) {
      Value value = evaluate(queries, dimD, first, mask);
      store(arith::MulFOp::create(b, loc, value, scale), layout.queryOffset(), first);
    });
  }

  //===-- A block of keys --------------------------------------------------------------------===//

  /// Adds `count` keys to the output in scratch; takes and returns maximum and sum.
  SmallVector<Value> emitBlock(sym::Expr first, sym::Expr count, ValueRange state) {
    Value largest = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXNUMF,
                                                emitScores(first, count));
    largest = emitMax(frame, largest, state[0]);
    // With all keys left out so far, exp(-inf - 0) makes every weight 0 instead of NaN.
    Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest, number(lowest));
    Value shift = arith::SelectOp::create(b, loc, none, number(zero), largest);
    Value change = arith::SubFOp::create(b, loc, state[0], shift);
    Value factor = math::ExpOp::create(b, loc, change, arith::FastMathFlags::afn);
    Value sum = arith::MulFOp::create(b, loc, state[1], factor);
    sum = arith::AddFOp::create(b, loc, sum, emitWeights(count, shift));
    emitOutput(first, count, splat(factor));
    return {largest, sum};
  }

  /// Scores of the block, in scratch up to the next multiple of the lanes; returns their maxima.
  Value emitScores(sym::Expr first, sym::Expr count) {
    sym::Expr groups = frame.named(count.floorDiv(lanes), layout.blockKeys / lanes + 1);
    SmallVector<Value> maxima = frame.emitLoop(
        frame.constant(0), frame.emit(groups), 1, lowest, [&](Value iv, ValueRange a) {
          sym::Expr key = frame.addVariable(iv, layout.blockKeys / lanes) * lanes;
          return SmallVector<Value>{emitScoreGroup(first, key, count, /*whole=*/true, a[0])};
        });
    sym::Expr done = groups * lanes;
    if (frame.assumptions.isLessOrEqual(count, done))
      return maxima[0];
    Value rest = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, frame.emit(done),
                                       frame.emit(count));
    auto branch = scf::IfOp::create(b, loc, sumVector, rest, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value partial = emitScoreGroup(first, done, count, /*whole=*/false, maxima[0]);
    scf::YieldOp::create(b, loc, partial);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, maxima);
    return branch.getResult(0);
  }

  /// Scores of keys first + [key, key + lanes); what is past `count` is -inf, and is not read.
  Value emitScoreGroup(sym::Expr first, sym::Expr key, sym::Expr count, bool whole, Value maxima) {
    SmallVector<sym::Expr> rows;
    for (int64_t i = 0; i < lanes; ++i)
      rows.push_back(first + (whole || i == 0 ? key + i
                                              : frame.named(sym::Expr::min(key + i, count - 1),
                                                            layout.blockKeys)));
    SmallVector<std::optional<sym::Expr>> places;
    for (sym::Expr row : rows) {
      BodyEmitter::Scope scope(keys);
      keys.setDim(dimN, row);
      places.push_back(locate(keys, keyRow, dimD));
    }
    SmallVector<Value> sums(lanes, zero);
    auto addProducts = [&](sym::Expr feature, Value mask, ValueRange sums) {
      Value query = load(layout.queryOffset(), feature, sumVector);
      SmallVector<Value> next;
      for (auto [row, place, sum] : llvm::zip(rows, places, sums)) {
        BodyEmitter::Scope scope(keys);
        keys.setDim(dimN, row);
        Value value = evaluate(keys, dimD, feature, mask, keyRow, place);
        next.push_back(math::FmaOp::create(b, loc, value, query, sum));
      }
      return next;
    };
    int64_t wholeDepth = layout.depth / lanes * lanes;
    sums = frame.emitLoop(frame.constant(0), frame.constant(wholeDepth), lanes, sums,
                          [&](Value iv, ValueRange args) {
                            sym::Expr feature = frame.addSteppedVariable(iv, lanes, wholeDepth);
                            return addProducts(feature, Value(), args);
                          });
    if (wholeDepth != layout.depth)
      sums = addProducts(wholeDepth, emitTailMask(frame, wholeDepth, layout.depth, lanes), sums);

    sums = emitTranspose(frame, sums);
    for (size_t half = sums.size() / 2; half > 0; half /= 2)
      for (size_t i = 0; i < half; ++i)
        sums[i] = arith::AddFOp::create(b, loc, sums[i], sums[i + half]);
    Value scores = sums.front();
    Value mask = whole ? Value() : emitTailMask(frame, key, count, lanes), added;
    if (bias) {
      BodyEmitter::Scope scope(*bias);
      bias->setDim(dimN, first + key + bias->setLanes(lanes, mask));
      added = bias->emitYield().front();
      if (layout.elementType != layout.sumType)
        added = arith::ExtFOp::create(b, loc, sumVector, added);
    }
    if (scoring)
      scores = emitScore(*scoring, scores, added, lanes);
    else if (added)
      scores = arith::AddFOp::create(b, loc, scores, added);
    if (mask)
      scores = arith::SelectOp::create(b, loc, mask, scores, lowest);
    store(scores, layout.scoreOffset(), key);
    return emitMax(frame, scores, maxima);
  }

  /// Scores become weights exp(score - shift); returns their sum.
  Value emitWeights(sym::Expr count, Value shift) {
    shift = splat(shift);
    sym::Expr vectors = count.ceilDiv(lanes);
    SmallVector<Value> sums = frame.emitLoop(
        frame.constant(0), frame.simplifyAndEmit(vectors), 1, zero, [&](Value iv, ValueRange args) {
          sym::Expr key = frame.addVariable(iv, layout.blockKeys / lanes) * lanes;
          Value score = load(layout.scoreOffset(), key, sumVector);
          Value weight = math::ExpOp::create(b, loc, arith::SubFOp::create(b, loc, score, shift),
                                             arith::FastMathFlags::afn);
          store(weight, layout.scoreOffset(), key);
          return SmallVector<Value>{arith::AddFOp::create(b, loc, args[0], weight)};
        });
    return vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sums[0]);
  }

  /// Output = factor * output + weights * V.
  void emitOutput(sym::Expr first, sym::Expr count, Value factor) {
    int64_t vectors = llvm::divideCeilSigned(layout.valueDepth, lanes);
    for (int64_t from = 0; from < vectors; from += layout.sumsAtOnce) {
      int64_t width = std::min(layout.sumsAtOnce, vectors - from);
      int64_t keysAtOnce = std::max<int64_t>(layout.sumsAtOnce / width, 1);
      emitOutputColumns(first, count, factor, from, width, std::min(keysAtOnce, layout.keysAtOnce));
    }
  }

  /// Vectors [from, from + width) of the output; sums of `keysAtOnce` keys each.
  void emitOutputColumns(sym::Expr first, sym::Expr count, Value factor, int64_t from,
                         int64_t width, int64_t keysAtOnce) {
    auto addKey = [&](sym::Expr key, MutableArrayRef<Value> sums) {
      Value weight = splat(load(layout.scoreOffset(), key, layout.sumType));
      BodyEmitter::Scope scope(values);
      values.setDim(dimN, first + key);
      std::optional<sym::Expr> place = locate(values, valueRow, dimDv);
      if (!place)
        values.emitAvailable();
      for (auto [i, sum] : llvm::enumerate(sums)) {
        int64_t feature = (from + static_cast<int64_t>(i)) * lanes;
        Value mask = emitTailMask(frame, feature, layout.valueDepth, lanes);
        sum = math::FmaOp::create(b, loc, evaluate(values, dimDv, feature, mask, valueRow, place),
                                  weight, sum);
      }
    };
    sym::Expr groups = frame.named(count.floorDiv(keysAtOnce), layout.blockKeys + 1);
    SmallVector<Value> sums(keysAtOnce * width, zero);
    sums = frame.emitLoop(
        frame.constant(0), frame.emit(groups), 1, sums, [&](Value iv, ValueRange args) {
          sym::Expr key = frame.addVariable(iv, layout.blockKeys / keysAtOnce) * keysAtOnce;
          SmallVector<Value> next(args);
          for (int64_t i = 0; i < keysAtOnce; ++i)
            addKey(key + i, MutableArrayRef(next).slice(i * width, width));
          return next;
        });
    for (int64_t i = 0; i < width; ++i)
      for (int64_t j = 1; j < keysAtOnce; ++j)
        sums[i] = arith::AddFOp::create(b, loc, sums[i], sums[j * width + i]);
    sums.resize(width);
    sums = frame.emitLoop(frame.simplifyAndEmit(groups * keysAtOnce), frame.emit(count), 1, sums,
                          [&](Value iv, ValueRange args) {
                            SmallVector<Value> next(args);
                            addKey(frame.addVariable(iv, layout.blockKeys), next);
                            return next;
                          });
    for (auto [i, sum] : llvm::enumerate(sums)) {
      sym::Expr feature = (from + static_cast<int64_t>(i)) * lanes;
      Value old = load(layout.outputOffset(), feature, sumVector);
      store(math::FmaOp::create(b, loc, old, factor, sum), layout.outputOffset(), feature);
    }
  }

  void emitResult(Value sum) {
    Value none = op.getNan()
                     ? frame.isZero(layout.n)
                     : arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, sum, number(zero));
    Value factor = arith::DivFOp::create(b, loc, number(splat(1.0)), sum);
    if (none)
      factor = arith::SelectOp::create(b, loc, none, number(zero), factor);
    factor = splat(factor);
    forFeatures([&](sym::Expr first, Value mask) {
      Value value = load(layout.outputOffset(), first, sumVector);
      value = arith::MulFOp::create(b, loc, value, factor);
      emitAttentionResult(frame, values, op, layout, batch, query, first, mask, value);
    });
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::AttentionOp op;
  const AttentionLayout &layout;
  int64_t lanes;
  BodyEmitter queries, keys, values;
  std::optional<BodyEmitter> bias, scoring;
  int64_t dimM, dimN, dimD, dimDv;
  /// The reads of keys and values that are found by data; null: they are where others are.
  kernel::ReadOp keyRow, valueRow;
  VectorType sumVector;
  Value zero, lowest;
  SmallVector<sym::Expr> batch;
  sym::Expr query, numKeys;
};

} // namespace

Value cpu::emitMax(KernelFrame &frame, Value score, Value largest) {
  Value greater =
      arith::CmpFOp::create(frame.builder, frame.loc, arith::CmpFPredicate::OGT, score, largest);
  return arith::SelectOp::create(frame.builder, frame.loc, greater, score, largest);
}

Value cpu::emitScore(BodyEmitter &score, Value product, Value bias, int64_t lanes) {
  BodyEmitter::Scope scope(score);
  score.setLanes(lanes);
  score.setArgument(0, product);
  if (bias)
    score.setArgument(1, bias);
  return score.emitYield().front();
}

void cpu::emitAttentionQuery(KernelFrame &frame, kernel::AttentionOp op,
                             const AttentionLayout &layout) {
  AttentionQueryEmitter(frame, op, layout).emit();
}
