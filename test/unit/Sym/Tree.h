// Expressions as they were written, before any canonicalisation: the reference that the tests
// compare `Expr` with, evaluated naively.
#ifndef KILN_TEST_UNIT_SYM_TREE_H
#define KILN_TEST_UNIT_SYM_TREE_H

#include "kiln/Sym/Assumptions.h"
#include <random>
#include <vector>

namespace kiln::sym::test {

inline Expr parse(llvm::StringRef text) { return llvm::cantFail(Expr::parse(text)); }

/// The same numbers on every platform and in every run.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}
  /// min..max, both inclusive.
  int64_t in(int64_t min, int64_t max) {
    return min + static_cast<int64_t>(engine() % static_cast<uint64_t>(max - min + 1));
  }
  bool oneIn(int64_t n) { return in(1, n) == 1; }

private:
  std::mt19937_64 engine;
};

struct Tree {
  enum Op { Leaf, Number, Add, Sub, Mul, Neg, FloorDiv, CeilDiv, Mod, Min, Max } op = Number;
  int64_t number = 0; // or the index in the leaves
  std::vector<Tree> children;

  Expr build(llvm::ArrayRef<Expr> leaves) const;
  /// nullopt where a divisor is 0 or a value leaves 64 bits.
  std::optional<int64_t> evaluate(llvm::ArrayRef<int64_t> values) const;
  std::string text(llvm::ArrayRef<Expr> leaves) const; // fully parenthesised
};

struct TreeOptions {
  unsigned leaves = 4, depth = 4;
  int64_t maxNumber = 12;
  bool symbolicDivisors = true;
};
Tree randomTree(Random &random, const TreeOptions &options);

} // namespace kiln::sym::test

#endif // KILN_TEST_UNIT_SYM_TREE_H
