#include "kiln/Frontend/SymExpr.h"
#include "SymParser.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

Expected<Expr> SymExprReader::read(StringRef text) {
  auto it = cache.find(text);
  if (it != cache.end())
    return it->second;
  Expected<Expr> expr = SymParser(text, ranges).readExpr();
  if (expr)
    cache[text] = *expr;
  return expr;
}

Expected<Expr> SymExprReader::readCondition(StringRef text, InputLookup inputs) {
  return SymParser(text, ranges, inputs).readCondition();
}
