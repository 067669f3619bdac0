// The text of expressions that compute with floats: Python's, by precedence, and sympy's calls.
#include "FloatExpr.h"
#include "SymParser.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

namespace kiln::frontend {

class FloatExprParser {
public:
  /// One of `inputs`, for Python's text, and `integers`, for sympy's, is not null.
  FloatExprParser(StringRef text, InputLookup inputs, FloatExpr::IntegerLookup integers)
      : rest(text), inputs(inputs), integers(integers) {}

  Expected<FloatExpr> parse() {
    unsigned root;
    if (rest.size() > SymExprReader::maxTextLength)
      return createStringError("expression is too long");
    if (!select(root, 0) || !rest.empty())
      return createStringError(error.empty() ? "unexpected '" + rest.take_front(12) + "'"
                                             : Twine(error));
    if (result.nodes.size() > FloatExpr::maxNodes)
      return createStringError("expression is too long");
    result.root = root;
    return std::move(result);
  }

private:
  using Op = FloatExpr::Op;
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
  unsigned addConstant(FloatExpr::Number number) {
    unsigned node = add(number.isFloat ? Op::Float : Op::Integer, {});
    result.nodes[node].constant = number;
    return node;
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
    if (integers)
      return sympyCall(node, depth);
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
      node = addConstant({false, name == "True"});
      return true;
    }
    return call(name, node, depth);
  }

  bool sympyCall(unsigned &node, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (consume("Float('")) {
      auto [digits, precision] = rest.split('\'');
      rest = precision.drop_until([](char c) { return c == ')'; });
      FloatExpr::Number number{/*isFloat=*/true};
      if (digits.getAsDouble(number.real) || !std::isfinite(number.real))
        return fail("'" + digits + "' is not a number");
      node = addConstant(number);
      return expect(")");
    }
    StringRef text = firstCall(rest);
    if (std::optional<Expr> expr = integers(text)) {
      rest = rest.drop_front(text.size()).ltrim();
      return leaf(*expr, node);
    }
    StringRef name = text.take_until([](char c) { return c == '('; });
    rest = rest.drop_front(name.size());
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
    FloatExpr::Number number{/*isFloat=*/!isInteger};
    if (isInteger ? digits.getAsInteger(10, number.integer) : digits.getAsDouble(number.real))
      return fail("'" + digits + "' is not a number");
    node = addConstant(number);
    return true;
  }

  bool input(unsigned &node) {
    InputProperty property;
    if (Failure failure = readInputProperty(rest, property))
      return fail(failure);
    std::optional<Expr> expr = inputs(property);
    return expr ? leaf(*expr, node) : fail("no such input");
  }

  bool leaf(Expr expr, unsigned &node) {
    if (std::optional<int64_t> constant = expr.constant()) {
      node = addConstant({false, *constant});
      return true;
    }
    node = add(Op::Input, {});
    result.nodes[node].input = llvm::find(result.inputs, expr) - result.inputs.begin();
    if (result.nodes[node].input == result.inputs.size())
      result.inputs.push_back(expr);
    return true;
  }

  bool call(StringRef name, unsigned &node, unsigned depth) {
    constexpr unsigned any = 0; // a fold of two and more
    struct Function {
      StringLiteral name;
      Op op;
      unsigned arity = 1;
    };
    // Python's names, and from TruncToInt on sympy's.
    static constexpr Function functions[] = {{"trunc", Op::Trunc},
                                             {"int", Op::Trunc},
                                             {"floor", Op::Floor},
                                             {"ceil", Op::Ceil},
                                             {"round", Op::Round},
                                             {"float", Op::ToFloat},
                                             {"sym_float", Op::ToFloat},
                                             {"abs", Op::Abs},
                                             {"sqrt", Op::Sqrt},
                                             {"sym_sqrt", Op::Sqrt},
                                             {"_sym_sqrt", Op::Sqrt},
                                             {"exp", Op::Exp},
                                             {"log", Op::Log},
                                             {"log2", Op::Log2},
                                             {"min", Op::Min, any},
                                             {"max", Op::Max, any},
                                             {"sym_min", Op::Min, any},
                                             {"sym_max", Op::Max, any},
                                             {"TruncToInt", Op::Trunc},
                                             {"FloorToInt", Op::Floor},
                                             {"CeilToInt", Op::Ceil},
                                             {"RoundToInt", Op::Round},
                                             {"ToFloat", Op::ToFloat},
                                             {"Abs", Op::Abs},
                                             {"OpaqueUnaryFn_sqrt", Op::Sqrt},
                                             {"Min", Op::Min, any},
                                             {"Max", Op::Max, any},
                                             {"Add", Op::Add, 2},
                                             {"Mul", Op::Mul, 2},
                                             {"FloatTrueDiv", Op::Div, 2},
                                             {"IntTrueDiv", Op::Div, 2},
                                             {"FloatPow", Op::Pow, 2}};
    const auto *function =
        find_if(functions, [&](const auto &entry) { return entry.name == name; });
    if (function == std::end(functions) || !consume("("))
      return fail("'" + name + "' is not known");
    SmallVector<unsigned> args;
    do {
      if (!select(args.emplace_back(), depth + 1))
        return false;
    } while (consume(","));
    if (!expect(")"))
      return false;
    if (function->arity == any ? args.size() < 2 : args.size() != function->arity)
      return fail(name + ": wrong number of arguments");
    if (function->arity != any) {
      node = add(function->op, args);
      return true;
    }
    node = args[0];
    for (unsigned arg : ArrayRef(args).drop_front())
      node = add(function->op, {node, arg});
    return true;
  }

  StringRef rest;
  InputLookup inputs;
  FloatExpr::IntegerLookup integers;
  FloatExpr result;
  std::string error;
};

Expected<FloatExpr> FloatExpr::parse(StringRef text, InputLookup inputs) {
  return FloatExprParser(text, inputs, nullptr).parse();
}

Expected<FloatExpr> FloatExpr::parseSize(StringRef text, IntegerLookup integers) {
  constexpr size_t maxLength = 4096; // each call in it is looked at as a whole
  if (text.size() > maxLength)
    return createStringError("expression is too long");
  return FloatExprParser(text, nullptr, integers).parse();
}

} // namespace kiln::frontend
