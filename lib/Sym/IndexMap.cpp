// Index maps: lists of expressions over dims.
#include "kiln/Sym/Expr.h"

using namespace kiln::sym;

IndexMap IndexMap::identity(unsigned rank) {
  IndexMap map{rank, {}};
  for (unsigned i = 0; i < rank; ++i)
    map.results.push_back(Expr::dim(i));
  return map;
}

bool IndexMap::isIdentity() const { return *this == identity(numDims); }

IndexMap IndexMap::compose(const IndexMap &inner) const {
  assert(inner.results.size() == numDims && "one inner result for each dim");
  IndexMap map{inner.numDims, {}};
  for (Expr result : results)
    map.results.push_back(result.substituteDims(inner.results));
  return map;
}

void IndexMap::print(llvm::raw_ostream &os) const {
  os << '(';
  for (unsigned i = 0; i < numDims; ++i)
    os << (i ? ", d" : "d") << i;
  os << ") -> (";
  llvm::interleaveComma(results, os);
  os << ')';
}
