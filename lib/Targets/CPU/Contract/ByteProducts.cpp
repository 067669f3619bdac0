// Products of bytes by what instructions there are: vpdpbusd (AVX512-VNNI, AVX-VNNI), or vpmaddwd of
// every second byte as 16-bit numbers, unless memory has these already. vpmaddubsw, which multiplies twice
// as many, saturates sums of two products, and so is only for bytes that are narrow.
#include "CPU/Contract/ByteProducts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;

bool cpu::hasByteDots(const CPUInfo &target, int64_t lanes) {
  if (lanes == 16)
    return target.avx512vnni;
  return (lanes == 8 || lanes == 4) && (target.avx512vnni || target.avxvnni);
}

namespace {

class Emitter {
public:
  Emitter(KernelFrame &frame, Type type)
      : frame(frame), b(frame.builder), loc(frame.loc), type(type) {}

  /// One instruction on vectors of `bits` bits, if the CPU has it.
  Value emitDot(Value a, Value x, Value sum) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return {};
    if (!cpu::hasByteDots(frame.target, vector.getNumElements()))
      return {};
    int64_t bits = vector.getNumElements() * 32;
    Type bytes = VectorType::get(vector.getNumElements() * 4, b.getI8Type());
    Value operands[] = {sum, LLVM::BitcastOp::create(b, loc, bytes, a),
                        LLVM::BitcastOp::create(b, loc, bytes, x)};
    return callIntrinsic("llvm.x86.avx512.vpdpbusd." + std::to_string(bits), type, operands);
  }

  /// vpmaddwd of the bytes 0 and 2, and of 1 and 3.
  Value emitPairs(Value a, Value x, Value sum) {
    Type halves = getHalves();
    if (!halves)
      return {};
    auto toHalves = [&](Value value) { return LLVM::BitcastOp::create(b, loc, halves, value); };
    auto constant = [&](int64_t value) {
      return arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(cast<ShapedType>(halves), b.getI16IntegerAttr(value)));
    };
    Value left = toHalves(a), right = toHalves(x), eight = constant(8);
    Value evenLeft = arith::AndIOp::create(b, loc, left, constant(255));
    Value oddLeft = arith::ShRUIOp::create(b, loc, left, eight);
    Value evenRight =
        arith::ShRSIOp::create(b, loc, arith::ShLIOp::create(b, loc, right, eight), eight);
    Value oddRight = arith::ShRSIOp::create(b, loc, right, eight);
    return addHalves(oddLeft, oddRight, addHalves(evenLeft, evenRight, sum));
  }

  /// vpmaddubsw: the sums of two products in 16 bits.
  Value emitNarrow(Value a, Value x) {
    Type halves = getHalves();
    if (!halves)
      return {};
    int64_t lanes = cast<VectorType>(type).getNumElements();
    Type bytes = VectorType::get(lanes * 4, b.getI8Type());
    const char *name = lanes == 16  ? "llvm.x86.avx512.pmaddubs.w.512"
                       : lanes == 8 ? "llvm.x86.avx2.pmadd.ub.sw"
                                    : "llvm.x86.ssse3.pmadd.ub.sw.128";
    return callIntrinsic(
        name, halves,
        {LLVM::BitcastOp::create(b, loc, bytes, a), LLVM::BitcastOp::create(b, loc, bytes, x)});
  }

  Value sumHalves(Value halves, int64_t weight) {
    auto weights = DenseElementsAttr::get(cast<ShapedType>(halves.getType()),
                                          b.getI16IntegerAttr(static_cast<int16_t>(weight)));
    return multiplyHalves(halves, arith::ConstantOp::create(b, loc, weights));
  }

  Value addNarrow(Value a, Value x, Value sum) {
    Type halves = getHalves();
    if (!halves)
      return {};
    auto ones = DenseElementsAttr::get(cast<ShapedType>(halves), b.getI16IntegerAttr(1));
    return addProducts("vpmaddubsw $4, $3, $1\n\tvpmaddwd $5, $1, $1\n\tvpaddd $1, $0, $0", a, x,
                       sum, frame.constantMemory(ones), halves);
  }

  Value addToHalves(Value a, Value x, Value sum) {
    return addProducts("vpmaddubsw $4, $3, $1\n\tvpaddw $1, $0, $0", a, x, sum);
  }

  Value emitHalves(Value a, Value x, Value sum) {
    if (Type halves = getHalves()) {
      Value left = LLVM::BitcastOp::create(b, loc, halves, a),
            right = LLVM::BitcastOp::create(b, loc, halves, x);
      return addHalves(left, right, sum);
    }
    for (int64_t half = 0; half < 2; ++half) {
      auto widen = [&](Value value) -> Value {
        Value up = constant(16 - 16 * half), down = constant(16);
        return arith::ShRSIOp::create(b, loc, arith::ShLIOp::create(b, loc, value, up), down);
      };
      sum = arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, widen(a), widen(x)));
    }
    return sum;
  }

  /// One byte after the other.
  Value emitBytes(Value a, Value x, Value sum) {
    for (int64_t byte = 0; byte < 4; ++byte) {
      Value up = constant(24 - 8 * byte), down = constant(24);
      Value left = arith::ShRUIOp::create(b, loc, arith::ShLIOp::create(b, loc, a, up), down);
      Value right = arith::ShRSIOp::create(b, loc, arith::ShLIOp::create(b, loc, x, up), down);
      sum = arith::AddIOp::create(b, loc, sum, arith::MulIOp::create(b, loc, left, right));
    }
    return sum;
  }

