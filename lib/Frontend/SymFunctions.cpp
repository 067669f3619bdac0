// Functions of expressions, on quotients of integer polynomials.
#include "SymFunctions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

/// A limit that keeps hostile text from using up the memory: products of sums are expanded, and
/// every intermediate sum is kept for the life of the process.
static constexpr size_t maxTerms = 512;
static constexpr int64_t maxExponent = 32;
static constexpr Failure tooLarge = "expression is too large";

static size_t countTerms(Expr expr) {
  sym::Kind kind = expr.kind();
  bool isList = kind == sym::Kind::Add || kind == sym::Kind::Min || kind == sym::Kind::Max;
  return isList ? expr.operands().size() : 1;
}

//===-- Fractions -----------------------------------------------------------------------------===//

static Failure multiply(Expr a, Expr b, Expr &result) {
  if (countTerms(a) * countTerms(b) > maxTerms)
    return tooLarge;
  result = a * b;
  return nullptr;
}

static constexpr Failure tooRounded = "arithmetic on a float that has been rounded";

static Failure multiply(Quotient a, Quotient b, Quotient &result) {
  if (a.infinite || b.infinite)
    return tooWide;
  if (a.isRounded || b.isRounded)
    return tooRounded;
  if (Failure failure = multiply(a.numerator, b.numerator, result.numerator))
    return failure;
  return multiply(a.denominator, b.denominator, result.denominator);
}

Failure kiln::frontend::add(Quotient a, Quotient b, Quotient &result) {
  if (a.infinite || b.infinite)
    return tooWide;
  if (a.isRounded || b.isRounded)
    return tooRounded;
  if (countTerms(a.numerator) + countTerms(b.numerator) > maxTerms)
    return tooLarge;
  if (a.denominator == b.denominator) {
    result = {a.numerator + b.numerator, a.denominator};
    return nullptr;
  }
  Expr left, right, denominator;
  if (Failure failure = multiply(a.numerator, b.denominator, left))
    return failure;
  if (Failure failure = multiply(b.numerator, a.denominator, right))
    return failure;
  if (Failure failure = multiply(a.denominator, b.denominator, denominator))
    return failure;
  result = {left + right, denominator};
  return nullptr;
}

static Quotient negate(Quotient x) { return {-x.numerator, x.denominator, x.isRounded}; }

/// Constants in lowest terms, so that equal ones add up without growing; exact multiples divided.
static Quotient reduce(Quotient x) {
  std::optional<int64_t> numerator = x.numerator.constant(), denominator = x.denominator.constant();
  if (!denominator || numerator == INT64_MIN || *denominator == INT64_MIN)
    return x;
  if (!numerator) {
    Expr quotient = x.numerator.floorDiv(*denominator);
    return quotient * *denominator == x.numerator ? Quotient{quotient} : x;
  }
  int64_t divisor = std::gcd(*numerator, *denominator) * (*denominator < 0 ? -1 : 1);
  return {*numerator / divisor, *denominator / divisor};
}

static Failure divide(Quotient a, Quotient b, Quotient &result) {
  if (b.numerator.isConstant(0))
    return "division by zero";
  if (Failure failure = multiply(a, {b.denominator, b.numerator, b.isRounded}, result))
    return failure;
  result = reduce(result);
  return nullptr;
}

/// The same in floats.
static Failure divideFloats(Quotient a, Quotient b, Quotient &result) {
  if (Failure failure = divide(a, b, result))
    return failure;
  std::optional<int64_t> denominator = result.denominator.constant();
  result.isRounded = !denominator || !isPowerOf2_64(std::abs(*denominator));
  return nullptr;
}

Failure kiln::frontend::power(Quotient base, Quotient exponent, Quotient &result) {
  std::optional<int64_t> n = exponent.numerator.constant();
  if (!n || !exponent.isInteger())
    return "the exponent is not a constant integer";
  if (*n < -maxExponent || *n > maxExponent)
    return "the exponent is too large";
  result = {1};
  for (int64_t i = 0; i < std::abs(*n); ++i)
    if (Failure failure = multiply(Quotient(result), base, result))
      return failure;
  return *n >= 0 ? nullptr : divide({1}, Quotient(result), result);
}

//===-- Rounding ------------------------------------------------------------------------------===//

static Expr floor(Quotient x) { return x.numerator.floorDiv(x.denominator); }
static Expr ceiling(Quotient x) { return x.numerator.ceilDiv(x.denominator); }

