// The ops of arith and math as C expressions. Integers wrap around, which in C only unsigned ones do.
#include "KernelWriter.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using llvm::formatv;

static unsigned width(Type type) { return type.getIntOrFloatBitWidth(); }

/// The C type of a variable; the caller has checked that there is one.
static std::string typeOf(Type type, bool isUnsigned = false) {
  if (isa<FloatType>(type))
    return width(type) == 32 ? "float" : "double";
  if (width(type) == 1)
    return "bool";
  return formatv("{0}int{1}_t", isUnsigned ? "u" : "", width(type));
}

static bool hasType(Type type) {
  return type.isF32() || type.isF64() ||
         (isa<IntegerType>(type) && llvm::is_contained({1u, 8u, 16u, 32u, 64u}, width(type)));
}

/// The number as one without a sign.
static std::string asUnsigned(StringRef value, Type type) {
  return formatv("({0}){1}", typeOf(type, true), value);
}

static std::string wrap(Type type, StringRef a, StringRef op, StringRef b) {
  std::string result = formatv("((uint64_t){0} {1} (uint64_t){2})", a, op, b);
  return formatv(width(type) == 1 ? "({0})({1} & 1)" : "({0}){1}", typeOf(type), result);
}

static std::string compare(arith::CmpIOp op, StringRef a, StringRef b) {
  using P = arith::CmpIPredicate;
  P predicate = op.getPredicate();
  Type type = op.getLhs().getType();
  bool isUnsigned = llvm::is_contained({P::ult, P::ule, P::ugt, P::uge}, predicate);
  // A bool is 0 or -1 where it has a sign.
  auto number = [&](StringRef value) -> std::string {
    if (isUnsigned)
      return asUnsigned(value, type);
    return (width(type) == 1 ? "-" : "") + value.str();
  };
  StringRef sign = predicate == P::eq                           ? "=="
                   : predicate == P::ne                         ? "!="
                   : predicate == P::slt || predicate == P::ult ? "<"
                   : predicate == P::sle || predicate == P::ule ? "<="
                   : predicate == P::sgt || predicate == P::ugt ? ">"
                                                                : ">=";
  return formatv("{0} {1} {2}", number(a), sign, number(b));
}

static std::string compare(arith::CmpFOp op, StringRef a, StringRef b) {
  using P = arith::CmpFPredicate;
  auto text = [&](const char *format) -> std::string { return formatv(format, a, b); };
  switch (op.getPredicate()) {
  case P::AlwaysFalse:
    return "false";
  case P::AlwaysTrue:
    return "true";
  case P::OEQ:
    return text("{0} == {1}");
  case P::OGT:
    return text("{0} > {1}");
  case P::OGE:
    return text("{0} >= {1}");
  case P::OLT:
    return text("{0} < {1}");
  case P::OLE:
    return text("{0} <= {1}");
  case P::ONE:
    return text("{0} < {1} || {0} > {1}");
  case P::ORD:
    return text("{0} == {0} && {1} == {1}");
  case P::UEQ:
    return text("!({0} < {1} || {0} > {1})");
  case P::UGT:
    return text("!({0} <= {1})");
  case P::UGE:
    return text("!({0} < {1})");
  case P::ULT:
    return text("!({0} >= {1})");
  case P::ULE:
    return text("!({0} > {1})");
  case P::UNE:
    return text("{0} != {1}");
  case P::UNO:
    return text("{0} != {0} || {1} != {1}");
  }
  llvm_unreachable("all predicates are above");
}

static std::string convert(Operation *op, StringRef a) {
  Type from = op->getOperand(0).getType(), to = op->getResult(0).getType();
  std::string type = typeOf(to);
  // With a sign, the bool true is -1.
  std::string number = (width(from) == 1 ? "-(int64_t)" : "") + a.str();
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<arith::ExtFOp, arith::TruncFOp>([&](auto) { return formatv("({0}){1}", type, a); })
      .Case<arith::SIToFPOp, arith::ExtSIOp>(
          [&](auto) { return formatv("({0})({1})", type, number); })
      .Case<arith::UIToFPOp, arith::ExtUIOp>(
          [&](auto) { return formatv("({0}){1}", type, asUnsigned(a, from)); })
      .Case([&](arith::TruncIOp) {
        return width(to) == 1 ? formatv("({0} & 1) != 0", a).str()
                              : formatv("({0}){1}", type, a).str();
      })
      .Case([&](arith::FPToSIOp) { return formatv("({0})float_to_i64({1})", type, a); })
      .Case([&](arith::FPToUIOp) { return formatv("({0})float_to_u64({1})", type, a); })
      .Case([&](arith::BitcastOp) -> std::string {
        if (width(from) == 32 || width(from) == 64)
          if (isa<FloatType>(from) != isa<FloatType>(to))
            return formatv("{0}_of_bits_{1}({2})", isa<FloatType>(to) ? "float" : "int", width(to),
                           a);
        return from == to ? a.str() : "";
      })
      .Default([](Operation *) { return std::string(); });
}

/// Functions of C's library under their names for doubles.
static StringRef libraryFunction(Operation *op) {
  return llvm::StringSwitch<StringRef>(op->getName().getStringRef())
      .Case("math.absf", "fabs")
      .Case("math.roundeven", "rint")
      .Case("arith.remf", "fmod")
      .Cases({"math.acos",  "math.acosh", "math.asin",  "math.asinh", "math.atan",
              "math.atan2", "math.atanh", "math.cbrt",  "math.ceil",  "math.copysign",
              "math.cos",   "math.cosh",  "math.erf",   "math.erfc",  "math.exp",
              "math.exp2",  "math.expm1", "math.floor", "math.fma",   "math.log",
              "math.log10", "math.log1p", "math.log2",  "math.round", "math.sin",
              "math.sinh",  "math.sqrt",  "math.tan",   "math.tanh",  "math.trunc"},
             op->getName().stripDialect())
      .Case("math.powf", "pow")
      .Default("");
}

