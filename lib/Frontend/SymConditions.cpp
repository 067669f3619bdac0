// Conditions: Python's `and`, `or`, `not`, comparisons and conditional expressions.
//
// A condition is an expression that is at least zero where it holds, so that one kind of object
// says it all, and what is known of an expression's range decides it:
//
//   a >= b     a - b                     a == b     min(a - b, b - a)
//   a > b      a - b - 1                 a != b     max(a - b, b - a) - 1
//   p and q    min(p, q)                 p or q     max(p, q)          not p     -p - 1
#include "SymParser.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

/// A limit that keeps hostile text from using up the stack.

bool SymParser::condition(const Value &value, Expr &holds) {
  if (value.holds) {
    holds = *value.holds;
    return true;
  }
  if (!value.number.isInteger())
    return fail("not a condition");
  holds = value.number.numerator - 1; // a Python bool is 0 or 1
  return true;
}

bool SymParser::value(Value &result, unsigned depth) {
  if (depth > maxNesting)
    return fail("nested too deeply");
  if (!disjunction(result, depth))
    return false;
  if (!consumeWord("if"))
    return true;
  Value when, otherwise;
  if (!disjunction(when, depth) || !expect("else") || !value(otherwise, depth + 1))
    return false;
  Quotient chosen;
  if (!check(select(toNumber(when), toNumber(result), toNumber(otherwise), chosen)))
    return false;
  result = {chosen, {}};
  return true;
}

bool SymParser::disjunction(Value &result, unsigned depth) {
  if (!conjunction(result, depth))
    return false;
  while (consumeWord("or")) {
    Value other;
    Expr a, b;
    if (!conjunction(other, depth) || !condition(result, a) || !condition(other, b))
      return false;
    result.holds = Expr::max(a, b);
  }
  return true;
}

bool SymParser::conjunction(Value &result, unsigned depth) {
  if (!negation(result, depth))
    return false;
  while (consumeWord("and")) {
    Value other;
    Expr a, b;
    if (!negation(other, depth) || !condition(result, a) || !condition(other, b))
      return false;
    result.holds = Expr::min(a, b);
  }
  return true;
}

bool SymParser::negation(Value &result, unsigned depth) {
  bool isNegated = false;
  while (consumeWord("not"))
    isNegated = !isNegated;
  if (!comparison(result, depth))
    return false;
  Expr holds;
  if (isNegated) {
    if (!condition(result, holds))
      return false;
    result.holds = -holds - 1;
  }
  return true;
}

StringRef frontend::consumeRelation(StringRef &rest) {
  for (StringRef relation : {"==", "!=", "<=", ">=", "<", ">"})
    if (rest.consume_front(relation)) {
      rest = rest.ltrim();
      return relation;
    }
  return {};
}

bool SymParser::comparison(Value &result, unsigned depth) {
  if (!sum(result, depth))
    return false;
  std::optional<Expr> all;
  Quotient left = toNumber(result);
  while (true) {
    StringRef relation = consumeRelation(rest);
    if (relation.empty())
      break;
    Value next;
    Expr holds;
    if (!sum(next, depth) || !compare(relation, left, toNumber(next), holds))
      return false;
    all = all ? Expr::min(*all, holds) : holds; // a < b < c
    left = toNumber(next);
  }
  if (all)
    result = {{}, all};
  return true;
}

bool SymParser::compare(StringRef relation, Quotient a, Quotient b, Expr &holds) {
  // A rounded quotient is on the same side of an integer as the exact one, but not of a fraction.
  if (!(a.isInteger() || !b.isRounded) || !(b.isInteger() || !a.isRounded))
    return fail("comparison of rounded fractions");
  if (relation != "==" && relation != "!=") {
    makeRoom(a);
    makeRoom(b);
  }
  Quotient difference;
  a.isRounded = b.isRounded = false;
  if (!check(add(a, {-b.numerator, b.denominator}, difference)))
    return false;
  std::optional<int64_t> denominator = difference.denominator.constant();
  if (!denominator)
    return fail("comparison of fractions with symbolic denominators");
  Expr x = *denominator < 0 ? -difference.numerator : difference.numerator;
  holds = relation == "=="   ? Expr::min(x, -x)
          : relation == "!=" ? Expr::max(x, -x) - 1
          : relation == ">=" ? x
          : relation == "<=" ? -x
          : relation == ">"  ? x - 1
                             : -x - 1;
  return true;
}

//===-- Inputs ------------------------------------------------------------------------------===//

Failure kiln::frontend::readInputProperty(StringRef &rest, InputProperty &property) {
  while (rest.starts_with("[")) {
    size_t end = rest.find(']');
    if (end == StringRef::npos)
      return "expected ']'";
    property.path.push_back(rest.slice(1, end).trim("'\""));
    rest = rest.drop_front(end + 1);
  }
  rest = rest.ltrim();
  bool isBase = false;
  while (rest.consume_front("._base"))
    isBase = true;
  bool isSize = rest.consume_front(".size()");
  if (isSize || rest.consume_front(".stride()")) {
    property.kind = isSize ? InputProperty::Size : InputProperty::Stride;
    StringRef digits = rest.drop_front(!rest.empty()).take_while(isDigit);
    if (!rest.consume_front("[") || digits.getAsInteger(10, property.dim))
      return "expected the number of a dimension";
    rest = rest.drop_front(digits.size());
    if (!rest.consume_front("]"))
      return "expected ']'";
  } else if (rest.consume_front(".storage_offset()")) {
    property.kind = InputProperty::StorageOffset;
  }
  rest = rest.ltrim();
  if (isBase)
    property.kind = InputProperty::OfBase;
  return nullptr;
}

bool SymParser::inputProperty(Quotient &result) {
  InputProperty property;
  if (!check(readInputProperty(rest, property)))
    return false;
  std::optional<Expr> expr = inputs(property);
  if (!expr)
    return fail("no such input");
  result = {*expr};
  return true;
}

Expected<Expr> SymParser::readCondition() {
  Value result;
  Expr holds;
  if (text.size() > SymExprReader::maxTextLength)
    fail("condition is too long");
  else if (value(result, 0) && condition(result, holds) && !rest.empty())
    fail("unexpected '" + rest.take_front(12) + "'");
  return finish(assumed ? Expr::min(holds, *assumed) : holds);
}
