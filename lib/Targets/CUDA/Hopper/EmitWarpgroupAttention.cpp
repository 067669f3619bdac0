// Writes the function of a kernel.attention for Hopper (Shah et al., "FlashAttention-3", 2024).
//
// One thread of the first warpgroup starts copies of queries, keys and values (tensor maps) into
// places of shared memory as they become empty. The other warpgroups have 64 queries each, whose
// scores, weights and results are in registers. Blocks of keys come from the last one back, which
// is the one that has keys to leave out. While the weights of one block are computed, the tensor
// cores multiply the weights of the block before with its values; the scores of a block are asked
// for before that. Where the schedule says so, the warpgroups ask for their products in turns: one
// computes weights while the tensor cores multiply for the other.
//
// The first warpgroup gives registers away, of which the others need more than an equal share.
#include "CUDA/Attention/AttentionKernel.h"
#include "CUDA/Hopper/StageRing.h"
#include "CUDA/Hopper/WarpgroupAttention.h"
#include "CUDA/Hopper/WarpgroupPlan.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

namespace {

/// Features of two bytes.
constexpr int64_t lineFeatures = lineBytes / 2;

class WarpgroupAttentionEmitter : AttentionKernel {
public:
  WarpgroupAttentionEmitter(DeviceFrame &frame, kernel::AttentionOp op,
                            WgmmaAttentionScheduleAttr schedule,
                            const WarpgroupAttentionOperands &operands)
      : AttentionKernel(frame, op), schedule(schedule),
        plan{schedule.getConsumers(), schedule.getKeys()}, operands(operands),
        queries(frame, operands.q, operands.type, plan.queries()),
        keys(frame, operands.k, operands.type, plan.keys),
        values(frame, operands.v, operands.type, plan.keys), order(makeOrder(frame, schedule)),
        queryRing(frame, 1, plan.bytes(plan.queries(), depth),
                  {plan.bytes(plan.queries(), depth), /*arrivals=*/1}, plan.consumers * warps),
        ring(frame, schedule.getStages(), plan.stageBytes(operands),
             {plan.stageBytes(operands), /*arrivals=*/1}, plan.consumers * warps),
        scoreProduct(frame, operands.type, plan.keys),
        resultProduct(frame, operands.type, valueDepth),
        numBatches(sym::product(op.getBatch().getSizes())), tileRows(m.ceilDiv(plan.queries())) {}

  void emit() {
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    group = emitWarpgroupNumber(frame, plan.consumers + 1);
    inGroup = frame.named(thread.mod(warpgroupSize), warpgroupSize);
    emitWarpgroupRoles(
        frame, group, inGroup, /*oneCopies=*/true, schedule.getRegisters(), [&] { produce(); },
        [&] { consume(); });
  }

private:
  static constexpr int64_t warps = warpgroupSize / warpSize;

  static std::optional<BarrierArray> makeOrder(DeviceFrame &frame,
                                               WgmmaAttentionScheduleAttr schedule) {
    if (!schedule.getOrdered())
      return std::nullopt;
    return BarrierArray(frame, schedule.getConsumers(), warps);
  }

  struct Tile {
    Value index;     // of the block's tiles
    Value turn;      // of its first place
    Value numBlocks; // of keys
    sym::Expr batch;
    sym::Expr blocks; // numBlocks
    sym::Expr firstBlock, endBlock;
  };

  Value emitSum(Value value, int64_t more) {
    return arith::AddIOp::create(b, loc, value, frame.constant(more));
  }

  /// `count`, of which no compiler knows it: a loop over few blocks would be unrolled, which takes
  /// registers that long sums need. Grids have one row.
  Value keepLoop(Value count) {
    if (valueDepth <= 128)
      return count;
    Value zero = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                        NVVM::BlockIdYOp::create(b, loc, b.getI32Type()));
    return arith::AddIOp::create(b, loc, count, zero);
  }

