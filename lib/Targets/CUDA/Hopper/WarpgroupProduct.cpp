// Products of warpgroups of tiles in shared memory, summed in registers.
#include "CUDA/Hopper/WarpgroupProduct.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

Value cuda::emitIsZero(DeviceFrame &frame, Value value) {
  return arith::CmpIOp::create(frame.builder, frame.loc, arith::CmpIPredicate::eq, value,
                               frame.constant(0));
}

sym::Expr cuda::emitWarpgroupNumber(DeviceFrame &frame, int64_t count, int64_t threads) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  Type i32 = b.getI32Type();
  auto constant = [&](int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); };
  Value number = arith::ShRUIOp::create(b, loc, arith::TruncIOp::create(b, loc, i32, frame.thread),
                                        constant(llvm::Log2_64(threads)));
  number = NVVM::ShflOp::create(b, loc, i32, constant(-1), number, constant(0),
                                constant(warpSize - 1), NVVM::ShflKind::idx, UnitAttr());
  return frame.addVariable(arith::ExtUIOp::create(b, loc, b.getI64Type(), number), count);
}

void cuda::emitWarpgroupRoles(DeviceFrame &frame, sym::Expr group, sym::Expr inGroup,
                              bool oneCopies, std::optional<WarpgroupRegisters> registers,
                              function_ref<void()> copy, function_ref<void()> multiply) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  auto roles = scf::IfOp::create(b, loc, emitIsZero(frame, frame.emit(group)),
                                 /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(roles.thenBlock());
  if (registers)
    NVVM::SetMaxRegisterOp::create(b, loc, registers->copying,
                                   NVVM::SetMaxRegisterAction::decrease);
  if (oneCopies)
    frame.emitIf(emitIsZero(frame, frame.emit(inGroup)), copy);
  else
    copy();
  b.setInsertionPointToStart(roles.elseBlock());
  if (registers)
    NVVM::SetMaxRegisterOp::create(b, loc, registers->multiplying,
                                   NVVM::SetMaxRegisterAction::increase);
  multiply();
  // Registers are only given away where a block has the multiprocessor to itself.
  frame.function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(1));
}

MatrixDescriptor::MatrixDescriptor(DeviceFrame &frame, Value memory, bool alongRows,
                                   int64_t boxBytes, uint64_t version)
    : frame(frame), alongRows(alongRows), boxBytes(boxBytes) {
  OpBuilder &b = frame.builder;
  Location loc = frame.loc;
  constexpr uint64_t swizzle128 = 1;
  // Lines of steps are all that a product reads of them: there is no next.
  uint64_t leading = alongRows ? boxBytes / unit : 1;
  high = version | swizzle128 << 62 | uint64_t(patternBytes / unit) << 32;
  Value address = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), frame.toShared(memory));
  Value low = arith::ShRUIOp::create(
      b, loc, arith::AndIOp::create(b, loc, address, frame.constant(0x3ffff)), frame.constant(4));
  low = arith::OrIOp::create(b, loc, low, frame.constant(static_cast<int64_t>(leading << 16)));
  first = arith::TruncIOp::create(b, loc, b.getI32Type(), low);
}

Value MatrixDescriptor::at(Value offset, int64_t number) const {
  OpBuilder &b = frame.builder;
  // Steps are lines, or neighbours in a line, which goes on in the next box.
  constexpr int64_t ofLine = lineBytes / wgmmaStepBytes;
  int64_t bytes = alongRows ? number * wgmmaK * lineBytes
                            : number / ofLine * boxBytes + number % ofLine * wgmmaStepBytes;
  // Addresses are of 14 bits: half of the descriptor stays what it is.
  Type i32 = b.getI32Type();
  Value low = arith::AddIOp::create(b, frame.loc, first,
                                    arith::TruncIOp::create(b, frame.loc, i32, offset));
  low = arith::AddIOp::create(b, frame.loc, low,
                              arith::ConstantIntOp::create(b, frame.loc, bytes / unit, 32));
  return arith::OrIOp::create(b, frame.loc,
                              arith::ExtUIOp::create(b, frame.loc, b.getI64Type(), low),
                              frame.constant(static_cast<int64_t>(high)));
}

WarpgroupProduct::WarpgroupProduct(DeviceFrame &frame, Type operandType, int64_t columns)
    : b(frame.builder), loc(frame.loc), operandType(operandType), columns(columns),
      sumType(operandType.isInteger(8) ? Type(b.getI32Type()) : b.getF32Type()),
      type(LLVM::LLVMStructType::getLiteral(b.getContext(),
                                            SmallVector<Type>(columns / 2, sumType))) {}

static NVVM::WGMMATypes getElement(Type type) {
  return llvm::TypeSwitch<Type, NVVM::WGMMATypes>(type)
      .Case([](Float16Type) { return NVVM::WGMMATypes::f16; })
      .Case([](BFloat16Type) { return NVVM::WGMMATypes::bf16; })
      .Case([](Float8E4M3FNType) { return NVVM::WGMMATypes::e4m3; })
      .Case([](Float8E5M2Type) { return NVVM::WGMMATypes::e5m2; })
      .Case([](IntegerType) { return NVVM::WGMMATypes::s8; });
}