private:
  Value addHalves(Value left, Value right, Value sum) {
    return addProducts("vpmaddwd $4, $3, $1\n\tvpaddd $1, $0, $0", left, right, sum);
  }

  /// One piece of text multiplies $3 with $4 into $1, and adds these products up: LLVM would multiply for several
  /// steps first, which leaves too few registers for the accumulators, and move these from one to another. $5 is
  /// memory that holds `inMemory`.
  Value addProducts(const std::string &text, Value left, Value right, Value sum, Value memory = {},
                    Type inMemory = {}) {
    SmallVector<Value> operands{sum, left, right};
    std::string constraints = "=v,=&v,0,v,v";
    ArrayAttr attributes;
    if (memory) {
      SmallVector<Attribute> all(operands.size(), b.getDictionaryAttr({}));
      NamedAttribute element = b.getNamedAttr("elementtype", TypeAttr::get(inMemory));
      all.push_back(b.getDictionaryAttr(element));
      attributes = b.getArrayAttr(all);
      operands.push_back(memory);
      constraints += ",*m";
    }
    Type results = LLVM::LLVMStructType::getLiteral(b.getContext(), {sum.getType(), sum.getType()});
    Value both =
        LLVM::InlineAsmOp::create(b, loc, results, operands, text, constraints,
                                  /*has_side_effects=*/false, /*is_align_stack=*/false,
                                  LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), attributes)
            .getResult(0);
    return LLVM::ExtractValueOp::create(b, loc, both, 0);
  }

  /// The type of operands of vpmaddwd; null if it has none for this many lanes.
  Type getHalves() const {
    auto vector = dyn_cast<VectorType>(type);
    int64_t lanes = vector ? vector.getNumElements() : 0;
    if (lanes != 4 && lanes != 8 && lanes != 16)
      return {};
    return VectorType::get(lanes * 2, b.getI16Type());
  }

  Value multiplyHalves(Value left, Value right) {
    int64_t lanes = cast<VectorType>(type).getNumElements();
    const char *name = lanes == 16  ? "llvm.x86.avx512.pmaddw.d.512"
                       : lanes == 8 ? "llvm.x86.avx2.pmadd.wd"
                                    : "llvm.x86.sse2.pmadd.wd";
    return callIntrinsic(name, type, {left, right});
  }

  Value constant(int64_t value) {
    if (auto vector = dyn_cast<VectorType>(type))
      return arith::ConstantOp::create(
          b, loc, DenseElementsAttr::get(cast<ShapedType>(vector), b.getI32IntegerAttr(value)));
    return arith::ConstantIntOp::create(b, loc, type, value);
  }

  Value callIntrinsic(const std::string &name, Type result, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name), operands)
        .getResult(0);
  }

  KernelFrame &frame;
  OpBuilder &b;
  Location loc;
  Type type;
};

} // namespace

Value cpu::multiplyAddBytes(KernelFrame &frame, Value a, Value x, Value sum, bool isNarrow) {
  Emitter emitter(frame, sum.getType());
  if (Value dot = emitter.emitDot(a, x, sum))
    return dot;
  if (Value next = isNarrow ? emitter.addNarrow(a, x, sum) : Value())
    return next;
  if (Value pairs = emitter.emitPairs(a, x, sum))
    return pairs;
  return emitter.emitBytes(a, x, sum);
}

Value cpu::multiplyNarrowBytes(KernelFrame &frame, Value a, Value x, Type type) {
  return Emitter(frame, type).emitNarrow(a, x);
}

Value cpu::addNarrowBytes(KernelFrame &frame, Value a, Value x, Value sum, Type type) {
  return Emitter(frame, type).addToHalves(a, x, sum);
}

Value cpu::sumHalves(KernelFrame &frame, Value halves, Type type, int64_t weight) {
  return Emitter(frame, type).sumHalves(halves, weight);
}

Value cpu::multiplyAddHalves(KernelFrame &frame, Value a, Value x, Value sum) {
  return Emitter(frame, sum.getType()).emitHalves(a, x, sum);
}

Value cpu::widenBytes(KernelFrame &frame, Value x) {
  OpBuilder &b = frame.builder;
  auto vector = dyn_cast<VectorType>(x.getType());
  int64_t lanes = vector ? vector.getNumElements() : 1;
  Value bytes = LLVM::BitcastOp::create(b, frame.loc, VectorType::get(2 * lanes, b.getI8Type()), x);
  Value halves =
      arith::ExtSIOp::create(b, frame.loc, VectorType::get(2 * lanes, b.getI16Type()), bytes);
  Type words = vector ? Type(VectorType::get(lanes, b.getI32Type())) : b.getI32Type();
  return LLVM::BitcastOp::create(b, frame.loc, words, halves);
}
