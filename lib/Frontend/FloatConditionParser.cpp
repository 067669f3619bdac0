// The text of conditions that compute with floats: Python's expressions, by precedence.
#include "FloatCondition.h"
#include "SymParser.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

namespace kiln::frontend {

class FloatConditionParser {
public:
  FloatConditionParser(StringRef text, InputLookup inputs) : rest(text), inputs(inputs) {}

  Expected<FloatCondition> parse() {
    unsigned root;
    if (rest.size() > SymExprReader::maxTextLength)
      return createStringError("condition is too long");
    if (!select(root, 0) || !rest.empty())
      return createStringError(error.empty() ? "unexpected '" + rest.take_front(12) + "'"
                                             : Twine(error));
    if (result.nodes.size() > FloatCondition::maxNodes)
      return createStringError("condition is too long");
    result.root = root;
    return std::move(result);
  }

private:
  using Op = FloatCondition::Op;
  static constexpr unsigned maxNesting = 100;

  bool fail(const Twine &message) {
    if (error.empty())
      error = message.str();
    return false;
  }
  bool consume(StringRef token) {
    if (!rest.consume_front(token))
      return false;
    rest = rest.ltrim();
    return true;
  }
  bool consumeWord(StringRef word) {
    StringRef after = rest;
    if (!after.consume_front(word) || (!after.empty() && (isAlnum(after[0]) || after[0] == '_')))
      return false;
    rest = after.ltrim();
    return true;
  }
  bool expect(StringRef token) {
    return consume(token) || fail("expected '" + token + "' before '" + rest.take_front(12) + "'");
  }
  unsigned add(Op op, ArrayRef<unsigned> operands) {
    result.nodes.push_back({op, {}, 0, SmallVector<unsigned, 3>(operands)});
    return result.nodes.size() - 1;
  }

  /// a if c else b
  bool select(unsigned &node, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (!logical(node, depth, /*isOr=*/true))
      return false;
    if (!consumeWord("if"))
      return true;
    unsigned when, otherwise;
    if (!logical(when, depth, true) || !expect("else") || !select(otherwise, depth + 1))
      return false;
    node = add(Op::Select, {node, when, otherwise});
    return true;
  }

  bool logical(unsigned &node, unsigned depth, bool isOr) {
    auto operand = [&](unsigned &result) {
      return isOr ? logical(result, depth, false) : negation(result, depth);
    };
    if (!operand(node))
      return false;
    while (consumeWord(isOr ? "or" : "and")) {
      unsigned other;
      if (!operand(other))
        return false;
      node = add(isOr ? Op::Or : Op::And, {node, other});
    }
    return true;
  }

  bool negation(unsigned &node, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (!consumeWord("not"))
      return comparison(node, depth);
    if (!negation(node, depth + 1))
      return false;
    node = add(Op::Not, {node});
    return true;
  }

  bool comparison(unsigned &node, unsigned depth) {
    unsigned left, right;
    if (!sum(left, depth))
      return false;
    std::optional<unsigned> all;
    while (true) {
      StringRef relation = consumeRelation(rest);
      if (relation.empty())
        break;
      if (!sum(right, depth))
        return false;
      bool isSwapped = relation[0] == '>';
      Op op = relation == "=="       ? Op::Equal
              : relation == "!="     ? Op::NotEqual
              : relation.size() == 2 ? Op::LessOrEqual
                                     : Op::Less;
      unsigned holds = isSwapped ? add(op, {right, left}) : add(op, {left, right});
      all = all ? add(Op::And, {*all, holds}) : holds;
      left = right;
    }
    node = all.value_or(left);
    return true;
  }

  bool sum(unsigned &node, unsigned depth) {
    if (!product(node, depth))
      return false;
    while (true) {
      Op op = rest.starts_with("+") ? Op::Add : Op::Sub;
      if (!consume("+") && !consume("-"))
        return true;
      unsigned other;
      if (!product(other, depth))
        return false;
      node = add(op, {node, other});
    }
  }

  bool product(unsigned &node, unsigned depth) {
    if (!unary(node, depth))
      return false;
    while (true) {
      Op op;
      if (consume("//"))
        op = Op::FloorDiv;
      else if (consume("/"))
        op = Op::Div;
      else if (consume("%"))
        op = Op::Mod;
      else if (!rest.starts_with("**") && consume("*"))
        op = Op::Mul;
      else
        return true;
      unsigned other;
      if (!unary(other, depth))
        return false;
      node = add(op, {node, other});
    }
  }

