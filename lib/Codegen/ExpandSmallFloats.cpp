// bf16 and f16 as integers of 16 bits, and all arithmetic on them in f32. What LLVM does not see it
// neither takes apart into calls of a library nor does with instructions that flush denormals.
#include "kiln/Codegen/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

namespace kiln::codegen {
#define GEN_PASS_DEF_CODEGENEXPANDSMALLFLOATS
#include "kiln/Codegen/Passes.h.inc"
} // namespace kiln::codegen

using namespace mlir;

static bool isSmall(Type type) { return type.isBF16() || type.isF16(); }

/// Operations that give the bits of their operands on.
static bool isMove(Operation *op) {
  return isa<LLVM::LoadOp, LLVM::StoreOp, LLVM::SelectOp, LLVM::ShuffleVectorOp,
             LLVM::ExtractElementOp, LLVM::InsertElementOp, LLVM::ExtractValueOp,
             LLVM::InsertValueOp, LLVM::BitcastOp, LLVM::UndefOp, LLVM::PoisonOp, LLVM::ZeroOp,
             LLVM::ConstantOp, LLVM::FreezeOp, LLVM::BrOp, LLVM::CondBrOp, LLVM::SwitchOp,
             LLVM::ReturnOp, LLVM::CallOp, LLVM::MaskedLoadOp, LLVM::MaskedStoreOp,
             LLVM::masked_gather, LLVM::masked_scatter, LLVM::masked_expandload,
             LLVM::masked_compressstore, LLVM::vector_insert, LLVM::vector_extract>(op);
}

/// Results of these on numbers of bf16 are such numbers before they are rounded.
static bool isExact(Operation *op) {
  return isa<LLVM::FFloorOp, LLVM::FCeilOp, LLVM::FTruncOp, LLVM::RintOp, LLVM::NearbyintOp,
             LLVM::RoundEvenOp, LLVM::RoundOp>(op);
}

/// Operations on the sign of what is widened for them alone, as they are on the small type.
static void narrowSigns(LLVM::LLVMFuncOp function) {
  function.walk([](LLVM::FPTruncOp round) {
    Operation *sign = round.getArg().getDefiningOp();
    if (!isa_and_nonnull<LLVM::FNegOp, LLVM::FAbsOp>(sign))
      return;
    auto wide = sign->getOperand(0).getDefiningOp<LLVM::FPExtOp>();
    Type type = round.getType();
    if (!wide || wide.getArg().getType() != type || !isSmall(getElementTypeOrSelf(type)))
      return;
    OpBuilder b(round);
    Operation *narrow = b.clone(*sign);
    narrow->setOperand(0, wide.getArg());
    narrow->getResult(0).setType(type);
    round.replaceAllUsesWith(narrow->getResult(0));
    round.erase();
  });
}

/// For operations on the sign, which is the highest bit of all floats; null for others.
static Value computeSign(OpBuilder &b, Operation *op) {
  if (!isa<LLVM::FNegOp, LLVM::FAbsOp, LLVM::CopySignOp>(op))
    return {};
  Location loc = op->getLoc();
  Value x = op->getOperand(0);
  auto constant = [&](int16_t value) -> Value {
    TypedAttr attribute = b.getI16IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(x.getType()))
      attribute = SplatElementsAttr::get(vector, Attribute(attribute));
    return LLVM::ConstantOp::create(b, loc, x.getType(), attribute);
  };
  if (isa<LLVM::FNegOp>(op))
    return LLVM::XOrOp::create(b, loc, x, constant(INT16_MIN));
  Value magnitude = LLVM::AndOp::create(b, loc, x, constant(INT16_MAX));
  if (isa<LLVM::FAbsOp>(op))
    return magnitude;
  Value sign = LLVM::AndOp::create(b, loc, op->getOperand(1), constant(INT16_MIN));
  return LLVM::OrOp::create(b, loc, magnitude, sign);
}

/// For extremes, which are one of the operands; null for others. `wide` is compared, the integers
/// are chosen from: nothing is rounded on the way from one extreme to the next.
static Value choose(OpBuilder &b, Operation *op, ArrayRef<Value> wide) {
  bool keepsNaN = isa<LLVM::MaximumOp, LLVM::MinimumOp>(op);
  bool isMaximum = isa<LLVM::MaximumOp, LLVM::MaxNumOp>(op);
  if (!keepsNaN && !isa<LLVM::MaxNumOp, LLVM::MinNumOp>(op))
    return {};
  Location loc = op->getLoc();
  Value x = op->getOperand(0), y = op->getOperand(1);
  auto compare = [&](LLVM::FCmpPredicate predicate, Value left, Value right) -> Value {
    return LLVM::FCmpOp::create(b, loc, predicate, left, right);
  };
  // A NaN in x is chosen by ugt and ult, and not by ogt and olt.
  auto predicate = isMaximum  ? keepsNaN ? LLVM::FCmpPredicate::ugt : LLVM::FCmpPredicate::ogt
                   : keepsNaN ? LLVM::FCmpPredicate::ult
                              : LLVM::FCmpPredicate::olt;
  Value chosen = LLVM::SelectOp::create(b, loc, compare(predicate, wide[0], wide[1]), x, y);
  Value isNaN = compare(LLVM::FCmpPredicate::uno, wide[1], wide[1]);
  return LLVM::SelectOp::create(b, loc, isNaN, keepsNaN ? y : x, chosen);
}

