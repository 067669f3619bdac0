// Products of bf16 or f32 and words of four bits, group by group:
//
//   sums[row] += scale * (sum of x * w)
//
// A pair of weights of bf16 is four bits in each half of a word, which a look into a table of bf16 (vpermw) makes the pair
// that is multiplied. It looks at five bits of 32 numbers: the table has each number twice.
//
// A weight of f32 is looked up in a table too. Without one of sixteen numbers it is 2^28 times its bits, which are
// moved to the top of a word, and a 2^28th of the scale multiplies. A mask alone would do if x were divided by a power of two
// and eight times its sum taken off, but infinities would not be what they are, and on Zen 4 nothing is gained.
#include "CPU/Contract/WordGroups.h"
#include "CPU/Contract/Pairs.h"
#include "CPU/Contract/SmallBits.h"
#include "CPU/Contract/SmallWeights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Two sums of each are half of the registers.
int64_t cpu::maxWordGroupRows(const CPUInfo &target) { return target.vectorRegisters / 4; }

namespace {

class WordsEmitter {
public:
  WordsEmitter(KernelFrame &frame, const MicrokernelShape &shape, const Prefetch &prefetch)
      : frame(frame), b(frame.builder), loc(frame.loc), shape(shape), prefetch(prefetch),
        numRows(shape.rowOffsets.size()), inPairs(shape.lhsType.isBF16()), parts(inPairs ? 1 : 2),
        inTable(inPairs || looksUpSmallBits(frame.target, shape.lanes)),
        i32(VectorType::get(shape.lanes, b.getI32Type())),
        f32(VectorType::get(shape.lanes, b.getF32Type())) {}

  SmallVector<Value> emit(Value lhs, Value rhs, ValueRange sums) {
    int64_t words = shape.groupWords;
    // Vectors of a panel take turns where sums and words are more than registers.
    int64_t turn =
        inPairs ? shape.vectors : std::max<int64_t>(maxWordGroupRows(frame.target) / numRows, 1);
    return emitKeptLoop(
        frame, frame.emit(shape.loops[0].extent), sums, [&](Value group, ValueRange before) {
          Value left = advance(lhs, shape.lhsType, group, words * wordSteps);
          Value right = advance(rhs, b.getI32Type(), group, words * shape.scaleStride);
          Value first = arith::MulIOp::create(b, loc, group, frame.constant(words));
          Value row = arith::MulIOp::create(b, loc, group, frame.constant(shape.scaleStride));
          SmallVector<Value> scales =
              loadScales(frame, shape.scales, shape.scaleType, row, shape.vectors, shape.lanes);
          Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(f32));
          SmallVector<Value> next(before);
          for (int64_t begin = 0; begin < shape.vectors; begin += turn) {
            int64_t end = std::min(begin + turn, shape.vectors), numSums = numRows * (end - begin);
            SmallVector<Value> zeros(numSums * parts, zero);
            SmallVector<Value> inner =
                emitKeptLoop(frame, frame.constant(words), zeros, [&](Value word, ValueRange sums) {
                  if (begin == 0)
                    fetchWord(frame, prefetch, arith::AddIOp::create(b, loc, first, word),
                              wordSteps, shape.vectors * shape.lanes * 4);
                  return emitWord(advance(left, shape.lhsType, word, wordSteps),
                                  advance(right, b.getI32Type(), word, shape.scaleStride), begin,
                                  end, sums);
                });
            for (int64_t v = begin; v < end; ++v) {
              Value scale = scales[v];
              if (!inTable)
                scale =
                    arith::MulFOp::create(b, loc, scale, splat(b.getF32FloatAttr(0x1p-28F), f32));
              for (int64_t i = 0; i < numRows; ++i) {
                int64_t at = i * (end - begin) + v - begin;
                Value whole = inner[at], &sum = next[i * shape.vectors + v];
                if (parts == 2)
                  whole = arith::AddFOp::create(b, loc, whole, inner[numSums + at]);
                sum = vector::FMAOp::create(b, loc, whole, scale, sum);
              }
            }
          }
          return next;
        });
  }

  Value advance(Value base, Type type, Value number, int64_t stride) {
    return frame.gep(base, type, arith::MulIOp::create(b, loc, number, frame.constant(stride)));
  }

