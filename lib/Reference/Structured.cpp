// Structured ops as loops over all of their dims.
#include "Code.h"
#include "kiln/Dialect/Kernel/Winograd.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

namespace {

using Tensors = SmallVector<Tensor>;

/// One structured op while it runs. The first error ends it.
class Run {
public:
  Run(Operation *op, CodeBuilder &builder, bool wide, int64_t &stepsLeft)
      : op(op), builder(builder), wide(wide), stepsLeft(stepsLeft) {}

  llvm::Expected<Tensors> run() {
    auto structured = cast<kernel::StructuredOpInterface>(op);
    extents = take(builder.evaluate(structured.getExtents()));
    for (Value result : op->getResults()) {
      auto type = cast<RankedTensorType>(result.getType());
      SmallVector<int64_t> sizes = take(builder.evaluate(sym::getShape(type)));
      take(countElements(sizes, stepsLeft));
      if (!problem.empty())
        return llvm::createStringError(problem);
      results.push_back(Tensor::zeros(type.getElementType(), sizes));
    }
    llvm::TypeSwitch<Operation *>(op)
        .Case([&](kernel::MapOp map) { runMap(map); })
        .Case([&](kernel::ContractOp contract) { runContract(contract); })
        .Case([&](kernel::WinogradOp winograd) { runWinograd(winograd); })
        .Case([&](kernel::AttentionOp attention) { runAttention(attention); })
        .Case([&](kernel::ScanOp scan) { runScan(scan); })
        .Case([&](kernel::ScatterOp scatter) { runScatter(scatter); })
        .Case([&](kernel::SortOp sort) { runSort(sort); })
        .Case([&](kernel::MergeOp merge) { runMerge(merge); })
        .Case([&](kernel::RepeatOp repeat) { runRepeat(repeat); })
        .Default([&](Operation *) {
          fail("the interpreter does not know " + op->getName().getStringRef());
        });
    if (!problem.empty())
      return llvm::createStringError(problem);
    stepsLeft = frame.stepsLeft;
    if (llvm::Error error = frame.takeError())
      return std::move(error);
    return std::move(results);
  }

private:
  template <typename T> T take(llvm::Expected<T> value) {
    if (value)
      return std::move(*value);
    fail(llvm::toString(value.takeError()));
    return T();
  }
  void fail(const Twine &message) {
    if (problem.empty())
      problem = message.str();
  }

  Code build(Region &region) { return take(builder.build(region)); }
  int64_t evaluate(sym::Expr expr) { return take(builder.evaluate(expr)); }

  /// Once all code is built; false if that failed.
  bool start() {
    frame = builder.makeFrame(stepsLeft);
    frame.dims.resize(std::max(frame.dims.size(), extents.size() + 1));
    return problem.empty();
  }

  ArrayRef<int64_t> getExtents(unsigned first, unsigned count) const {
    return ArrayRef<int64_t>(extents).slice(first, count);
  }

  /// Row-major number of the element of `result` at the loop's dims, in part `part` if there are any.
  int64_t getPlace(const Tensor &result, ArrayRef<int64_t> dims,
                   std::optional<int64_t> part = {}) const {
    int64_t place = part.value_or(0);
    for (auto [size, dim] :
         llvm::zip(ArrayRef<int64_t>(result.sizes).drop_front(part ? 1 : 0), dims))
      place = place * size + frame.dims[dim];
    return place;
  }

  double round(Type type, double value) const { return wide ? value : roundTo(type, value); }

  void runMap(kernel::MapOp map) {
    Code body = build(map.getBody());
    if (!start())
      return;
    int64_t place = 0;
    forEach(frame, extents, 0, [&] {
      body.run(frame);
      for (auto [i, result] : llvm::enumerate(results))
        (*result.elements)[place] = body.getResult(frame, i);
      ++place;
    });
  }

