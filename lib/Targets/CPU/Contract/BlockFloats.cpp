// Products of f32 and words of four bits as sums of integers (block floating point, Wilkinson 1963): a block of 32 steps of a row has
// one exponent, and each step an integer of three digits that are signed bytes:
//
//   x = 2^e * (65536 * d2 + 256 * d1 + d0)
//   sum of x * w = 2^e * (65536 * sum of d2 * w + 256 * sum of d1 * w + sum of d0 * w)
//
// The largest number of a block has 23 bits behind its sign, and none is wrong by more than half of the last one. Sums of digits
// are exact. A digit multiplies 32 weights in one instruction where a float multiplies eight that have to be widened first, so that a
// row is bound by memory again on a CPU without a look into a table of sixteen floats.
//
// Instructions multiply unsigned bytes by signed ones, and the weights are unsigned, w + 8: sums begin at -8 times the sum of the
// digits. In 16 bits they may pass the end on the way, but not when all 32 steps are in.
//
// A block has the digits of four words of weights (those of the four even steps and then of the odd ones, digit by digit), the
// beginnings of the three sums, and, as f32, 2^e and the sum of the integers, which is multiplied by what is added to weights.
//
// A block with an infinity has 1 or -1 there, 0 elsewhere and a factor of infinity; with more than one, or NaN, the factor is NaN.
#include "CPU/Contract/BlockFloats.h"
#include "CPU/Contract/ByteProducts.h"
#include "CPU/Contract/SmallBits.h"
#include "CPU/Contract/SmallWeights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

static constexpr int64_t lanes = 8, numDigits = 3, blockWords = blockFloatSteps / wordSteps;
/// Places (i32) of a block.
static constexpr int64_t wordPlaces = 2 * numDigits, firstBeginning = blockWords * wordPlaces,
                         factorPlace = firstBeginning + numDigits, sumPlace = factorPlace + 1,
                         blockPlaces = sumPlace + 1;
/// Added to an integer, and exchanged with it, this makes unsigned digits signed.
static constexpr int64_t digitOffset = 0x808080;
static constexpr int64_t infinityBits = 0x7F800000;

int64_t cpu::countBlockFloatWords(int64_t steps) { return steps / blockFloatSteps * blockPlaces; }

int64_t cpu::maxBlockFloatRows(const CPUInfo &target, int64_t numLanes) {
  if (numLanes != lanes || looksUpSmallBits(target, numLanes))
    return 0;
  // Two rows are slower than floats on Zen 4 where digits take two instructions.
  return hasByteDots(target, lanes) ? 4 : 1;
}

namespace {

/// Operations on vectors of eight that both emitters use.
struct Vectors {
  explicit Vectors(KernelFrame &frame)
      : frame(frame), b(frame.builder), loc(frame.loc), i32(VectorType::get(lanes, b.getI32Type())),
        f32(VectorType::get(lanes, b.getF32Type())),
        bytes(VectorType::get(4 * lanes, b.getI8Type())),
        halves(VectorType::get(2 * lanes, b.getI16Type())) {}

  Value splat(int64_t number) {
    Attribute value = b.getI32IntegerAttr(static_cast<int32_t>(number));
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(i32, value));
  }
  Value splat(float number) {
    Attribute value = b.getF32FloatAttr(number);
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(f32, value));
  }
  Value scalar(int64_t number) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), number);
  }
  Value load(Type type, Value base, int64_t place) {
    return LLVM::LoadOp::create(b, loc, type,
                                frame.gep(base, b.getI32Type(), frame.constant(place)), 4);
  }
  Value loadToAll(Type type, Value base, int64_t place) {
    return vector::BroadcastOp::create(b, loc, VectorType::get(lanes, type),
                                       load(type, base, place));
  }
  void store(Value value, Value base, int64_t place) {
    LLVM::StoreOp::create(b, loc, value, frame.gep(base, b.getI32Type(), frame.constant(place)), 4);
  }
  Value advance(Value base, Type type, Value number, int64_t stride) {
    return frame.gep(base, type, arith::MulIOp::create(b, loc, number, frame.constant(stride)));
  }
  Value bitcast(Type type, Value value) { return LLVM::BitcastOp::create(b, loc, type, value); }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  VectorType i32, f32, bytes, halves;
};

//===-- Block floats -------------------------------------------------------------------------===//

class BlockEmitter : Vectors {
public:
  using Vectors::Vectors;

