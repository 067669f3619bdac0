// Evaluation of conditions, in Python's arithmetic.
#include "FloatExpr.h"
#include <cmath>

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;
using Op = FloatExpr::Op;
using Number = FloatExpr::Number;

/// Up to where a double is the integer.
static constexpr int64_t maxExact = int64_t(1) << 53;

static bool isExact(int64_t value) { return value >= -maxExact && value <= maxExact; }

/// Python's math.floor and its like: none for what is no number, or too large.
static std::optional<int64_t> toInteger(double value) {
  if (!(std::abs(value) < 0x1p62))
    return std::nullopt;
  return static_cast<int64_t>(value);
}

//===-- Numbers -------------------------------------------------------------------------------===//

/// Both operands are floats.
static std::optional<double> applyFloat(Op op, double a, double b) {
  if (b == 0 && (op == Op::Div || op == Op::FloorDiv || op == Op::Mod))
    return std::nullopt; // ZeroDivisionError
  switch (op) {
  case Op::Add:
    return a + b;
  case Op::Sub:
    return a - b;
  case Op::Mul:
    return a * b;
  case Op::Div:
    return a / b;
  case Op::Pow: {
    // A negative number to a broken power is complex.
    bool raises = (a == 0 && b < 0) || (a < 0 && b != std::floor(b));
    double power = std::pow(a, b);
    return raises || std::isinf(power) ? std::nullopt : std::optional(power);
  }
  default:
    break;
  }
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == Op::Mod)
    return rest != 0 ? rest : std::copysign(0.0, b);
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

static std::optional<int64_t> powerOf(int64_t base, int64_t exponent) {
  if (base >= -1 && base <= 1)
    return exponent == 0 ? 1 : base < 0 && exponent % 2 == 0 ? 1 : base;
  int64_t result = 1;
  for (; exponent > 0; --exponent) // ends early: the result leaves 64 bits
    if (__builtin_mul_overflow(result, base, &result))
      return std::nullopt;
  return result;
}

/// Both operands are integers, and so is the result.
static std::optional<int64_t> applyInteger(Op op, int64_t a, int64_t b) {
  int64_t result;
  switch (op) {
  case Op::Add:
    return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case Op::Sub:
    return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case Op::Mul:
    return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  case Op::Pow:
    return powerOf(a, b);
  default:
    break;
  }
  if (b == 0 || (b == -1 && a == INT64_MIN))
    return std::nullopt;
  int64_t quotient = a / b, rest = a % b;
  bool isNegative = rest != 0 && (rest < 0) != (b < 0);
  return op == Op::Mod ? rest + (isNegative ? b : 0) : quotient - isNegative;
}

static std::optional<Number> apply(Op op, Number a, Number b) {
  auto toReal = [](Number x) { return x.isFloat ? x.real : static_cast<double>(x.integer); };
  auto isReal = [](Number x) { return x.isFloat || isExact(x.integer); };
  auto ofBool = [](bool value) { return Number{false, value, 0}; };
  bool areIntegers = !a.isFloat && !b.isFloat;
  if (!areIntegers && (!isReal(a) || !isReal(b)))
    return std::nullopt;
  double x = toReal(a), y = toReal(b);
  switch (op) {
  case Op::Equal:
    return ofBool(areIntegers ? a.integer == b.integer : x == y);
  case Op::NotEqual:
    return ofBool(areIntegers ? a.integer != b.integer : x != y);
  case Op::Less:
    return ofBool(areIntegers ? a.integer < b.integer : x < y);
  case Op::LessOrEqual:
    return ofBool(areIntegers ? a.integer <= b.integer : x <= y);
  case Op::Min: // the first of equal ones
    return (areIntegers ? b.integer < a.integer : y < x) ? b : a;
  case Op::Max:
    return (areIntegers ? b.integer > a.integer : y > x) ? b : a;
  default:
    break;
  }
  bool givesFloat = op == Op::Div || (op == Op::Pow && b.integer < 0);
  if (areIntegers && !givesFloat) {
    std::optional<int64_t> result = applyInteger(op, a.integer, b.integer);
    return result ? std::optional(Number{false, *result, 0}) : std::nullopt;
  }
  if (!isReal(a) || !isReal(b))
    return std::nullopt;
  std::optional<double> result = applyFloat(op, x, y);
  return result ? std::optional(Number{true, 0, *result}) : std::nullopt;
}

