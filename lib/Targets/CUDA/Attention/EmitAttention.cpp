// Plans and writes the function of a kernel.attention (online softmax: Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// A block has some queries, a warp a few of them, and goes through the keys 32 at a time, which it
// evaluates into shared memory with their values. For the scores a lane has a key, so that maximum
// and sum over keys go from lane to lane; for the result it has features of the values, and the
// weights come back through shared memory. Scores are never in the GPU's memory.
#include "CUDA/Attention/AttentionKernel.h"
#include "CUDA/Hopper/WarpgroupAttention.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

static constexpr int64_t usualWarps = 4, keyBlock = warpSize;
/// Queries of a warp: keys that were read are used so often.
static constexpr int64_t manyRows = 8, fewRows = 1;
static constexpr int64_t maxDepth = 256;

namespace {
/// The shared memory of a block of `warps` warps that have `rows` queries each.
struct SharedLayout {
  SharedLayout(kernel::AttentionOp op, int64_t warps, int64_t rows)
      : blockRows(warps * rows), depth(*op.getD().getValue().constant()),
        valueSteps(llvm::divideCeil(*op.getDv().getValue().constant(), warpSize)),
        elementBytes(cuda::getSumType(op).getIntOrFloatBitWidth() / 8) {
    int64_t many = vectorBytes / elementBytes;
    if (depth % many == 0 && *op.getDv().getValue().constant() % many == 0)
      vector = many;
  }

  /// Lanes read different keys: so far apart, those that read at once meet no bank twice.
  int64_t keyPitch() const { return depth + vector; }
  int64_t paddedValues() const { return valueSteps * warpSize; }
  int64_t queries() const { return blockRows * depth; }
  int64_t keys() const { return keyBlock * keyPitch(); }
  int64_t values() const { return keyBlock * paddedValues(); }
  int64_t weights() const { return blockRows * keyBlock; }
  bool fits() const {
    return (queries() + keys() + values() + weights()) * elementBytes <= getLeastSharedBytes();
  }

  int64_t blockRows, depth, valueSteps, elementBytes;
  /// Features that are loaded together.
  int64_t vector = 1;
};
} // namespace

/// As many as may be; nullopt if a block has no room for one.
static std::optional<int64_t> chooseRows(kernel::AttentionOp op) {
  auto queries = op.getM().getValue().constant();
  for (int64_t rows = queries && *queries <= usualWarps ? fewRows : manyRows; rows >= 1; rows /= 2)
    if (SharedLayout(op, usualWarps, rows).fits())
      return rows;
  return std::nullopt;
}

bool cuda::fitsInBlock(kernel::AttentionOp op) {
  auto isFew = [](std::optional<int64_t> depth) { return depth && *depth <= maxDepth; };
  return isFew(op.getD().getValue().constant()) && isFew(op.getDv().getValue().constant()) &&
         (mayUseTensorCores(op) || chooseRows(op));
}

/// A block's part begins with keys that it goes through together.
static LogicalResult verifyPart(kernel::FuncOp func, kernel::AttentionOp op, int64_t keys) {
  if (op.getPart() &&
      !kernel::getAssumptions(&op.getK()).isMultipleOf(op.getPartAttr().getValue(), keys))
    return func.emitError("an attention's part has to be a multiple of ") << keys << " keys";
  return success();
}

static FailureOr<KernelPlan> planWith(ScalarAttentionScheduleAttr schedule, kernel::FuncOp func,
                                      kernel::AttentionOp op, StringRef reason) {
  int64_t warps = schedule.getWarps(), rows = schedule.getRows();
  if (failed(verifyPart(func, op, keyBlock)))
    return failure();
  if (!SharedLayout(op, warps, rows).fits())
    return func.emitError("shared memory has no room for ")
           << warps << " warps of " << rows << " queries with so many features";
  return KernelPlan{schedule, getGrid(op, warps * rows), schedule.getThreads(), reason};
}