Value WarpgroupProduct::multiply(Value sums, const MatrixDescriptor &left, Value leftOffset,
                                 const MatrixDescriptor &right, Value rightOffset, int64_t steps) {
  NVVM::WGMMATypes element = getElement(operandType);
  int64_t stepsOfOne = wgmmaStepBytes * 8 / operandType.getIntOrFloatBitWidth();
  auto shape = NVVM::MMAShapeAttr::get(b.getContext(), wgmmaM, columns, stepsOfOne);
  // Registers that are set to zero would have to be waited for.
  bool adds = sums != nullptr;
  if (!adds)
    sums = LLVM::UndefOp::create(b, loc, type);
  NVVM::WgmmaFenceAlignedOp::create(b, loc);
  for (int64_t i = 0; i < steps / stepsOfOne; ++i)
    sums = NVVM::WgmmaMmaAsyncOp::create(
        b, loc, type, sums, left.at(leftOffset, i), right.at(rightOffset, i), shape, element,
        element, sumType.isF32() ? NVVM::WGMMATypes::f32 : NVVM::WGMMATypes::s32,
        i || adds ? NVVM::WGMMAScaleOut::one : NVVM::WGMMAScaleOut::zero, NVVM::WGMMAScaleIn::one,
        NVVM::WGMMAScaleIn::one, left.isTurned() ? NVVM::MMALayout::col : NVVM::MMALayout::row,
        right.isTurned() ? NVVM::MMALayout::row : NVVM::MMALayout::col, NVVM::MMAIntOverflowAttr());
  NVVM::WgmmaGroupSyncAlignedOp::create(b, loc);
  return sums;
}

/// `count` operands of an instruction from number `first` on, as `$0, $1, …`.
static std::string listOperands(int64_t first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text;
}

/// Values that an instruction reads and writes in place, `inputs` behind them, which `kinds` has a
/// constraint for each of.
static LLVM::InlineAsmOp emitInPlace(OpBuilder &b, Location loc, Type type, ValueRange places,
                                     ValueRange inputs, StringRef kinds, StringRef text) {
  StringRef kind = places.front().getType().isF32() ? "=f" : "=r";
  std::string constraints;
  for (size_t i = 0; i < places.size(); ++i)
    constraints += (i ? "," : "") + kind.str();
  for (size_t i = 0; i < places.size(); ++i)
    constraints += "," + std::to_string(i);
  constraints += kinds;
  SmallVector<Value> operands(places);
  llvm::append_range(operands, inputs);
  return LLVM::InlineAsmOp::create(b, loc, type, operands, text, constraints,
                                   /*has_side_effects=*/true, /*is_align_stack=*/false,
                                   LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
}

SmallVector<Value> cuda::emitInOrder(DeviceFrame &frame, ValueRange values) {
  OpBuilder &b = frame.builder;
  auto type =
      LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(values.getTypes()));
  Value packed = emitInPlace(b, frame.loc, type, values, {}, ",~{memory}", "").getResult(0);
  SmallVector<Value> results;
  for (size_t i = 0; i < values.size(); ++i)
    results.push_back(LLVM::ExtractValueOp::create(b, frame.loc, packed, i));
  return results;
}

Value WarpgroupProduct::multiply(Value sums, ValueRange left, const MatrixDescriptor &right,
                                 Value rightOffset) {
  int64_t count = columns / 2;
  StringRef element = operandType.isF16() ? "f16" : "bf16";
  // Behind the results and the operands that are in their places.
  std::string text = "{ .reg .pred adds; setp.ne.b32 adds, 1, 0; "
                     "wgmma.mma_async.sync.aligned.m" +
                     std::to_string(wgmmaM) + "n" + std::to_string(columns) + "k" +
                     std::to_string(wgmmaK) + ".f32." + element.str() + "." + element.str() + " {" +
                     listOperands(0, count) + "}, {" + listOperands(2 * count, 4) + "}, $" +
                     std::to_string(2 * count + 4) + ", adds, 1, 1, " +
                     (right.isTurned() ? "1" : "0") + "; }";
  auto what = b.getDictionaryAttr({
      b.getNamedAttr("columns", b.getI64IntegerAttr(columns)),
      b.getNamedAttr("half", b.getBoolAttr(operandType.isF16())),
      b.getNamedAttr("turned", b.getBoolAttr(right.isTurned())),
  });
  NVVM::WgmmaFenceAlignedOp::create(b, loc);
  for (size_t i = 0; i < left.size(); i += 4) {
    SmallVector<Value> inputs(left.slice(i, 4));
    inputs.push_back(right.at(rightOffset, static_cast<int64_t>(i) / 4));
    auto product = emitInPlace(b, loc, type, unpack(sums), inputs, ",r,r,r,r,l", text);
    product->setAttr(registerProductAttrName, what);
    sums = product.getResult(0);
  }
  NVVM::WgmmaGroupSyncAlignedOp::create(b, loc);
  return sums;
}

Value WarpgroupProduct::wait(int64_t pending, Value sums) {
  NVVM::WgmmaWaitGroupSyncOp::create(b, loc, pending);
  // Code that uses the sums does not depend on the wait by itself.
  return emitInPlace(b, loc, type, unpack(sums), {}, "", "").getResult(0);
}

SmallVector<Value> WarpgroupProduct::unpack(Value sums) {
  SmallVector<Value> values;
  for (int64_t i = 0; i < columns / 2; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, loc, sums, i));
  return values;
}

SmallVector<Value> WarpgroupProduct::copy(ValueRange sums) {
  return llvm::map_to_vector(sums, [&](Value sum) -> Value {
    return LLVM::InlineAsmOp::create(b, loc, TypeRange(sum.getType()), sum, copySumText, "=f,f",
                                     /*has_side_effects=*/false, /*is_align_stack=*/false,
                                     LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr())
        .getResult(0);
  });
}

Value WarpgroupProduct::pack(ValueRange sums) {
  Value packed = LLVM::UndefOp::create(b, loc, type);
  for (auto [i, value] : llvm::enumerate(sums))
    packed = LLVM::InsertValueOp::create(b, loc, packed, value, i);
  return packed;
}
