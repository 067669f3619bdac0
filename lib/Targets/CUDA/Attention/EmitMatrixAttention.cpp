// Writes the function of a kernel.attention on tensor cores (Dao, "FlashAttention-2", 2023).
//
// A warp has 16 or 32 queries, whose scores, weights and sums stay in the registers that the tensor
// cores leave them in: what mma.sync gives as a product's result it takes as the next one's left
// operand. Keys and values have a place each in shared memory. Values come while scores are
// computed, and the next keys while weights and sums are; what is memory as it is comes by
// asynchronous copies.
//
// Weights are powers of two, of scores in the unit log2(e), by the hardware's approximation
// (ex2.approx: 2 ulp of f32), and multiplied in the precision of the values.
#include "CUDA/Attention/AttentionKernel.h"
#include "CUDA/Contract/AsyncCopy.h"
#include "CUDA/Contract/MatrixFragments.h"
#include "CUDA/Contract/WidenedOperand.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t maxWarps = 4;
static constexpr int64_t manyTileRows = 32, fewTileRows = 16;
static constexpr int64_t manyKeys = 64, fewKeys = 32, fewestKeys = 16;
static constexpr int64_t depthOfStep = 16;
/// Chunks that are read, or whose places are, before the first is done with.
static constexpr int64_t chunksAtOnce = 8, indicesAtOnce = 4;
static constexpr int64_t minTileDepth = 16, maxTileDepth = 256;

static Type getOperandType(Region &region) {
  return region.front().getTerminator()->getOperand(0).getType();
}

bool cuda::mayUseTensorCores(kernel::AttentionOp op) {
  Type type = getOperandType(op.getQ());
  auto fits = [](std::optional<int64_t> depth) {
    return depth && *depth >= minTileDepth && *depth <= maxTileDepth;
  };
  return (type.isF16() || type.isBF16()) && type == getOperandType(op.getK()) &&
         type == getOperandType(op.getV()) && fits(op.getD().getValue().constant()) &&
         fits(op.getDv().getValue().constant());
}

MmaAttentionScheduleAttr cuda::chooseMatrixAttention(kernel::AttentionOp op) {
  sym::Expr m = op.getM().getValue(), blocks = m.ceilDiv(maxWarps * manyTileRows);
  int64_t features = std::max(*op.getD().getValue().constant(), *op.getDv().getValue().constant());
  // Sums of many features, and terms of a bias, leave no registers for more rows; masks leave some
  // for fewer keys.
  bool isLarge = op.getBias().empty() && features <= 64 &&
                 codegen::estimate(m) > maxWarps * fewTileRows &&
                 codegen::estimate(sym::product(op.getBatch().getSizes()) * blocks) >=
                     getTarget(op).getBusyBlocks();
  int64_t keys = features > 192                                  ? fewestKeys
                 : features > 128 || (isLarge && op.getCausal()) ? fewKeys
                                                                 : manyKeys;
  // A warp without queries would only wait for the others.
  int64_t warps = maxWarps;
  while (warps > 1 && m.constant() && *m.constant() <= warps / 2 * fewTileRows)
    warps /= 2;
  return MmaAttentionScheduleAttr::get(op.getContext(), warps, isLarge ? manyTileRows : fewTileRows,
                                       keys);
}

namespace {
/// An operand's rows in shared memory.
struct Rows {
  codegen::BodyEmitter &body;
  Region &region;
  unsigned rowDim, featureDim;
  sym::Expr limit; // of rows
  int64_t features;
  SharedMatrix matrix;
  Value memory;
  std::optional<CopySource> copied;
  kernel::ReadOp gathered; // rows that are copied, too, from where data says; or null
  std::optional<WidenedOperand> widened;
  int64_t vector; // features that are evaluated together

  /// Products go in steps of 16 features: those past `features` are zero.
  int64_t padded() const { return llvm::alignTo(features, depthOfStep); }
};

class MatrixAttentionEmitter : AttentionKernel {
public:
  MatrixAttentionEmitter(DeviceFrame &frame, kernel::AttentionOp op,
                         MmaAttentionScheduleAttr schedule)
      : AttentionKernel(frame, op), type(getOperandType(op.getQ())), fragments(frame, type),
        numWarps(schedule.getWarps()), rows(schedule.getRows()), rowTiles(rows / mmaM),
        keyBlock(schedule.getKeys()), keyTiles(keyBlock / mmaN),
        queries(makeRows(q, op.getQ(), numBatch, numBatch + 2, m, depth, numWarps * rows)),
        keys(makeRows(k, op.getK(), numBatch + 1, numBatch + 2, n, depth, keyBlock)),
        values(makeRows(v, op.getV(), numBatch + 1, numBatch + 3, n, valueDepth, keyBlock)) {}

