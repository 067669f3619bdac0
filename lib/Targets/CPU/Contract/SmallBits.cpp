// Numbers of four bits become f32 by a look into a table of sixteen (vpermps, which takes the lowest
// four bits of a lane and no notice of the others), or by two shifts and a conversion.
#include "CPU/Contract/SmallBits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

static Value shift(KernelFrame &frame, Value words, int64_t count, bool isLeft, bool isSigned) {
  OpBuilder &b = frame.builder;
  if (count == 0)
    return words;
  TypedAttr number = b.getI32IntegerAttr(static_cast<int32_t>(count));
  if (auto vector = dyn_cast<ShapedType>(words.getType()))
    number = DenseElementsAttr::get(vector, Attribute(number));
  Value by = arith::ConstantOp::create(b, frame.loc, number);
  if (isLeft)
    return arith::ShLIOp::create(b, frame.loc, words, by);
  return isSigned ? arith::ShRSIOp::create(b, frame.loc, words, by).getResult()
                  : arith::ShRUIOp::create(b, frame.loc, words, by).getResult();
}

bool cpu::looksUpSmallBits(const CPUInfo &target, int64_t lanes) {
  return lanes == 16 && target.avx512;
}

Value cpu::widenSmallBits(KernelFrame &frame, Value words, int64_t first) {
  OpBuilder &b = frame.builder;
  Type f32 = b.getF32Type();
  auto vector = dyn_cast<VectorType>(words.getType());
  if (vector && looksUpSmallBits(frame.target, vector.getNumElements())) {
    auto type = VectorType::get(16, f32);
    SmallVector<float> table;
    for (int i = 0; i < 16; ++i)
      table.push_back(static_cast<float>(i < 8 ? i : i - 16));
    Value numbers = arith::ConstantOp::create(
        b, frame.loc, DenseElementsAttr::get(cast<ShapedType>(type), ArrayRef<float>(table)));
    Value operands[] = {numbers, shift(frame, words, first, /*isLeft=*/false, /*isSigned=*/false)};
    return LLVM::CallIntrinsicOp::create(
               b, frame.loc, type, b.getStringAttr("llvm.x86.avx512.permvar.sf.512"), operands)
        .getResult(0);
  }
  Value top = shift(frame, words, 28 - first, /*isLeft=*/true, /*isSigned=*/true);
  Type type = vector ? Type(VectorType::get(vector.getShape(), f32)) : f32;
  return arith::SIToFPOp::create(b, frame.loc, type,
                                 shift(frame, top, 28, /*isLeft=*/false, /*isSigned=*/true));
}

SmallVector<Value> cpu::loadScales(KernelFrame &frame, Value base, Type type, Value first,
                                   int64_t vectors, int64_t lanes) {
  OpBuilder &b = frame.builder;
  auto vectorOf = [&](Type element) {
    return lanes == 1 ? element : VectorType::get(lanes, element);
  };
  SmallVector<Value> row;
  for (int64_t v = 0; base && v < vectors; ++v) {
    Value place = arith::AddIOp::create(b, frame.loc, first, frame.constant(v * lanes));
    Value value = LLVM::LoadOp::create(b, frame.loc, vectorOf(type), frame.gep(base, type, place),
                                       type.getIntOrFloatBitWidth() / 8);
    if (!type.isF32())
      value = arith::ExtFOp::create(b, frame.loc, vectorOf(b.getF32Type()), value);
    row.push_back(value);
  }
  return row;
}

Value cpu::applyScale(KernelFrame &frame, Value number, ArrayRef<Value> scales,
                      ArrayRef<Value> offsets, int64_t v, bool subtractsFirst) {
  OpBuilder &b = frame.builder;
  if (!offsets.empty() && !subtractsFirst)
    return isa<VectorType>(number.getType())
               ? vector::FMAOp::create(b, frame.loc, number, scales[v], offsets[v]).getResult()
               : math::FmaOp::create(b, frame.loc, number, scales[v], offsets[v]).getResult();
  if (!offsets.empty())
    number = arith::SubFOp::create(b, frame.loc, number, offsets[v]);
  return scales.empty() ? number
                        : arith::MulFOp::create(b, frame.loc, number, scales[v]).getResult();
}
