// The registers in which a warp holds parts of matrices for its tensor cores.
#include "CUDA/Contract/MatrixFragments.h"
#include "CUDA/Contract/AsyncCopy.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// `number` as a part that differs between threads and a constant that it has no bits in common
/// with, if it is such a sum.
static std::pair<sym::Expr, int64_t> splitStep(const sym::Assumptions &assumptions,
                                               sym::Expr number) {
  number = assumptions.simplify(number);
  int64_t step = getConstantTerm(number);
  sym::Expr own = assumptions.simplify(number - step);
  if (step > 0 && assumptions.isNonNegative(own) &&
      assumptions.isLessOrEqual(own, (step & -step) - 1))
    return {own, step};
  return {number, 0};
}

Value SharedMatrix::address(DeviceFrame &frame, Value memory, sym::Expr line, sym::Expr at) const {
  if (isPadded)
    return frame.gep(memory, type, frame.simplifyAndEmit(line * pitch() + at));
  // All 32 banks are 8 chunks. Lines shorter than that share a turn of the banks.
  int64_t chunks = length / chunk(), turn = std::min<int64_t>(chunks, 8);
  sym::Expr key = line.floorDiv(8 / turn).mod(turn);
  OpBuilder &b = frame.builder;
  auto exclusiveOr = [&](Value x, Value y) { return arith::XOrIOp::create(b, frame.loc, x, y); };
  auto [own, step] = splitStep(frame.assumptions, at.floorDiv(chunk()));
  Value number = exclusiveOr(frame.simplifyAndEmit(own), frame.simplifyAndEmit(key));
  Value offset = arith::MulIOp::create(b, frame.loc, number, frame.constant(chunk()));
  sym::Expr rest = frame.assumptions.simplify(line * length + at.mod(chunk()));
  int64_t constant = getConstantTerm(rest);
  offset = arith::AddIOp::create(b, frame.loc, offset, frame.simplifyAndEmit(rest - constant));
  // One register serves all steps.
  if (step)
    offset = exclusiveOr(offset, frame.constant(step * chunk()));
  return frame.gep(frame.gep(memory, type, offset), type, frame.constant(constant));
}

MatrixFragments::MatrixFragments(DeviceFrame &frame, Type type, bool splits)
    : frame(frame), b(frame.builder), loc(frame.loc), type(type), splits(splits) {
  Value number = arith::RemUIOp::create(b, loc, frame.thread, frame.constant(warpSize));
  lane = frame.addVariable(number, warpSize);
  group = frame.named(lane.floorDiv(4), 8);
  step = frame.named(lane.mod(4), 4);
}

SmallVector<Value> MatrixFragments::loadLeft(const SharedMatrix &matrix, bool alongSteps,
                                             Value memory, sym::Expr row, sym::Expr k) {
  SmallVector<Value> registers;
  if (matrix.isPadded) {
    for (int64_t half : {0, 1})
      for (int64_t below : {0, 8})
        registers.push_back(
            loadElement(matrix, memory, row + group + below, k + step + half * steps() / 2));
    return registers;
  }
  // The lanes' addresses are those of rows 0-7, rows 8-15, and the same at the other half of steps.
  sym::Expr firstRow = frame.named(lane.mod(8), 8);
  sym::Expr below = frame.named(lane.floorDiv(8).mod(2), 2);
  sym::Expr half = frame.named(lane.floorDiv(16), 2);
  Value address =
      alongSteps
          ? matrix.address(frame, memory, row + 8 * below + firstRow, k + matrix.chunk() * half)
          : matrix.address(frame, memory, k + 8 * half + firstRow, row + matrix.chunk() * below);
  return loadMatrices(address, 4, !alongSteps);
}

SmallVector<Value> MatrixFragments::loadRight(const SharedMatrix &matrix, bool alongSteps,
                                              Value memory, sym::Expr column, sym::Expr k,
                                              int64_t count) {
  SmallVector<Value> registers;
  if (matrix.isPadded) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t half : {0, 1})
        registers.push_back(
            loadElement(matrix, memory, column + i * mmaN + group, k + step + half * steps() / 2));
    return registers;
  }
  // Addresses are those of either half of steps, and the same of the next columns. The other
  // lanes' are not looked at where there are none.
  sym::Expr firstRow = frame.named(lane.mod(8), 8);
  sym::Expr half = frame.named(lane.floorDiv(8).mod(2), 2);
  sym::Expr next = count == 1 ? sym::Expr(0) : frame.named(lane.floorDiv(16), 2);
  Value address = alongSteps ? matrix.address(frame, memory, column + mmaN * next + firstRow,
                                              k + matrix.chunk() * half)
                             : matrix.address(frame, memory, k + 8 * half + firstRow,
                                              column + matrix.chunk() * next);
  return loadMatrices(address, 2 * count, !alongSteps);
}