static FailureOr<KernelPlan> planWith(MmaAttentionScheduleAttr schedule, kernel::FuncOp func,
                                      kernel::AttentionOp op, StringRef reason) {
  if (failed(verifyPart(func, op, schedule.getKeys())))
    return failure();
  if (!mayUseTensorCores(op))
    return func.emitError("attention runs on tensor cores with operands of bf16 or f16 and 16 to "
                          "256 features");
  return KernelPlan{schedule, getGrid(op, schedule.getWarps() * schedule.getRows()),
                    schedule.getThreads(), reason};
}

FailureOr<KernelPlan> cuda::planAttention(kernel::FuncOp func) {
  auto op = cast<kernel::AttentionOp>(func.getRoot());
  if (failed(codegen::verifyValueTypes(op)))
    return failure();
  Type element = op.getQ().front().getTerminator()->getOperand(0).getType();
  if (!isa<FloatType>(element))
    return op.emitError("cannot be compiled for CUDA: attention over ") << element;
  if (!fitsInBlock(op))
    return op.emitError("cannot be compiled for CUDA: attention with heads of ")
           << op.getD().getValue().str() << " and " << op.getDv().getValue().str()
           << " features, which cuda-expand-attention makes products of";
  kernel::ScheduleAttrInterface given = func.getScheduleAttr();
  if (auto schedule = dyn_cast_if_present<ScalarAttentionScheduleAttr>(given))
    return planWith(schedule, func, op, givenReason);
  if (auto schedule = dyn_cast_if_present<MmaAttentionScheduleAttr>(given))
    return planWith(schedule, func, op, givenReason);
  if (given)
    return emitUnknownSchedule(func);
  if (mayUseTensorCores(op))
    return planWith(chooseMatrixAttention(op), func, op, "tensor cores multiply the operands");
  return planWith(ScalarAttentionScheduleAttr::get(func.getContext(), usualWarps, *chooseRows(op)),
                  func, op, "tensor cores do not multiply the operands");
}

namespace {
class AttentionEmitter : AttentionKernel {
public:
  AttentionEmitter(DeviceFrame &frame, kernel::AttentionOp op)
      : AttentionEmitter(frame, op, getSchedule<ScalarAttentionScheduleAttr>(frame.func)) {}

  void emit() {
    bindBlock(layout.blockRows);
    auto allocate = [&](int64_t elements) {
      return frame.allocateShared(elements * layout.elementBytes);
    };
    queries = allocate(layout.queries());
    keys = allocate(layout.keys());
    values = allocate(layout.values());
    weights = allocate(layout.weights());
    fill(q, queries, layout.blockRows, depth, depth, numBatch, numBatch + 2, firstQuery, m);

    SmallVector<Value> state;
    for (int64_t r = 0; r < rows; ++r) {
      state.push_back(minusInfinity());
      state.push_back(number(0));
      state.append(layout.valueSteps, number(0));
    }
    // Keys behind the block's last query are nobody's.
    sym::Expr end = op.getCausal() ? sym::Expr::min(n, firstQuery + layout.blockRows) : n;
    Value first = frame.emit(firstBlock(keyBlock)),
          last = frame.emit(endBlock(end.ceilDiv(keyBlock), keyBlock));
    state = frame.emitLoop(first, last, 1, state, [&](Value iv, ValueRange carried) {
      return emitKeys(keyBlock * frame.addVariable(iv, n.ceilDiv(keyBlock)), carried);
    });
    finish(state);
  }

private:
  AttentionEmitter(DeviceFrame &frame, kernel::AttentionOp op, ScalarAttentionScheduleAttr schedule)
      : AttentionKernel(frame, op), rows(schedule.getRows()), layout(op, schedule.getWarps(), rows),
        vector(layout.vector) {}

