// Writes the function of a kernel.attention; kiln/Targets/CPU/AttentionLayout.h says how it
// computes.
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Targets/CPU/AttentionLayout.h"
#include "kiln/Targets/CPU/KernelEmitters.h"
#include "kiln/Targets/CPU/Microkernel.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

/// A panel of queries of the task.
struct Panel {
  sym::Expr number;
  int64_t vectors;
  /// Number among the task's panels.
  sym::Expr local;
};

/// A block of keys, as a panel uses it: from `first` on, `count` of them.
struct KeyBlock {
  sym::Expr first, count;
};

class AttentionEmitter {
public:
  AttentionEmitter(KernelFrame &frame, kernel::AttentionOp op,
                   const AttentionLayout &attentionLayout)
      : frame(frame), b(frame.builder), loc(frame.loc), op(op), layout(attentionLayout),
        queries(frame, op.getQ()), keys(frame, op.getK()), values(frame, op.getV()),
        dimM(op.getNumBatch()), dimN(dimM + 1), dimD(dimM + 2), dimDv(dimM + 3),
        onlyBlock(layout.numKeyBlocks().isConstant(1)) {
    if (!op.getBias().empty())
      bias.emplace(frame, op.getBias());
    if (!op.getScore().empty())
      scoring.emplace(frame, op.getScore());
  }

  void emit() {
    bindTask();
    forPanels([&](const Panel &panel) {
      emitQueries(panel);
      if (!onlyBlock)
        clearState(panel);
    });
    emitBlocks();
    forPanels([&](const Panel &panel) { emitResult(panel); });
  }

private:
  //===-- Loops ------------------------------------------------------------------------------===//

  void bindTask() {
    SmallVector<sym::Expr> sizes = layout.gridSizes();
    sym::Expr number = frame.addVariable(frame.task, sym::product(sizes));
    SmallVector<sym::Expr> position = sym::delinearize(number, sizes);
    for (auto [value, size] : llvm::zip(position, sizes))
      value = frame.named(value, size);
    sym::Expr panels = layout.numPanels();
    firstPanel = frame.named(position.pop_back_val() * layout.blockPanels, panels);
    endPanel = frame.assumptions.simplify(sym::Expr::min(firstPanel + layout.blockPanels, panels));
    batch = std::move(position);
    SmallVector<BodyEmitter *> bodies{&queries, &keys, &values};
    if (bias)
      bodies.push_back(&*bias);
    for (BodyEmitter *body : bodies) {
      for (auto [i, value] : llvm::enumerate(batch))
        body->setDim(i, value);
      body->emitAvailable();
    }
  }

  /// The last panel has its own code if it is narrower by a vector or more.
  void forPanels(function_ref<void(const Panel &)> body) {
    sym::Expr panels = layout.numPanels();
    std::optional<int64_t> m = layout.m.constant();
    int64_t rest = m ? *m % layout.panel() : 0;
    int64_t vectors = llvm::divideCeilSigned(rest, layout.lanes);
    bool narrow = rest != 0 && vectors < layout.vectors;
    sym::Expr whole = narrow ? panels - 1 : panels;
    sym::Expr end = frame.assumptions.simplify(sym::Expr::min(endPanel, whole));
    if (!whole.isConstant(0))
      emitRange(frame, firstPanel, end, whole,
                [&](sym::Expr number) { body({number, layout.vectors, number - firstPanel}); });
    if (!narrow)
      return;
    emitIf(panels, endPanel, [&] { body({whole, vectors, whole - firstPanel}); });
  }

  /// `body` under a <= b.
  void emitIf(sym::Expr a, sym::Expr c, function_ref<void()> body) {
    if (frame.assumptions.isLessOrEqual(a, c))
      return body();
    Value test = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, frame.simplifyAndEmit(a),
                                       frame.simplifyAndEmit(c));
    auto branch = scf::IfOp::create(b, loc, test, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    body();
  }

  sym::Expr firstQuery(const Panel &panel) const { return panel.number * layout.panel(); }