SmallVector<Value> MatrixFragments::loadMatrices(Value address, int64_t count, bool transposed) {
  Type i32 = b.getI32Type();
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(count, i32));
  Value loaded = NVVM::LdMatrixOp::create(
      b, loc, type, frame.toShared(address), static_cast<uint32_t>(count),
      transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> registers;
  for (int64_t i = 0; i < count; ++i) {
    Value bits = LLVM::ExtractValueOp::create(b, loc, loaded, i);
    if (this->type.isF16())
      bits = LLVM::BitcastOp::create(b, loc, VectorType::get(2, this->type), bits);
    registers.push_back(this->type.isF32() ? convert(bits) : bits);
  }
  return registers;
}

/// The element of a padded matrix, a line of which has the rows of a step.
Value MatrixFragments::loadElement(const SharedMatrix &matrix, Value memory, sym::Expr row,
                                   sym::Expr k) {
  return convert(LLVM::LoadOp::create(b, loc, b.getI32Type(), matrix.address(frame, memory, k, row),
                                      /*alignment=*/4));
}

Value MatrixFragments::roundToTF32(Value bits) {
  Value value = LLVM::BitcastOp::create(b, loc, b.getF32Type(), bits);
  return NVVM::ConvertFloatToTF32Op::create(b, loc, b.getI32Type(), value,
                                            NVVM::FPRoundingMode::RNA);
}

MatrixFragments::Split MatrixFragments::split(ValueRange registers) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto i32Constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, loc, value, 32);
  };
  constexpr int64_t infinity = 0x7f800000, magnitude = 0x7fffffff;
  // Numbers from `large` on would be rounded to infinity: what is behind `mask` is cut off.
  constexpr int64_t large = 0x7f7ff000, mask = ~int64_t(0x1fff);
  Value zero = i32Constant(0);
  Split result;
  for (Value bits : registers) {
    Value size = arith::AndIOp::create(b, loc, bits, i32Constant(magnitude));
    Value isLarge =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, size, i32Constant(large));
    Value isInfinite =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, size, i32Constant(infinity));
    auto toTF32 = [&](Value value) -> Value {
      return arith::SelectOp::create(b, loc, isLarge,
                                     arith::AndIOp::create(b, loc, value, i32Constant(mask)),
                                     roundToTF32(value));
    };
    Value high = toTF32(bits);
    Value rest = arith::SubFOp::create(b, loc, LLVM::BitcastOp::create(b, loc, f32, bits),
                                       LLVM::BitcastOp::create(b, loc, f32, high));
    Value low = toTF32(LLVM::BitcastOp::create(b, loc, i32, rest));
    result.high.push_back(high);
    result.low.push_back(arith::SelectOp::create(b, loc, isInfinite, zero, low));
    result.finite.push_back(arith::SelectOp::create(b, loc, isInfinite, zero, high));
  }
  return result;
}

void MatrixFragments::multiplyAdd(ValueRange left, ValueRange right, MutableArrayRef<Value> sums) {
  bool isBytes = type.isInteger(8);
  SmallVector<Type> four(4, sums.front().getType());
  auto result = LLVM::LLVMStructType::getLiteral(b.getContext(), four);
  auto element = isBytes        ? NVVM::MMATypes::s8
                 : type.isF32() ? NVVM::MMATypes::tf32
                 : type.isF16() ? NVVM::MMATypes::f16
                                : NVVM::MMATypes::bf16;
  std::optional<NVVM::MMAIntOverflow> overflow;
  if (isBytes)
    overflow = NVVM::MMAIntOverflow::wrapped;
  std::array<NVVM::MMATypes, 2> types = {element, element};
  std::array<NVVM::MMALayout, 2> layouts = {NVVM::MMALayout::row, NVVM::MMALayout::col};
  Value product = NVVM::MmaOp::create(b, loc, result, left, right, ValueRange(sums),
                                      ArrayRef<int64_t>{mmaM, mmaN, steps()}, std::nullopt,
                                      overflow, types, layouts);
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, loc, product, i);
}