  /// exp(x - y), where y is a maximum.
  Value expDifference(Value x, Value y) { return math::ExpOp::create(b, loc, sub(x, finite(y))); }
  Value load(Value memory, sym::Expr offset) { return q.load(memory, sumType, offset); }
  /// `vector` neighbours, from a multiple of that on.
  SmallVector<Value> loadVector(Value memory, sym::Expr offset) {
    if (vector == 1)
      return {load(memory, offset)};
    Value address = frame.gep(memory, sumType, frame.simplifyAndEmit(offset));
    Value loaded = LLVM::LoadOp::create(b, loc, VectorType::get(vector, sumType), address,
                                        /*alignment=*/vectorBytes);
    SmallVector<Value> values;
    for (int64_t i = 0; i < vector; ++i)
      values.push_back(vector::ExtractOp::create(b, loc, loaded, i));
    return values;
  }
  void storeVector(Value memory, sym::Expr offset, ValueRange values) {
    if (vector == 1)
      return store(memory, offset, values.front());
    Value address = frame.gep(memory, sumType, frame.simplifyAndEmit(offset));
    Value stored = vector::FromElementsOp::create(b, loc, VectorType::get(vector, sumType), values);
    LLVM::StoreOp::create(b, loc, stored, address, /*alignment=*/vectorBytes);
  }
  void store(Value memory, sym::Expr offset, Value value) {
    q.store(memory, sumType, offset, value);
  }

  /// Evaluates `count` rows of `width` features from `first` on into shared memory, `vector` at a
  /// time; zero past `limit` and past the features.
  void fill(codegen::BodyEmitter &body, Value memory, int64_t count, int64_t width, int64_t pitch,
            unsigned rowDim, unsigned featureDim, sym::Expr first, sym::Expr limit,
            int64_t padded = 0) {
    int64_t chunks = std::max(padded, width) / vector;
    SmallVector<Value> zeros(vector, number(0));
    frame.emitLoop(
        frame.thread, frame.constant(count * chunks), frame.numThreads, {},
        [&](Value iv, ValueRange) -> SmallVector<Value> {
          sym::Expr chunk = frame.addVariable(iv, count * chunks);
          sym::Expr row = frame.named(chunk.floorDiv(chunks), count);
          sym::Expr feature = vector * frame.named(chunk.mod(chunks), chunks);
          Value inside =
              frame.both(frame.emitLess(first + row, limit), frame.emitLess(feature, width));
          auto values = [&] {
            SmallVector<Value> result;
            codegen::BodyEmitter::Scope scope(body);
            body.setDim(rowDim, frame.named(first + row, limit));
            // A multiple stays one, from which it is seen that neighbours are neighbours.
            sym::Expr inWidth = vector * frame.named(feature.floorDiv(vector), width / vector);
            for (int64_t i = 0; i < vector; ++i) {
              codegen::BodyEmitter::Scope scope(body);
              body.setDim(featureDim, inWidth + i);
              result.push_back(widen(body.emitYield().front()));
            }
            return result;
          };
          storeVector(memory, row * pitch + feature, frame.emitWhere(inside, zeros, values));
          return {};
        });
  }