  void emit() {
    bindBlock(numWarps * rows);
    for (int64_t row = 0; hasBias() && row < 2 * rowTiles; ++row)
      insideQueries.push_back(inside(queryOf(row), m));
    sym::Expr first = firstBlock(keyBlock);
    if (isPart())
      // Keys of the next part need not come.
      keys.limit =
          frame.named(sym::Expr::min(n, keyBlock * first + op.getPartAttr().getValue()), n + 1);
    for (Rows *part : {&queries, &keys, &values})
      part->memory = frame.allocateShared(part->matrix.size() * part->matrix.elementBytes());
    bring(queries, firstQuery);
    emitCopiesWait(frame, 0);
    frame.emitBarrier();
    // Large ones would take the registers that the sums need.
    if (rowTiles * querySteps() <= 8)
      for (int64_t i = 0; i < rowTiles; ++i)
        for (int64_t step = 0; step < querySteps(); ++step)
          llvm::append_range(held, loadQueries(i, step));
    bring(keys, keyBlock * first);

    SmallVector<Value> state(rowTiles * 2, minusInfinity());
    state.append(rowTiles * 2 + rowTiles * valueTiles() * 4, number(0));
    // Keys behind the block's last query are nobody's; those before its first are everybody's.
    sym::Expr end = n, whole = n;
    if (op.getCausal()) {
      end = sym::Expr::min(n, firstQuery + numWarps * rows);
      whole = sym::Expr::min(n, firstQuery + 1);
    }
    end = endBlock(end.ceilDiv(keyBlock), keyBlock);
    whole = endBlock(whole.floorDiv(keyBlock), keyBlock);
    if (isPart() && whole != end)
      whole = frame.assumptions.simplify(sym::Expr::max(first, whole));
    auto loop = [&](Value first, Value last, bool isMasked) {
      state = frame.emitLoop(first, last, 1, state, [&](Value iv, ValueRange carried) {
        return emitKeys(frame.addVariable(iv, n.ceilDiv(keyBlock)), carried, isMasked);
      });
    };
    Value numWhole = frame.emit(whole);
    loop(frame.emit(first), numWhole, /*isMasked=*/false);
    if (whole != end)
      loop(numWhole, frame.emit(end), /*isMasked=*/true);
    finish(state);
  }

private:
  int64_t querySteps() const { return queries.padded() / depthOfStep; }
  int64_t valueTiles() const { return values.padded() / mmaN; }

  Rows makeRows(codegen::BodyEmitter &body, Region &region, unsigned rowDim, unsigned featureDim,
                sym::Expr limit, int64_t features, int64_t count) {
    int64_t line = llvm::PowerOf2Ceil(llvm::alignTo(features, depthOfStep));
    SharedMatrix matrix{type, count, line};
    bool fits = frame.func.getAligned() && features % matrix.chunk() == 0;
    std::optional<CopySource> copied;
    kernel::ReadOp gathered;
    std::optional<WidenedOperand> widened;
    if (fits) {
      copied = findCopySource(region, sym::Expr::dim(featureDim), matrix.chunk());
      gathered = findGatheredChunks(region, featureDim, matrix.chunk());
      widened = WidenedOperand::find(region, featureDim);
    }
    return {body,   region,  rowDim, featureDim, limit,   features,
            matrix, Value(), copied, gathered,   widened, fits ? matrix.chunk() : 1};
  }

  /// Rows that data finds, whose chunks of features are aligned.
  static kernel::ReadOp findGatheredChunks(Region &region, unsigned featureDim, int64_t chunk) {
    kernel::ReadOp row = kernel::findGatheredRows(region, sym::Expr::dim(featureDim));
    if (!row)
      return {};
    sym::Expr offset = sym::linearize(row.getMap().getResults(), sym::getShape(row.getTensor()));
    sym::Assumptions known = kernel::getAssumptions(&region);
    auto linear = sym::splitLinear(known.simplify(offset), sym::Expr::dim(featureDim));
    return known.isMultipleOf(linear->rest, chunk) ? row : kernel::ReadOp();
  }

