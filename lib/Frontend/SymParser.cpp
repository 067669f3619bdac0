// Arithmetic, as sympy and Python write it; see kiln/Frontend/SymExpr.h.
#include "SymParser.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

/// Integers up to which a product with a float constant is looked at.
static constexpr int64_t maxScaled = 1 << 16;

static bool isWordChar(char c) { return isAlnum(c) || c == '_'; }

StringRef kiln::frontend::firstCall(StringRef text) {
  size_t length = text.take_while(isWordChar).size();
  if (!text.drop_front(length).starts_with("("))
    return text.take_front(length);
  unsigned open = 0;
  for (; length < text.size(); ++length) {
    open += text[length] == '(';
    open -= text[length] == ')';
    if (!open)
      break;
  }
  return text.take_front(length + 1);
}

//===-- Pieces --------------------------------------------------------------------------------===//

bool SymParser::fail(const Twine &message) {
  if (error.empty())
    error = message.str();
  return false;
}

bool SymParser::check(Failure failure, StringRef name) {
  return !failure || fail(name.empty() ? Twine(failure) : name + ": " + failure);
}

bool SymParser::consume(StringRef token) {
  if (!rest.consume_front(token))
    return false;
  rest = rest.ltrim();
  return true;
}

bool SymParser::consumeWord(StringRef word) {
  StringRef after = rest;
  if (!after.consume_front(word) || (!after.empty() && isWordChar(after.front())))
    return false;
  rest = after.ltrim();
  return true;
}

bool SymParser::expect(StringRef token) {
  return consume(token) || fail("expected '" + token + "' before '" + rest.take_front(12) + "'");
}

StringRef SymParser::word() {
  StringRef result = rest.take_while(isWordChar);
  rest = rest.drop_front(result.size()).ltrim();
  return result;
}

Expected<Expr> SymParser::finish(Expr result) {
  if (error.empty() && !result.isValid())
    fail("overflows 64 bits or divides by zero");
  if (!error.empty())
    return createStringError("cannot read expression '" + text.take_front(200) + "': " + error);
  return result;
}

Expected<Expr> SymParser::readExpr() {
  Quotient result;
  if (text.size() > SymExprReader::maxTextLength)
    fail("expression is too long");
  else if (number(result, 0) && !rest.empty())
    fail("unexpected '" + rest.take_front(12) + "'");
  if (error.empty() && result.infinite)
    fail(tooWide);
  if (error.empty() && !result.isInteger())
    fail("not an integer");
  return finish(result.numerator);
}

/// A condition as a number is 1 where it holds, else 0.
Quotient SymParser::toNumber(const Value &value) {
  return value.holds ? Quotient{Expr::min(1, Expr::max(*value.holds + 1, 0))} : value.number;
}

bool SymParser::apply(StringRef name, ArrayRef<Quotient> args, Quotient &result) {
  if (name == "Mul" && args.size() == 2 && (args[0].isScale || args[1].isScale) &&
      !args[0].infinite && !args[1].infinite) {
    const Quotient &factor = args[args[0].isScale ? 1 : 0];
    const Quotient &constant = args[args[0].isScale ? 0 : 1];
    if (!factor.isInteger() || factor.isScale)
      return fail("a float constant times a fraction");
    Expr small = Expr::min(factor.numerator, maxScaled - factor.numerator);
    assumed = assumed ? Expr::min(*assumed, small) : small;
    result = {factor.numerator * constant.numerator, constant.denominator, true};
    return true;
  }
  auto isNonNegative = [&](Quotient x) {
    sym::Assumptions assumptions;
    for (auto &[symbol, range] : ranges)
      assumptions.setRange(symbol, range);
    return assumptions.isNonNegative(x.numerator) && assumptions.isPositive(x.denominator);
  };
  return check(applyFunction(name, args, isNonNegative, result), name);
}

//===-- Operators -----------------------------------------------------------------------------===//

bool SymParser::number(Quotient &result, unsigned depth) {
  Value any;
  if (!value(any, depth))
    return false;
  result = toNumber(any);
  return true;
}

void SymParser::makeRoom(Quotient &number) const {
  if (isPython() && number.isInteger() && number.numerator.isConstant(INT64_MAX))
    number.numerator = Expr(INT64_MAX / 2);
}

bool SymParser::sum(Value &result, unsigned depth) {
  if (!product(result, depth))
    return false;
  while (true) {
    bool isMinus = rest.starts_with("-");
    if (!isMinus && !rest.starts_with("+"))
      return true;
    consume(rest.take_front(1));
    Value rhs;
    if (!product(rhs, depth))
      return false;
    Quotient left = toNumber(result), right = toNumber(rhs);
    for (Quotient *side : {&left, &right})
      makeRoom(*side);
    if (isMinus)
      right.numerator = -right.numerator;
    result = {};
    if (!check(add(left, right, result.number)))
      return false;
  }
}