  /// One block of keys; the state is, of each row, maximum, sum and this lane's part of the result.
  SmallVector<Value> emitKeys(sym::Expr firstKey, ValueRange state) {
    frame.emitBarrier(); // all have used the ones before
    fill(k, keys, keyBlock, depth, layout.keyPitch(), numBatch + 1, numBatch + 2, firstKey, n);
    fill(v, values, keyBlock, valueDepth, layout.paddedValues(), numBatch + 1, numBatch + 3,
         firstKey, n, layout.paddedValues());
    frame.emitBarrier();

    SmallVector<Value> zeros(rows, number(0));
    SmallVector<Value> scores = frame.emitLoop(
        frame.constant(0), frame.constant(depth / vector), 1, zeros,
        [&](Value iv, ValueRange sums) {
          sym::Expr feature = vector * frame.addVariable(iv, depth / vector);
          SmallVector<Value> key = loadVector(keys, lane * layout.keyPitch() + feature);
          SmallVector<Value> next(sums);
          for (int64_t r = 0; r < rows; ++r) {
            auto query = loadVector(queries, (warpNumber * rows + r) * depth + feature);
            for (auto [x, y] : llvm::zip_equal(query, key))
              next[r] = math::FmaOp::create(b, loc, x, y, next[r]);
          }
          return next;
        });

    SmallVector<Value> next;
    int64_t width = 2 + layout.valueSteps;
    for (int64_t r = 0; r < rows; ++r) {
      Value score = finishScore(scores[r], firstQuery + warpNumber * rows + r, firstKey + lane);
      Value oldMax = state[r * width], oldSum = state[r * width + 1];
      auto combineMax = [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{max(x[0], y[0])};
      };
      auto combineSum = [&](ValueRange x, ValueRange y) {
        return SmallVector<Value>{add(x[0], y[0])};
      };
      Value newMax = max(oldMax, warp.combineAll(frame, score, combineMax).front());
      Value weight = expDifference(score, newMax), scale = expDifference(oldMax, newMax);
      Value blockSum = warp.combineAll(frame, weight, combineSum).front();
      next.push_back(newMax);
      next.push_back(add(mul(oldSum, scale), blockSum));
      for (int64_t j = 0; j < layout.valueSteps; ++j)
        next.push_back(mul(state[r * width + 2 + j], scale));
      store(weights, (warpNumber * rows + r) * keyBlock + lane, weight);
    }
    frame.emitBarrier();

    SmallVector<Value> outputs;
    for (int64_t r = 0; r < rows; ++r)
      outputs.append(next.begin() + r * width + 2, next.begin() + (r + 1) * width);
    outputs = frame.emitLoop(
        frame.constant(0), frame.constant(keyBlock), 1, outputs, [&](Value iv, ValueRange sums) {
          sym::Expr key = frame.addVariable(iv, keyBlock);
          SmallVector<Value> columns, results;
          for (int64_t j = 0; j < layout.valueSteps; ++j)
            columns.push_back(load(values, key * layout.paddedValues() + lane + j * warpSize));
          for (int64_t r = 0; r < rows; ++r) {
            Value weight = load(weights, (warpNumber * rows + r) * keyBlock + key);
            for (auto [j, column] : llvm::enumerate(columns))
              results.push_back(
                  math::FmaOp::create(b, loc, weight, column, sums[r * layout.valueSteps + j]));
          }
          return results;
        });
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < layout.valueSteps; ++j)
        next[r * width + 2 + j] = outputs[r * layout.valueSteps + j];
    return next;
  }

  /// scale * score + bias, or -inf where the key is not the query's.
  Value finishScore(Value score, sym::Expr query, sym::Expr key) {
    Value inside = frame.both(frame.emitLess(query, m), isSeen(query, key));
    auto value = [&] {
      Value scaled = mul(score, number(op.getScale().convertToDouble()));
      return hasBias() ? add(scaled, emitBias(query, key)) : scaled;
    };
    return emitWhere(inside, value, -std::numeric_limits<double>::infinity());
  }

  void finish(ArrayRef<Value> state) {
    int64_t width = 2 + layout.valueSteps;
    for (int64_t r = 0; r < rows; ++r) {
      sym::Expr query = firstQuery + warpNumber * rows + r;
      frame.emitIf(frame.emitLess(query, m), [&] {
        Value sum = isPart() ? Value() : divisor(state[r * width + 1]);
        for (int64_t j = 0; j < layout.valueSteps; ++j) {
          sym::Expr feature = lane + j * warpSize;
          Value value = state[r * width + 2 + j];
          frame.emitIf(frame.emitLess(feature, valueDepth), [&] {
            storeResult(query, feature,
                        sum ? arith::DivFOp::create(b, loc, value, sum).getResult() : value);
          });
        }
        if (isPart())
          frame.emitIf(frame.emitLess(lane, 1),
                       [&] { storeState(query, state[r * width], state[r * width + 1]); });
      });
    }
  }

  int64_t rows;
  SharedLayout layout;
  int64_t vector;
  Value queries, keys, values, weights;
};
} // namespace

LogicalResult cuda::emitAttention(DeviceFrame &frame, kernel::AttentionOp attention) {
  return llvm::TypeSwitch<Attribute, LogicalResult>(frame.func.getScheduleAttr())
      .Case([&](WgmmaAttentionScheduleAttr) { return emitWarpgroupAttention(frame, attention); })
      .Case([&](MmaAttentionScheduleAttr) {
        emitMatrixAttention(frame, attention);
        return success();
      })
      .Case([&](ScalarAttentionScheduleAttr) {
        AttentionEmitter(frame, attention).emit();
        return success();
      })
      .Default([&](Attribute) { return emitUnknownSchedule(frame.func); });
}