  Value at(Value base, Type type, int64_t offset) {
    return frame.gep(base, type, frame.constant(offset));
  }

  Value splat(Attribute number, VectorType type) {
    return arith::ConstantOp::create(b, loc,
                                     DenseElementsAttr::get(cast<ShapedType>(type), number));
  }
  Value splat(int64_t bits) { return splat(b.getI32IntegerAttr(static_cast<int32_t>(bits)), i32); }

  /// The steps of one word of the vectors [begin, end), for all rows.
  SmallVector<Value> emitWord(Value lhs, Value rhs, int64_t begin, int64_t end, ValueRange init) {
    SmallVector<Value> sums(init), words;
    for (int64_t v = begin; v < end; ++v)
      words.push_back(
          LLVM::LoadOp::create(b, loc, i32, at(rhs, b.getI32Type(), v * shape.lanes), 4));
    int64_t steps = inPairs ? pairSteps : 1;
    for (int64_t i = 0; i < wordSteps / steps; ++i) {
      SmallVector<Value> weights;
      for (Value word : words)
        weights.push_back(inPairs   ? widenPair(word, i)
                          : inTable ? widenSmallBits(frame, word, i * smallBits)
                                    : moveToTop(word, i));
      for (auto [row, offset] : llvm::enumerate(shape.rowOffsets)) {
        Value address = at(lhs, shape.lhsType, offset + i * steps);
        Value left = LLVM::LoadOp::create(b, loc, inPairs ? Type(b.getI32Type()) : b.getF32Type(),
                                          address, /*alignment=*/inPairs ? 2 : 4);
        left = vector::BroadcastOp::create(b, loc, inPairs ? i32 : f32, left);
        for (auto [v, weight] : llvm::enumerate(weights)) {
          Value &sum = sums[(i % parts * numRows + row) * words.size() + v];
          sum = inPairs ? multiplyAddPairs(frame, left, weight, sum)
                        : vector::FMAOp::create(b, loc, left, weight, sum).getResult();
        }
      }
    }
    return sums;
  }

  /// 2^28 times number `i` of the words.
  Value moveToTop(Value words, int64_t i) {
    if (i + 1 != wordSteps)
      words = arith::ShLIOp::create(b, loc, words, splat(32 - smallBits - i * smallBits));
    if (i != 0)
      words = arith::AndIOp::create(b, loc, words, splat(0xF0000000));
    return arith::SIToFPOp::create(b, loc, f32, words);
  }

  /// Pair `pair` of the words' weights.
  Value widenPair(Value words, int64_t pair) {
    int64_t lanes = 2 * shape.lanes;
    auto halves = VectorType::get(lanes, b.getI16Type());
    SmallVector<int16_t> table;
    for (int64_t i = 0; i < lanes; ++i) {
      auto number = static_cast<float>(i % 16 < 8 ? i % 16 : i % 16 - 16);
      table.push_back(static_cast<int16_t>(llvm::bit_cast<uint32_t>(number) >> 16));
    }
    Value numbers = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(cast<ShapedType>(halves), ArrayRef<int16_t>(table)));
    if (pair != 0)
      words = arith::ShRUIOp::create(b, loc, words, splat(pair * smallBits));
    Value index = LLVM::BitcastOp::create(b, loc, halves, words);
    std::string name = "llvm.x86.avx512.permvar.hi." + std::to_string(16 * lanes);
    Value result = LLVM::CallIntrinsicOp::create(b, loc, halves, b.getStringAttr(name),
                                                 ValueRange{numbers, index})
                       .getResult(0);
    return LLVM::BitcastOp::create(b, loc, i32, result);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  const MicrokernelShape &shape;
  const Prefetch &prefetch;
  int64_t numRows;
  /// The left operand is pairs of bf16.
  bool inPairs;
  /// Sums of a row and vector: products wait for fewer of their like where even and odd steps have their own.
  int64_t parts;
  /// Weights come from a table.
  bool inTable;
  VectorType i32, f32;
};

} // namespace

SmallVector<Value> cpu::emitWordGroups(KernelFrame &frame, const MicrokernelShape &shape, Value lhs,
                                       Value rhs, ValueRange init, const Prefetch &prefetch) {
  return WordsEmitter(frame, shape, prefetch).emit(lhs, rhs, init);
}