static std::string callOf(StringRef function, Type type, ArrayRef<std::string> operands) {
  return formatv("{0}{1}({2})", function, type.isF32() ? "f" : "", llvm::join(operands, ", "));
}

static std::string writeInteger(Operation *op, StringRef a, StringRef b) {
  Type type = op->getResult(0).getType();
  std::string name = typeOf(type);
  unsigned bits = width(type);
  auto pick = [&](StringRef sign, bool isUnsigned) -> std::string {
    auto number = [&](StringRef value) {
      return isUnsigned ? asUnsigned(value, type) : (bits == 1 ? "-" : "") + value.str();
    };
    return formatv("{0} {1} {2} ? {3} : {4}", number(a), sign, number(b), a, b);
  };
  auto divide = [&](StringRef function, bool isUnsigned) -> std::string {
    if (bits == 1)
      return "";
    return formatv("({0}){1}({2}, {3})", name, function, isUnsigned ? asUnsigned(a, type) : a.str(),
                   isUnsigned ? asUnsigned(b, type) : b.str());
  };
  auto shift = [&](const char *format) -> std::string {
    return bits == 1 ? "" : formatv(format, name, a, b, bits - 1, asUnsigned(a, type)).str();
  };
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([&](arith::AddIOp) { return wrap(type, a, "+", b); })
      .Case([&](arith::SubIOp) { return wrap(type, a, "-", b); })
      .Case([&](arith::MulIOp) { return wrap(type, a, "*", b); })
      .Case([&](arith::AndIOp) { return formatv("({0})({1} & {2})", name, a, b); })
      .Case([&](arith::OrIOp) { return formatv("({0})({1} | {2})", name, a, b); })
      .Case([&](arith::XOrIOp) { return formatv("({0})({1} ^ {2})", name, a, b); })
      .Case([&](arith::ShLIOp) { return shift("({0})((uint64_t){1} << ({2} & {3}))"); })
      .Case([&](arith::ShRSIOp) { return shift("({0})({1} >> ({2} & {3}))"); })
      .Case([&](arith::ShRUIOp) { return shift("({0})({4} >> ({2} & {3}))"); })
      .Case([&](arith::MaxSIOp) { return pick(">", false); })
      .Case([&](arith::MinSIOp) { return pick("<", false); })
      .Case([&](arith::MaxUIOp) { return pick(">", true); })
      .Case([&](arith::MinUIOp) { return pick("<", true); })
      .Case([&](arith::DivSIOp) { return divide("divide_i64", false); })
      .Case([&](arith::RemSIOp) { return divide("remainder_i64", false); })
      .Case([&](arith::FloorDivSIOp) { return divide("floor_div", false); })
      .Case([&](arith::DivUIOp) { return divide("divide_u64", true); })
      .Case([&](arith::RemUIOp) { return divide("remainder_u64", true); })
      .Case([&](math::AbsIOp) {
        return formatv("{1} < 0 ? ({0})(0 - (uint64_t){1}) : {1}", name, a);
      })
      .Default([](Operation *) { return std::string(); });
}

std::string cbackend::writeScalarOp(Operation *op, ArrayRef<std::string> operands) {
  Type type = op->getResult(0).getType();
  if (!hasType(type) || !llvm::all_of(op->getOperandTypes(), hasType))
    return "";
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
      return literal(number.getValueAsDouble(), type.isF32());
    APInt number = cast<IntegerAttr>(constant.getValue()).getValue();
    return width(type) == 1 ? (number.isZero() ? "false" : "true") : literal(number.getSExtValue());
  }
  StringRef a = operands[0], b = operands.size() > 1 ? operands[1] : a;
  std::string suffix = type.isF32() ? "f32" : "f64";
  if (std::string converted = convert(op, a); !converted.empty())
    return converted;
  if (StringRef function = libraryFunction(op); !function.empty())
    return callOf(function, type, operands);
  if (isa<IntegerType>(type))
    if (std::string integer = writeInteger(op, a, b); !integer.empty())
      return integer;
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case([&](arith::AddFOp) { return formatv("{0} + {1}", a, b); })
      .Case([&](arith::SubFOp) { return formatv("{0} - {1}", a, b); })
      .Case([&](arith::MulFOp) { return formatv("{0} * {1}", a, b); })
      .Case([&](arith::DivFOp) { return formatv("{0} / {1}", a, b); })
      .Case([&](arith::NegFOp) { return formatv("-{0}", a); })
      .Case([&](arith::MaximumFOp) { return formatv("maximum_{2}({0}, {1})", a, b, suffix); })
      .Case([&](arith::MinimumFOp) { return formatv("minimum_{2}({0}, {1})", a, b, suffix); })
      .Case([&](arith::MaxNumFOp) { return callOf("fmax", type, operands); })
      .Case([&](arith::MinNumFOp) { return callOf("fmin", type, operands); })
      .Case([&](math::RsqrtOp) { return "1 / " + callOf("sqrt", type, operands); })
      .Case([&](arith::CmpIOp compared) { return compare(compared, a, b); })
      .Case([&](arith::CmpFOp compared) { return compare(compared, a, b); })
      .Case([&](arith::SelectOp) { return formatv("{0} ? {1} : {2}", a, b, operands[2]); })
      .Case([&](math::IsNaNOp) { return formatv("{0} != {0}", a); })
      .Case([&](math::IsInfOp) { return formatv("isinf({0}) != 0", a); })
      .Case([&](math::IsFiniteOp) { return formatv("isfinite({0}) != 0", a); })
      .Default([](Operation *) { return std::string(); });
}