  void emitBlocks() {
    if (layout.n.isConstant(0))
      return;
    sym::Expr blocks = layout.numKeyBlocks(), used = blocks;
    if (op.getCausal()) {
      // Keys after the task's last query do not matter.
      sym::Expr last = endPanel * layout.panel();
      used = frame.assumptions.simplify(sym::Expr::min(last, layout.n).ceilDiv(layout.blockKeys));
    }
    // The last block has its own code if its length is known, and then so do all others.
    bool known = layout.n.isConstant() && !op.getCausal();
    emitRange(frame, 0, known ? blocks - 1 : used, blocks, [&](sym::Expr block) {
      sym::Expr first = block * layout.blockKeys;
      sym::Expr count = sym::Expr::min(layout.n - first, layout.blockKeys);
      emitBlock({first, known ? sym::Expr(layout.blockKeys) : count});
    });
    if (!known)
      return;
    sym::Expr first = (blocks - 1) * layout.blockKeys;
    emitBlock({first, layout.n - first});
  }

  void emitBlock(KeyBlock block) {
    block.count = frame.named(block.count, layout.blockKeys + 1);
    if (!layout.keys.direct)
      emitStage(keys, dimD, layout.depth, layout.keys, block, layout.keyOffset());
    if (!layout.values.direct)
      emitStage(values, dimDv, layout.valueDepth, layout.values, block, layout.valueOffset());
    forPanels([&](const Panel &panel) {
      if (!op.getCausal())
        return emitPanelBlock(panel, block);
      sym::Expr endQuery = firstQuery(panel) + layout.panel();
      emitIf(block.first + 1, endQuery, [&] {
        KeyBlock part = block;
        part.count =
            frame.named(sym::Expr::min(block.count, endQuery - block.first), layout.blockKeys + 1);
        emitPanelBlock(panel, part);
      });
    });
  }

  //===-- Operands ---------------------------------------------------------------------------===//

  Value scratchAt(sym::Expr bytes) {
    bytes = frame.assumptions.simplify(bytes);
    return bytes.isConstant(0) ? frame.scratch
                               : frame.gep(frame.scratch, b.getI8Type(), frame.emit(bytes));
  }
  Value queryBase(const Panel &panel) {
    return scratchAt(layout.queryOffset() + panel.local * layout.queryBytes());
  }
  Value stateBase(const Panel &panel) {
    return scratchAt(layout.stateOffset() + panel.local * layout.stateBytes());
  }
  Value outputBase(const Panel &panel) {
    return scratchAt(layout.outputOffset() + panel.local * layout.outputBytes());
  }
  Value scoreBase() { return scratchAt(layout.scoreOffset()); }

  Type vectorOf(Type type) {
    return layout.lanes == 1 ? type : VectorType::get(layout.lanes, type);
  }

