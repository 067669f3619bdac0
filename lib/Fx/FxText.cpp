// Python text for names, numbers, dtypes and expressions.
#include "FxText.h"
#include "kiln/Host/ModelInfo.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace kiln;

/// Python's keywords, and the names that every function of an emitted module uses.
static constexpr llvm::StringLiteral reserved[] = {
    "False",  "None",     "True",     "and",     "as",   "assert",  "async",  "await",    "break",
    "class",  "continue", "def",      "del",     "elif", "else",    "except", "finally",  "for",
    "from",   "global",   "if",       "import",  "in",   "is",      "lambda", "nonlocal", "not",
    "or",     "pass",     "raise",    "return",  "try",  "while",   "with",   "yield",    "match",
    "case",   "type",     "g",        "torch",   "free", "complex", "float",  "main",     "load",
    "ctypes", "os",       "operator", "pathlib", "sys",  "types",   "int",    "min",      "max"};

fx::Names::Names() {
  for (llvm::StringRef name : reserved)
    taken.insert(name);
}

std::string fx::Names::add(llvm::StringRef wanted) {
  std::string name;
  for (char c : wanted)
    name += llvm::isAlnum(c) ? c : '_';
  // A leading underscore is for what emitted modules have in common.
  name.erase(0, std::min(name.find_first_not_of('_'), name.size()));
  if (name.empty() || llvm::isDigit(name.front()))
    name.insert(0, "v");
  std::string unique = name;
  for (unsigned i = 1; !taken.insert(unique).second; ++i)
    unique = name + "_" + std::to_string(i);
  return unique;
}

std::string fx::quote(llvm::StringRef text) {
  std::string result = "\"";
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += '\\', result += c;
    else if (c == '\n')
      result += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      result += "\\x" + llvm::utohexstr(byte, /*LowerCase=*/true, /*Width=*/2);
    else
      result += c;
  }
  return result + '"';
}

std::string fx::tuple(llvm::ArrayRef<std::string> items) {
  return "(" + llvm::join(items, ", ") + (items.size() == 1 ? ",)" : ")");
}

std::string fx::list(llvm::ArrayRef<std::string> items) {
  return "[" + llvm::join(items, ", ") + "]";
}

std::string fx::number(double value) {
  if (std::isnan(value))
    return "float(\"nan\")";
  if (std::isinf(value))
    return value < 0 ? "float(\"-inf\")" : "float(\"inf\")";
  char text[40];
  snprintf(text, sizeof text, "%.17g", value);
  bool isWhole = llvm::StringRef(text).find_first_of(".en") == llvm::StringRef::npos;
  return isWhole ? std::string(text) + ".0" : text;
}

std::string fx::dtype(mlir::Type elementType) {
  std::string name = host::describeElement(elementType).name;
  return name.empty() ? name : "torch." + name;
}

namespace {

class ExpressionWriter {
public:
  explicit ExpressionWriter(llvm::function_ref<std::string(llvm::StringRef)> symbol)
      : symbol(symbol) {}

  std::string write(sym::Expr expr) {
    switch (expr.kind()) {
    case sym::Kind::Constant:
      return std::to_string(*expr.constant());
    case sym::Kind::Symbol:
      return symbol(expr.symbolName());
    case sym::Kind::Add:
      return writeSum(expr);
    case sym::Kind::Mul:
      return join(expr, " * ");
    case sym::Kind::FloorDiv:
      return writeQuotient(expr.operands()[0], expr.operands()[1]);
    case sym::Kind::Min:
    case sym::Kind::Max: {
      llvm::SmallVector<std::string> operands;
      for (sym::Expr operand : expr.operands())
        operands.push_back(write(operand));
      return (expr.kind() == sym::Kind::Min ? "g.min(" : "g.max(") + llvm::join(operands, ", ") +
             ")";
    }
    case sym::Kind::Invalid:
    case sym::Kind::Dim:
      break;
    }
    llvm_unreachable("not an expression over symbols: the verifiers let none of these pass");
  }

private:
  /// The constant comes last, as people write it.
  std::string writeSum(sym::Expr expr) {
    llvm::SmallVector<sym::Expr> terms(expr.operands());
    if (terms.front().isConstant())
      std::rotate(terms.begin(), terms.begin() + 1, terms.end());
    std::string text = write(terms.front());
    for (sym::Expr term : llvm::drop_begin(terms)) {
      std::string next = write(term);
      text += next.front() == '-' ? " - " + next.substr(1) : " + " + next;
    }
    return text;
  }

  std::string join(sym::Expr expr, llvm::StringRef separator) {
    llvm::SmallVector<std::string> operands;
    for (sym::Expr operand : expr.operands())
      operands.push_back(writeOperand(operand));
    return llvm::join(operands, separator);
  }

  /// In parentheses where an operator could take part of it.
  std::string writeOperand(sym::Expr expr) {
    std::string text = write(expr);
    bool isWhole = expr.kind() == sym::Kind::Symbol || expr.kind() == sym::Kind::Min ||
                   expr.kind() == sym::Kind::Max || expr.isConstant();
    return isWhole ? text : "(" + text + ")";
  }

  /// Generated code divides by 1 where it would divide by 0: such a quotient is used for nothing.
  std::string writeQuotient(sym::Expr numerator, sym::Expr denominator) {
    bool isPositive = denominator.constant().value_or(0) > 0;
    if (denominator.kind() == sym::Kind::Max)
      isPositive |= llvm::any_of(denominator.operands(), [](sym::Expr operand) {
        return operand.constant().value_or(0) > 0;
      });
    std::string divisor =
        isPositive ? writeOperand(denominator) : "g.max(" + write(denominator) + ", 1)";
    return writeOperand(numerator) + " // " + divisor;
  }

  llvm::function_ref<std::string(llvm::StringRef)> symbol;
};

} // namespace

std::string fx::expression(sym::Expr expr,
                           llvm::function_ref<std::string(llvm::StringRef)> symbol) {
  return ExpressionWriter(symbol).write(expr);
}
