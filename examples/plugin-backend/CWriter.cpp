// Types, numbers and index expressions as C.
#include "CWriter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cinttypes>
#include <cmath>
#include <cstdio>

using namespace mlir;
using namespace cbackend;
using kiln::sym::Expr;
using kiln::sym::Kind;

void CWriter::line(const llvm::Twine &words) {
  std::string content = words.str();
  if (llvm::StringRef(content).starts_with("}"))
    --depth;
  if (!content.empty())
    text += std::string(2 * depth, ' ') + content;
  text += '\n';
  if (llvm::StringRef(content).ends_with("{"))
    ++depth;
}

void CWriter::refuse(Operation *op, const llvm::Twine &why) {
  if (!failed)
    op->emitError("cannot be compiled for the target c: ") << why;
  failed = true;
}

void CWriter::refuse(Operation *op) { refuse(op, "no code for " + op->getName().getStringRef()); }

std::string CWriter::memoryType(Operation *op, Type type) {
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  if (type.isInteger(1))
    return "uint8_t";
  if (auto integer = dyn_cast<IntegerType>(type))
    if (llvm::is_contained({8u, 16u, 32u, 64u}, integer.getWidth()))
      return "int" + std::to_string(integer.getWidth()) + "_t";
  std::string name;
  llvm::raw_string_ostream(name) << type;
  refuse(op, "no type for " + name);
  return "void";
}

std::string CWriter::scalarType(Operation *op, Type type) {
  return type.isInteger(1) ? "bool" : memoryType(op, type);
}

std::string CWriter::symbol(llvm::StringRef name) {
  std::string &identifier = symbols[name.str()];
  if (identifier.empty()) {
    identifier = name.str();
    std::replace_if(
        identifier.begin(), identifier.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
    // No keyword and no other name in this file begins so.
    identifier.insert(0, "sym_");
    while (!taken.insert(identifier).second)
      identifier += '_';
  }
  return identifier;
}

std::string CWriter::expr(Expr expr, llvm::ArrayRef<std::string> dims) {
  auto operand = [&](unsigned i) { return this->expr(expr.operands()[i], dims); };
  auto join = [&](llvm::StringRef between) {
    std::string all = operand(0);
    for (unsigned i = 1; i < expr.operands().size(); ++i)
      all += between.str() + operand(i);
    return "(" + all + ")";
  };
  auto nest = [&](llvm::StringRef function) {
    std::string all = operand(0);
    for (unsigned i = 1; i < expr.operands().size(); ++i)
      all = llvm::formatv("{0}({1}, {2})", function, all, operand(i));
    return all;
  };
  switch (expr.kind()) {
  case Kind::Constant:
    return literal(*expr.constant());
  case Kind::Symbol:
    return symbol(expr.symbolName());
  case Kind::Dim:
    return dims[expr.dimIndex()];
  case Kind::Add:
    return join(" + ");
  case Kind::Mul:
    return join(" * ");
  case Kind::FloorDiv:
    return nest("floor_div");
  case Kind::Min:
    return nest("min_i64");
  case Kind::Max:
    return nest("max_i64");
  case Kind::Invalid:
    break;
  }
  llvm_unreachable("the verifiers let no invalid expression through");
}

std::string cbackend::comment(llvm::StringRef text) {
  std::string safe = text.str();
  for (char &c : safe)
    if (!llvm::isPrint(c) || c == '*' || c == '?' || c == '\\')
      c = ' ';
  return safe;
}

std::string cbackend::literal(int64_t value) {
  if (value == INT64_MIN)
    return "INT64_MIN";
  if (value == static_cast<int32_t>(value))
    return value < 0 ? "(" + std::to_string(value) + ")" : std::to_string(value);
  return "INT64_C(" + std::to_string(value) + ")";
}

std::string cbackend::literal(double value, bool isFloat) {
  if (std::isnan(value))
    return "NAN";
  if (std::isinf(value))
    return value < 0 ? "(-INFINITY)" : "INFINITY";
  char text[64];
  std::snprintf(text, sizeof(text), value < 0 || std::signbit(value) ? "(%a%s)" : "%a%s", value,
                isFloat ? "f" : "");
  return text;
}
