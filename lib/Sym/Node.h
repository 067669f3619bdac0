// The interned nodes behind `Expr` and the sums-of-terms view that the arithmetic works on.
#ifndef KILN_LIB_SYM_NODE_H
#define KILN_LIB_SYM_NODE_H

#include "kiln/Sym/Expr.h"

namespace kiln::sym::detail {

// Limits on what one expression may be. Shapes of real programs stay far below; a hostile program
// whose expression goes past one gets the invalid expression instead of unbounded time or stack.
constexpr uint32_t maxTreeSize = 1u << 14;
constexpr uint32_t maxDepth = 200;
constexpr size_t maxTerms = 512;
constexpr size_t maxProducts = 4096; // terms before equal ones are added up
constexpr size_t maxDegree = 64;
constexpr size_t maxOperands = 128; // of min and max

struct Node {
  Kind kind = Kind::Invalid;
  uint32_t depth = 1;
  uint32_t treeSize = 1;
  uint32_t numDims = 0;           // one past the largest dim below
  bool hasLeaves = false;         // a symbol or dim below
  int64_t value = 0;              // Constant: the value; Dim: the index; Mul: the coefficient
  const Node *monomial = nullptr; // Mul with a coefficient: the same without it
  llvm::ArrayRef<Expr> operands;
  llvm::StringRef name;
  uint64_t hash = 0;

  static Expr wrap(const Node *node) { return Expr(Expr::Interned{node}); }
  static const Node &of(Expr expr) { return *expr.node; }
};

/// The unique node of these contents; Invalid when a limit is passed.
Expr intern(Kind kind, int64_t value, llvm::StringRef name, llvm::ArrayRef<Expr> operands,
            const Node *monomial = nullptr);

/// <0, 0 or >0. Dims before symbols before floordiv, min and max; products as their lists of atoms.
int compare(Expr a, Expr b);

/// coefficient * monomial, where the monomial has no coefficient of its own; 1 for the constant.
struct Term {
  Expr monomial;
  int64_t coefficient;
  bool isConstant() const { return monomial.isConstant(); }
};
using Terms = llvm::SmallVector<Term, 8>;

/// The terms of a valid expression in canonical order (a constant first), none for 0.
Terms termsOf(Expr expr);
/// Terms must be in canonical order without repetitions or zeros.
Expr fromTerms(llvm::ArrayRef<Term> terms);
Expr fromTerm(Term term);

/// The factors of a monomial: itself, or the operands of a product; none for the constant 1.
llvm::ArrayRef<Expr> atomsOf(const Expr &monomial);
/// Sorted atoms to monomial.
Expr fromAtoms(llvm::ArrayRef<Expr> atoms);
/// a / b for monomials; nullopt when b is not a factor.
std::optional<Expr> divideMonomial(Expr a, Expr b);

struct Quotient {
  Expr quotient, remainder;
};
/// expr == quotient * divisor + remainder, as polynomials: every multiple of the divisor's leading
/// term is taken out, coefficients truncated. The remainder is not bounded by anything.
Quotient dividePolynomial(Expr expr, Expr divisor);
/// The quotient when there is no remainder.
std::optional<Expr> divideExactly(Expr expr, Expr divisor);

/// A polynomial's sign is that of its first monomial without dims, else of its first monomial:
/// sizes are positive, so that what is normalised to be positive mostly is.
int64_t leadingCoefficient(llvm::ArrayRef<Term> terms);

inline uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}
/// Greatest common divisor of the coefficients, constant included; 0 for no terms.
uint64_t contentOf(llvm::ArrayRef<Term> terms);

inline int64_t floorDivide(int64_t a, int64_t b) { // b not 0, not MIN / -1
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

} // namespace kiln::sym::detail

#endif // KILN_LIB_SYM_NODE_H
