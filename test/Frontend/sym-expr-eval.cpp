// Evaluates expressions as torch.export writes them, for fuzz_sym_expr.py. A line of input is
// `expression<TAB>s0=3 s1=5`; the line of output is the value, or what is wrong with the
// expression. With a third field, `guard`, it is a Python condition on an input x, whose sizes are
// s0, s1, … and whose strides are t0, t1, …, and on a number n; the output is 1 where it holds.
// With `floats` it is one on n alone, evaluated for the numbers around it.
#include "Frontend/FloatExpr.h"
#include "kiln/Frontend/SymExpr.h"
#include "llvm/ADT/SmallVector.h"
#include <iostream>
#include <string>

using namespace kiln;

static llvm::Expected<sym::Expr> readFloats(llvm::StringRef text, frontend::InputLookup lookup,
                                            int64_t value) {
  auto condition = frontend::FloatExpr::parse(text, lookup);
  if (!condition)
    return condition.takeError();
  return condition->toIntegers(sym::Expr::symbol("n"), {value - 2, value + 2});
}

int main() {
  frontend::SymExprReader reader;
  for (std::string line; std::getline(std::cin, line);) {
    auto [text, rest] = llvm::StringRef(line).split('\t');
    auto [assignment, kind] = rest.split('\t');
    llvm::StringMap<int64_t> values;
    llvm::SmallVector<llvm::StringRef> words;
    assignment.split(words, ' ', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef word : words) {
      auto [name, value] = word.split('=');
      value.getAsInteger(10, values[name]);
    }
    auto lookup = [](const frontend::InputProperty &property) -> std::optional<sym::Expr> {
      if (property.path.size() != 1)
        return std::nullopt;
      if (property.kind == frontend::InputProperty::Value)
        return sym::Expr::symbol(property.path[0]);
      bool isSize = property.kind == frontend::InputProperty::Size;
      return sym::Expr::symbol((isSize ? "s" : "t") + std::to_string(property.dim));
    };
    bool hasFloats = kind == "floats", isGuard = hasFloats || kind == "guard";
    llvm::Expected<sym::Expr> expr = hasFloats ? readFloats(text, lookup, values["n"])
                                     : isGuard ? reader.readCondition(text, lookup)
                                               : reader.read(text);
    if (!expr) {
      std::cout << "error: " << llvm::toString(expr.takeError()) << "\n";
      continue;
    }
    std::optional<int64_t> value =
        expr->evaluate([&](sym::Expr leaf) { return values.lookup(leaf.symbolName()); });
    if (value && isGuard)
      *value = *value >= 0;
    std::cout << (value ? std::to_string(*value) : "undefined") << "\n";
  }
}