  Value splat(double value) {
    Attribute number = b.getFloatAttr(layout.sumType, value);
    if (layout.lanes == 1)
      return arith::ConstantOp::create(b, loc, cast<TypedAttr>(number));
    auto type = cast<VectorType>(vectorOf(layout.sumType));
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, number));
  }

  Value extend(Value value) {
    if (layout.elementType == layout.sumType)
      return value;
    Type to = isa<VectorType>(value.getType()) ? vectorOf(layout.sumType) : layout.sumType;
    return arith::ExtFOp::create(b, loc, to, value);
  }

  /// scale * Qᵀ of a panel.
  void emitQueries(const Panel &panel) {
    BodyEmitter::Scope scope(queries);
    auto bindQuery = [&](sym::Expr query) { queries.setDim(dimM, query); };
    auto bindFeature = [&](sym::Expr feature) { queries.setDim(dimD, feature); };
    PanelSource source{queries,  bindQuery,    bindFeature, walksAlong(op.getQ(), dimD, dimM),
                       layout.m, layout.depth, layout.depth};
    double scale = op.getScale().convertToDouble();
    emitPanelStage(frame, source, firstQuery(panel), panel.vectors, layout.lanes, layout.panel(),
                   layout.sumType, queryBase(panel), [&](Value value) -> Value {
                     if (layout.lanes != 1 && !isa<VectorType>(value.getType()))
                       value =
                           vector::BroadcastOp::create(b, loc, vectorOf(value.getType()), value);
                     return arith::MulFOp::create(b, loc, extend(value), splat(scale));
                   });
  }

  /// A block of keys or values, as they are not in one piece in memory.
  void emitStage(BodyEmitter &body, unsigned featureDim, int64_t features,
                 const AttentionOperand &operand, const KeyBlock &block, int64_t offset) {
    Value base = scratchAt(offset);
    emitRange(frame, 0, block.count, layout.blockKeys, [&](sym::Expr key) {
      BodyEmitter::Scope scope(body);
      body.setDim(dimN, block.first + key);
      body.emitAvailable();
      emitVectors(frame, features, features, layout.lanes, [&](sym::Expr first, Value mask) {
        BodyEmitter::Scope scope(body);
        sym::Expr feature = first + body.setLanes(layout.lanes, mask);
        body.setDim(featureDim, feature);
        body.store(base, layout.elementType, key * operand.keyStride + feature,
                   body.emitYield().front());
      });
    });
  }

  /// Element (key, feature) of keys or values, `key` counted from the block's first.
  Value operandAddress(const AttentionOperand &operand, const KeyBlock &block, sym::Expr key,
                       sym::Expr feature, int64_t stageOffset) {
    if (!operand.direct)
      return frame.gep(
          scratchAt(stageOffset), layout.elementType,
          frame.simplifyAndEmit(key * operand.keyStride + feature * operand.featureStride));
    sym::Expr offset = operand.base.substituteDims(batch) +
                       (block.first + key) * operand.keyStride + feature * operand.featureStride;
    return frame.gep(frame.buffer(operand.tensor), layout.elementType,
                     frame.simplifyAndEmit(offset));
  }

  //===-- Vectors in scratch -----------------------------------------------------------------===//

  Value elementAt(Value base, sym::Expr row, sym::Expr vector) {
    return frame.gep(base, layout.sumType,
                     frame.simplifyAndEmit(row * layout.panel() + vector * layout.lanes));
  }
  unsigned sumBytes() { return layout.sumType.getIntOrFloatBitWidth() / 8; }
  Value loadVector(Value base, sym::Expr row, sym::Expr vector) {
    return LLVM::LoadOp::create(b, loc, vectorOf(layout.sumType), elementAt(base, row, vector),
                                sumBytes());
  }
  void storeVector(Value value, Value base, sym::Expr row, sym::Expr vector) {
    LLVM::StoreOp::create(b, loc, value, elementAt(base, row, vector), sumBytes());
  }

  /// Maximum -inf, sum 0, output 0.
  void clearState(const Panel &panel) {
    Value state = stateBase(panel), output = outputBase(panel);
    Value lowest = splat(-std::numeric_limits<double>::infinity()), zero = splat(0);
    for (int64_t v = 0; v < panel.vectors; ++v) {
      storeVector(lowest, state, 0, v);
      storeVector(zero, state, 1, v);
    }
    emitRange(frame, 0, layout.valueDepth, layout.valueDepth, [&](sym::Expr row) {
      for (int64_t v = 0; v < panel.vectors; ++v)
        storeVector(zero, output, row, v);
    });
  }

  //===-- One panel, one block ---------------------------------------------------------------===//

  void emitPanelBlock(const Panel &panel, const KeyBlock &block) {
    if (bias)
      emitBias(panel, block);
    SmallVector<Value> maxima = emitScores(panel, block);
    Value state = stateBase(panel);
    Value lowest = splat(-std::numeric_limits<double>::infinity()), zero = splat(0);
    SmallVector<Value> shift, factor, sums;
    for (int64_t v = 0; v < panel.vectors; ++v) {
      Value old = onlyBlock ? Value() : loadVector(state, 0, v);
      Value largest = old ? emitMax(frame, maxima[v], old) : maxima[v];
      // With all keys left out so far, exp(-inf - 0) makes every weight 0 instead of NaN.
      Value none = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, largest, lowest);
      shift.push_back(arith::SelectOp::create(b, loc, none, zero, largest));
      if (!old)
        continue;
      storeVector(largest, state, 0, v);
      Value change = arith::SubFOp::create(b, loc, old, shift[v]);
      factor.push_back(math::ExpOp::create(b, loc, change, arith::FastMathFlags::afn));
    }
    sums = emitWeights(panel, block, shift);
    for (int64_t v = 0; v < panel.vectors; ++v) {
      if (!onlyBlock) {
        Value old = arith::MulFOp::create(b, loc, loadVector(state, 1, v), factor[v]);
        sums[v] = arith::AddFOp::create(b, loc, old, sums[v]);
      }
      storeVector(sums[v], state, 1, v);
    }
    emitOutput(panel, block, factor);
  }

  /// The bias is where the scores' sums begin, or beside them what scores are made of.
  void emitBias(const Panel &panel, const KeyBlock &block) {
    BodyEmitter::Scope scope(*bias);
    auto bindQuery = [&](sym::Expr query) { bias->setDim(dimM, query); };
    auto bindKey = [&](sym::Expr key) { bias->setDim(dimN, block.first + key); };
    PanelSource source{*bias,    bindQuery,   bindKey,         walksAlong(op.getBias(), dimN, dimM),
                       layout.m, block.count, layout.blockKeys};
    emitPanelStage(frame, source, firstQuery(panel), panel.vectors, layout.lanes, layout.panel(),
                   layout.sumType, scoreBase(), [&](Value value) { return extend(value); });
  }

  /// Rows of a tile for `panel`: one that is narrower than others has as many sums in taller tiles.
  int64_t tileRows(const Panel &panel, int64_t rows) const {
    if (panel.vectors == layout.vectors)
      return rows;
    return std::min(rows * layout.vectors / panel.vectors,
                    maxTileRows(frame.target, panel.vectors));
  }

  /// Scores of all keys of the block, in scratch; returns their maxima.
  SmallVector<Value> emitScores(const Panel &panel, const KeyBlock &block) {
    SmallVector<Value> maxima(panel.vectors, splat(-std::numeric_limits<double>::infinity()));
    int64_t tile = std::min(tileRows(panel, layout.keyTile), layout.blockKeys);
    sym::Expr tiles = frame.assumptions.simplify(block.count.floorDiv(tile));
    auto emitTiles = [&](sym::Expr from, sym::Expr to, bool mayBeAhead) {
      maxima = frame.emitLoop(
          frame.emit(from), frame.emit(to), 1, maxima, [&](Value iv, ValueRange args) {
            sym::Expr number = frame.addVariable(iv, layout.blockKeys / tile);
            return emitScoreTile(panel, block, number * tile, tile, mayBeAhead, args);
          });
    };
    sym::Expr before = tiles;
    if (op.getCausal()) {
      // All queries of the panel see the keys up to its first one.
      sym::Expr keys = sym::Expr::max(firstQuery(panel) + 1 - block.first, 0);
      before = frame.named(sym::Expr::min(keys.floorDiv(tile), tiles), layout.blockKeys / tile + 1);
    }
    emitTiles(0, before, /*mayBeAhead=*/false);
    if (op.getCausal())
      emitTiles(before, tiles, /*mayBeAhead=*/true);
    sym::Expr done = tiles * tile, rest = frame.assumptions.simplify(block.count - done);
    if (std::optional<int64_t> rows = rest.constant())
      return *rows == 0 ? maxima : emitScoreTile(panel, block, done, *rows, op.getCausal(), maxima);
    // Each power of two at most once.
    SmallVector<Value> state(maxima);
    state.push_back(frame.simplifyAndEmit(done));
    Value end = frame.emit(block.count);
    for (auto rows = static_cast<int64_t>(llvm::bit_ceil(static_cast<uint64_t>(tile)) / 2);
         rows > 0; rows /= 2)
      state = emitScoreRest(panel, block, rows, state, end);
    state.pop_back();
    return state;
  }

  /// A tile of `rows` keys where there are as many before key `end`; takes and returns the maxima, then
  /// the first key.
  SmallVector<Value> emitScoreRest(const Panel &panel, const KeyBlock &block, int64_t rows,
                                   ValueRange state, Value end) {
    Value next = arith::AddIOp::create(b, loc, state.back(), frame.constant(rows));
    Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, next, end);
    auto branch = scf::IfOp::create(b, loc, state.getTypes(), fits, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    sym::Expr key = frame.addVariable(state.back(), layout.blockKeys);
    SmallVector<Value> maxima =
        emitScoreTile(panel, block, key, rows, op.getCausal(), state.drop_back());
    maxima.push_back(next);
    scf::YieldOp::create(b, loc, maxima);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, loc, state);
    return branch.getResults();
  }

  SmallVector<Value> emitScoreTile(const Panel &panel, const KeyBlock &block, sym::Expr key,
                                   int64_t rows, bool mayBeAhead, ValueRange maxima) {
    Value query = queryBase(panel), scores = scoreBase();
    MicrokernelShape shape;
    shape.lhsType = layout.elementType;
    shape.rhsType = shape.sumType = layout.sumType;
    for (int64_t i = 0; i < rows; ++i)
      shape.rowOffsets.push_back(i * *layout.keys.keyStride.constant());
    shape.vectors = panel.vectors;
    shape.lanes = layout.lanes;
    shape.loops = {{layout.depth, layout.keys.featureStride, layout.panel()}};
    SmallVector<Value> init;
    if (bias && !scoring)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = 0; v < panel.vectors; ++v)
          init.push_back(loadVector(scores, key + i, v));
    Value lhs = operandAddress(layout.keys, block, key, 0, layout.keyOffset());
    SmallVector<Value> sums = emitMicrokernel(frame, shape, lhs, query, init, {});

    SmallVector<Value> largest(maxima);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t v = 0; v < panel.vectors; ++v) {
        Value sum = sums[i * panel.vectors + v];
        if (scoring)
          sum = emitScore(*scoring, sum, bias ? loadVector(scores, key + i, v) : Value(),
                          layout.lanes);
        if (mayBeAhead)
          sum = emitCausal(sum, block.first + key + i, firstQuery(panel) + v * layout.lanes);
        storeVector(sum, scores, key + i, v);
        largest[v] = emitMax(frame, sum, largest[v]);
      }
    return largest;
  }

  /// -inf for queries before `key`; the vector's first query is `query`.
  Value emitCausal(Value score, sym::Expr key, sym::Expr query) {
    Value ahead = frame.simplifyAndEmit(key - query);
    Value lowest = splat(-std::numeric_limits<double>::infinity());
    Value lane = frame.constant(0);
    if (layout.lanes != 1) {
      auto type = VectorType::get(layout.lanes, b.getI32Type());
      SmallVector<int32_t> numbers(layout.lanes);
      std::iota(numbers.begin(), numbers.end(), 0);
      lane = arith::ConstantOp::create(b, loc,
                                       DenseElementsAttr::get(type, ArrayRef<int32_t>(numbers)));
      // Far ahead is as good as `lanes` ahead.
      Value limit = frame.constant(layout.lanes);
      ahead = arith::MinSIOp::create(b, loc, ahead, limit);
      ahead = arith::MaxSIOp::create(b, loc, ahead, frame.constant(-1));
      ahead = arith::TruncIOp::create(b, loc, b.getI32Type(), ahead);
      ahead = vector::BroadcastOp::create(b, loc, type, ahead);
    }
    Value out = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sgt, ahead, lane);
    return arith::SelectOp::create(b, loc, out, lowest, score);
  }

  /// Scores become weights exp(score - shift); returns their sums. Several keys at a time: what is made
  /// of one vector of scores is a chain of operations.
  SmallVector<Value> emitWeights(const Panel &panel, const KeyBlock &block, ArrayRef<Value> shift) {
    constexpr int64_t chains = 6;
    int64_t keysAtOnce = std::clamp<int64_t>(chains / panel.vectors, 1, layout.blockKeys);
    SmallVector<Value> sums(panel.vectors, splat(0));
    auto emitKeys = [&](sym::Expr from, sym::Expr to, int64_t count) {
      sums = frame.emitLoop(frame.simplifyAndEmit(from), frame.simplifyAndEmit(to), 1, sums,
                            [&](Value iv, ValueRange args) {
                              sym::Expr number = frame.addVariable(iv, layout.blockKeys);
                              return emitWeightsOf(panel, number * count, count, shift, args);
                            });
    };
    sym::Expr groups = block.count.floorDiv(keysAtOnce);
    emitKeys(0, groups, keysAtOnce);
    if (!frame.assumptions.isLessOrEqual(block.count, groups * keysAtOnce))
      emitKeys(groups * keysAtOnce, block.count, 1);
    return sums;
  }

  /// exp(x) of each of `values`, each step of it for all of them: as one long vector.
  SmallVector<Value> emitExponentials(ArrayRef<Value> values) {
    auto exponential = [&](Value x) {
      return math::ExpOp::create(b, loc, x, arith::FastMathFlags::afn);
    };
    if (layout.lanes == 1 || values.size() == 1)
      return llvm::map_to_vector(values, [&](Value x) -> Value { return exponential(x); });
    auto length = static_cast<int64_t>(values.size());
    auto type = VectorType::get(length * layout.lanes, layout.sumType);
    Value all = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
    for (auto [i, value] : llvm::enumerate(values))
      all = LLVM::vector_insert::create(b, loc, type, all, value, int64_t(i) * layout.lanes);
    all = exponential(all);
    SmallVector<Value> result;
    for (int64_t i = 0; i < length; ++i)
      result.push_back(
          LLVM::vector_extract::create(b, loc, vectorOf(layout.sumType), all, i * layout.lanes));
    return result;
  }

  /// The weights of `count` keys, which lie one behind the other.
  SmallVector<Value> emitWeightsOf(const Panel &panel, sym::Expr key, int64_t count,
                                   ArrayRef<Value> shift, ValueRange sums) {
    SmallVector<Value> scores;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t v = 0; v < panel.vectors; ++v)
        scores.push_back(
            arith::SubFOp::create(b, loc, loadVector(scoreBase(), key + i, v), shift[v]));
    SmallVector<Value> next(sums);
    for (auto [i, weight] : llvm::enumerate(emitExponentials(scores))) {
      auto number = static_cast<int64_t>(i), v = number % panel.vectors;
      storeVector(weight, scoreBase(), key + number / panel.vectors, v);
      next[v] = arith::AddFOp::create(b, loc, next[v], weight);
    }
    return next;
  }

  /// Output = factor * output + Vᵀ * weights; without factors there is no output yet.
  void emitOutput(const Panel &panel, const KeyBlock &block, ArrayRef<Value> factor) {
    Value scores = scoreBase(), output = outputBase(panel);
    int64_t most =
        std::min(maxTileRows(frame.target, panel.vectors), tileRows(panel, layout.valueTile));
    int64_t tiles = llvm::divideCeilSigned(layout.valueDepth, most);
    // Scaling the output is half of a tile's code: one size of tiles is enough if it is not small.
    constexpr int64_t smallTile = 6;
    for (int64_t more = tiles; !factor.empty() && layout.valueDepth >= smallTile * more; ++more)
      if (layout.valueDepth % more == 0) {
        tiles = more;
        break;
      }
    int64_t size = layout.valueDepth / tiles, larger = layout.valueDepth % tiles;
    auto emitTiles = [&](int64_t begin, int64_t rows, int64_t count) {
      emitRange(frame, 0, count, count, [&](sym::Expr number) {
        emitOutputTile(panel, block, begin + number * rows, rows, scores, output, factor);
      });
    };
    if (larger != 0)
      emitTiles(0, size + 1, larger);
    emitTiles(larger * (size + 1), size, tiles - larger);
  }

  void emitOutputTile(const Panel &panel, const KeyBlock &block, sym::Expr feature, int64_t rows,
                      Value scores, Value output, ArrayRef<Value> factor) {
    MicrokernelShape shape;
    shape.lhsType = layout.elementType;
    shape.rhsType = shape.sumType = layout.sumType;
    for (int64_t i = 0; i < rows; ++i)
      shape.rowOffsets.push_back(i * *layout.values.featureStride.constant());
    shape.vectors = panel.vectors;
    shape.lanes = layout.lanes;
    shape.loops = {{block.count, layout.values.keyStride, layout.panel()}};
    SmallVector<Value> init;
    if (!factor.empty())
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = 0; v < panel.vectors; ++v)
          init.push_back(
              arith::MulFOp::create(b, loc, loadVector(output, feature + i, v), factor[v]));
    Value lhs = operandAddress(layout.values, block, 0, feature, layout.valueOffset());
    SmallVector<Value> sums = emitMicrokernel(frame, shape, lhs, scores, init, {});
    for (auto [i, sum] : llvm::enumerate(sums))
      storeVector(sum, output, feature + static_cast<int64_t>(i) / panel.vectors,
                  static_cast<int64_t>(i) % panel.vectors);
  }

  //===-- Result -----------------------------------------------------------------------------===//

  /// From the last vector and query to the first: what is past the task's last query goes to where
  /// that one's result is written afterwards.
  void emitResult(const Panel &panel) {
    Value state = stateBase(panel), output = outputBase(panel), zero = splat(0);
    Value noKeys = op.getNan() ? frame.isZero(layout.n) : Value();
    emitRange(frame, 0, panel.vectors, panel.vectors, [&](sym::Expr number) {
      sym::Expr v = panel.vectors - 1 - number;
      Value sum = loadVector(state, 1, v);
      Value none = op.getNan()
                       ? noKeys
                       : arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, sum, zero);
      Value factor = arith::DivFOp::create(b, loc, splat(1), sum);
      if (none)
        factor = arith::SelectOp::create(b, loc, none, zero, factor);
      emitVectors(frame, layout.valueDepth, layout.valueDepth, layout.lanes,
                  [&](sym::Expr first, Value mask) {
                    SmallVector<Value> rows;
                    for (int64_t i = 0; i < layout.lanes; ++i)
                      rows.push_back(
                          arith::MulFOp::create(b, loc, loadVector(output, first + i, v), factor));
                    rows = emitTranspose(frame, rows);
                    for (int64_t i = layout.lanes; i-- > 0;)
                      storeResult(firstQuery(panel) + v * layout.lanes + i, first, mask, rows[i]);
                  });
    });
  }

  void storeResult(sym::Expr query, sym::Expr first, Value mask, Value value) {
    if (!frame.assumptions.isLess(query, layout.m))
      query =
          frame.addVariable(frame.simplifyAndEmit(sym::Expr::min(query, layout.m - 1)), layout.m);
    emitAttentionResult(frame, values, op, layout, batch, query, first, mask, value);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  kernel::AttentionOp op;
  AttentionLayout layout;
  BodyEmitter queries, keys, values;
  std::optional<BodyEmitter> bias, scoring;
  int64_t dimM, dimN, dimD, dimDv;
  /// All keys are one block: no running maximum to keep.
  bool onlyBlock;
  SmallVector<sym::Expr> batch;
  sym::Expr firstPanel, endPanel;
};

} // namespace

