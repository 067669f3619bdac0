// The expressions that export writes for sizes, as integer expressions of sym.
#include "kiln/Frontend/SymExpr.h"
#include "SymParser.h"

using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

Expected<Expr> SymExprReader::read(StringRef text, bool assume) {
  auto it = cache.find(text);
  if (it != cache.end())
    return it->second;
  SymParser parser(text, ranges, assume, nullptr, &defined);
  Expected<Expr> expr = parser.readExpr();
  if (!expr)
    return expr;
  cache[text] = *expr;
  if (parser.assumption())
    assumed.insert(*parser.assumption());
  return expr;
}

Expected<Expr> SymExprReader::readCondition(StringRef text, InputLookup inputs) {
  return SymParser(text, ranges, /*mayAssume=*/true, inputs).readCondition();
}