  /// The values that a region yields at every index of some dims, the others being 0.
  std::vector<Scalar> evaluateAll(const Code &code, ArrayRef<unsigned> dims) {
    std::vector<Scalar> values;
    std::fill(frame.dims.begin(), frame.dims.end(), 0);
    if (llvm::any_of(dims, [&](unsigned dim) { return extents[dim] == 0; }))
      return values;
    while (frame.error.empty()) {
      code.run(frame);
      values.push_back(code.getResult(frame, 0));
      size_t i = dims.size();
      while (i > 0 && ++frame.dims[dims[i - 1]] == extents[dims[i - 1]])
        frame.dims[dims[--i]] = 0;
      if (i == 0)
        break;
    }
    return values;
  }

  /// The sum of the products of `count` groups of four unsigned bytes or two halves on the left. A sum of two
  /// that should be narrow, and is not, is as wrong as on a CPU.
  static Scalar sumBytes(const Scalar *lhs, const Scalar *rhs, int64_t count, uint64_t bytes,
                         bool isNarrow) {
    uint32_t sum = 0;
    unsigned bits = 32 / bytes;
    auto multiply = [&](int64_t i, unsigned byte) {
      uint64_t leftBits = static_cast<uint64_t>(lhs[i].integer) >> (bits * byte);
      int32_t left = bytes == 4 ? int32_t(static_cast<uint8_t>(leftBits))
                                : int32_t(static_cast<int16_t>(leftBits));
      auto right = static_cast<int8_t>(static_cast<uint64_t>(rhs[i].integer) >> (8 * byte));
      return left * int32_t(right);
    };
    for (int64_t i = 0; i < count; ++i)
      for (unsigned byte = 0; byte < bytes; byte += 2) {
        int32_t two = multiply(i, byte) + multiply(i, byte + 1);
        sum +=
            static_cast<uint32_t>(isNarrow ? std::clamp<int32_t>(two, INT16_MIN, INT16_MAX) : two);
      }
    return Scalar::ofInteger(static_cast<int32_t>(sum));
  }

  /// The sum of `count` products. Integers wrap around to the type's width, sums of floating-point numbers are rounded at the end.
  Scalar sumProducts(Type type, const Scalar *lhs, const Scalar *rhs, int64_t count) {
    if (auto complex = dyn_cast<ComplexType>(type)) {
      double re = 0, im = 0;
      for (int64_t i = 0; i < count; ++i) {
        re += lhs[i].real * rhs[i].real - lhs[i].imaginary * rhs[i].imaginary;
        im += lhs[i].real * rhs[i].imaginary + lhs[i].imaginary * rhs[i].real;
      }
      return Scalar::of(round(complex.getElementType(), re), round(complex.getElementType(), im));
    }
    if (isa<FloatType>(type)) {
      double sum = 0;
      for (int64_t i = 0; i < count; ++i)
        sum += lhs[i].real * rhs[i].real;
      return Scalar::of(round(type, sum));
    }
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<uint64_t>(lhs[i].integer) * static_cast<uint64_t>(rhs[i].integer);
    return Scalar::ofInteger(llvm::SignExtend64(sum, type.getIntOrFloatBitWidth()));
  }

  /// The first and the last step of part `part` of `steps`.
  static std::pair<int64_t, int64_t> getPart(std::optional<int64_t> size, int64_t part,
                                             int64_t steps) {
    if (!size)
      return {0, steps};
    return {std::min(part * *size, steps), std::min((part + 1) * *size, steps)};
  }

