// Products of bf16 and words of four bits, group by group:
//
//   sums[row] += scale * (sum of x * w)
//
// A pair of weights is four bits in each half of a word, which a look into a table of bf16 (vpermw) makes the pair
// that is multiplied. It looks at five bits of 32 numbers: the table has each number twice.
#include "CPU/Contract/PairGroups.h"
#include "CPU/Contract/Pairs.h"
#include "CPU/Contract/SmallBits.h"
#include "CPU/Contract/SmallWeights.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

class Emitter {
public:
  Emitter(KernelFrame &frame, const MicrokernelShape &shape, const Prefetch &prefetch)
      : frame(frame), b(frame.builder), loc(frame.loc), shape(shape), prefetch(prefetch),
        numRows(shape.rowOffsets.size()), i32(VectorType::get(shape.lanes, b.getI32Type())),
        f32(VectorType::get(shape.lanes, b.getF32Type())) {}

  SmallVector<Value> emit(Value lhs, Value rhs, ValueRange sums) {
    int64_t words = shape.groupWords;
    return emitLoop(frame.emit(shape.loops[0].extent), sums, [&](Value group, ValueRange before) {
      Value left = advance(lhs, shape.lhsType, group, words * wordSteps);
      Value right = advance(rhs, b.getI32Type(), group, words * shape.scaleStride);
      Value first = arith::MulIOp::create(b, loc, group, frame.constant(words));
      Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(f32));
      SmallVector<Value> zeros(before.size(), zero);
      SmallVector<Value> inner =
          emitLoop(frame.constant(words), zeros, [&](Value word, ValueRange init) {
            fetchWord(frame, prefetch, arith::AddIOp::create(b, loc, first, word), wordSteps,
                      shape.vectors * shape.lanes * 4);
            return emitWord(advance(left, shape.lhsType, word, wordSteps),
                            advance(right, b.getI32Type(), word, shape.scaleStride), init);
          });
      Value row = arith::MulIOp::create(b, loc, group, frame.constant(shape.scaleStride));
      SmallVector<Value> scales =
          loadScales(frame, shape.scales, shape.scaleType, row, shape.vectors, shape.lanes);
      SmallVector<Value> next;
      for (auto [i, sum] : llvm::enumerate(inner))
        next.push_back(vector::FMAOp::create(b, loc, sum, scales[i % shape.vectors], before[i]));
      return next;
    });
  }

private:
  SmallVector<Value> emitLoop(Value extent, ValueRange init,
                              function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    auto loop = scf::ForOp::create(b, loc, frame.constant(0), extent, frame.constant(1), init);
    keepLoop(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    scf::YieldOp::create(b, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
    return SmallVector<Value>(loop.getResults());
  }

  Value advance(Value base, Type type, Value number, int64_t stride) {
    return frame.gep(base, type, arith::MulIOp::create(b, loc, number, frame.constant(stride)));
  }

  Value load(Value base, Type type, int64_t offset) {
    return LLVM::LoadOp::create(b, loc, type,
                                frame.gep(base, b.getI32Type(), frame.constant(offset)), 4);
  }

  /// The steps of one word, for all rows.
  SmallVector<Value> emitWord(Value lhs, Value rhs, ValueRange init) {
    SmallVector<Value> sums(init);
    for (int64_t v = 0; v < shape.vectors; ++v) {
      Value words = load(rhs, i32, v * shape.lanes);
      for (int64_t pair = 0; pair < wordSteps / pairSteps; ++pair) {
        Value weights = widen(words, pair);
        for (int64_t row = 0; row < numRows; ++row) {
          Value at = frame.gep(lhs, shape.lhsType,
                               frame.constant(shape.rowOffsets[row] + pair * pairSteps));
          Value left = LLVM::LoadOp::create(b, loc, b.getI32Type(), at, /*alignment=*/2);
          Value &sum = sums[row * shape.vectors + v];
          sum =
              multiplyAddPairs(frame, vector::BroadcastOp::create(b, loc, i32, left), weights, sum);
        }
      }
    }
    return sums;
  }

  /// Pair `pair` of the words' weights.
  Value widen(Value words, int64_t pair) {
    int64_t lanes = 2 * shape.lanes;
    auto halves = VectorType::get(lanes, b.getI16Type());
    SmallVector<int16_t> table;
    for (int64_t i = 0; i < lanes; ++i) {
      auto number = static_cast<float>(i % 16 < 8 ? i % 16 : i % 16 - 16);
      table.push_back(static_cast<int16_t>(llvm::bit_cast<uint32_t>(number) >> 16));
    }
    Value numbers = arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(cast<ShapedType>(halves), ArrayRef<int16_t>(table)));
    if (pair != 0) {
      auto by = b.getI32IntegerAttr(static_cast<int32_t>(pair * smallBits));
      Value count = arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(cast<ShapedType>(i32), Attribute(by)));
      words = arith::ShRUIOp::create(b, loc, words, count);
    }
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
  Type i32, f32;
};

} // namespace

SmallVector<Value> cpu::emitPairGroups(KernelFrame &frame, const MicrokernelShape &shape, Value lhs,
                                       Value rhs, ValueRange init, const Prefetch &prefetch) {
  return Emitter(frame, shape, prefetch).emit(lhs, rhs, init);
}
