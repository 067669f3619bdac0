// Pairs of bf16: multiplied by vdpbf16ps, or widened, which takes a shift or a mask.
#include "CPU/Contract/Pairs.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

Value cpu::widenHalf(KernelFrame &frame, Value words, int64_t which) {
  OpBuilder &b = frame.builder;
  auto vector = dyn_cast<VectorType>(words.getType());
  TypedAttr number = b.getI32IntegerAttr(which == 0 ? 16 : -65536);
  Type type = b.getF32Type();
  if (vector) {
    number = DenseElementsAttr::get(cast<ShapedType>(words.getType()), Attribute(number));
    type = VectorType::get(vector.getShape(), type);
  }
  Value by = arith::ConstantOp::create(b, frame.loc, number);
  Value bits = which == 0 ? arith::ShLIOp::create(b, frame.loc, words, by).getResult()
                          : arith::AndIOp::create(b, frame.loc, words, by).getResult();
  return arith::BitcastOp::create(b, frame.loc, type, bits);
}

bool cpu::multipliesPairs(const CPUInfo &target, int64_t lanes) {
  return target.avx512bf16 && (lanes == 16 || lanes == 8 || lanes == 4);
}

Value cpu::multiplyAddPairs(KernelFrame &frame, Value a, Value x, Value sum) {
  OpBuilder &b = frame.builder;
  int64_t lanes = cast<VectorType>(sum.getType()).getNumElements();
  Type halves = VectorType::get(2 * lanes, b.getBF16Type());
  Value operands[] = {sum, LLVM::BitcastOp::create(b, frame.loc, halves, a),
                      LLVM::BitcastOp::create(b, frame.loc, halves, x)};
  std::string name = "llvm.x86.avx512bf16.dpbf16ps." + std::to_string(32 * lanes);
  return LLVM::CallIntrinsicOp::create(b, frame.loc, sum.getType(), b.getStringAttr(name), operands)
      .getResult(0);
}
