// Recursive descent over
//
//   sum     := product (('+' | '-') product)*
//   product := unary (('*' | 'floordiv' | 'ceildiv' | 'mod') unary)*
//   unary   := '-' unary | integer | name | '(' sum ')' | ('min' | 'max') '(' sum (',' sum)* ')'
//   map     := '(' [dim (',' dim)*] ')' '->' '(' [sum (',' sum)*] ')'
//
// The text may be hostile: nesting is limited, numbers and results are checked.
#include "Node.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

namespace {

enum class Token { End, Integer, Name, Symbol };

bool startsName(char c) { return llvm::isAlpha(c) || c == '_'; }
bool continuesName(char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$'; }

bool isReserved(llvm::StringRef name) {
  return llvm::StringSwitch<bool>(name)
      .Cases({"floordiv", "ceildiv", "mod", "min", "max"}, true)
      .Default(false);
}

bool isDimName(llvm::StringRef name) {
  return name.size() > 1 && name.front() == 'd' && llvm::all_of(name.drop_front(), llvm::isDigit);
}

constexpr unsigned maxDimIndex = 1u << 16;
constexpr unsigned maxNesting = 200;

class Parser {
public:
  explicit Parser(llvm::StringRef text) : text(text) { advance(); }

  Expr parseSum() {
    size_t start = tokenStart;
    llvm::SmallVector<Expr, 8> terms{parseProduct()};
    while (!failed() && (token == "+" || token == "-")) {
      bool negative = token == "-";
      advance();
      Expr term = parseProduct();
      terms.push_back(negative ? -term : term);
    }
    return failed() ? Expr() : checked(sum(terms), start);
  }

  void parseMap(IndexMap &map) {
    expect("(");
    while (!failed() && token != ")") {
      if (map.numDims)
        expect(",");
      if (!failed() && token != ("d" + llvm::Twine(map.numDims)).str())
        fail("'d" + llvm::Twine(map.numDims) + "' or ')'");
      if (map.numDims == maxDimIndex)
        fail("fewer dims");
      ++map.numDims;
      advance();
    }
    expect(")");
    expect("->");
    expect("(");
    for (bool more = token != ")"; more && !failed();) {
      size_t start = tokenStart;
      map.results.push_back(parseSum());
      if (map.results.back().numDimsUsed() > map.numDims)
        fail("only the map's own dims here", start);
      more = token == ",";
      if (more)
        advance();
      else if (token != ")")
        fail("',' or ')'");
    }
    expect(")");
  }

  void parseEnd() {
    if (type != Token::End)
      fail("an operator or the end");
  }

  bool failed() const { return !error.empty(); }
  llvm::Error takeError() const {
    return llvm::createStringError(std::errc::invalid_argument, error.c_str());
  }

private:
  Expr parseProduct() {
    size_t start = tokenStart;
    Expr result = parseUnary();
    while (!failed()) {
      auto op = llvm::StringSwitch<Expr (Expr::*)(Expr) const>(token)
                    .Case("*", &Expr::operator*)
                    .Case("floordiv", &Expr::floorDiv)
                    .Case("ceildiv", &Expr::ceilDiv)
                    .Case("mod", &Expr::mod)
                    .Default(nullptr);
      if (!op)
        break;
      bool isDivision = token != "*";
      advance();
      size_t operandStart = tokenStart;
      Expr operand = parseUnary();
      if (isDivision && operand.isConstant(0))
        fail("a divisor other than 0", operandStart);
      if (!failed())
        result = checked((result.*op)(operand), start);
    }
    return result;
  }

  Expr parseUnary() {
    if (++nesting > maxNesting)
      fail("less nesting");
    Expr result = failed() ? Expr() : parseUnaryUnguarded();
    --nesting;
    return result;
  }

  Expr parseUnaryUnguarded() {
    size_t start = tokenStart;
    if (token == "-") {
      advance();
      if (type == Token::Integer) // so that INT64_MIN can be written
        return parseInteger(/*negative=*/true);
      Expr operand = parseUnary();
      return failed() ? Expr() : checked(-operand, start);
    }
    if (type == Token::Integer)
      return parseInteger(/*negative=*/false);
    if (token == "(") {
      advance();
      Expr result = parseSum();
      expect(")");
      return result;
    }
    if (token == "min" || token == "max") {
      auto op = token == "min" ? &Expr::min : &Expr::max;
      advance();
      expect("(");
      Expr result = parseSum();
      while (!failed() && token == ",") {
        advance();
        Expr operand = parseSum();
        result = failed() ? result : checked(op(result, operand), start);
      }
      expect(")");
      return result;
    }
    if (type != Token::Name || isReserved(token)) {
      fail("a number, a name or '('");
      return {};
    }
    return parseName();
  }

  Expr parseInteger(bool negative) {
    uint64_t magnitude = 0;
    uint64_t limit = static_cast<uint64_t>(INT64_MAX) + negative;
    if (token.getAsInteger(10, magnitude) || magnitude > limit) {
      fail("a number that fits in 64 bits");
      return {};
    }
    advance();
    return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
  }

  Expr parseName() {
    llvm::StringRef name = token;
    unsigned index = 0;
    if (isDimName(name) && (name.drop_front().getAsInteger(10, index) || index >= maxDimIndex)) {
      fail("a smaller dim number");
      return {};
    }
    advance();
    return isDimName(name) ? Expr::dim(index) : Expr::symbol(name);
  }

  /// `start` is where the expression's text begins.
  Expr checked(Expr expr, size_t start) {
    if (!expr.isValid())
      fail("an expression of 64-bit integers and moderate size", start);
    return expr;
  }

  void expect(llvm::StringRef wanted) {
    if (failed())
      return;
    if (token != wanted)
      return fail("'" + wanted + "'");
    advance();
  }

  void fail(const llvm::Twine &expected) { fail(expected, tokenStart); }

  /// Only the first error counts.
  void fail(const llvm::Twine &expected, size_t start) {
    if (failed())
      return;
    llvm::raw_string_ostream os(error);
    os << "at column " << start + 1 << ": expected " << expected << ", found ";
    if (start >= text.size())
      os << "the end";
    else
      llvm::printEscapedString(("'" + text.substr(start, 24) + "'").str(), os);
  }

  void advance() {
    size_t i = tokenStart + token.size();
    while (i < text.size() && llvm::isSpace(text[i]))
      ++i;
    tokenStart = i;
    llvm::StringRef rest = text.substr(i);
    if (rest.empty()) {
      type = Token::End;
      token = {};
    } else if (llvm::isDigit(rest.front())) {
      type = Token::Integer;
      token = rest.take_while(llvm::isDigit);
    } else if (startsName(rest.front())) {
      type = Token::Name;
      token = rest.take_while(continuesName);
    } else {
      type = Token::Symbol;
      token = rest.take_front(rest.starts_with("->") ? 2 : 1);
    }
  }

  llvm::StringRef text, token;
  Token type = Token::End;
  size_t tokenStart = 0;
  unsigned nesting = 0;
  std::string error;
};

} // namespace

Expr Expr::symbol(llvm::StringRef name) {
  if (name.empty() || !startsName(name.front()) || !llvm::all_of(name, continuesName) ||
      isReserved(name) || isDimName(name))
    return invalid();
  return intern(Kind::Symbol, 0, name, {});
}

llvm::Expected<Expr> Expr::parse(llvm::StringRef text) {
  Parser parser(text);
  Expr result = parser.parseSum();
  parser.parseEnd();
  if (parser.failed())
    return parser.takeError();
  return result;
}

llvm::Expected<IndexMap> IndexMap::parse(llvm::StringRef text) {
  Parser parser(text);
  IndexMap map;
  parser.parseMap(map);
  parser.parseEnd();
  if (parser.failed())
    return parser.takeError();
  return map;
}