bool SymParser::product(Value &result, unsigned depth) {
  if (!unary(result, depth))
    return false;
  while (true) {
    // Python divides in floats, sympy exactly.
    StringRef name = consume("//")  ? "FloorDiv"
                     : consume("/") ? (isPython() ? "IntTrueDiv" : "Rational")
                     : consume("%") ? "Mod"
                     : consume("*") ? "Mul"
                                    : "";
    if (name.empty())
      return true;
    Value rhs;
    if (!unary(rhs, depth))
      return false;
    Quotient args[2] = {toNumber(result), toNumber(rhs)};
    result = {};
    if (!apply(name, args, result.number))
      return false;
  }
}

bool SymParser::unary(Value &result, unsigned depth) {
  bool isNegative = false;
  while (consume("-"))
    isNegative = !isNegative;
  if (!atom(result, depth))
    return false;
  if (consume("**")) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    Value exponent;
    if (!unary(exponent, depth + 1))
      return false;
    Quotient base = toNumber(result);
    result = {};
    if (!check(power(base, toNumber(exponent), result.number)))
      return false;
  }
  if (isNegative) {
    result = {toNumber(result), {}};
    result.number.numerator = -result.number.numerator;
    result.number.infinite = -result.number.infinite;
  }
  return true;
}

//===-- Atoms ---------------------------------------------------------------------------------===//

bool SymParser::atom(Value &result, unsigned depth) {
  if (consume("("))
    return value(result, depth + 1) && expect(")");
  if (!rest.empty() && isDigit(rest.front()))
    return literal(result.number);
  if (isPython()) {
    consume("math.");
    consume("torch.");
  }
  if (defined && !defined->empty() && consumeDefined(result.number))
    return true;
  StringRef name = word();
  if (name.empty())
    return fail("expected an expression before '" + rest.take_front(12) + "'");
  if (isPython() && name == "L" && rest.starts_with("["))
    return inputProperty(result.number);
  if (consume("("))
    return call(name, result.number, depth);
  bool isTrue = name == "true" || name == "True", isFalse = name == "false" || name == "False";
  if (!isTrue && !isFalse)
    return isPython() ? fail("'" + name + "' is not known") : symbol(name, {}, result.number);
  result.number = {isTrue ? 1 : 0};
  return true;
}

/// A call whose whole text has been given a meaning.
bool SymParser::consumeDefined(Quotient &result) {
  StringRef call = firstCall(rest);
  auto found = defined->find(call);
  if (found == defined->end())
    return false;
  rest = rest.drop_front(call.size()).ltrim();
  result = {found->second};
  return true;
}

/// sympy's name of a Python function.
static StringRef translate(StringRef name) {
  static constexpr std::pair<StringLiteral, StringLiteral> names[] = {
      {"floor", "floor"},       {"ceil", "ceiling"},  {"trunc", "TruncToInt"},
      {"int", "TruncToInt"},    {"abs", "Abs"},       {"min", "Min"},
      {"max", "Max"},           {"sym_min", "Min"},   {"sym_max", "Max"},
      {"sym_float", "ToFloat"}, {"float", "ToFloat"}, {"round", "RoundToInt"}};
  for (auto &[python, sympy] : names)
    if (name == python)
      return sympy;
  return name;
}

bool SymParser::call(StringRef name, Quotient &result, unsigned depth) {
  if (isPython())
    name = translate(name);
  else if (name == "Symbol")
    return quotedSymbol(result);
  else if (name == "Float")
    return quotedFloat(result);
  if (name == "Integer")
    return number(result, depth + 1) && expect(")");
  if (name == "Piecewise")
    return piecewise(result, depth + 1);
  SmallVector<Quotient> args;
  if (consume(")"))
    return apply(name, args, result);
  do {
    if (!number(args.emplace_back(), depth + 1))
      return false;
  } while (consume(","));
  return expect(")") && apply(name, args, result);
}

bool SymParser::literal(Quotient &result) {
  size_t length = 0;
  bool isInteger = true;
  for (; length < rest.size(); ++length) {
    char c = rest[length];
    bool isExponent = (c == 'e' || c == 'E') && length + 1 < rest.size();
    bool isSign = (c == '-' || c == '+') && length > 0 && toLower(rest[length - 1]) == 'e';
    if (!isDigit(c) && c != '.' && !isExponent && !isSign)
      break;
    isInteger &= isDigit(c);
  }
  StringRef digits = rest.take_front(length);
  rest = rest.drop_front(length).ltrim();
  if (!isInteger)
    return decimal(digits, result);
  int64_t value;
  bool isHuge = digits.getAsInteger(10, value);
  result = {isHuge ? INT64_MAX : value}; // a bound beyond all sizes
  result.infinite = isHuge && !isPython();
  return true;
}