  void runContract(kernel::ContractOp contract) {
    Code lhs = build(contract.getLhs()), rhs = build(contract.getRhs()),
         epilogue = build(contract.getEpilogue());
    std::optional<int64_t> part, parts;
    if (contract.getPart())
      part = evaluate(contract.getPart()->getValue()), parts = evaluate(*contract.getNumParts());
    if (!start())
      return;
    unsigned b = contract.getNumBatch(), m = contract.getNumM(), n = contract.getNumN(),
             k = contract.getNumK();
    auto batchDims = llvm::to_vector(llvm::seq<unsigned>(0, b)), lhsDims = batchDims,
         rhsDims = batchDims;
    llvm::append_range(lhsDims, llvm::seq(b, b + m));
    llvm::append_range(rhsDims, llvm::seq(b + m, b + m + n));
    for (auto *dims : {&lhsDims, &rhsDims})
      llvm::append_range(*dims, llvm::seq(b + m + n, b + m + n + k));
    std::vector<Scalar> left = evaluateAll(lhs, lhsDims), right = evaluateAll(rhs, rhsDims);
    int64_t rows = llvm::product_of(getExtents(b, m)),
            columns = llvm::product_of(getExtents(b + m, n)),
            steps = llvm::product_of(getExtents(b + m + n, k));
    Type type = contract.getEpilogue().getArgument(0).getType();
    SmallVector<int64_t> dims = contract.getResultDims();
    std::fill(frame.dims.begin(), frame.dims.end(), 0);
    int64_t element = 0;
    forEach(frame, getExtents(0, b + m + n), 0, [&] {
      int64_t column = element % columns, row = element / columns; // with the batch in front
      int64_t batch = row / rows;
      ++element;
      if (!frame.spend(steps))
        return;
      for (int64_t p = 0; p < parts.value_or(1); ++p) {
        auto [first, last] = getPart(part, p, steps);
        const Scalar *lhsSteps = left.data() + row * steps + first,
                     *rhsSteps = right.data() + (batch * columns + column) * steps + first;
        frame.slots[epilogue.arguments[0]] =
            contract.getBytes() ? sumBytes(lhsSteps, rhsSteps, last - first, *contract.getBytes(),
                                           contract.getNarrow())
                                : sumProducts(type, lhsSteps, rhsSteps, last - first);
        epilogue.run(frame);
        (*results[0].elements)[getPlace(results[0], dims, part ? std::optional(p) : std::nullopt)] =
            epilogue.getResult(frame, 0);
      }
    });
  }