static Expr truncate(Quotient x, function_ref<bool(Quotient)> isNonNegative) {
  if (x.isInteger())
    return x.numerator;
  if (isNonNegative(x))
    return floor(x);
  return Expr::max(floor(x), 0) + Expr::min(ceiling(x), 0);
}

/// Half to even: floor(x + 1/2), less one where that was a tie and gave an odd number.
static Failure round(Quotient x, Quotient &result) {
  Quotient shifted;
  x.isRounded = false; // a tie is exact, and nothing else is rounded to one
  if (Failure failure = add(x, {1, 2}, shifted))
    return failure;
  Expr up = floor(shifted);
  Expr rest = shifted.numerator.mod(shifted.denominator);
  result = {up - (1 - Expr::min(1, Expr::max(rest, -rest))) * up.mod(2)};
  return nullptr;
}

//===-- Conditions ----------------------------------------------------------------------------===//

/// 1 where a < b. A rounded quotient is on the same side of an integer as the exact one.
static Failure less(Quotient a, Quotient b, Quotient &result) {
  Quotient difference;
  if ((a.isRounded && !b.isInteger()) || (b.isRounded && !a.isInteger()))
    return tooRounded;
  a.isRounded = b.isRounded = false;
  if (Failure failure = add(b, negate(a), difference))
    return failure;
  std::optional<int64_t> denominator = difference.denominator.constant();
  if (!denominator)
    return "comparison of fractions with symbolic denominators";
  Expr sign = *denominator < 0 ? -difference.numerator : difference.numerator;
  result = {Expr::min(1, Expr::max(sign, 0))};
  return nullptr;
}

static Failure negateCondition(Quotient a, Quotient &result) {
  result = {1 - a.numerator};
  return a.isInteger() ? nullptr : "not a condition";
}

static Failure lessOrEqual(Quotient a, Quotient b, Quotient &result) {
  Quotient isGreater;
  if (Failure failure = less(b, a, isGreater))
    return failure;
  return negateCondition(isGreater, result);
}

static Failure equal(Quotient a, Quotient b, Quotient &result) {
  Quotient isLess, isGreater;
  if (Failure failure = less(a, b, isLess))
    return failure;
  if (Failure failure = less(b, a, isGreater))
    return failure;
  result = {1 - isLess.numerator - isGreater.numerator};
  return nullptr;
}

static Failure notEqual(Quotient a, Quotient b, Quotient &result) {
  Quotient isEqual;
  if (Failure failure = equal(a, b, isEqual))
    return failure;
  return negateCondition(isEqual, result);
}

Failure kiln::frontend::select(Quotient condition, Quotient a, Quotient b, Quotient &result) {
  Quotient inverse, left, right;
  if (Failure failure = negateCondition(condition, inverse))
    return failure;
  if (Failure failure = multiply(condition, a, left))
    return failure;
  if (Failure failure = multiply(inverse, b, right))
    return failure;
  return add(left, right, result);
}

//===-- The table -----------------------------------------------------------------------------===//

namespace {

struct Call {
  ArrayRef<Quotient> args;
  function_ref<bool(Quotient)> isNonNegative;
  Quotient &result;