/// A float that is a short binary fraction: its product with a size has no rounding error.
bool SymParser::decimal(StringRef digits, Quotient &result) {
  constexpr int maxBits = 20;
  double value;
  if (digits.getAsDouble(value, /*AllowInexact=*/true) || !std::isfinite(value))
    return fail("'" + digits + "' is not a number");
  double whole = value;
  int64_t denominator = 1;
  for (int bit = 0; bit < maxBits && value != std::floor(value); ++bit) {
    value *= 2;
    denominator *= 2;
  }
  if (value != std::floor(value) || std::abs(value) > (int64_t(1) << maxBits)) {
    if (mayAssume && scale(whole, result))
      return true;
    return fail("'" + digits + "' is not a short binary fraction");
  }
  result = {static_cast<int64_t>(value), denominator};
  return true;
}

/// 0.2 as 1/5, if its products with 0, 1, …, maxScaled are on the same side of
/// every integer as the exact ones. Where it is used the other factor is then restricted to those.
bool SymParser::scale(double value, Quotient &result) {
  constexpr int64_t maxDenominator = 100;
  for (int64_t q = 1; q <= maxDenominator && std::abs(value) < maxScaled; ++q) {
    auto p = static_cast<int64_t>(std::round(value * double(q)));
    if (double(p) / double(q) != value)
      continue;
    for (int64_t x = 0; x <= maxScaled; ++x) {
      double product = value * double(x), floor = std::floor(product);
      if (std::floor(double(p * x) / double(q)) != floor || (product == floor) != (p * x % q == 0))
        return false;
    }
    result = {p, q, /*isRounded=*/true, /*isScale=*/true};
    return true;
  }
  return false;
}

/// `'0.5', precision=53)`
bool SymParser::quotedFloat(Quotient &result) {
  if (!expect("'"))
    return false;
  StringRef digits = rest.take_front(rest.find('\''));
  rest = rest.drop_front(digits.size());
  if (!expect("'"))
    return false;
  if (consume(",")) {
    word();
    if (!expect("="))
      return false;
    word();
  }
  return expect(")") && decimal(digits, result);
}

/// `Piecewise(ExprCondPair(a, c), ExprCondPair(b, true))`, or with Tuple, or with plain pairs.
bool SymParser::piecewise(Quotient &result, unsigned depth) {
  SmallVector<std::pair<Quotient, Quotient>> cases;
  do {
    auto &[value, condition] = cases.emplace_back();
    if (!consume("ExprCondPair"))
      consume("Tuple");
    if (!expect("(") || !number(value, depth) || !expect(",") || !number(condition, depth) ||
        !expect(")"))
      return false;
  } while (consume(","));
  if (!expect(")"))
    return false;
  if (!cases.back().second.numerator.isConstant(1))
    return fail("Piecewise without a last case that is always true");
  result = cases.back().first;
  for (auto &[value, condition] : reverse(ArrayRef(cases).drop_back()))
    if (!check(select(condition, value, Quotient(result), result)))
      return false;
  return true;
}

/// `'s39', positive=True, integer=True)`
bool SymParser::quotedSymbol(Quotient &result) {
  StringRef quote = rest.take_front(1);
  if (quote != "'" && quote != "\"")
    return fail("expected a symbol's name");
  rest = rest.drop_front();
  StringRef name = rest.take_front(rest.find(quote));
  rest = rest.drop_front(name.size());
  if (!expect(quote))
    return false;
  sym::Range range;
  while (consume(",")) {
    StringRef assumption = word();
    if (!expect("="))
      return false;
    bool isTrue = consume("True");
    if (!isTrue && !expect("False"))
      return false;
    if (isTrue && assumption == "positive")
      range.min = 1;
    else if (isTrue && assumption == "nonnegative")
      range.min = std::max<int64_t>(range.min.value_or(0), 0);
  }
  return expect(")") && symbol(name, range, result);
}

bool SymParser::symbol(StringRef name, sym::Range range, Quotient &result) {
  // Names that the textual form of expressions gives another meaning.
  bool isDim = name.size() > 1 && name[0] == 'd' && all_of(name.drop_front(), isDigit);
  bool isKeyword = is_contained({"min", "max", "mod", "floordiv", "ceildiv"}, name);
  bool isConstant = is_contained({"oo", "int_oo", "zoo", "nan", "pi", "E", "I"}, name);
  bool isName = !name.empty() && !isDigit(name[0]) && all_of(name, isWordChar);
  if (!isName || isDim || isKeyword || isConstant)
    return fail("'" + name + "' is not a symbol");
  Expr expr = Expr::symbol(name);
  sym::Range &known = ranges[expr];
  if (range.min)
    known.min = std::max(known.min.value_or(*range.min), *range.min);
  result = {expr};
  return true;
}
