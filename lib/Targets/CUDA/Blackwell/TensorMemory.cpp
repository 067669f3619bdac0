// Tensor memory of Blackwell: its columns, products into it, and sums out of it.
#include "CUDA/Blackwell/TensorMemory.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cuda;

/// Columns are allocated by powers of two of at least this.
static constexpr int64_t minColumns = 32;
/// Rows are the upper half of addresses.
static constexpr int64_t rowShift = 16;

TensorMemory::TensorMemory(DeviceFrame &frame, Type type, int64_t columns)
    : frame(frame), b(frame.builder), loc(frame.loc), type(type),
      columns(std::max<int64_t>(minColumns, llvm::PowerOf2Ceil(columns))),
      place(frame.allocateShared(4)) {
  inFirstWarp([&] {
    NVVM::Tcgen05AllocOp::create(b, loc, frame.toShared(place), i32(this->columns));
    // A kernel behind this one may begin before it has ended.
    NVVM::Tcgen05RelinquishAllocPermitOp::create(b, loc);
    fence(NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
  });
}

Value TensorMemory::i32(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }

Value TensorMemory::toPointer(Value address) {
  auto type = LLVM::LLVMPointerType::get(b.getContext(),
                                         static_cast<unsigned>(NVVM::NVVMMemorySpace::Tensor));
  return LLVM::IntToPtrOp::create(b, loc, type, address);
}

void TensorMemory::inFirstWarp(function_ref<void()> body) {
  frame.emitIf(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, frame.thread,
                                     frame.constant(warpSize)),
               body);
}

void TensorMemory::begin() {
  fence(NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
  address = LLVM::LoadOp::create(b, loc, b.getI32Type(), place);
}

void TensorMemory::end() {
  fence(NVVM::Tcgen05FenceKind::BEFORE_THREAD_SYNC);
  frame.emitBarrier();
  inFirstWarp([&] {
    fence(NVVM::Tcgen05FenceKind::AFTER_THREAD_SYNC);
    NVVM::Tcgen05DeallocOp::create(b, loc, toPointer(address), i32(columns));
  });
}

Value TensorMemory::sums(Value column) {
  return arith::AddIOp::create(b, loc, address,
                               arith::TruncIOp::create(b, loc, b.getI32Type(), column));
}

void TensorMemory::fence(NVVM::Tcgen05FenceKind kind) {
  NVVM::Tcgen05FenceOp::create(b, loc, kind);
}

Value TensorMemory::elect() { return NVVM::ElectSyncOp::create(b, loc, b.getI1Type(), Value()); }

static NVVM::Tcgen05MMAKind getKind(Type type) {
  if (type.isInteger(8))
    return NVVM::Tcgen05MMAKind::I8;
  return type.getIntOrFloatBitWidth() == 8 ? NVVM::Tcgen05MMAKind::F8F6F4
                                           : NVVM::Tcgen05MMAKind::F16;
}

/// The instruction descriptor with sums of f32, or for bytes of i32. What 0 and 1 are as elements
/// depends on the kind: f16 and bf16, e4m3 and e5m2, unsigned and signed bytes.
static int64_t describe(const MatrixDescriptor &left, const MatrixDescriptor &right,
                        int64_t columns, Type operandType) {
  int64_t sums = operandType.isInteger(8) ? 2 : 1,
          element = isa<Float16Type, Float8E4M3FNType>(operandType) ? 0 : 1;
  return sums << 4 | element << 7 | element << 10 | int64_t(left.isTurned()) << 15 |
         int64_t(right.isTurned()) << 16 | columns / 8 << 17 | tensorRows / 16 << 24;
}

void TensorMemory::multiply(Value sums, const MatrixDescriptor &left, const MatrixDescriptor &right,
                            Value offset, int64_t columns, Type operandType, int64_t steps,
                            Value adds) {
  Value description = i32(describe(left, right, columns, operandType));
  NVVM::Tcgen05MMAKind kind = getKind(operandType);
  int64_t stepsOfOne = wgmmaStepBytes * 8 / operandType.getIntOrFloatBitWidth();
  for (int64_t i = 0; i < steps / stepsOfOne; ++i)
    NVVM::Tcgen05MMAOp::create(
        b, loc, kind, NVVM::CTAGroupKind::CTA_1, NVVM::Tcgen05MMACollectorOp::DISCARD,
        /*aShift=*/false, toPointer(sums), left.at(offset, i), right.at(offset, i), description,
        i ? arith::ConstantIntOp::create(b, loc, 1, 1).getResult() : adds, Value(), Value());
}

void TensorMemory::commit(Value barrier) {
  NVVM::Tcgen05CommitOp::create(b, loc, barrier, Value());
}

SmallVector<Value> TensorMemory::load(Value sums, Value row, int64_t columns) {
  // An instruction loads a power of two of 8 columns: more are several.
  SmallVector<Value> values;
  Value rows = arith::ShLIOp::create(b, loc, arith::TruncIOp::create(b, loc, b.getI32Type(), row),
                                     i32(rowShift));
  Value begin = arith::AddIOp::create(b, loc, sums, rows);
  for (int64_t first = 0; first < columns;) {
    int64_t count = llvm::bit_floor(static_cast<uint64_t>(columns - first)), number = count / 2;
    auto loaded = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(number, type));
    // Code that uses the sums does not depend on a wait by itself.
    std::string registers, constraints;
    for (int64_t i = 0; i < number; ++i) {
      registers += (i ? ", $" : "$") + std::to_string(i);
      constraints += type.isF32() ? "=f," : "=r,";
    }
    std::string text = "tcgen05.ld.sync.aligned.16x256b.x" + std::to_string(count / 8) + ".b32 {" +
                       registers + "}, [$" + std::to_string(number) +
                       "]; tcgen05.wait::ld.sync.aligned;";
    Value from = arith::AddIOp::create(b, loc, begin, i32(first));
    auto packed =
        LLVM::InlineAsmOp::create(b, loc, loaded, from, text, constraints + "r,~{memory}",
                                  /*has_side_effects=*/true, /*is_align_stack=*/false,
                                  LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
    packed->setAttr(tensorLoadAttrName, b.getUnitAttr());
    for (int64_t i = 0; i < number; ++i)
      values.push_back(LLVM::ExtractValueOp::create(b, loc, packed.getResult(0), i));
    first += count;
  }
  return values;
}