  Quotient operator[](size_t i) const { return args[i]; }
  Expr integer(size_t i) const { return args[i].numerator; } // where only integers are allowed
  Failure give(Expr expr) const {
    result = {expr};
    return nullptr;
  }
  template <typename Combine> Failure fold(Combine combine) const {
    result = args.front();
    for (Quotient arg : args.drop_front())
      if (Failure failure = combine(Quotient(result), arg, result))
        return failure;
    return nullptr;
  }
  Failure foldIntegers(Expr (*combine)(Expr, Expr)) const {
    return fold([&](Quotient a, Quotient b, Quotient &r) -> Failure {
      if (countTerms(a.numerator) + countTerms(b.numerator) > maxTerms)
        return tooLarge;
      r = {combine(a.numerator, b.numerator)};
      return nullptr;
    });
  }
  /// 2 to the power of argument 1; null when that is not a small constant.
  std::optional<int64_t> shiftFactor() const {
    std::optional<int64_t> count = integer(1).constant();
    if (!count || *count < 0 || *count > 62)
      return std::nullopt;
    return int64_t(1) << *count;
  }
};

enum Domain { Integers, Fractions };

struct Function {
  StringLiteral name;
  Domain domain;        // of the arguments
  unsigned least, most; // number of arguments; most 0: any
  Failure (*apply)(Call);
};

Failure applyDivide(Call c) { return divide(c[0], c[1], c.result); }
Failure applyDivideFloats(Call c) { return divideFloats(c[0], c[1], c.result); }
Failure applyFloor(Call c) { return c.give(floor(c[0])); }
Failure applyCeiling(Call c) { return c.give(ceiling(c[0])); }
Failure applyTruncate(Call c) { return c.give(truncate(c[0], c.isNonNegative)); }
Failure applySame(Call c) { return c.result = c[0], nullptr; }
Failure applyPower(Call c) { return power(c[0], c[1], c.result); }
Failure applyMod(Call c) { return c.give(c.integer(0).mod(c.integer(1))); }
Failure applyMin(Call c) { return c.foldIntegers(Expr::min); }
Failure applyMax(Call c) { return c.foldIntegers(Expr::max); }
Failure applyEqual(Call c) { return equal(c[0], c[1], c.result); }
Failure applyNotEqual(Call c) { return notEqual(c[0], c[1], c.result); }
Failure applyLess(Call c) { return less(c[0], c[1], c.result); }
Failure applyGreater(Call c) { return less(c[1], c[0], c.result); }
Failure applyLessOrEqual(Call c) { return lessOrEqual(c[0], c[1], c.result); }
Failure applyGreaterOrEqual(Call c) { return lessOrEqual(c[1], c[0], c.result); }

Failure applyFloorDiv(Call c) {
  Quotient quotient;
  if (Failure failure = divide(c[0], c[1], quotient))
    return failure;
  return c.give(floor(quotient));
}

Failure applyCeilDiv(Call c) {
  Quotient quotient;
  if (Failure failure = divide(c[0], c[1], quotient))
    return failure;
  return c.give(ceiling(quotient));
}

Failure applyShiftLeft(Call c) {
  std::optional<int64_t> factor = c.shiftFactor();
  return factor ? c.give(c.integer(0) * *factor) : "the shift count is not a small constant";
}

Failure applyShiftRight(Call c) {
  std::optional<int64_t> factor = c.shiftFactor();
  return factor ? c.give(c.integer(0).floorDiv(*factor))
                : "the shift count is not a small constant";
}

/// With all bits up to some place, or with all bits from there on.
Failure applyBitAnd(Call c) {
  for (size_t i : {0, 1}) {
    std::optional<int64_t> mask = c.integer(i).constant();
    Expr x = c.integer(1 - i);
    if (mask && *mask >= 0 && isPowerOf2_64(*mask + 1))
      return c.give(x.mod(*mask + 1));
    if (mask && *mask < 0 && *mask != INT64_MIN && isPowerOf2_64(-*mask))
      return c.give(x - x.mod(-*mask));
  }
  return "not a mask of low or of high bits";
}

Failure applyAbs(Call c) { return c.give(Expr::max(c.integer(0), -c.integer(0))); }
Failure applyAdd(Call c) { return c.fold(add); }
Failure applyMul(Call c) {
  return c.fold([](Quotient a, Quotient b, Quotient &r) { return multiply(a, b, r); });
}
Failure applyModularIndexing(Call c) {
  return c.give(c.integer(0).floorDiv(c.integer(1)).mod(c.integer(2)));
}
Failure applyNot(Call c) { return negateCondition(c[0], c.result); }
Failure applyRound(Call c) { return round(c[0], c.result); }
Failure applyWhere(Call c) { return select(c[0], c[1], c[2], c.result); }

constexpr Function functions[] = {
    {"Abs", Integers, 1, 1, applyAbs},
    {"Add", Fractions, 1, 0, applyAdd},
    {"And", Integers, 1, 0, applyMin},
    {"BitwiseFn_bitwise_and", Integers, 2, 2, applyBitAnd},
    {"CeilDiv", Fractions, 2, 2, applyCeilDiv},
    {"CeilToInt", Fractions, 1, 1, applyCeiling},
    {"CleanDiv", Fractions, 2, 2, applyFloorDiv},
    {"Eq", Fractions, 2, 2, applyEqual},
    {"Equality", Fractions, 2, 2, applyEqual},
    {"FloatTrueDiv", Fractions, 2, 2, applyDivideFloats},
    {"FloorDiv", Fractions, 2, 2, applyFloorDiv},
    {"FloorToInt", Fractions, 1, 1, applyFloor},
    {"Ge", Fractions, 2, 2, applyGreaterOrEqual},
    {"GreaterThan", Fractions, 2, 2, applyGreaterOrEqual},
    {"Gt", Fractions, 2, 2, applyGreater},
    {"Identity", Fractions, 1, 1, applySame},
    {"IntTrueDiv", Fractions, 2, 2, applyDivideFloats},
    {"LShift", Integers, 2, 2, applyShiftLeft},
    {"Le", Fractions, 2, 2, applyLessOrEqual},
    {"LessThan", Fractions, 2, 2, applyLessOrEqual},
    {"Lt", Fractions, 2, 2, applyLess},
    {"Max", Integers, 1, 0, applyMax},
    {"Min", Integers, 1, 0, applyMin},
    {"Mod", Integers, 2, 2, applyMod},
    {"ModularIndexing", Integers, 3, 3, applyModularIndexing},
    {"Mul", Fractions, 1, 0, applyMul},
    {"Ne", Fractions, 2, 2, applyNotEqual},
    {"Not", Integers, 1, 1, applyNot},
    {"Or", Integers, 1, 0, applyMax},
    {"Pow", Fractions, 2, 2, applyPower},
    {"PowByNatural", Fractions, 2, 2, applyPower},
    {"PythonMod", Integers, 2, 2, applyMod},
    {"RShift", Integers, 2, 2, applyShiftRight},
    {"Rational", Fractions, 2, 2, applyDivide},
    {"RoundToInt", Fractions, 1, 1, applyRound},
    {"StrictGreaterThan", Fractions, 2, 2, applyGreater},
    {"StrictLessThan", Fractions, 2, 2, applyLess},
    {"ToFloat", Fractions, 1, 1, applySame},
    {"TruncToFloat", Fractions, 1, 1, applyTruncate},
    {"TruncToInt", Fractions, 1, 1, applyTruncate},
    {"Unequality", Fractions, 2, 2, applyNotEqual},
    {"Where", Fractions, 3, 3, applyWhere},
    {"ceiling", Fractions, 1, 1, applyCeiling},
    {"floor", Fractions, 1, 1, applyFloor},
};

} // namespace