  /// -a ** -b is -(a ** (-b)).
  bool unary(unsigned &node, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (consume("-")) {
      if (!unary(node, depth + 1))
        return false;
      node = add(Op::Neg, {node});
      return true;
    }
    if (!atom(node, depth))
      return false;
    if (!consume("**"))
      return true;
    unsigned exponent;
    if (!unary(exponent, depth + 1))
      return false;
    node = add(Op::Pow, {node, exponent});
    return true;
  }

  bool atom(unsigned &node, unsigned depth) {
    if (consume("("))
      return select(node, depth + 1) && expect(")");
    if (!rest.empty() && (isDigit(rest[0]) || rest[0] == '.'))
      return literal(node);
    for (StringRef module : {"math.", "torch."})
      consume(module);
    StringRef name = rest.take_while([](char c) { return isAlnum(c) || c == '_'; });
    rest = rest.drop_front(name.size());
    if (name == "L" && rest.starts_with("["))
      return input(node);
    rest = rest.ltrim();
    if (name == "True" || name == "False") {
      node = add(Op::Integer, {});
      result.nodes[node].constant.integer = name == "True";
      return true;
    }
    return call(name, node, depth);
  }

  bool literal(unsigned &node) {
    size_t length = 0;
    while (length < rest.size() &&
           (isAlnum(rest[length]) || rest[length] == '.' ||
            (StringRef("+-").contains(rest[length]) && toLower(rest[length - 1]) == 'e')))
      ++length;
    StringRef digits = rest.take_front(length);
    rest = rest.drop_front(length).ltrim();
    bool isInteger = all_of(digits, isDigit);
    node = add(isInteger ? Op::Integer : Op::Float, {});
    FloatCondition::Number &number = result.nodes[node].constant;
    number.isFloat = !isInteger;
    if (isInteger ? digits.getAsInteger(10, number.integer) : digits.getAsDouble(number.real))
      return fail("'" + digits + "' is not a number");
    return true;
  }

  bool input(unsigned &node) {
    InputProperty property;
    if (Failure failure = readInputProperty(rest, property))
      return fail(failure);
    std::optional<Expr> expr = inputs(property);
    if (!expr)
      return fail("no such input");
    node = add(Op::Input, {});
    result.nodes[node].input = llvm::find(result.inputs, *expr) - result.inputs.begin();
    if (result.nodes[node].input == result.inputs.size())
      result.inputs.push_back(*expr);
    return true;
  }

  bool call(StringRef name, unsigned &node, unsigned depth) {
    static constexpr std::pair<StringLiteral, Op> functions[] = {
        {"trunc", Op::Trunc},       {"int", Op::Trunc},      {"floor", Op::Floor},
        {"ceil", Op::Ceil},         {"round", Op::Round},    {"float", Op::ToFloat},
        {"sym_float", Op::ToFloat}, {"abs", Op::Abs},        {"sqrt", Op::Sqrt},
        {"sym_sqrt", Op::Sqrt},     {"_sym_sqrt", Op::Sqrt}, {"exp", Op::Exp},
        {"log", Op::Log},           {"log2", Op::Log2},      {"min", Op::Min},
        {"max", Op::Max},           {"sym_min", Op::Min},    {"sym_max", Op::Max}};
    const auto *function =
        find_if(functions, [&](const auto &entry) { return entry.first == name; });
    if (function == std::end(functions) || !consume("("))
      return fail("'" + name + "' is not known");
    SmallVector<unsigned> args;
    do {
      if (!select(args.emplace_back(), depth + 1))
        return false;
    } while (consume(","));
    if (!expect(")"))
      return false;
    bool isFold = function->second == Op::Min || function->second == Op::Max;
    if (isFold ? args.size() < 2 : args.size() != 1)
      return fail(name + ": wrong number of arguments");
    node = isFold ? args[0] : add(function->second, args);
    for (unsigned arg : ArrayRef(args).drop_front())
      node = add(function->second, {node, arg});
    return true;
  }

  StringRef rest;
  InputLookup inputs;
  FloatCondition result;
  std::string error;
};

Expected<FloatCondition> FloatCondition::parse(StringRef text, InputLookup inputs) {
  return FloatConditionParser(text, inputs).parse();
}

} // namespace kiln::frontend
