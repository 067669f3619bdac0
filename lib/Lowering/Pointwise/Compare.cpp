// Comparisons, truth values, bits, selection and clamping.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

using Binary = Element (*)(Element, Element);
using Unary = Element (*)(Element);

static Element eq(Element a, Element b) { return a == b; }
static Element ne(Element a, Element b) { return a != b; }
static Element lt(Element a, Element b) { return a < b; }
static Element le(Element a, Element b) { return a <= b; }
static Element gt(Element a, Element b) { return a > b; }
static Element ge(Element a, Element b) { return a >= b; }

/// A comparison of the promoted operands; `ordered` ones have no complex form.
static Lowering compare(Binary compute, bool ordered) {
  return [compute, ordered](Call &call) {
    return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
      if (ordered && isComplex(x[0].type())) {
        call.kernels.fail("an order of complex numbers");
        return x[0];
      }
      return compute(x[0], x[1]);
    });
  };
}

static Element bitAnd(Element a, Element b) { return a & b; }
static Element bitOr(Element a, Element b) { return a | b; }
static Element bitXor(Element a, Element b) { return a ^ b; }

/// A function of the operands' truth values, each of its own dtype.
static Lowering logical(Binary compute) {
  return [compute](Call &call) {
    Type i1 = IntegerType::get(call.args.op().getContext(), 1);
    return call.pointwise({call.operand(0), call.operand(1)}, i1,
                          [&](BodyBuilder &, Elements x) { return compute(x[0], x[1]); });
  };
}

static LogicalResult lowerLogicalNot(Call &call) {
  return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return ~isTrue(x[0]); });
}

static Lowering bitwise(Binary compute, bool takesBool) {
  return [compute, takesBool](Call &call) {
    return call.pointwise({call.operand(0), call.operand(1)}, [&](BodyBuilder &, Elements x) {
      if (!isInt(x[0].type()) && !(takesBool && isBool(x[0].type()))) {
        call.kernels.fail("bits of this dtype");
        return x[0];
      }
      return compute(x[0], x[1]);
    });
  };
}

static LogicalResult lowerBitwiseNot(Call &call) {
  if (!isa<IntegerType>(elementType(call.tensor(0))))
    return call.refuse("bits of this dtype");
  return call.pointwise({call.tensor(0)}, [](BodyBuilder &, Elements x) { return ~x[0]; });
}

//===-- Classification ------------------------------------------------------------------------===//

static Element isFinite(Element x) {
  if (isFloat(x.type()))
    return abs(x) < x.constant(std::numeric_limits<double>::infinity());
  return ~(isInf(x) | isNan(x));
}
static Element isPosInf(Element x) {
  return isFloat(x.type()) ? x == x.constant(std::numeric_limits<double>::infinity()) : isInf(x);
}
static Element isNegInf(Element x) {
  return isFloat(x.type()) ? x == x.constant(-std::numeric_limits<double>::infinity()) : isInf(x);
}
static Element signBit(Element x) {
  if (!isFloat(x.type()))
    return x < x.constant(0);
  // Also of -0.0 and NaN.
  Type bits = x.b().getIntegerType(x.type().getIntOrFloatBitWidth());
  Element raw = x.make(arith::BitcastOp::create(x.b(), bits, x.value()), bits);
  return raw < raw.constant(0);
}

static Lowering classify(Unary compute) {
  return [compute](Call &call) {
    Type type = elementType(call.tensor(0));
    return call.pointwise({call.tensor(0)}, type,
                          [&](BodyBuilder &, Elements x) { return compute(x[0]); });
  };
}

static LogicalResult lowerNanToNum(Call &call) {
  Type type = elementType(call.tensor(0)), part = type;
  if (auto complexType = dyn_cast<ComplexType>(type))
    part = complexType.getElementType();
  if (!isFloat(part))
    return call.set(call.tensor(0));
  const llvm::fltSemantics &semantics = cast<FloatType>(part).getFloatSemantics();
  double largest = APFloat::getLargest(semantics).convertToDouble();
  double nan = call.args.optNumber("nan").value_or(0);
  double posinf = call.args.optNumber("posinf").value_or(largest);
  double neginf = call.args.optNumber("neginf").value_or(-largest);
  auto replace = [&](Element x) {
    Element y = select(isPosInf(x), x.constant(posinf), x);
    y = select(isNegInf(x), x.constant(neginf), y);
    return select(isNan(x), x.constant(nan), y);
  };
  return call.pointwise({call.tensor(0)}, [&](BodyBuilder &, Elements x) {
    if (isComplex(type))
      return makeComplex(replace(real(x[0])), replace(imag(x[0])));
    return replace(x[0]);
  });
}

//===-- Selection and clamping ----------------------------------------------------------------===//

static LogicalResult lowerWhere(Call &call) {
  Value condition = call.tensor(0);
  SmallVector<Operand> branches = {call.operand(1), call.operand(2)};
  Type common = lowering::resultType(call.args.op().getContext(), branches);
  if (!common)
    return call.refuse("dtypes that do not promote");
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    Element test = isTrue(body.broadcast(condition));
    Element a = call.read(body, branches[0], common);
    Element b = call.read(body, branches[1], common);
    return select(test, a, b);
  }));
}

static LogicalResult lowerMaskedFill(Call &call) { // self, mask, value: in self's dtype
  Value self = call.tensor(0), mask = call.tensor(1);
  Operand value = call.operand(2);
  Type type = elementType(self);
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    Element test = isTrue(body.broadcast(mask));
    return select(test, call.read(body, value, type), body.broadcast(self));
  }));
}