  /// Brings rows from `first` on to shared memory, zero past the last and past the features: copies
  /// are under way when it returns, as one group.
  void bring(Rows &part, sym::Expr first) {
    int64_t width = part.padded() / part.vector, count = part.matrix.lines * width;
    if (part.widened)
      return widen(part, first, width);
    if (part.gathered)
      return gather(part, first, width);
    if (!part.copied) {
      frame.emitLoop(frame.thread, frame.constant(count), frame.numThreads, {},
                     [&](Value iv, ValueRange) -> SmallVector<Value> {
                       evaluate(part, first, frame.addVariable(iv, count), width);
                       return {};
                     });
      return;
    }
    // Threads for whole lines: all of a thread's chunks are of the same features.
    width = part.matrix.length / part.vector;
    count = part.matrix.lines * width;
    sym::Expr thread = frame.addVariable(frame.thread, frame.numThreads);
    sym::Expr feature = part.vector * frame.named(thread.mod(width), width);
    frame.emitIf(frame.emitLess(feature, part.padded()), [&] {
      for (int64_t i = 0; i < count; i += frame.numThreads)
        frame.emitIf(frame.emitLess(thread + i, count),
                     [&] { copyChunk(part, first, thread + i, width); });
    });
    emitCopiesEnd(frame);
  }