  void emit(ValueRange numbers, Value to) {
    SmallVector<Value> magnitudes;
    Value largest;
    for (Value number : numbers) {
      Value magnitude =
          arith::AndIOp::create(b, loc, bitcast(i32, number), splat(int64_t(0x7FFFFFFF)));
      magnitudes.push_back(magnitude);
      largest =
          largest ? arith::MaxSIOp::create(b, loc, largest, magnitude).getResult() : magnitude;
    }
    largest = vector::ReductionOp::create(b, loc, vector::CombiningKind::MAXSI, largest);
    Value isFinite =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, largest, scalar(infinityBits));
    SmallVector<Type> types(blockWords, i32);
    types.push_back(b.getF32Type());
    auto branch = scf::IfOp::create(b, loc, types, isFinite, /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(branch.thenBlock());
      scf::YieldOp::create(b, loc, roundNumbers(numbers, largest));
      b.setInsertionPointToStart(branch.elseBlock());
      scf::YieldOp::create(b, loc, markInfinities(numbers, magnitudes, largest));
    }
    writeDigits(branch.getResults().drop_back(), branch.getResults().back(), to);
  }

private:
  Value toFloat(Value bits) { return arith::BitcastOp::create(b, loc, b.getF32Type(), bits); }

  /// Integers of up to 0x7F7F7F, which are those of three digits, and the factor that makes the numbers of them.
  SmallVector<Value> roundNumbers(ValueRange numbers, Value largest) {
    constexpr int64_t mantissaBits = 23, bias = 127, integerBits = 22;
    // Powers of two around the numbers are floats.
    constexpr int64_t leastExponent = 23;
    Value exponent = arith::AddIOp::create(b, loc, largest, scalar(0xFFFFFF - 0xFEFEFE));
    exponent = arith::ShRUIOp::create(b, loc, exponent, scalar(mantissaBits));
    exponent = arith::MaxSIOp::create(b, loc, exponent, scalar(leastExponent));
    Value power = arith::SubIOp::create(b, loc, exponent, scalar(integerBits));
    auto toPower = [&](Value biased) {
      return toFloat(arith::ShLIOp::create(b, loc, biased, scalar(mantissaBits)));
    };
    Value factor = toPower(power);
    Value inverse = toPower(arith::SubIOp::create(b, loc, scalar(bias + bias), power));
    inverse = vector::BroadcastOp::create(b, loc, f32, inverse);
    SmallVector<Value> results;
    for (Value number : numbers) {
      Value scaled = arith::MulFOp::create(b, loc, number, inverse);
      results.push_back(LLVM::CallIntrinsicOp::create(b, loc, i32,
                                                      b.getStringAttr("llvm.x86.avx.cvt.ps2dq.256"),
                                                      ValueRange{scaled})
                            .getResult(0));
    }
    results.push_back(factor);
    return results;
  }

  SmallVector<Value> markInfinities(ValueRange numbers, ValueRange magnitudes, Value largest) {
    Value zero = splat(int64_t(0)), one = splat(int64_t(1)), count = zero;
    SmallVector<Value> results;
    for (auto [number, magnitude] : llvm::zip(numbers, magnitudes)) {
      Value isInfinite =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, magnitude, splat(infinityBits));
      Value isNegative =
          arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, number, splat(0.0F));
      Value sign = arith::SelectOp::create(b, loc, isNegative, splat(int64_t(-1)), one);
      results.push_back(arith::SelectOp::create(b, loc, isInfinite, sign, zero));
      count = arith::AddIOp::create(b, loc, count,
                                    arith::SelectOp::create(b, loc, isInfinite, one, zero));
    }
    count = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, count);
    Value isOne = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, count, scalar(1));
    Value isNumber =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, largest, scalar(infinityBits));
    Value isKept = arith::AndIOp::create(b, loc, isOne, isNumber);
    constexpr int64_t nanBits = 0x7FC00000;
    results.push_back(
        toFloat(arith::SelectOp::create(b, loc, isKept, scalar(infinityBits), scalar(nanBits))));
    return results;
  }

  void writeDigits(ValueRange integers, Value factor, Value to) {
    Value all = arith::ConstantOp::create(b, loc, b.getZeroAttr(halves));
    for (auto [i, integer] : llvm::enumerate(integers)) {
      Value offset = splat(digitOffset);
      Value digits =
          arith::XOrIOp::create(b, loc, arith::AddIOp::create(b, loc, integer, offset), offset);
      // Those of the even steps, then of the odd ones, of each digit.
      SmallVector<int64_t> order;
      for (int64_t place = 0; place < 4 * lanes; ++place) {
        int64_t digit = place / wordSteps, half = place / 4 % 2, step = 2 * (place % 4) + half;
        order.push_back(4 * step + digit);
      }
      digits = bitcast(bytes, digits);
      digits = bitcast(i32, vector::ShuffleOp::create(b, loc, digits, digits, order));
      store(digits, to, static_cast<int64_t>(i) * wordPlaces);
      // The sums begin at -8 for each of a digit's bytes.
      all = arith::SubIOp::create(
          b, loc, all, multiplyNarrowBytes(frame, splat(int64_t(0x08080808)), digits, i32));
    }
    all = bitcast(i32, all);
    auto half = [&](int64_t first) {
      SmallVector<int64_t> places;
      for (int64_t i = 0; i < lanes / 2; ++i)
        places.push_back(2 * i + first);
      Value shuffled = vector::ShuffleOp::create(b, loc, all, all, places);
      return bitcast(VectorType::get(lanes, b.getI16Type()), shuffled);
    };
    Value sums = bitcast(VectorType::get(lanes / 2, b.getI32Type()),
                         arith::AddIOp::create(b, loc, half(0), half(1)));
    store(sums, to, firstBeginning);
    store(factor, to, factorPlace);
    Value sum;
    for (Value integer : integers)
      sum = sum ? arith::AddIOp::create(b, loc, sum, integer).getResult() : integer;
    sum = vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, sum);
    sum = arith::SIToFPOp::create(b, loc, b.getF32Type(), sum);
    store(sum, to, sumPlace);
  }
};