namespace {

/// Conversions between f32 and the integers that hold numbers of one small type.
class Converter {
public:
  Converter(OpBuilder &b, Location loc, Type small)
      : b(b), loc(loc), isBF16(getElementTypeOrSelf(small).isBF16()), small(small),
        i16(withElements(b.getI16Type())), i32(withElements(b.getI32Type())),
        f32(withElements(b.getF32Type())) {}

  Type getWideType() const { return f32; }

  Value widen(Value bits) const {
    if (!isBF16)
      return fence(
          LLVM::FPExtOp::create(b, loc, f32, LLVM::BitcastOp::create(b, loc, small, bits)));
    Value wide = LLVM::ShlOp::create(b, loc, LLVM::ZExtOp::create(b, loc, i32, bits), c(16));
    return LLVM::BitcastOp::create(b, loc, f32, wide);
  }

  /// `exact`: the value is a number of bf16.
  Value narrow(Value value, bool exact) const {
    if (!isBF16) {
      Value half = LLVM::FPTruncOp::create(b, loc, small, fence(value));
      return LLVM::BitcastOp::create(b, loc, i16, half);
    }
    Value bits = LLVM::BitcastOp::create(b, loc, i32, value);
    Value high = exact ? shr(bits) : round(value, bits);
    return LLVM::TruncOp::create(b, loc, i16, high);
  }

private:
  /// LLVM looks through conversions, and puts some together that no CPU has (f64 to f16).
  Value fence(Value value) const {
    return LLVM::CallIntrinsicOp::create(b, loc, f32, b.getStringAttr("llvm.arithmetic.fence"),
                                         ValueRange{value})
        .getResult(0);
  }

  /// To the nearest, of two to the even one; a carry goes into the exponent.
  Value round(Value value, Value bits) const {
    Value isOdd = LLVM::AndOp::create(b, loc, shr(bits), c(1));
    Value bias = LLVM::AddOp::create(b, loc, isOdd, c(0x7fff));
    Value isNaN = LLVM::FCmpOp::create(b, loc, LLVM::FCmpPredicate::uno, value, value);
    return LLVM::SelectOp::create(b, loc, isNaN, c(0x7fc0),
                                  shr(LLVM::AddOp::create(b, loc, bits, bias)));
  }

  Value shr(Value x) const { return LLVM::LShrOp::create(b, loc, x, c(16)); }
  Value c(int32_t value) const {
    TypedAttr attribute = b.getI32IntegerAttr(value);
    if (auto vector = dyn_cast<VectorType>(i32))
      attribute = SplatElementsAttr::get(vector, Attribute(attribute));
    return LLVM::ConstantOp::create(b, loc, i32, attribute);
  }
  Type withElements(Type element) const {
    auto vector = dyn_cast<VectorType>(small);
    return vector ? Type(vector.clone(element)) : element;
  }

  OpBuilder &b;
  Location loc;
  bool isBF16;
  Type small, i16, i32, f32;
};

struct ExpandSmallFloats : kiln::codegen::impl::CodegenExpandSmallFloatsBase<ExpandSmallFloats> {
  /// An operation, and the types it had before all values became integers.
  struct Computation {
    Operation *op;
    SmallVector<Type> operands, results;
  };