/// A number that is known not to be NaN.
static bool isOrdered(const Operand &bound) {
  std::optional<double> number = bound.tensor ? std::nullopt : torch::asDouble(*bound.number);
  return number && !std::isnan(*number);
}

/// min and max, either of which may be None, as numbers or tensors. NaN anywhere gives NaN; bounds
/// in the wrong order give the upper one.
static LogicalResult clamp(Call &call, std::optional<Operand> low, std::optional<Operand> high) {
  SmallVector<Operand> operands = {call.tensor(0)};
  for (const std::optional<Operand> &bound : {low, high})
    if (bound)
      operands.push_back(*bound);
  return call.pointwise(operands, [&](BodyBuilder &, Elements x) {
    if (isComplex(x[0].type())) {
      call.kernels.fail("an order of complex numbers");
      return x[0];
    }
    Element y = x[0];
    if (low)
      y = isOrdered(*low) ? atLeast(y, x[1]) : maximum(y, x[1]);
    if (high)
      y = isOrdered(*high) ? atMost(y, x.back()) : minimum(y, x.back());
    return y;
  });
}

static std::optional<Operand> optOperand(Call &call, torch::CallArgs::Key key) {
  if (!call.args.has(key.name) || call.args.isNone(key))
    return std::nullopt;
  return call.operand(key);
}

static LogicalResult lowerClamp(Call &call) {
  return clamp(call, optOperand(call, "min"), optOperand(call, "max"));
}

static LogicalResult lowerHardtanh(Call &call) {
  return clamp(call, call.operand("min_val"), call.operand("max_val"));
}

static LogicalResult lowerRelu(Call &call) {
  return call.pointwise({call.tensor(0)}, [&](BodyBuilder &, Elements x) {
    if (isComplex(x[0].type()) || isBool(x[0].type())) {
      call.kernels.fail("this dtype");
      return x[0];
    }
    return atLeast(x[0], x[0].constant(0));
  });
}

static LogicalResult lowerRelu6(Call &call) {
  return clamp(call, torch::Scalar(int64_t(0)), torch::Scalar(int64_t(6)));
}

void lowering::registerCompare(LoweringTable &table) {
  struct Comparison {
    StringRef name, alias;
    Binary compute;
    bool ordered;
  };
  const Comparison comparisons[] = {
      {"eq", "", eq, false},       {"ne", "not_equal", ne, false},
      {"lt", "less", lt, true},    {"le", "less_equal", le, true},
      {"gt", "greater", gt, true}, {"ge", "greater_equal", ge, true},
  };
  for (const Comparison &c : comparisons)
    for (StringRef overload : {".Tensor", ".Scalar"}) {
      table.add(("aten." + c.name + overload).str(), compare(c.compute, c.ordered));
      if (!c.alias.empty())
        table.add(("aten." + c.alias + overload).str(), compare(c.compute, c.ordered));
    }
  table.add({"aten.maximum.default", "aten.max.other"}, compare(maximum, true));
  table.add({"aten.minimum.default", "aten.min.other"}, compare(minimum, true));
  table.add("aten.fmax.default", compare(fmax, true));
  table.add("aten.fmin.default", compare(fmin, true));

  table.add("aten.logical_and.default", logical(bitAnd));
  table.add("aten.logical_or.default", logical(bitOr));
  table.add("aten.logical_xor.default", logical(bitXor));
  table.add("aten.logical_not.default", lowerLogicalNot);
  struct Bitwise {
    StringRef name, operatorName;
    Binary compute;
    bool takesBool;
  };
  const Bitwise bitwises[] = {
      {"bitwise_and", "__and__", bitAnd, true},
      {"bitwise_or", "__or__", bitOr, true},
      {"bitwise_xor", "__xor__", bitXor, true},
  };
  for (const Bitwise &op : bitwises) {
    for (StringRef overload : {".Tensor", ".Scalar", ".Scalar_Tensor"})
      table.add(("aten." + op.name + overload).str(), bitwise(op.compute, op.takesBool));
    for (StringRef overload : {".Tensor", ".Scalar"})
      table.add(("aten." + op.operatorName + overload).str(), bitwise(op.compute, op.takesBool));
  }
  table.add({"aten.bitwise_left_shift.Tensor", "aten.bitwise_left_shift.Tensor_Scalar",
             "aten.bitwise_left_shift.Scalar_Tensor", "aten.__lshift__.Tensor",
             "aten.__lshift__.Scalar"},
            bitwise(shiftLeft, false));
  table.add({"aten.bitwise_right_shift.Tensor", "aten.bitwise_right_shift.Tensor_Scalar",
             "aten.bitwise_right_shift.Scalar_Tensor", "aten.__rshift__.Tensor",
             "aten.__rshift__.Scalar"},
            bitwise(shiftRight, false));
  table.add("aten.bitwise_not.default", lowerBitwiseNot);

  table.add("aten.isnan.default", classify(isNan));
  table.add("aten.isinf.default", classify(isInf));
  table.add("aten.isfinite.default", classify(isFinite));
  table.add("aten.isposinf.default", classify(isPosInf));
  table.add("aten.isneginf.default", classify(isNegInf));
  table.add("aten.signbit.default", classify(signBit));
  table.add("aten.nan_to_num.default", lowerNanToNum);

  table.add(
      {"aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar"},
      lowerWhere);
  table.add({"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}, lowerMaskedFill);
  table.add({"aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor",
             "aten.clamp_min.default", "aten.clamp_min.Tensor", "aten.clamp_max.default",
             "aten.clamp_max.Tensor"},
            lowerClamp);
  table.add("aten.hardtanh.default", lowerHardtanh);
  table.add("aten.relu.default", lowerRelu);
  table.add("aten.relu6.default", lowerRelu6);
}