static std::optional<Number> applyFunction(Op op, Number a) {
  auto ofFloat = [](double value) -> std::optional<Number> { return Number{true, 0, value}; };
  auto ofInteger = [](std::optional<int64_t> value) -> std::optional<Number> {
    return value ? std::optional(Number{false, *value, 0}) : std::nullopt;
  };
  bool isInteger = !a.isFloat;
  if (isInteger && !isExact(a.integer))
    return std::nullopt;
  double x = isInteger ? static_cast<double>(a.integer) : a.real;
  switch (op) {
  case Op::Neg:
    return isInteger ? ofInteger(-a.integer) : ofFloat(-x);
  case Op::Abs:
    return isInteger ? ofInteger(std::abs(a.integer)) : ofFloat(std::abs(x));
  case Op::Not:
    return ofInteger(x == 0);
  case Op::Trunc:
    return isInteger ? a : ofInteger(toInteger(std::trunc(x)));
  case Op::Floor:
    return isInteger ? a : ofInteger(toInteger(std::floor(x)));
  case Op::Ceil:
    return isInteger ? a : ofInteger(toInteger(std::ceil(x)));
  case Op::Round: // half to even
    return isInteger ? a : ofInteger(toInteger(std::nearbyint(x)));
  case Op::ToFloat:
    return ofFloat(x);
  case Op::Sqrt:
    return x < 0 ? std::nullopt : ofFloat(std::sqrt(x));
  case Op::Exp:
    return std::isinf(std::exp(x)) ? std::nullopt : ofFloat(std::exp(x));
  case Op::Log:
    return x <= 0 ? std::nullopt : ofFloat(std::log(x));
  case Op::Log2:
    return x <= 0 ? std::nullopt : ofFloat(std::log2(x));
  default:
    return std::nullopt;
  }
}

//===-- Conditions ----------------------------------------------------------------------------===//

static bool isTrue(Number x) { return x.isFloat ? x.real != 0 : x.integer != 0; }

std::optional<Number> FloatExpr::evaluate(const Node &node, ArrayRef<int64_t> values,
                                          ArrayRef<std::optional<Number>> results) const {
  auto operand = [&](unsigned i) { return results[node.operands[i]]; };
  switch (node.op) {
  case Op::Integer:
  case Op::Float:
    return node.constant;
  case Op::Input:
    return Number{false, values[node.input], 0};
  case Op::And:
  case Op::Or: {
    bool decides = operand(0) && isTrue(*operand(0)) == (node.op == Op::Or);
    return !operand(0) || decides ? operand(0) : operand(1);
  }
  case Op::Select:
    return operand(1) ? operand(isTrue(*operand(1)) ? 0 : 2) : std::nullopt;
  default:
    break;
  }
  if (llvm::any_of(node.operands, [&](unsigned other) { return !results[other]; }))
    return std::nullopt;
  return node.operands.size() == 1 ? applyFunction(node.op, *operand(0))
                                   : apply(node.op, *operand(0), *operand(1));
}

/// A condition that raises an exception does not hold.
bool FloatExpr::holds(ArrayRef<int64_t> values) const {
  SmallVector<std::optional<Number>, 16> results;
  for (const Node &node : nodes)
    results.push_back(evaluate(node, values, results));
  return results[root] && isTrue(*results[root]);
}

Expected<Expr> FloatExpr::toIntegers(Expr symbol, sym::Range range) const {
  constexpr unsigned maxIntervals = 64;
  SmallVector<std::pair<int64_t, int64_t>> intervals;
  SmallVector<int64_t> values(inputs.size());
  int64_t first = std::max(range.min.value_or(-limit), -limit);
  int64_t last = std::min(range.max.value_or(limit), limit);
  for (int64_t value = first; value <= last; ++value) {
    bool areKnown = true;
    for (auto [leaf, result] : zip_equal(inputs, values)) {
      std::optional<int64_t> number = leaf.evaluate([&](Expr) { return value; });
      areKnown &= number.has_value();
      result = number.value_or(0);
    }
    if (!areKnown || !holds(values))
      continue;
    if (!intervals.empty() && intervals.back().second == value - 1)
      intervals.back().second = value;
    else
      intervals.push_back({value, value});
    if (intervals.size() > maxIntervals)
      return createStringError("a condition with floats that holds at too many places");
  }
  Expr condition = -1;
  for (auto [begin, end] : intervals) {
    Expr inside = Expr::min(symbol - begin, end - symbol);
    condition = condition == Expr(-1) ? inside : Expr::max(condition, inside);
  }
  return condition;
}
