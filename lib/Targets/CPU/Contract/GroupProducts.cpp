// Products of unsigned bytes and words of four bits (MultiplyGroups.h), group by group:
//
//   sums[row] += scale * (sum of x * w  -  zero[row] * sum of w)
//
// The sum of a group's weights is that of one more row, whose bytes are ones.
//
// With instructions for products of four bytes, a weight is sixteen times its four bits, which a mask alone leaves in a
// byte, and a sixteenth of the scale multiplies. Without, vpmaddubsw multiplies by the four bits themselves: the sum of 32
// products lies between -32 * 255 * 8 and 32 * 255 * 7, so that nothing saturates in 16 bits.
#include "CPU/Contract/GroupProducts.h"
#include "CPU/Contract/ByteProducts.h"
#include "CPU/Contract/SmallBits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Words of a group that are written out: the products of so many stay in 16 bits.
static constexpr int64_t mostWords = 4;

int64_t cpu::maxGroupRows(const CPUInfo &target, int64_t vectors) {
  // Two sums of a row; the weights' sum, a word and its halves; one broadcast.
  int64_t rows = (target.vectorRegisters - 1 - 4 * vectors) / (2 * vectors);
  return std::max<int64_t>(rows, 1);
}

namespace {

class GroupsEmitter {
public:
  GroupsEmitter(KernelFrame &frame, const MicrokernelShape &shape, const Prefetch &prefetch)
      : frame(frame), b(frame.builder), loc(frame.loc), shape(shape), prefetch(prefetch),
        numRows(shape.rowOffsets.size()), words(shape.groupWords), i32(vectorOf(b.getI32Type())),
        f32(vectorOf(b.getF32Type())) {
    inHalves = !hasByteDots(frame.target, shape.lanes) && (shape.lanes == 16 || shape.lanes == 8);
    chunk = std::min(words, mostWords);
    while (words % chunk != 0)
      --chunk;
  }

  SmallVector<Value> emit(Value lhs, Value rhs, ValueRange sums) {
    for (int64_t row = 0; row < numRows; ++row)
      rowStarts.push_back(getRowStart(row));
    Value zeros = frame.gep(lhs, shape.lhsType, shape.zeroAt);
    auto loop = scf::ForOp::create(b, loc, frame.constant(0), frame.emit(shape.loops[0].extent),
                                   frame.constant(1), sums);
    keepLoop(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value group = loop.getInductionVar();
    auto at = [&](Value base, int64_t stride) {
      Value offset = arith::MulIOp::create(b, loc, group, frame.constant(stride));
      return frame.gep(base, b.getI32Type(), offset);
    };
    SmallVector<Value> inner =
        emitGroup(at(lhs, 2 * words), at(rhs, words * shape.scaleStride), group);
    Value first = arith::MulIOp::create(b, loc, group, frame.constant(shape.scaleStride));
    SmallVector<Value> next;
    for (auto [v, scale] : llvm::enumerate(
             loadScales(frame, shape.scales, shape.scaleType, first, shape.vectors, shape.lanes))) {
      scaleRow.push_back(
          inHalves ? scale : arith::MulFOp::create(b, loc, scale, number(1.0 / 16)).getResult());
      weightSums.push_back(toFloat(inner[numRows * shape.vectors + v]));
    }
    for (int64_t row = 0; row < numRows; ++row) {
      Value zero = LLVM::LoadOp::create(b, loc, b.getF32Type(),
                                        frame.gep(zeros, shape.lhsType, rowStarts[row]), 4);
      zero = arith::NegFOp::create(b, loc, broadcast(zero));
      for (int64_t v = 0; v < shape.vectors; ++v) {
        size_t i = row * shape.vectors + v;
        Value exact = multiplyAdd(zero, weightSums[v], toFloat(inner[i]));
        next.push_back(multiplyAdd(exact, scaleRow[v], loop.getRegionIterArgs()[i]));
      }
    }
    scf::YieldOp::create(b, loc, next);
    return SmallVector<Value>(loop.getResults());
  }

private:
  Type vectorOf(Type type) { return shape.lanes == 1 ? type : VectorType::get(shape.lanes, type); }

  Value number(double value) {
    TypedAttr attribute = b.getF32FloatAttr(static_cast<float>(value));
    if (auto vector = dyn_cast<ShapedType>(f32))
      attribute = DenseElementsAttr::get(vector, Attribute(attribute));
    return arith::ConstantOp::create(b, loc, attribute);
  }

  Value bits(uint32_t value) {
    TypedAttr attribute = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto vector = dyn_cast<ShapedType>(i32))
      attribute = DenseElementsAttr::get(vector, Attribute(attribute));
    return arith::ConstantOp::create(b, loc, attribute);
  }

  Value toFloat(Value sum) { return arith::SIToFPOp::create(b, loc, f32, sum); }

  Value multiplyAdd(Value a, Value x, Value sum) {
    if (shape.lanes == 1)
      return math::FmaOp::create(b, loc, a, x, sum);
    return vector::FMAOp::create(b, loc, a, x, sum);
  }

  Value broadcast(Value value) {
    return shape.lanes == 1
               ? value
               : vector::BroadcastOp::create(b, loc, vectorOf(value.getType()), value).getResult();
  }

  Value offset(Value base, int64_t elements) {
    return frame.gep(base, b.getI32Type(), frame.constant(elements));
  }