//===-- Products -----------------------------------------------------------------------------===//

class ProductEmitter : Vectors {
public:
  ProductEmitter(KernelFrame &frame, const MicrokernelShape &shape, const Prefetch &prefetch)
      : Vectors(frame), shape(shape), prefetch(prefetch), numRows(shape.rowOffsets.size()),
        hasDots(hasByteDots(frame.target, lanes)) {}

  SmallVector<Value> emit(Value lhs, Value rhs, ValueRange sums) {
    int64_t words = shape.groupWords, blocks = words / blockWords;
    // Vectors of a panel take turns where the sums of their digits are more than registers. Two instructions need one for what is
    // between them.
    int64_t registers = frame.target.vectorRegisters * (hasDots ? 3 : 2) / 4;
    int64_t most = std::max<int64_t>(registers / (numDigits * numRows), 1);
    int64_t turns = llvm::divideCeilSigned(shape.vectors, most);
    return emitKeptLoop(
        frame, frame.emit(shape.loops[0].extent), sums, [&](Value group, ValueRange before) {
          Value left = advance(lhs, b.getI32Type(), group, blocks * blockPlaces);
          Value right = advance(rhs, b.getI32Type(), group, words * shape.scaleStride);
          Value first = arith::MulIOp::create(b, loc, group, frame.constant(words));
          Value row = arith::MulIOp::create(b, loc, group, frame.constant(shape.scaleStride));
          scales = loadScales(frame, shape.scales, shape.scaleType, row, shape.vectors, lanes);
          offsets = loadScales(frame, shape.offsets, b.getF32Type(), row, shape.vectors, lanes);
          if (shape.subtractsFirst)
            for (Value &offset : offsets)
              offset = arith::NegFOp::create(b, loc, offset);
          SmallVector<Value> next(before);
          for (int64_t turn = 0; turn < turns; ++turn) {
            int64_t begin = turn * shape.vectors / turns, end = (turn + 1) * shape.vectors / turns;
            SmallVector<Value> zeros(numRows * (end - begin), splat(0.0F));
            auto emitNumber = [&](Value block, ValueRange sums) {
              Value word = arith::MulIOp::create(b, loc, block, frame.constant(blockWords));
              return emitBlock(advance(left, b.getI32Type(), block, blockPlaces),
                               advance(right, b.getI32Type(), word, shape.scaleStride),
                               arith::AddIOp::create(b, loc, first, word), begin, end, sums);
            };
            SmallVector<Value> inner =
                blocks == 1 ? emitNumber(frame.constant(0), zeros)
                            : emitKeptLoop(frame, frame.constant(blocks), zeros, emitNumber);
            for (int64_t i = 0; i < numRows; ++i)
              for (int64_t v = begin; v < end; ++v) {
                Value &sum = next[i * shape.vectors + v];
                Value more = inner[i * (end - begin) + v - begin];
                sum = addsOffsets()
                          ? arith::AddFOp::create(b, loc, sum, more).getResult()
                          : vector::FMAOp::create(b, loc, more, scales[v], sum).getResult();
              }
          }
          return next;
        });
  }

private:
  /// The steps of a block of the vectors [begin, end), for all rows; `first` is the number of its first word.
  SmallVector<Value> emitBlock(Value lhs, Value rhs, Value first, int64_t begin, int64_t end,
                               ValueRange init) {
    int64_t count = end - begin;
    SmallVector<Value> rows, digits;
    for (int64_t offset : shape.rowOffsets) {
      rows.push_back(frame.gep(lhs, b.getI32Type(), frame.constant(offset)));
      for (int64_t digit = 0; digit < numDigits; ++digit) {
        Value beginning = loadToAll(b.getI32Type(), rows.back(), firstBeginning + digit);
        beginning = hasDots ? sumHalves(frame, bitcast(halves, beginning), i32)
                            : bitcast(halves, beginning);
        digits.append(count, beginning);
      }
    }
    for (int64_t word = 0; word < blockWords; ++word) {
      if (begin == 0)
        fetchWord(frame, prefetch, arith::AddIOp::create(b, loc, first, frame.constant(word)),
                  wordSteps, shape.vectors * lanes * 4);
      SmallVector<Value> words;
      for (int64_t v = begin; v < end; ++v)
        words.push_back(arith::XOrIOp::create(b, loc,
                                              load(i32, rhs, word * shape.scaleStride + v * lanes),
                                              splat(int64_t(0x88888888))));
      for (int64_t half = 0; half < 2; ++half) {
        SmallVector<Value> weights;
        for (Value four : words) {
          if (half == 1)
            four = arith::ShRUIOp::create(b, loc, four, splat(smallBits));
          weights.push_back(arith::AndIOp::create(b, loc, four, splat(int64_t(0x0F0F0F0F))));
        }
        for (int64_t row = 0; row < numRows; ++row)
          for (int64_t digit = 0; digit < numDigits; ++digit) {
            Value left = loadToAll(b.getI32Type(), rows[row], word * wordPlaces + 2 * digit + half);
            for (auto [v, weight] : llvm::enumerate(weights)) {
              Value &sum = digits[(row * numDigits + digit) * count + v];
              sum = hasDots ? multiplyAddBytes(frame, weight, left, sum)
                            : addNarrowBytes(frame, weight, left, sum, i32);
            }
          }
      }
    }
    SmallVector<Value> sums(init);
    for (int64_t row = 0; row < numRows; ++row) {
      Value factor = loadToAll(b.getF32Type(), rows[row], factorPlace);
      Value integers = offsets.empty() ? Value() : loadToAll(b.getF32Type(), rows[row], sumPlace);
      for (int64_t v = 0; v < count; ++v) {
        auto digit = [&](int64_t i) { return digits[(row * numDigits + i) * count + v]; };
        // Both lower digits have 24 bits together.
        Value low = arith::AddIOp::create(b, loc, sumDigits(digit(0), 1), sumDigits(digit(1), 256));
        Value high = arith::SIToFPOp::create(b, loc, f32, sumDigits(digit(2), 1));
        Value whole = vector::FMAOp::create(b, loc, high, splat(65536.0F),
                                            arith::SIToFPOp::create(b, loc, f32, low));
        if (addsOffsets())
          whole =
              vector::FMAOp::create(b, loc, whole, scales[begin + v],
                                    arith::MulFOp::create(b, loc, integers, offsets[begin + v]));
        else if (!offsets.empty())
          whole = vector::FMAOp::create(b, loc, integers, offsets[begin + v], whole);
        Value &sum = sums[row * count + v];
        sum = vector::FMAOp::create(b, loc, whole, factor, sum);
      }
    }
    return sums;
  }

  /// Offsets are added to weights behind their scales, and not taken off before.
  bool addsOffsets() const { return !offsets.empty() && !shape.subtractsFirst; }

  /// `weight` times the sum of a digit.
  Value sumDigits(Value sum, int64_t weight) {
    if (!hasDots)
      return sumHalves(frame, sum, i32, weight);
    return weight == 1 ? sum : arith::MulIOp::create(b, loc, sum, splat(weight)).getResult();
  }

  const MicrokernelShape &shape;
  const Prefetch &prefetch;
  int64_t numRows;
  /// One instruction multiplies four bytes, and adds the products to 32 bits.
  bool hasDots;
  /// Those of the group at work; what is subtracted is negative.
  SmallVector<Value> scales, offsets;
};

} // namespace

void cpu::emitBlockFloats(KernelFrame &frame, ValueRange numbers, Value to) {
  BlockEmitter(frame).emit(numbers, to);
}

SmallVector<Value> cpu::emitBlockFloatProducts(KernelFrame &frame, const MicrokernelShape &shape,
                                               Value lhs, Value rhs, ValueRange init,
                                               const Prefetch &prefetch) {
  return ProductEmitter(frame, shape, prefetch).emit(lhs, rhs, init);
}
