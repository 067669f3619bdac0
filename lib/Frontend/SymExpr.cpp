// A recursive-descent reader of sympy's two textual forms; see the header.
#include "kiln/Frontend/SymExpr.h"
#include "SymFunctions.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

namespace {

/// What keeps hostile text from using up the stack and the time.
constexpr unsigned maxNesting = 200;
constexpr size_t maxTextLength = 1 << 15;

bool isWordChar(char c) { return isAlnum(c) || c == '_'; }

class Reader {
public:
  Reader(StringRef text, MapVector<Expr, sym::Range> &ranges)
      : text(text), rest(text), ranges(ranges) {}

  Expected<Expr> read() {
    Quotient value;
    if (text.size() > maxTextLength)
      fail("expression is too long");
    else if (sum(value, 0) && !rest.empty())
      fail("unexpected '" + rest.take_front(12) + "'");
    if (error.empty() && !value.isInteger())
      fail("not an integer");
    if (error.empty() && !value.numerator.isValid())
      fail("overflows 64 bits or divides by zero");
    if (!error.empty())
      return createStringError("cannot read expression '" + text.take_front(200) + "': " + error);
    return value.numerator;
  }

private:
  bool fail(const Twine &message) {
    if (error.empty())
      error = message.str();
    return false;
  }
  /// The outcome of a function that may have failed.
  bool check(Failure failure, StringRef name = "") {
    return !failure || fail(name.empty() ? Twine(failure) : name + ": " + failure);
  }
  bool consume(StringRef token) {
    if (!rest.consume_front(token))
      return false;
    rest = rest.ltrim();
    return true;
  }
  bool expect(StringRef token) {
    return consume(token) || fail("expected '" + token + "' before '" + rest.take_front(12) + "'");
  }
  StringRef word() {
    StringRef result = rest.take_while(isWordChar);
    rest = rest.drop_front(result.size()).ltrim();
    return result;
  }

  bool apply(StringRef name, ArrayRef<Quotient> args, Quotient &result) {
    auto isNonNegative = [&](Quotient x) {
      sym::Assumptions assumptions;
      for (auto &[symbol, range] : ranges)
        assumptions.setRange(symbol, range);
      return assumptions.isNonNegative(x.numerator) && assumptions.isPositive(x.denominator);
    };
    return check(applyFunction(name, args, isNonNegative, result), name);
  }

  //===-- Operators -------------------------------------------------------------------------===//

  bool sum(Quotient &result, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (!product(result, depth))
      return false;
    while (true) {
      bool isMinus = rest.starts_with("-");
      if (!isMinus && !rest.starts_with("+"))
        return true;
      consume(rest.take_front(1));
      Quotient rhs;
      if (!product(rhs, depth))
        return false;
      if (isMinus)
        rhs.numerator = -rhs.numerator;
      if (!check(add(Quotient(result), rhs, result)))
        return false;
    }
  }

  bool product(Quotient &result, unsigned depth) {
    if (!unary(result, depth))
      return false;
    while (true) {
      StringRef name = consume("//")  ? "FloorDiv"
                       : consume("/") ? "IntTrueDiv"
                       : consume("%") ? "Mod"
                       : consume("*") ? "Mul"
                                      : "";
      if (name.empty())
        return true;
      Quotient args[2] = {result, {}};
      if (!unary(args[1], depth) || !apply(name, args, result))
        return false;
    }
  }

  bool unary(Quotient &result, unsigned depth) {
    bool isNegative = false;
    while (consume("-"))
      isNegative = !isNegative;
    if (!atom(result, depth))
      return false;
    if (consume("**")) {
      if (depth > maxNesting)
        return fail("nested too deeply");
      Quotient exponent;
      if (!unary(exponent, depth + 1) || !check(power(Quotient(result), exponent, result)))
        return false;
    }
    if (isNegative)
      result.numerator = -result.numerator;
    return true;
  }

  //===-- Atoms -----------------------------------------------------------------------------===//

  bool atom(Quotient &result, unsigned depth) {
    if (consume("("))
      return sum(result, depth + 1) && expect(")");
    if (!rest.empty() && isDigit(rest.front()))
      return integer(result);
    StringRef name = word();
    if (name.empty())
      return fail("expected an expression before '" + rest.take_front(12) + "'");
    if (!consume("(")) {
      bool isTrue = name == "true" || name == "True", isFalse = name == "false" || name == "False";
      if (!isTrue && !isFalse)
        return symbol(name, {}, result);
      result = {isTrue ? 1 : 0};
      return true;
    }
    if (name == "Symbol")
      return quotedSymbol(result);
    if (name == "Integer")
      return sum(result, depth + 1) && expect(")");
    if (name == "Piecewise")
      return piecewise(result, depth + 1);
    SmallVector<Quotient> args;
    if (consume(")"))
      return apply(name, args, result);
    do {
      if (!sum(args.emplace_back(), depth + 1))
        return false;
    } while (consume(","));
    return expect(")") && apply(name, args, result);
  }

  bool integer(Quotient &result) {
    StringRef digits = rest.take_while(isDigit);
    int64_t value;
    if (digits.getAsInteger(10, value) || rest.drop_front(digits.size()).starts_with("."))
      return fail("'" + digits + "' is not a 64-bit integer");
    rest = rest.drop_front(digits.size()).ltrim();
    result = {value};
    return true;
  }

  /// `Piecewise(ExprCondPair(a, c), ExprCondPair(b, true))`, or with Tuple, or with plain pairs.
  bool piecewise(Quotient &result, unsigned depth) {
    SmallVector<std::pair<Quotient, Quotient>> cases;
    do {
      auto &[value, condition] = cases.emplace_back();
      if (!consume("ExprCondPair"))
        consume("Tuple");
      if (!expect("(") || !sum(value, depth) || !expect(",") || !sum(condition, depth) ||
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
  bool quotedSymbol(Quotient &result) {
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

  bool symbol(StringRef name, sym::Range range, Quotient &result) {
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

  StringRef text, rest;
  std::string error;
  MapVector<Expr, sym::Range> &ranges;
};

} // namespace

Expected<Expr> SymExprReader::read(StringRef text) {
  auto it = cache.find(text);
  if (it != cache.end())
    return it->second;
  Expected<Expr> expr = Reader(text, ranges).read();
  if (expr)
    cache[text] = *expr;
  return expr;
}