  /// Elements from the left operand's pointer to a row.
  Value getRowStart(int64_t row) {
    Value start = frame.constant(shape.rowOffsets[row]);
    if (shape.rowStride)
      start = arith::MulIOp::create(b, loc, start, shape.rowStride);
    if (row + shape.numMoved >= numRows && shape.moved)
      start = arith::AddIOp::create(b, loc, start, shape.moved);
    return start;
  }

  //===-- A group ----------------------------------------------------------------------------===//

  /// The sums of integers of all rows, and of the weights.
  SmallVector<Value> emitGroup(Value lhs, Value rhs, Value group) {
    Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(i32));
    SmallVector<Value> sums((numRows + 1) * shape.vectors, zero);
    Value first = arith::MulIOp::create(b, loc, group, frame.constant(words));
    if (chunk == words)
      return emitWords(lhs, rhs, first, sums);
    auto loop = scf::ForOp::create(b, loc, frame.constant(0), frame.constant(words),
                                   frame.constant(chunk), sums);
    keepLoop(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value word = loop.getInductionVar();
    auto at = [&](Value base, int64_t stride) {
      Value offset = arith::MulIOp::create(b, loc, word, frame.constant(stride));
      return frame.gep(base, b.getI32Type(), offset);
    };
    SmallVector<Value> next =
        emitWords(at(lhs, 2), at(rhs, shape.scaleStride),
                  arith::AddIOp::create(b, loc, first, word), loop.getRegionIterArgs());
    scf::YieldOp::create(b, loc, next);
    return SmallVector<Value>(loop.getResults());
  }

  /// `chunk` words, of which the first is number `first` of the sum.
  SmallVector<Value> emitWords(Value lhs, Value rhs, Value first, ValueRange init) {
    SmallVector<Value> sums(init), halves(init.size());
    for (int64_t word = 0; word < chunk; ++word) {
      fetchWord(frame, prefetch, arith::AddIOp::create(b, loc, first, frame.constant(word)),
                shape.rhsSteps, shape.vectors * shape.lanes * 4);
      SmallVector<SmallVector<Value>, 2> weights(2);
      for (int64_t v = 0; v < shape.vectors; ++v) {
        Value at = offset(rhs, word * shape.scaleStride + v * shape.lanes);
        Value four = LLVM::LoadOp::create(b, loc, i32, at, 4);
        weights[0].push_back(widen(four, 0));
        weights[1].push_back(widen(four, 1));
      }
      for (int64_t row = 0; row <= numRows; ++row)
        for (int64_t half = 0; half < 2; ++half) {
          Value bytes = row == numRows ? bits(0x01010101) : loadBytes(lhs, row, 2 * word + half);
          for (int64_t v = 0; v < shape.vectors; ++v) {
            size_t i = row * shape.vectors + v;
            if (inHalves)
              halves[i] = addHalves(bytes, weights[half][v], halves[i]);
            else
              sums[i] = multiplyAddBytes(frame, bytes, weights[half][v], sums[i]);
          }
        }
    }
    if (inHalves)
      for (auto [sum, half] : llvm::zip(sums, halves))
        sum = arith::AddIOp::create(b, loc, sum, sumHalves(frame, half, i32));
    return sums;
  }

  Value loadBytes(Value lhs, int64_t row, int64_t number) {
    Value address = offset(frame.gep(lhs, shape.lhsType, rowStarts[row]), number);
    return broadcast(LLVM::LoadOp::create(b, loc, b.getI32Type(), address, 4));
  }

  /// A half of a word's numbers, as bytes: sixteen times them, or the numbers.
  Value widen(Value word, int64_t half) {
    if (!inHalves) {
      if (half == 0)
        word = arith::ShLIOp::create(b, loc, word, bits(4));
      return arith::AndIOp::create(b, loc, word, bits(0xF0F0F0F0));
    }
    if (half == 1)
      word = arith::ShRUIOp::create(b, loc, word, bits(4));
    word = arith::AndIOp::create(b, loc, word, bits(0x0F0F0F0F));
    SmallVector<int8_t> table;
    for (int64_t i = 0; i < 4 * shape.lanes; ++i)
      table.push_back(static_cast<int8_t>(i % 16 < 8 ? i % 16 : i % 16 - 16));
    Type bytes = VectorType::get(4 * shape.lanes, b.getI8Type());
    Value numbers = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(cast<ShapedType>(bytes), ArrayRef<int8_t>(table)));
    const char *name = shape.lanes == 16 ? "llvm.x86.avx512.pshuf.b.512" : "llvm.x86.avx2.pshuf.b";
    return call(name, bytes, {numbers, LLVM::BitcastOp::create(b, loc, bytes, word)});
  }

  Value addHalves(Value bytes, Value weights, Value sum) {
    Value product = multiplyNarrowBytes(frame, bytes, weights, i32);
    return sum ? arith::AddIOp::create(b, loc, sum, product).getResult() : product;
  }

  Value call(StringRef name, Type type, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr(name), operands)
        .getResult(0);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  const MicrokernelShape &shape;
  const Prefetch &prefetch;
  int64_t numRows, words, chunk;
  Type i32, f32;
  /// Products are summed in 16 bits first.
  bool inHalves;
  SmallVector<Value> rowStarts, scaleRow, weightSums;
};

} // namespace

SmallVector<Value> cpu::emitGroupProducts(KernelFrame &frame, const MicrokernelShape &shape,
                                          Value lhs, Value rhs, ValueRange init,
                                          const Prefetch &prefetch) {
  return GroupsEmitter(frame, shape, prefetch).emit(lhs, rhs, init);
}