  void forEachTile(function_ref<void(const Tile &)> body) {
    Value numBlocks = arith::ExtUIOp::create(b, loc, b.getI64Type(),
                                             NVVM::GridDimXOp::create(b, loc, b.getI32Type()));
    sym::Expr tiles = getGrid(op, plan.queries());
    Value zero = frame.constant(0);
    auto loop = scf::ForOp::create(b, loc, frame.block, frame.simplifyAndEmit(tiles), numBlocks,
                                   ValueRange{zero, zero});
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Tile tile = locate(frame.addVariable(loop.getInductionVar(), tiles));
    tile.index = loop.getRegionIterArg(0);
    tile.turn = loop.getRegionIterArg(1);
    body(tile);
    Value taken = arith::ShLIOp::create(b, loc, tile.numBlocks, frame.constant(1));
    scf::YieldOp::create(
        b, loc,
        ValueRange{emitSum(tile.index, 1), arith::AddIOp::create(b, loc, tile.turn, taken)});
  }

  /// Tiles of a head's queries follow each other, so that its keys are read from the cache. Causal
  /// ones take longer the later their queries are: the longest come first, those of all heads
  /// whose keys the cache holds.
  Tile locate(sym::Expr tile) {
    sym::Expr row = 0, batch = 0;
    tile = takePart(tile, numBatches * tileRows);
    if (!op.getCausal()) {
      row = frame.named(tile.mod(tileRows), tileRows);
      batch = frame.named(tile.floorDiv(tileRows), numBatches);
    } else {
      sym::Expr headBytes = (n + 1) * (2 * (depth + valueDepth));
      // One more than a variable: a divisor that is known to be positive takes no guard.
      sym::Expr held =
          sym::Expr::min(numBatches, sym::Expr(schedule.getCached()).floorDiv(headBytes));
      sym::Expr heads = frame.named(sym::Expr::max(1, held) - 1, numBatches) + 1;
      sym::Expr inSection = heads * tileRows;
      sym::Expr section = frame.named(tile.floorDiv(inSection), numBatches);
      Value inside = frame.simplifyAndEmit(tile - section * inSection);
      Value count = frame.simplifyAndEmit(sym::Expr::min(numBatches - section * heads, heads));
      Value above = arith::DivUIOp::create(b, loc, inside, count);
      Value head = arith::RemUIOp::create(b, loc, inside, count);
      head = arith::AddIOp::create(b, loc, head, frame.simplifyAndEmit(section * heads));
      Value below = arith::SubIOp::create(b, loc, frame.simplifyAndEmit(tileRows - 1), above);
      row = frame.addVariable(below, tileRows);
      batch = frame.addVariable(head, numBatches);
    }
    firstQuery = plan.queries() * row;
    for (auto [i, value] : llvm::enumerate(sym::delinearize(batch, op.getBatch().getSizes())))
      position[i] = frame.named(value, op.getBatch().getSizes()[i]);
    sym::Expr end = op.getCausal() ? sym::Expr::min(n, firstQuery + plan.queries()) : n;
    Tile result;
    result.batch = batch;
    result.firstBlock = firstBlock(plan.keys);
    result.endBlock = endBlock(end.ceilDiv(plan.keys), plan.keys);
    sym::Expr blocks = result.endBlock - result.firstBlock;
    // All keys of a part may be behind the tile's queries.
    if (isPart() && op.getCausal())
      blocks = sym::Expr::max(0, blocks);
    result.blocks = frame.assumptions.simplify(blocks);
    result.numBlocks = frame.emit(result.blocks);
    if (result.blocks.constant())
      result.numBlocks = keepLoop(result.numBlocks);
    return result;
  }

  /// Starts copies of all features of the lines from `first` on.
  void load(TensorLoad &load, int64_t features, const Tile &tile, sym::Expr first, Value memory,
            Value barrier) {
    for (int64_t feature = 0; feature < features; feature += lineFeatures) {
      Value box =
          frame.gep(memory, b.getI8Type(), frame.constant(feature / lineFeatures * load.bytes()));
      load.emit(tile.batch, first, feature, box, barrier);
    }
  }

