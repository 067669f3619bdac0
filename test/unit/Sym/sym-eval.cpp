// Reads one expression a line and prints its canonical text, or `error: ...`. A line
// `simplify NAME=MIN:MAX ... ; expression` simplifies under those ranges first; d<i>=0:N stands for
// an extent of N + 1.
#include "kiln/Sym/Assumptions.h"
#include <iostream>
#include <string>

using namespace kiln::sym;

static llvm::Expected<Expr> readLine(llvm::StringRef line) {
  if (!line.consume_front("simplify "))
    return Expr::parse(line);
  auto [ranges, text] = line.split(';');
  Assumptions assumptions;
  llvm::SmallVector<llvm::StringRef> settings;
  ranges.split(settings, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef setting : settings) {
    auto [name, range] = setting.split('=');
    auto [min, max] = range.split(':');
    llvm::Expected<Expr> leaf = Expr::parse(name);
    int64_t lo = 0, hi = 0;
    if (!leaf)
      return leaf;
    if (min.getAsInteger(10, lo) || max.getAsInteger(10, hi))
      return llvm::createStringError("bad range");
    if (leaf->kind() == Kind::Dim)
      assumptions.setExtent(leaf->dimIndex(), Expr(hi) + 1);
    else
      assumptions.setRange(*leaf, {lo, hi});
  }
  llvm::Expected<Expr> expr = Expr::parse(text);
  if (expr)
    *expr = assumptions.simplify(*expr);
  return expr;
}

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    llvm::Expected<Expr> expr = readLine(line);
    if (expr)
      llvm::outs() << *expr << '\n';
    else
      llvm::outs() << "error: " << llvm::toString(expr.takeError()) << '\n';
  }
}