  /// left * square * leftᵀ, squares by rows.
  static std::vector<double> transform(const kernel::WinogradMatrices::Matrix &left,
                                       const std::vector<double> &square) {
    size_t rows = left.size(), size = left.front().size();
    std::vector<double> half(rows * size), result(rows * rows);
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < size; ++j)
        for (size_t k = 0; k < size; ++k)
          half[i * size + j] += left[i][k] * square[k * size + j];
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < rows; ++j)
        for (size_t k = 0; k < size; ++k)
          result[i * rows + j] += half[i * size + k] * left[j][k];
    return result;
  }

  void runWinograd(kernel::WinogradOp winograd) {
    Code lhs = build(winograd.getLhs()), rhs = build(winograd.getRhs()),
         epilogue = build(winograd.getEpilogue());
    if (!start())
      return;
    unsigned y = winograd.yDim(), x = y + 1, n = winograd.nDim(), image = winograd.imageDim(),
             c = winograd.cDim();
    auto batchDims = llvm::to_vector(llvm::seq<unsigned>(0, y)), lhsDims = batchDims;
    lhsDims.append({image, image + 1, c});
    std::vector<Scalar> left = evaluateAll(lhs, lhsDims),
                        right = evaluateAll(rhs, {n, c, c + 1, c + 2});
    kernel::WinogradMatrices matrices(winograd.getTile());
    int64_t tile = winograd.getTile(), points = winograd.getPoints(), square = points * points,
            channels = extents[c];
    int64_t rows = extents[image], columns = extents[image + 1];
    SmallVector<int64_t> dims = winograd.getResultDims();
    std::fill(frame.dims.begin(), frame.dims.end(), 0);
    int64_t batch = -1;
    forEach(frame, getExtents(0, y), 0, [&] {
      ++batch;
      for (int64_t firstY = 0; firstY < extents[y]; firstY += tile)
        for (int64_t firstX = 0; firstX < extents[x]; firstX += tile) {
          if (!frame.spend(square * channels * (points + extents[n])))
            return;
          std::vector<std::vector<double>> inputs; // by channel
          for (int64_t channel = 0; channel < channels; ++channel) {
            std::vector<double> part(square);
            for (int64_t i = 0; i < square; ++i) {
              int64_t row = firstY + i / points, column = firstX + i % points;
              if (row < rows && column < columns)
                part[i] = left[((batch * rows + row) * columns + column) * channels + channel].real;
            }
            inputs.push_back(transform(matrices.input, part));
          }
          for (frame.dims[n] = 0; frame.dims[n] < extents[n]; ++frame.dims[n]) {
            std::vector<double> sums(square);
            for (int64_t channel = 0; channel < channels; ++channel)
              for (int64_t i = 0; i < square; ++i)
                sums[i] += inputs[channel][i] *
                           right[(frame.dims[n] * channels + channel) * square + i].real;
            std::vector<double> pixels = transform(matrices.output, sums);
            for (int64_t i = 0; i < tile * tile; ++i) {
              frame.dims[y] = firstY + i / tile;
              frame.dims[x] = firstX + i % tile;
              if (frame.dims[y] >= extents[y] || frame.dims[x] >= extents[x])
                continue;
              frame.slots[epilogue.arguments[0]] =
                  Scalar::of(round(Float32Type::get(op->getContext()), pixels[i]));
              epilogue.run(frame);
              (*results[0].elements)[getPlace(results[0], dims)] = epilogue.getResult(frame, 0);
            }
          }
        }
    });
  }

  void runAttention(kernel::AttentionOp attention) {
    Code q = build(attention.getQ()), k = build(attention.getK()), v = build(attention.getV()),
         bias, score;
    bool hasBias = !attention.getBias().empty(), hasScore = !attention.getScore().empty();
    if (hasBias)
      bias = build(attention.getBias());
    if (hasScore)
      score = build(attention.getScore());
    std::optional<int64_t> part, parts;
    if (attention.getPart())
      part = evaluate(attention.getPart()->getValue()), parts = evaluate(*attention.getNumParts());
    if (!start())
      return;
    unsigned b = attention.getNumBatch();
    auto with = [&](std::initializer_list<unsigned> more) {
      auto dims = llvm::to_vector(llvm::seq<unsigned>(0, b));
      for (unsigned dim : more)
        dims.push_back(b + dim);
      return dims;
    };
    // Dims after the batch: m, n, d, dv.
    std::vector<Scalar> queries = evaluateAll(q, with({0, 2})), keys = evaluateAll(k, with({1, 2})),
                        values = evaluateAll(v, with({1, 3})), biases;
    if (hasBias)
      biases = evaluateAll(bias, with({0, 1}));
    int64_t m = extents[b], n = extents[b + 1], d = extents[b + 2], dv = extents[b + 3];
    double scale = attention.getScale().convertToDouble();
    SmallVector<int64_t> dims = attention.getResultDims();
    std::fill(frame.dims.begin(), frame.dims.end(), 0);
    int64_t row = 0;
    forEach(frame, getExtents(0, b + 1), 0, [&] {
      if (!frame.spend(n * (d + dv)))
        return;
      int64_t batch = row / m;
      std::vector<double> scores(n);
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < d; ++i)
          sum += queries[row * d + i].real * keys[(batch * n + j) * d + i].real;
        sum *= scale;
        double added = hasBias ? biases[row * n + j].real : 0;
        if (hasScore) {
          frame.slots[score.arguments[0]] = Scalar::of(sum);
          if (hasBias)
            frame.slots[score.arguments[1]] = Scalar::of(added);
          score.run(frame);
          scores[j] = score.getResult(frame, 0).real;
        } else {
          scores[j] = sum + added;
        }
        if (attention.getCausal() && j > frame.dims[b])
          scores[j] = -INFINITY;
      }
      for (int64_t p = 0; p < parts.value_or(1); ++p)
        writeRow(scores, getPart(part, p, n), values.data() + batch * n * dv, dims, b,
                 attention.getNan(), part ? std::optional(p) : std::nullopt);
      ++row;
    });
  }

  /// Softmax of the scores from first to last, and its sum of values.
  void writeRow(ArrayRef<double> scores, std::pair<int64_t, int64_t> keys, const Scalar *values,
                ArrayRef<int64_t> dims, unsigned b, bool isNan, std::optional<int64_t> part) {
    auto [first, last] = keys;
    int64_t dv = extents[b + 3];
    double maximum = -INFINITY, total = 0;
    for (int64_t j = first; j < last; ++j)
      maximum = std::isnan(scores[j]) ? scores[j]
                : std::isnan(maximum) ? maximum
                                      : std::fmax(maximum, scores[j]);
    std::vector<double> sums(dv), weights(last - first);
    for (int64_t j = first; j < last && maximum != -INFINITY; ++j) {
      weights[j - first] = std::exp(scores[j] - maximum);
      total += weights[j - first];
    }
    for (int64_t j = first; j < last; ++j)
      for (int64_t i = 0; i < dv; ++i)
        if (weights[j - first] != 0) // what is left out may be anything
          sums[i] += weights[j - first] * values[j * dv + i].real;
    Type type = results[0].elementType;
    bool isZero = isNan ? scores.empty() : total == 0; // and so are the sums
    for (int64_t i = 0; i < dv; ++i) {
      frame.dims[b + 3] = i;
      double value = part || isZero ? sums[i] : sums[i] / total;
      (*results[0].elements)[getPlace(results[0], dims, part)] = Scalar::of(round(type, value));
    }
    frame.dims[b + 3] = 0;
    if (!part)
      return;
    auto rows = llvm::to_vector(llvm::seq<int64_t>(0, b + 1));
    (*results[1].elements)[getPlace(results[1], rows, part)] = Scalar::of(round(type, maximum));
    (*results[2].elements)[getPlace(results[2], rows, part)] = Scalar::of(round(type, total));
  }

  void runScan(kernel::ScanOp scan) {
    Code init = build(scan.getInit()), body = build(scan.getBody()),
         combine = build(scan.getCombine()), finish = build(scan.getFinish());
    int64_t part = scan.getPart() ? evaluate(scan.getPart()->getValue()) : INT64_MAX;
    if (!start())
      return;
    auto dim = static_cast<unsigned>(scan.getDim());
    SmallVector<int64_t> lines = extents;
    int64_t length = std::exchange(lines[dim], std::min<int64_t>(extents[dim], 1));
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, extents.size()));
    size_t count = init.results.size();
    forEach(frame, lines, 0, [&] {
      std::vector<Scalar> state(count);
      for (int64_t i = 0; i < length; ++i) {
        frame.dims[dim] = i;
        if (i % part == 0) {
          init.run(frame);
          for (size_t j = 0; j < count; ++j)
            state[j] = init.getResult(frame, j);
        }
        body.run(frame);
        for (size_t j = 0; j < count; ++j) {
          frame.slots[combine.arguments[j]] = state[j];
          frame.slots[combine.arguments[count + j]] = body.getResult(frame, j);
        }
        combine.run(frame);
        for (size_t j = 0; j < count; ++j)
          frame.slots[finish.arguments[j]] = state[j] = combine.getResult(frame, j);
        finish.run(frame);
        for (auto [j, result] : llvm::enumerate(results))
          (*result.elements)[getPlace(result, dims)] = finish.getResult(frame, j);
      }
      frame.dims[dim] = 0;
    });
  }

  void runScatter(kernel::ScatterOp scatter) {
    Code init = build(scatter.getInit()), update = build(scatter.getUpdate()),
         combine = build(scatter.getCombine());
    if (!start())
      return;
    unsigned b = scatter.getNumBatch(), t = scatter.getNumTargets();
    SmallVector<int64_t> dims = scatter.getResultDims();
    Tensor &result = results[0];
    forEach(frame, getExtents(0, b + t), 0, [&] {
      init.run(frame);
      (*result.elements)[getPlace(result, dims)] = init.getResult(frame, 0);
    });
    SmallVector<int64_t> loops = llvm::to_vector(extents);
    for (unsigned i = b; i < b + t; ++i) // the targets are data
      loops[i] = 1;
    forEach(frame, loops, 0, [&] {
      update.run(frame);
      if (!update.getResult(frame, t).integer)
        return;
      for (unsigned i = 0; i < t; ++i) {
        int64_t index = update.getResult(frame, i).integer;
        if (index < 0 || index >= extents[b + i])
          return frame.fail("the index " + Twine(index) + " in a dim of size " +
                            Twine(extents[b + i]));
        frame.dims[b + i] = index;
      }
      Scalar &element = (*result.elements)[getPlace(result, dims)];
      frame.slots[combine.arguments[0]] = element;
      frame.slots[combine.arguments[1]] = update.getResult(frame, t + 1);
      combine.run(frame);
      element = combine.getResult(frame, 0);
      for (unsigned i = 0; i < t; ++i)
        frame.dims[b + i] = 0;
    });
  }

  void runSort(kernel::SortOp sort) {
    Code body = build(sort.getBody());
    if (!start())
      return;
    std::vector<int64_t> keys;
    forEach(frame, extents, 0, [&] {
      body.run(frame);
      keys.push_back(body.getResult(frame, 0).integer);
    });
    if (!frame.error.empty())
      return; // the last line has no whole length
    int64_t length = extents.back();
    for (size_t line = 0; length && line < keys.size(); line += length) {
      std::vector<int64_t> order(length);
      std::iota(order.begin(), order.end(), 0);
      // Ties by number: a stable sort.
      llvm::sort(order, [&](int64_t a, int64_t c) {
        return std::pair(keys[line + a], a) < std::pair(keys[line + c], c);
      });
      for (int64_t i = 0; i < length; ++i)
        (*results[0].elements)[line + i] = Scalar::ofInteger(order[i]);
    }
  }

  void runMerge(kernel::MergeOp merge) {
    Code body = build(merge.getBody());
    if (!start())
      return;
    size_t count = results.size();
    std::vector<std::vector<int64_t>> elements;
    forEach(frame, extents, 0, [&] {
      body.run(frame);
      std::vector<int64_t> &element = elements.emplace_back();
      for (size_t i = 0; i < count; ++i)
        element.push_back(body.getResult(frame, i).integer);
    });
    if (!frame.error.empty())
      return; // the last line has no whole length
    auto length = static_cast<size_t>(extents.back()), into = static_cast<size_t>(merge.getInto());
    for (size_t line = 0; length && line < elements.size(); line += length)
      for (size_t run = 0; run < length; run += into)
        std::sort(elements.begin() + line + run,
                  elements.begin() + line + std::min(run + into, length));
    for (auto [place, element] : llvm::enumerate(elements))
      for (size_t i = 0; i < count; ++i)
        (*results[i].elements)[place] = Scalar::ofInteger(element[i]);
  }

  void runRepeat(kernel::RepeatOp repeat) {
    Code count = build(repeat.getCount()), startOf = build(repeat.getStart());
    int64_t total = evaluate(repeat.getTotal().getValue()),
            chunk = evaluate(repeat.getChunk().getValue());
    if (!start())
      return;
    auto size = static_cast<int64_t>(results[0].elements->size());
    int64_t place = 0;
    for (int64_t i = 0; i < total && frame.error.empty(); ++i) {
      frame.dims[0] = i / chunk;
      frame.dims[1] = i % chunk;
      if (i % chunk == 0) {
        startOf.run(frame);
        place = startOf.getResult(frame, 0).integer;
      }
      count.run(frame);
      if (place < 0)
        continue;
      for (int64_t times = count.getResult(frame, 0).integer; times > 0 && place < size; --times)
        (*results[0].elements)[place++] = Scalar::ofInteger(i);
    }
  }

  Operation *op;
  CodeBuilder &builder;
  bool wide;
  int64_t &stepsLeft;
  Frame frame;
  SmallVector<int64_t> extents;
  Tensors results;
  std::string problem; // the first one, before the loops
};

} // namespace

llvm::Expected<Tensors> reference::runStructured(Operation *op, CodeBuilder &builder, bool wide,
                                                 int64_t &stepsLeft) {
  return Run(op, builder, wide, stepsLeft).run();
}