  void produce() {
    forEachTile([&](const Tile &tile) {
      queryRing.waitEmpty(tile.index);
      Value barrier = queryRing.expectBytes(tile.index);
      load(queries, depth, tile, firstQuery, queryRing.memory(frame.constant(0)), barrier);
      // Fills the keys' step i, which counts from the last ones.
      auto fill = [&](TensorLoad &part, int64_t features, Value step, Value turn) {
        turn = arith::AddIOp::create(b, loc, turn, tile.turn);
        ring.waitEmpty(turn);
        Value barrier = ring.expectBytes(turn, plan.bytes(plan.keys, features));
        load(part, features, tile, firstKey(tile, step), ring.memory(ring.place(turn)), barrier);
      };
      frame.emitIf(frame.emitLess(0, tile.blocks), [&] {
        fill(keys, depth, frame.constant(0), frame.constant(0));
        frame.emitLoop(frame.constant(1), tile.numBlocks, 1, {},
                       [&](Value step, ValueRange) -> SmallVector<Value> {
                         Value turn = arith::ShLIOp::create(b, loc, step, frame.constant(1));
                         fill(keys, depth, step, emitSum(turn, -1));
                         fill(values, valueDepth, emitSum(step, -1), turn);
                         return {};
                       });
        Value last = emitSum(tile.numBlocks, -1);
        fill(values, valueDepth, last,
             emitSum(arith::ShLIOp::create(b, loc, last, frame.constant(1)), 1));
      });
    });
  }

  sym::Expr firstKey(const Tile &tile, Value step) {
    Value block = arith::SubIOp::create(b, loc, emitSum(tile.numBlocks, -1), step);
    if (isPart())
      block = arith::AddIOp::create(b, loc, block, frame.simplifyAndEmit(tile.firstBlock));
    return plan.keys * frame.addVariable(block, n.ceilDiv(plan.keys));
  }

