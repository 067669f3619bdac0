// Numbers of four bits become f32 by a look into a table of sixteen (vpermps, which takes the lowest
// four bits of a lane and no notice of the others), or by two shifts and a conversion.
#include "CPU/Contract/SmallBits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

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

Value cpu::widenSmallBits(KernelFrame &frame, Value words, int64_t first) {
  OpBuilder &b = frame.builder;
  Type f32 = b.getF32Type();
  auto vector = dyn_cast<VectorType>(words.getType());
  if (vector && vector.getNumElements() == 16 && frame.target.avx512) {
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

Value cpu::loadScales(KernelFrame &frame, Value base, Type type, Value first, int64_t lanes) {
  OpBuilder &b = frame.builder;
  auto vectorOf = [&](Type element) {
    return lanes == 1 ? element : VectorType::get(lanes, element);
  };
  Value value = LLVM::LoadOp::create(b, frame.loc, vectorOf(type), frame.gep(base, type, first),
                                     type.getIntOrFloatBitWidth() / 8);
  return type.isF32()
             ? value
             : arith::ExtFOp::create(b, frame.loc, vectorOf(b.getF32Type()), value).getResult();
}