void cpu::emitAttentionResult(KernelFrame &frame, BodyEmitter &values, kernel::AttentionOp op,
                              const AttentionLayout &layout, ArrayRef<sym::Expr> batch,
                              sym::Expr query, sym::Expr first, Value mask, Value value) {
  if (layout.elementType != layout.sumType)
    value = arith::TruncFOp::create(frame.builder, frame.loc,
                                    VectorType::get(layout.lanes, layout.elementType), value);
  BodyEmitter::Scope scope(values);
  sym::Expr feature = first + values.setLanes(layout.lanes, mask);
  int64_t dimM = batch.size();
  SmallVector<sym::Expr> index;
  for (int64_t dim : op.getResultDims())
    index.push_back(dim < dimM ? batch[dim] : dim == dimM ? query : feature);
  sym::Expr offset = sym::linearize(index, sym::getShape(op.getResult()));
  values.store(frame.resultBuffer(0), layout.elementType, frame.assumptions.simplify(offset),
               value);
}

LogicalResult cpu::emitAttention(KernelFrame &frame, kernel::AttentionOp attention) {
  FailureOr<AttentionLayout> layout =
      getScheduledLayout(attention, frame.func.getScheduleAttr(), frame.target);
  if (failed(layout))
    return failure();
  if (layout->byQuery)
    emitAttentionQuery(frame, attention, *layout);
  else
    AttentionEmitter(frame, attention, *layout).emit();
  return success();
}
