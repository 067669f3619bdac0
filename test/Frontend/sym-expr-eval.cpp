// Evaluates expressions as torch.export writes them, for fuzz_sym_expr.py. A line of input is
// `expression<TAB>s0=3 s1=5`; the line of output is the value, or what is wrong with the
// expression.
#include "kiln/Frontend/SymExpr.h"
#include "llvm/ADT/SmallVector.h"
#include <iostream>
#include <string>

using namespace kiln;

int main() {
  frontend::SymExprReader reader;
  for (std::string line; std::getline(std::cin, line);) {
    auto [text, assignment] = llvm::StringRef(line).split('\t');
    llvm::StringMap<int64_t> values;
    llvm::SmallVector<llvm::StringRef> words;
    assignment.split(words, ' ', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef word : words) {
      auto [name, value] = word.split('=');
      value.getAsInteger(10, values[name]);
    }
    llvm::Expected<sym::Expr> expr = reader.read(text);
    if (!expr) {
      std::cout << "error: " << llvm::toString(expr.takeError()) << "\n";
      continue;
    }
    std::optional<int64_t> value =
        expr->evaluate([&](sym::Expr leaf) { return values.lookup(leaf.symbolName()); });
    std::cout << (value ? std::to_string(*value) : "undefined") << "\n";
  }
}