  void runOnOperation() override {
    LLVM::LLVMFuncOp function = getOperation();
    AttrTypeReplacer replacer;
    replacer.addReplacement([](FloatType type) -> std::optional<Type> {
      return isSmall(type) ? IntegerType::get(type.getContext(), 16) : Type(type);
    });
    auto mentions = [&](Type type) { return replacer.replace(type) != type; };

    narrowSigns(function);
    SmallVector<Computation> computations, instructions;
    WalkResult walked = function.walk([&](Operation *op) {
      if (op == function || isMove(op) ||
          (llvm::none_of(op->getOperandTypes(), mentions) &&
           llvm::none_of(op->getResultTypes(), mentions)))
        return WalkResult::advance();
      if (isInstruction(op)) {
        instructions.push_back({op, SmallVector<Type>(op->getOperandTypes()),
                                SmallVector<Type>(op->getResultTypes())});
        return WalkResult::advance();
      }
      // A scalar or vector in f32 stands for each of them.
      auto isStructured = [&](Type type) {
        return mentions(type) && !isSmall(getElementTypeOrSelf(type));
      };
      if (!isPure(op) || llvm::any_of(op->getOperandTypes(), isStructured) ||
          llvm::any_of(op->getResultTypes(), isStructured)) {
        op->emitError("has no form in f32");
        return WalkResult::interrupt();
      }
      computations.push_back(
          {op, SmallVector<Type>(op->getOperandTypes()), SmallVector<Type>(op->getResultTypes())});
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      return signalPassFailure();
    makeIntegers(function, replacer);
    for (const Computation &computation : computations)
      rewrite(computation);
    for (const Computation &instruction : instructions)
      castValues(instruction);
  }

  /// An instruction of a CPU, which has small floats in vectors.
  static bool isInstruction(Operation *op) {
    auto call = dyn_cast<LLVM::CallIntrinsicOp>(op);
    return call && call.getIntrin().starts_with("llvm.x86.");
  }

  /// An instruction that takes or makes vectors of small floats does so.
  static void castValues(const Computation &instruction) {
    OpBuilder b(instruction.op);
    for (auto [operand, type] :
         llvm::zip_equal(instruction.op->getOpOperands(), instruction.operands))
      if (operand.get().getType() != type)
        operand.set(LLVM::BitcastOp::create(b, instruction.op->getLoc(), type, operand.get()));
    b.setInsertionPointAfter(instruction.op);
    for (auto [result, type] : llvm::zip_equal(instruction.op->getResults(), instruction.results)) {
      Type bits = result.getType();
      if (bits == type)
        continue;
      result.setType(type);
      auto cast = LLVM::BitcastOp::create(b, instruction.op->getLoc(), bits, result);
      result.replaceAllUsesExcept(cast, cast);
    }
  }

  static Attribute toBits(Attribute value) {
    if (auto number = dyn_cast<FloatAttr>(value); number && isSmall(number.getType()))
      return IntegerAttr::get(IntegerType::get(value.getContext(), 16),
                              number.getValue().bitcastToAPInt());
    if (auto elements = dyn_cast<DenseElementsAttr>(value);
        elements && isSmall(elements.getElementType()))
      return elements.bitcast(IntegerType::get(value.getContext(), 16));
    if (auto parts = dyn_cast<ArrayAttr>(value))
      return ArrayAttr::get(value.getContext(), llvm::map_to_vector(parts, toBits));
    return value;
  }

  static void makeIntegers(LLVM::LLVMFuncOp function, AttrTypeReplacer &replacer) {
    function.setFunctionType(
        cast<LLVM::LLVMFunctionType>(replacer.replace(Type(function.getFunctionType()))));
    function.walk([&](Block *block) {
      for (BlockArgument argument : block->getArguments())
        argument.setType(replacer.replace(argument.getType()));
    });
    function.walk([&](Operation *op) {
      if (auto constant = dyn_cast<LLVM::ConstantOp>(op))
        constant.setValueAttr(toBits(constant.getValue()));
      for (OpResult result : op->getResults())
        result.setType(replacer.replace(result.getType()));
      if (auto cast = dyn_cast<LLVM::BitcastOp>(op);
          cast && cast.getType() == cast.getArg().getType()) {
        cast.replaceAllUsesWith(cast.getArg());
        cast.erase();
      }
    });
  }

  void rewrite(const Computation &computation) {
    Operation *op = computation.op;
    OpBuilder b(op);
    auto replaceBy = [&](Value bits) {
      op->getResult(0).replaceAllUsesWith(bits);
      op->erase();
    };
    if (Value bits = computeSign(b, op))
      return replaceBy(bits);
    auto converter = [&](Type small) { return Converter(b, op->getLoc(), small); };
    auto isSmallValue = [](Type type) { return isSmall(getElementTypeOrSelf(type)); };
    SmallVector<Value> operands;
    for (auto [type, operand] : llvm::zip_equal(computation.operands, op->getOperands()))
      operands.push_back(isSmallValue(type) ? converter(type).widen(operand) : operand);
    if (Value bits = choose(b, op, operands))
      return replaceBy(bits);

    SmallVector<Value> wide;
    bool isConversion = isa<LLVM::FPExtOp, LLVM::FPTruncOp>(op);
    bool isInF32 = isConversion && getElementTypeOrSelf(operands[0]).isF32();
    bool isToF32 = getElementTypeOrSelf(op->getResultTypes()[0]).isF32();
    if (isConversion && isInF32 && (isToF32 || isSmallValue(computation.results[0]))) {
      wide.push_back(operands[0]); // converted already, or to be narrowed
    } else {
      IRMapping map;
      map.map(op->getOperands(), operands);
      Operation *copy = b.clone(*op, map);
      for (auto [type, result] : llvm::zip_equal(computation.results, copy->getResults()))
        if (isSmallValue(type))
          result.setType(converter(type).getWideType());
      llvm::append_range(wide, copy->getResults());
    }
    for (auto [type, result, value] : llvm::zip_equal(computation.results, op->getResults(), wide))
      result.replaceAllUsesWith(isSmallValue(type) ? converter(type).narrow(value, isExact(op))
                                                   : value);
    op->erase();
  }
};

} // namespace