  void consume() {
    consumer = frame.named(group - 1, plan.consumers);
    sym::Expr lane = frame.named(inGroup.mod(warpSize), warpSize);
    line = wgmmaM * consumer + (wgmmaM / warps) * frame.named(inGroup.floorDiv(warpSize), warps) +
           frame.named(lane.floorDiv(4), 8);
    pair = frame.named(lane.mod(4), 4);
    isFirstLane = emitIsZero(frame, frame.emit(lane));
    Value rows = frame.gep(queryRing.memory(frame.constant(0)), b.getI8Type(),
                           frame.simplifyAndEmit(wgmmaM * lineBytes * consumer));
    Value memory = ring.memory(frame.constant(0));
    queryMatrix.emplace(frame, rows, /*alongRows=*/false, plan.queries() * lineBytes);
    keyMatrix.emplace(frame, memory, /*alongRows=*/false, plan.keys * lineBytes);
    valueMatrix.emplace(frame, memory, /*alongRows=*/true, plan.keys * lineBytes);
    forEachTile([&](const Tile &tile) {
      codegen::BodyEmitter::Scope scope(bias);
      if (hasBias()) {
        bias.setLanes(1);
        for (int64_t i = 0; i < numBatch; ++i)
          bias.setDim(i, position[i]);
        bias.emitAvailable();
        for (int64_t row : {0, 1})
          insideQueries[row] = inside(queryOf(row), m);
      }
      queryRing.waitFull(tile.index);
      State empty;
      empty.maxima = {minusInfinity(), minusInfinity()};
      empty.sums = {number(0), number(0)};
      empty.results = LLVM::ZeroOp::create(b, loc, resultProduct.sumsType());
      auto none = flatten(empty);
      Value hasKeys = frame.emitLess(0, tile.blocks);
      auto state = frame.emitWhere(hasKeys, none, [&] { return flatten(attend(tile, empty)); });
      if (hasKeys) {
        Value never = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, tile.numBlocks,
                                            frame.constant(0));
        frame.emitIf(never, [&] { release(queryRing, tile.index); });
      }
      finish(read(state));
    });
  }

  /// A thread's numbers of its two rows.
  struct State {
    SmallVector<Value> maxima, sums; // of its own weights
    Value results;
    SmallVector<Value> weights; // of the newest block, two a register; not multiplied yet
  };
  static SmallVector<Value> flatten(const State &state) {
    SmallVector<Value> values(state.maxima);
    llvm::append_range(values, state.sums);
    values.push_back(state.results);
    llvm::append_range(values, state.weights);
    return values;
  }
  static State read(ValueRange values) {
    return {SmallVector<Value>(values.take_front(2)), SmallVector<Value>(values.slice(2, 2)),
            values[4], SmallVector<Value>(values.drop_front(5))};
  }

  void release(StageRing &places, Value turn) {
    frame.emitIf(isFirstLane, [&] { places.release(turn); });
  }

  Value offset(Value turn) {
    return arith::MulIOp::create(
        b, loc, ring.place(turn),
        frame.constant(plan.stageBytes(operands) / MatrixDescriptor::unit));
  }
  /// The scores of a block, in turns: the first consumer begins. `number`: of the thread's blocks.
  Value multiplyKeys(Value turn, Value number) {
    ring.waitFull(turn);
    if (order) {
      Value mine = frame.emit(consumer), parity = emitSum(number, 1);
      order->wait(mine, arith::SubIOp::create(b, loc, parity, mine));
    }
    return scoreProduct.multiply({}, *queryMatrix, frame.constant(0), *keyMatrix, offset(turn),
                                 llvm::alignTo(depth, wgmmaK));
  }
  /// When the products of a block have been asked for.
  void passTurn() {
    if (order)
      frame.emitIf(isFirstLane, [&] { order->arrive(frame.simplifyAndEmit(1 - consumer)); });
  }
  Value multiplyValues(const State &state, Value turn) {
    ring.waitFull(turn);
    return resultProduct.multiply(state.results, state.weights, *valueMatrix, offset(turn));
  }

  /// All of a tile's keys: the last blocks, which may have some to leave out, and the others.
  State attend(const Tile &tile, State state) {
    Value before = arith::ShRUIOp::create(b, loc, tile.turn, frame.constant(1));
    Value scores = multiplyKeys(tile.turn, before);
    passTurn();
    sym::Expr last = firstKey(tile, frame.constant(0));
    Biases biases = readBiases(last, isMaskedFirst());
    scores = scoreProduct.wait(0, scores);
    release(ring, tile.turn);
    weigh(state, scores, biases, last, isMaskedFirst());
    Value numMasked = frame.constant(1);
    auto loop = [&](Value first, Value end, bool isMasked) {
      auto values = frame.emitLoop(first, end, 1, flatten(state), [&](Value step, ValueRange now) {
        Value number = arith::AddIOp::create(b, loc, before, step);
        return flatten(attendBlock(tile, step, number, read(now), isMasked));
      });
      state = read(values);
    };
    if (op.getCausal() && plan.keys % plan.queries()) {
      // Behind those that all of the tile's queries see.
      sym::Expr whole = sym::Expr::min(n, firstQuery + 1).floorDiv(plan.keys);
      sym::Expr masked = tile.endBlock - whole;
      if (isPart())
        masked = sym::Expr::min(tile.blocks, masked);
      numMasked = keepLoop(frame.simplifyAndEmit(sym::Expr::max(1, masked)));
      loop(frame.constant(1), numMasked, /*isMasked=*/true);
    }
    loop(numMasked, tile.numBlocks, /*isMasked=*/false);
    release(queryRing, tile.index); // for the next tile's
    Value turn = emitSum(arith::ShLIOp::create(b, loc, tile.numBlocks, frame.constant(1)), -1);
    turn = arith::AddIOp::create(b, loc, tile.turn, turn);
    state.results = resultProduct.wait(0, multiplyValues(state, turn));
    release(ring, turn);
    state.weights.clear();
    return state;
  }

  /// Whether the last block may have keys that not all of a tile's queries see.
  bool isMaskedFirst() { return op.getCausal() || !frame.assumptions.isMultipleOf(n, plan.keys); }

  /// The numbers that are added to the scores of both rows, two keys a register.
  using Biases = std::array<SmallVector<Value>, 2>;
  /// While scores are computed; they are used when these are there.
  Biases readBiases(sym::Expr firstKey, bool mayBeOutside) {
    Biases biases;
    for (int64_t row = 0; hasBias() && row < 2; ++row)
      biases[row] =
          emitBiasPairs(insideQueries[row], firstKey + 2 * pair, plan.keys / 8, 8, mayBeOutside);
    return biases;
  }

  /// One more block: its scores, while the weights of the one before are multiplied.
  State attendBlock(const Tile &tile, Value step, Value number, State state, bool isMasked) {
    Value turn = arith::AddIOp::create(
        b, loc, tile.turn, emitSum(arith::ShLIOp::create(b, loc, step, frame.constant(1)), -1));
    Value next = emitSum(turn, 1);
    Value scores = multiplyKeys(turn, number);
    state.results = multiplyValues(state, next);
    passTurn();
    sym::Expr first = firstKey(tile, step);
    Biases biases = readBiases(first, isMasked);
    scores = scoreProduct.wait(1, scores);
    release(ring, turn);
    weigh(state, scores, biases, first, isMasked, next);
    return state;
  }

  /// Makes weights of a block's scores, and everything fit the new maxima. `turn`, if not null: of
  /// the values that are being multiplied, which the results wait for.
  void weigh(State &state, Value product, const Biases &biases, sym::Expr firstKey, bool isMasked,
             Value turn = {}) {
    SmallVector<Value> scores = scoreProduct.unpack(product);
    SmallVector<Value> rescales;
    for (int64_t row : {0, 1}) {
      SmallVector<Value *> mine = ofRow(scores, row);
      finishScores(mine, biases[row], row, firstKey, isMasked);
      Value maximum = combine(mine, [&](Value x, Value y) { return max(x, y); });
      maximum = warp.combineLanes(maximum, 4, [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{max(x[0], y[0])};
      })[0];
      maximum = max(state.maxima[row], maximum);
      Value shift = emitShift(maximum);
      rescales.push_back(exp2(emitExponent(state.maxima[row], shift)));
      state.maxima[row] = maximum;
      for (Value *score : mine)
        *score = exp2(emitExponent(*score, shift));
      Value sum = combine(mine, [&](Value x, Value y) { return add(x, y); });
      state.sums[row] = math::FmaOp::create(b, loc, state.sums[row], rescales.back(), sum);
    }
    if (turn) {
      // The values came before they were multiplied. ptxas moves a wait for a product in front of
      // the exponentials before it, but not past this branch.
      ring.askIfFull(turn);
      state.results = resultProduct.wait(0, state.results);
      release(ring, turn);
      SmallVector<Value> results = resultProduct.unpack(state.results);
      for (int64_t row : {0, 1})
        for (Value *result : ofRow(results, row))
          *result = mul(*result, rescales[row]);
      state.results = resultProduct.pack(results);
    }
    // Four registers for sixteen keys: two rows of eight keys, and of the next eight.
    state.weights.clear();
    for (size_t i = 0; i < scores.size(); i += 2)
      state.weights.push_back(packPair(operands.type, scores[i], scores[i + 1]));
  }

  /// The registers of this thread's row of this number, among those of a product.
  static SmallVector<Value *> ofRow(MutableArrayRef<Value> products, int64_t row) {
    SmallVector<Value *> result;
    for (size_t i = 0; i < products.size(); i += 4)
      for (int64_t column : {0, 1})
        result.push_back(&products[i + row * 2 + column]);
    return result;
  }

  /// In a few chains, which do not wait for each other.
  static Value combine(ArrayRef<Value *> values, function_ref<Value(Value, Value)> both) {
    std::array<Value, 4> partial;
    for (auto [i, value] : llvm::enumerate(values)) {
      Value &chain = partial[i % partial.size()];
      chain = chain ? both(chain, *value) : *value;
    }
    return both(both(partial[0], partial[2]), both(partial[1], partial[3]));
  }

  /// Scores as what the exponentials are of, except for a factor that comes later; -inf for keys
  /// that a query does not see.
  void finishScores(ArrayRef<Value *> scores, ArrayRef<Value> biases, int64_t row,
                    sym::Expr firstKey, bool isMasked) {
    std::pair<Value, Value> added;
    for (auto [i, score] : llvm::enumerate(scores)) {
      if (hasBias() && i % 2 == 0)
        added = unpackPair(operands.type, biases[i / 2]);
      *score = finishScore(*score, i % 2 ? added.second : added.first);
    }
    if (!isMasked)
      return;
    sym::Expr end = op.getCausal() ? sym::Expr::min(n, queryOf(row) + 1) : n;
    Value numSeen = frame.simplifyAndEmit(
        sym::Expr::max(0, sym::Expr::min(end - firstKey - 2 * pair, plan.keys)));
    numSeen = arith::TruncIOp::create(b, loc, b.getI32Type(), numSeen);
    for (auto [i, score] : llvm::enumerate(scores)) {
      int64_t at = static_cast<int64_t>(i) / 2 * 8 + static_cast<int64_t>(i) % 2;
      Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                         arith::ConstantIntOp::create(b, loc, at, 32), numSeen);
      *score = arith::SelectOp::create(b, loc, seen, *score, minusInfinity());
    }
  }

  sym::Expr queryOf(int64_t row) { return firstQuery + line + 8 * row; }

  void finish(const State &state) {
    SmallVector<Value> results = resultProduct.unpack(state.results);
    for (int64_t row : {0, 1}) {
      Value sum = warp.combineLanes(state.sums[row], 4, [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{add(x[0], y[0])};
      })[0];
      if (isPart()) {
        storePart(queryOf(row), state.maxima[row], sum, ofRow(results, row));
        continue;
      }
      Value factor = arith::DivFOp::create(b, loc, number(1), divisor(sum));
      SmallVector<Value> mine;
      for (Value *result : ofRow(results, row))
        mine.push_back(mul(*result, factor));
      storeRow(queryOf(row), mine);
    }
  }

  /// Stores the results of a part's keys: pairs of neighbouring features of every eight.
  void storePart(sym::Expr query, Value maximum, Value sum, ArrayRef<Value *> results) {
    codegen::BodyEmitter::Scope scope(q);
    q.setLanes(1);
    frame.emitIf(frame.emitLess(query, m), [&] {
      SmallVector<sym::Expr> index = {partNumber};
      index.append(position.begin(), position.begin() + numBatch);
      index.append({frame.named(query, m), 2 * pair});
      sym::Expr offset =
          frame.assumptions.simplify(sym::linearize(index, sym::getShape(op.getResult())));
      Value address = frame.gep(frame.resultBuffer(0), sumType, frame.emit(offset));
      for (size_t i = 0; i < results.size(); i += 2) {
        Value both = vector::FromElementsOp::create(b, loc, VectorType::get(2, sumType),
                                                    ValueRange{*results[i], *results[i + 1]});
        Value at = frame.gep(address, sumType, frame.constant(4 * i));
        LLVM::StoreOp::create(b, loc, both, at, /*alignment=*/8);
      }
      frame.emitIf(frame.emitLess(pair, 1),
                   [&] { storeState(query, mul(maximum, number(unit * std::numbers::ln2)), sum); });
    });
  }

  /// Pairs of neighbouring features of every eight.
  void storeRow(sym::Expr query, ArrayRef<Value> results) {
    SmallVector<Value> words;
    for (size_t i = 0; i < results.size(); i += 2)
      words.push_back(packPair(operands.type, results[i], results[i + 1]));
    // A lane gets the four neighbours of one of every four such pairs: 16 bytes.
    SmallVector<Value> rows = transposeQuads(words);
    codegen::BodyEmitter::Scope scope(q);
    q.setLanes(1);
    frame.emitIf(frame.emitLess(query, m), [&] {
      size_t whole = words.size() / 4 * 4;
      for (size_t i = 0; i < whole; i += 4)
        storeWords(query, 8 * (static_cast<int64_t>(i) + pair), ArrayRef(rows).slice(i, 4));
      for (size_t i = whole; i < words.size(); ++i)
        storeWords(query, 8 * static_cast<int64_t>(i) + 2 * pair, words[i]);
    });
  }

  /// Gives each of four lanes one word of each lane's four, in the order of lanes.
  SmallVector<Value> transposeQuads(ArrayRef<Value> words) {
    SmallVector<Value> result(words);
    Value number = frame.emit(pair);
    auto bit = [&](int64_t value) {
      Value masked = arith::AndIOp::create(b, loc, number, frame.constant(value));
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked, frame.constant(0));
    };
    Value odd = bit(1), high = bit(2);
    auto select = [&](Value condition, Value yes, Value no) -> Value {
      return arith::SelectOp::create(b, loc, condition, yes, no);
    };
    for (size_t i = 0; i + 4 <= words.size(); i += 4) {
      auto four = MutableArrayRef(result).slice(i, 4);
      for (auto [isSet, distance] : {std::pair(high, 2), std::pair(odd, 1)})
        for (int64_t k = 0; k < 4; ++k) {
          if (k & distance)
            continue;
          // A lane keeps one of both, and gets what the other lane has of it.
          Value &low = four[k], &up = four[k + distance];
          Value got = warp.shuffle(select(isSet, low, up), distance);
          Value kept = select(isSet, up, low);
          low = select(isSet, got, kept);
          up = select(isSet, kept, got);
        }
    }
    return result;
  }

  /// Neighbouring features, two a word.
  void storeWords(sym::Expr query, sym::Expr feature, ValueRange words) {
    SmallVector<sym::Expr> index;
    for (int64_t dim : op.getResultDims())
      index.push_back(dim < numBatch    ? position[dim]
                      : dim == numBatch ? frame.named(query, m)
                                        : feature);
    sym::Expr offset =
        frame.assumptions.simplify(sym::linearize(index, sym::getShape(op.getResult())));
    auto type = VectorType::get(2 * words.size(), operands.type);
    Value vector = words[0];
    if (words.size() > 1)
      vector = vector::FromElementsOp::create(b, loc, VectorType::get(words.size(), b.getI32Type()),
                                              words);
    bool areNeighbours = op.getResultDims().back() > numBatch &&
                         frame.assumptions.isMultipleOf(offset, 2 * words.size());
    if (areNeighbours) {
      Value address = frame.gep(frame.resultBuffer(0), operands.type, frame.emit(offset));
      LLVM::StoreOp::create(b, loc, vector, address, /*alignment=*/4 * words.size());
      return;
    }
    vector = LLVM::BitcastOp::create(b, loc, type, vector);
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      Value element = LLVM::ExtractElementOp::create(b, loc, vector,
                                                     arith::ConstantIntOp::create(b, loc, i, 32));
      storeResult(query, feature + i, widen(element));
    }
  }

  WgmmaAttentionScheduleAttr schedule;
  WarpgroupAttentionPlan plan;
  const WarpgroupAttentionOperands &operands;
  TensorLoad queries, keys, values;
  /// A barrier for each warpgroup that multiplies: the other one has passed the turn on. Nothing:
  /// there are no turns.
  std::optional<BarrierArray> order;
  StageRing queryRing, ring;
  WarpgroupProduct scoreProduct, resultProduct;
  sym::Expr numBatches, tileRows;
  sym::Expr group = 0, inGroup = 0, consumer = 0, line = 0, pair = 0;
  /// The queries of a thread's rows, or ones that there are.
  std::array<sym::Expr, 2> insideQueries = {0, 0};
  Value isFirstLane;
  std::optional<MatrixDescriptor> queryMatrix, keyMatrix, valueMatrix;
};

} // namespace

LogicalResult cuda::emitWarpgroupAttention(DeviceFrame &frame, kernel::AttentionOp attention) {
  auto schedule = getSchedule<WgmmaAttentionScheduleAttr>(frame.func);
  auto operands = findWarpgroupAttention(frame.func);
  if (!operands)
    return frame.func.emitError("warpgroups run attention of bf16 or f16 whose operands are memory "
                                "as it is, aligned, with many queries");
  WarpgroupAttentionPlan plan{schedule.getConsumers(), schedule.getKeys()};
  int64_t most = countStages(plan, *operands, getVariantTarget(frame.func));
  if (schedule.getStages() > most)
    return frame.func.emitError("stages = ")
           << schedule.getStages() << ", of which shared memory has room for " << most;
  WarpgroupAttentionEmitter(frame, attention, schedule, *operands).emit();
  return success();
}
