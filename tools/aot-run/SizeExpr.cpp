//===- SizeExpr.cpp - Values of size expressions --------------------------===//
#include "SizeExpr.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace llvm;

namespace {

/// Recursive descent; the first error sticks and makes every value 0.
class Evaluator {
public:
  Evaluator(StringRef text, const StringMap<int64_t> &symbols)
      : rest(text.trim()), symbols(symbols) {}

  Expected<int64_t> run() {
    int64_t value = sum();
    if (error.empty() && !rest.empty())
      fail("unexpected '" + rest.str() + "'");
    if (!error.empty())
      return createStringError(error);
    return value;
  }

private:
  StringRef rest;
  const StringMap<int64_t> &symbols;
  std::string error;
  unsigned depth = 0;

  int64_t fail(const std::string &message) {
    if (error.empty())
      error = message;
    rest = "";
    return 0;
  }

  bool consume(StringRef token) {
    if (!rest.consume_front(token))
      return false;
    rest = rest.ltrim();
    return true;
  }

  static bool isWord(char c) { return isAlnum(c) || c == '_' || c == '.' || c == '$'; }

  StringRef word() {
    StringRef found = rest.take_while(isWord);
    rest = rest.drop_front(found.size()).ltrim();
    return found;
  }

  bool consumeWord(StringRef name) {
    if (rest.take_while(isWord) != name)
      return false;
    word();
    return true;
  }

  /// `value` is read after the operation that says `overflow` has set it.
  int64_t checked(bool overflow, const int64_t &value) {
    return overflow ? fail("the value leaves 64 bits") : value;
  }

  int64_t sum() {
    int64_t value = product(), result;
    for (;;) {
      if (consume("+"))
        value = checked(AddOverflow(value, product(), result), result);
      else if (consume("-"))
        value = checked(SubOverflow(value, product(), result), result);
      else
        return value;
    }
  }

  /// Python's floor division. INT64_MIN / -1 leaves 64 bits.
  int64_t floorDiv(int64_t a, int64_t b) {
    if (b == 0)
      return fail("division by zero");
    if (b == -1 && a == INT64_MIN)
      return checked(true, 0);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  }

  /// Python's %: the sign of the divisor. INT64_MIN % -1 traps.
  int64_t mod(int64_t a, int64_t b) {
    if (b == 0)
      return fail("division by zero");
    int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }

  int64_t product() {
    int64_t value = operand(), result;
    for (;;) {
      if (consume("*")) {
        value = checked(MulOverflow(value, operand(), result), result);
      } else if (consumeWord("floordiv")) {
        value = floorDiv(value, operand());
      } else if (consumeWord("ceildiv")) {
        int64_t divisor = operand();
        value = value == INT64_MIN ? checked(true, 0) : -floorDiv(-value, divisor);
      } else if (consumeWord("mod")) {
        value = mod(value, operand());
      } else {
        return value;
      }
    }
  }

  int64_t operand() {
    if (++depth > 200)
      return fail("nested too deeply");
    int64_t value = nested();
    --depth;
    return value;
  }

  int64_t nested() {
    if (consume("-")) {
      int64_t result;
      return checked(SubOverflow<int64_t>(0, operand(), result), result);
    }
    if (consume("(")) {
      int64_t value = sum();
      return consume(")") ? value : fail("expected ')'");
    }
    if (rest.empty())
      return fail("expected a size");
    StringRef name = word();
    if (name.empty())
      return fail("unexpected '" + rest.str() + "'");
    int64_t number;
    if (isDigit(name.front()))
      return name.getAsInteger(10, number) ? fail("bad number '" + name.str() + "'") : number;
    if ((name == "min" || name == "max") && consume("(")) {
      int64_t value = sum();
      while (consume(","))
        value = name == "min" ? std::min(value, sum()) : std::max(value, sum());
      return consume(")") ? value : fail("expected ')'");
    }
    auto symbol = symbols.find(name);
    return symbol != symbols.end() ? symbol->second : fail("unknown symbol '" + name.str() + "'");
  }
};

} // namespace

Expected<int64_t> kiln::run::evaluateSize(StringRef text, const StringMap<int64_t> &symbols) {
  return Evaluator(text, symbols).run();
}