  /// Evaluates chunks of small integers, some of which are read before the first is widened. Those that are not there read others.
  void widen(Rows &part, sym::Expr first, int64_t width) {
    auto emitChunks = [&](ArrayRef<sym::Expr> numbers, ValueRange) -> SmallVector<Value> {
      SmallVector<std::pair<Value, Value>> stores;
      for (sym::Expr number : numbers) {
        auto [row, feature, inside] = findChunk(part, first, number, width);
        codegen::BodyEmitter::Scope scope(part.body);
        SmallVector<sym::Expr> at(position);
        at[part.rowDim] = frame.named(sym::Expr::min(first + row, part.limit - 1), part.limit);
        at[part.featureDim] = feature;
        if (part.padded() != part.features)
          at[part.featureDim] =
              part.vector *
              frame.named(
                  sym::Expr::min(feature, part.features - part.vector).floorDiv(part.vector),
                  part.features / part.vector);
        part.body.setDim(part.rowDim, at[part.rowDim]);
        Value value = part.widened->widen(frame, part.body, at, {});
        if (inside)
          value = arith::SelectOp::create(
              b, loc, inside, value,
              arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType())));
        stores.emplace_back(value, part.matrix.address(frame, part.memory, row, feature));
      }
      for (auto [value, address] : stores)
        LLVM::StoreOp::create(b, loc, value, address, /*alignment=*/vectorBytes);
      return {};
    };
    frame.emitIf(frame.emitLess(0, part.limit), [&] {
      frame.emitStridedLoop(frame.thread, part.matrix.lines * width, frame.numThreads, chunksAtOnce,
                            {}, emitChunks);
    });
  }

  /// Copies rows from where data says, which is read for some chunks before the first of them is looked for.
  void gather(Rows &part, sym::Expr first, int64_t width) {
    size_t perChunk = part.gathered.getValues().size();
    auto emitChunks = [&](ArrayRef<sym::Expr> numbers, ValueRange) -> SmallVector<Value> {
      SmallVector<Value> indices = loadIndices(part, first, numbers, width);
      for (auto [i, number] : llvm::enumerate(numbers))
        gatherChunk(part, first, number, width, ArrayRef(indices).slice(i * perChunk, perChunk));
      return {};
    };
    frame.emitStridedLoop(frame.thread, part.matrix.lines * width, frame.numThreads, indicesAtOnce,
                          {}, emitChunks);
    emitCopiesEnd(frame);
  }

  /// The data that says where the rows of these chunks are; of rows that are not there, it is the last one's.
  SmallVector<Value> loadIndices(Rows &part, sym::Expr first, ArrayRef<sym::Expr> numbers,
                                 int64_t width) {
    SmallVector<Value> none;
    for (size_t i = 0; i < numbers.size(); ++i)
      for (Value value : part.gathered.getValues())
        none.push_back(arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType())));
    return frame.emitWhere(frame.emitLess(0, part.limit), none, [&] {
      SmallVector<Value> found;
      for (sym::Expr number : numbers) {
        codegen::BodyEmitter::Scope scope(part.body);
        sym::Expr row = first + number.floorDiv(width);
        part.body.setDim(part.rowDim, frame.named(sym::Expr::min(row, part.limit - 1), part.limit));
        for (Value value : part.gathered.getValues())
          found.push_back(part.body.emitValue(value));
      }
      return found;
    });
  }

  /// The place of a chunk of `vector` features, and whether it is there.
  struct Chunk {
    sym::Expr row, feature;
    Value inside;
  };
  Chunk findChunk(const Rows &part, sym::Expr first, sym::Expr chunk, int64_t width) {
    sym::Expr row = frame.named(chunk.floorDiv(width), part.matrix.lines);
    sym::Expr feature = part.vector * frame.named(chunk.mod(width), width);
    return {row, feature,
            frame.both(frame.emitLess(first + row, part.limit),
                       frame.emitLess(feature, part.features))};
  }

  void gatherChunk(Rows &part, sym::Expr first, sym::Expr chunk, int64_t width,
                   ArrayRef<Value> indices) {
    auto [row, feature, inside] = findChunk(part, first, chunk, width);
    kernel::ReadOp gathered = part.gathered;
    auto locate = [&, row = row, feature = feature]() -> SmallVector<Value> {
      codegen::BodyEmitter::Scope scope(part.body);
      part.body.setDim(part.rowDim, frame.named(first + row, part.limit));
      part.body.setDim(part.featureDim, feature);
      for (auto [value, index] : llvm::zip(gathered.getValues(), indices))
        part.body.setValue(value, index);
      return {frame.simplifyAndEmit(part.body.locateRow(gathered))};
    };
    Value offset = frame.emitWhere(inside, frame.constant(0), locate)[0];
    emitCopy(frame, frame.buffer(gathered.getTensor()), type,
             frame.addVariable(offset, sym::Range()),
             part.matrix.address(frame, part.memory, row, feature), inside, vectorBytes);
  }

  void copyChunk(Rows &part, sym::Expr first, sym::Expr chunk, int64_t width) {
    auto [row, feature, inside] = findChunk(part, first, chunk, width);
    SmallVector<sym::Expr> at(position);
    at[part.rowDim] = first + row;
    at[part.featureDim] = feature;
    emitCopy(frame, *part.copied, type, at, part.matrix.address(frame, part.memory, row, feature),
             inside);
  }

  void evaluate(Rows &part, sym::Expr first, sym::Expr chunk, int64_t width) {
    auto [row, feature, inside] = findChunk(part, first, chunk, width);
    SmallVector<Value> elements(part.vector,
                                arith::ConstantOp::create(b, loc, b.getZeroAttr(type)));
    auto emitChunk = [&] {
      SmallVector<Value> chunk;
      for (int64_t i = 0; i < part.vector; ++i) {
        codegen::BodyEmitter::Scope scope(part.body);
        part.body.setDim(part.rowDim, frame.named(first + row, part.limit));
        part.body.setDim(part.featureDim,
                         part.vector > 1 ? feature + i : frame.named(feature, part.features));
        chunk.push_back(part.body.emitYield().front());
      }
      return chunk;
    };
    elements = frame.emitWhere(inside, elements, emitChunk);
    Value address = part.matrix.address(frame, part.memory, row, feature);
    if (part.vector == 1) {
      LLVM::StoreOp::create(b, loc, elements.front(), address);
      return;
    }
    Value vector =
        vector::FromElementsOp::create(b, loc, VectorType::get(part.vector, type), elements);
    LLVM::StoreOp::create(b, loc, vector, address, /*alignment=*/vectorBytes);
  }

  SmallVector<Value> loadQueries(int64_t tile, int64_t step) {
    return fragments.loadLeft(queries.matrix, /*alongSteps=*/true, queries.memory,
                              warpNumber * rows + tile * mmaM, step * depthOfStep);
  }

  /// One block of keys. The state is, of each of this thread's rows, the maximum; the sum of its
  /// own weights; and its part of the result.
  SmallVector<Value> emitKeys(sym::Expr number, ValueRange state, bool isMasked) {
    sym::Expr firstKey = keyBlock * number;
    emitCopiesWait(frame, 0);
    frame.emitBarrier(); // keys are there, and nobody needs the values before
    bring(values, firstKey);
    SmallVector<SmallVector<Value>> biases;
    for (sym::Expr query : insideQueries)
      biases.push_back(
          emitBiasPairs(query, columnOf(firstKey), keyTiles, mmaN, /*mayBeOutside=*/isMasked));
    SmallVector<Value> scores = multiplyKeys();
    finishScores(scores, biases, firstKey, isMasked);
    emitCopiesWait(frame, 0);
    frame.emitBarrier(); // values are there, and nobody needs the keys
    bring(keys, firstKey + keyBlock);

    int64_t numRows = rowTiles * 2;
    SmallVector<Value> next(state);
    MutableArrayRef<Value> sums = MutableArrayRef(next).drop_front(2 * numRows);
    for (int64_t row = 0; row < numRows; ++row) {
      SmallVector<Value *> mine = scoresOf(scores, row);
      Value maximum = *mine.front();
      for (Value *score : llvm::drop_begin(mine))
        maximum = max(maximum, *score);
      maximum = warp.combineLanes(maximum, 4, [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{max(x[0], y[0])};
      })[0];
      maximum = max(state[row], maximum);
      Value shift = emitShift(maximum), rescale = exp2(emitExponent(state[row], shift));
      Value sum = mul(state[numRows + row], rescale);
      for (Value *score : mine) {
        *score = exp2(emitExponent(*score, shift));
        sum = add(sum, *score);
      }
      next[row] = maximum;
      next[numRows + row] = sum;
      for (Value *part : scoresOf(sums, row))
        *part = mul(*part, rescale);
    }
    multiplyValues(scores, sums);
    return next;
  }

  /// The registers of this thread's row of this number, among those of products with these rows.
  SmallVector<Value *> scoresOf(MutableArrayRef<Value> products, int64_t row) {
    SmallVector<Value *> result;
    int64_t perTile = products.size() / rowTiles;
    for (int64_t i = row / 2 * perTile, end = i + perTile; i < end; i += 4)
      for (int64_t column : {0, 1})
        result.push_back(&products[i + row % 2 * 2 + column]);
    return result;
  }

  SmallVector<Value> multiplyKeys() {
    SmallVector<Value> scores(rowTiles * keyTiles * 4, this->number(0));
    for (int64_t step = 0; step < querySteps(); ++step) {
      SmallVector<SmallVector<Value>> left;
      for (int64_t i = 0; i < rowTiles; ++i)
        left.push_back(held.empty() ? loadQueries(i, step)
                                    : SmallVector<Value>(
                                          ArrayRef(held).slice(4 * (i * querySteps() + step), 4)));
      for (int64_t j = 0; j < keyTiles; j += 2) {
        SmallVector<Value> right = fragments.loadRight(
            keys.matrix, /*alongSteps=*/true, keys.memory, j * mmaN, step * depthOfStep, 2);
        for (int64_t i = 0; i < rowTiles; ++i)
          for (int64_t next : {0, 1})
            fragments.multiplyAdd(left[i], ArrayRef(right).slice(2 * next, 2),
                                  MutableArrayRef(scores).slice(4 * (i * keyTiles + j + next), 4));
      }
    }
    return scores;
  }

  /// This thread's columns are these and the next ones, of every eight keys.
  sym::Expr columnOf(sym::Expr firstKey) { return firstKey + 2 * fragments.step; }

  /// Scores as what the exponentials are of, except for a factor that comes later; -inf for keys
  /// that a query does not see. `biases`: of each row its pairs, if there are any.
  void finishScores(MutableArrayRef<Value> scores, ArrayRef<SmallVector<Value>> biases,
                    sym::Expr firstKey, bool isMasked) {
    for (int64_t row = 0; row < 2 * rowTiles; ++row) {
      sym::Expr column = columnOf(firstKey);
      Value numSeen;
      if (isMasked) {
        sym::Expr end = op.getCausal() ? sym::Expr::min(n, queryOf(row) + 1) : n;
        numSeen = frame.simplifyAndEmit(sym::Expr::max(0, sym::Expr::min(end - column, keyBlock)));
        numSeen = arith::TruncIOp::create(b, loc, b.getI32Type(), numSeen);
      }
      std::pair<Value, Value> pair;
      for (auto [i, score] : llvm::enumerate(scoresOf(scores, row))) {
        if (hasBias() && i % 2 == 0)
          pair = unpackPair(type, biases[row][i / 2]);
        *score = finishScore(*score, i % 2 ? pair.second : pair.first);
        if (!isMasked)
          continue;
        int64_t at = i / 2 * mmaN + i % 2;
        Value seen = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt,
                                           arith::ConstantIntOp::create(b, loc, at, 32), numSeen);
        *score = arith::SelectOp::create(b, loc, seen, *score, minusInfinity());
      }
    }
  }

  sym::Expr queryOf(int64_t row) {
    return firstQuery + warpNumber * rows + row / 2 * mmaM + fragments.group + row % 2 * 8;
  }

  /// Weights, in the registers of scores, are a left operand.
  void multiplyValues(ArrayRef<Value> weights, MutableArrayRef<Value> sums) {
    for (int64_t step = 0; step < keyBlock / depthOfStep; ++step) {
      SmallVector<SmallVector<Value>> left(rowTiles);
      for (int64_t i = 0; i < rowTiles; ++i)
        for (int64_t half : {0, 1})
          for (int64_t below : {0, 1}) {
            int64_t first = 4 * (i * keyTiles + 2 * step + half) + 2 * below;
            left[i].push_back(pack(weights[first], weights[first + 1]));
          }
      for (int64_t j = 0; j < valueTiles(); j += 2) {
        SmallVector<Value> right = fragments.loadRight(
            values.matrix, /*alongSteps=*/false, values.memory, j * mmaN, step * depthOfStep, 2);
        for (int64_t i = 0; i < rowTiles; ++i)
          for (int64_t next : {0, 1})
            fragments.multiplyAdd(left[i], ArrayRef(right).slice(2 * next, 2),
                                  sums.slice(4 * (i * valueTiles() + j + next), 4));
      }
    }
  }

  /// Two numbers as one register of the left operand.
  Value pack(Value first, Value second) {
    Value pair = packPair(type, first, second);
    return type.isF16()
               ? LLVM::BitcastOp::create(b, loc, VectorType::get(2, type), pair).getResult()
               : pair;
  }

  void finish(ArrayRef<Value> state) {
    int64_t numRows = rowTiles * 2;
    for (int64_t row = 0; row < numRows; ++row) {
      Value sum = warp.combineLanes(state[numRows + row], 4, [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{add(x[0], y[0])};
      })[0];
      Value factor;
      if (!isPart())
        factor = arith::DivFOp::create(b, loc, number(1), divisor(sum));
      sym::Expr query = queryOf(row);
      frame.emitIf(frame.emitLess(query, m), [&] {
        ArrayRef<Value> sums = state.drop_front(2 * numRows);
        for (int64_t j = 0; j < valueTiles(); ++j)
          for (int64_t next : {0, 1}) {
            sym::Expr feature = j * mmaN + 2 * fragments.step + next;
            Value value = sums[4 * (row / 2 * valueTiles() + j) + row % 2 * 2 + next];
            frame.emitIf(frame.emitLess(feature, valueDepth),
                         [&] { storeResult(query, feature, factor ? mul(value, factor) : value); });
          }
        if (isPart())
          frame.emitIf(frame.emitLess(fragments.step, 1), [&] {
            storeState(query, mul(state[row], number(unit * std::numbers::ln2)), sum);
          });
      });
    }
  }

  Type type;
  MatrixFragments fragments;
  int64_t numWarps, rows, rowTiles, keyBlock, keyTiles;
  /// The query of each of this thread's rows, or one that there is.
  SmallVector<sym::Expr> insideQueries;
  Rows queries, keys, values;
  /// Registers of all queries, if they are kept.
  SmallVector<Value> held;
};
} // namespace

void cuda::emitMatrixAttention(DeviceFrame &frame, kernel::AttentionOp op) {
  MatrixAttentionEmitter(frame, op, getSchedule<MmaAttentionScheduleAttr>(frame.func)).emit();
}