/// Comparisons with integers of more than 64 bits, and the lesser or larger one.
static Failure applyToInfinite(StringRef name, ArrayRef<Quotient> args, Quotient &result) {
  if (name == "Min" || name == "Max") {
    int absorbed = name == "Min" ? 1 : -1; // max(a, -inf) is a
    SmallVector<Quotient> rest;
    for (const Quotient &arg : args)
      if (arg.infinite != absorbed)
        rest.push_back(arg);
    if (rest.empty() || any_of(rest, [](const Quotient &arg) { return arg.infinite != 0; }))
      return tooWide;
    return applyFunction(name, rest, nullptr, result);
  }
  if (args.size() != 2 || args[0].infinite == args[1].infinite)
    return tooWide;
  bool isLess = args[0].infinite < args[1].infinite;
  if (is_contained({"Lt", "StrictLessThan", "Le", "LessThan"}, name))
    result = {isLess};
  else if (is_contained({"Gt", "StrictGreaterThan", "Ge", "GreaterThan"}, name))
    result = {!isLess};
  else if (is_contained({"Eq", "Equality", "Ne", "Unequality"}, name))
    result = {name.starts_with("Ne") || name.starts_with("Un")};
  else
    return tooWide;
  return nullptr;
}

Failure kiln::frontend::applyFunction(StringRef name, ArrayRef<Quotient> args,
                                      function_ref<bool(Quotient)> isNonNegative,
                                      Quotient &result) {
  if (any_of(args, [](const Quotient &arg) { return arg.infinite != 0; }))
    return applyToInfinite(name, args, result);
  const Function *function =
      find_if(functions, [&](const Function &candidate) { return candidate.name == name; });
  if (function == std::end(functions))
    return "not an integer function";
  if (args.size() < function->least || (function->most && args.size() > function->most))
    return "wrong number of arguments";
  if (function->domain == Integers && !all_of(args, [](Quotient x) { return x.isInteger(); }))
    return "argument is a fraction";
  return function->apply({args, isNonNegative, result});
}
