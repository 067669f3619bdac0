// Canonical integer expressions over symbols: the one language for sizes, strides, offsets, launch
// grids, loop bounds and kernel indices.
//
// An expression is a polynomial with 64-bit integer coefficients over *atoms*. An atom is
//
//   s0, u3, ...          a symbol: a size that is known when the model runs
//   d0, d1, ...          a dim: a loop variable of the enclosing index map
//   a floordiv b         rounds toward minus infinity, also for negative operands (Python's //)
//   min(a, b, ...)       max(a, b, ...)
//
// and products of atoms are the monomials of the polynomial. Why this form:
//
//   * Equal expressions are the same pointer. Nodes are interned for the life of the process, so
//     comparison, hashing and copying are those of a pointer, from any thread.
//   * There is no mod node: x mod m is x - m*(x floordiv m). The index of a tensor that was
//   reshaped
//     and reshaped back, 64*(d1 floordiv 64) + d1 mod 64, becomes d1 by adding up coefficients; no
//     rule has to recognise it. Likewise x ceildiv m is -((-x) floordiv m), which for a constant m
//     is (x + m - 1) floordiv m; all three are one node. The printer writes both back where it
//     finds them, and what it prints reads back as the same pointer.
//   * Products of sums are expanded, so strides cancel: (d0*s0 + d1)*s1 - d0*s0*s1 is d1*s1.
//
// What needs to know ranges (0 <= d1 < 64) is not in the canonical form but in `Assumptions`
// (kiln/Sym/Assumptions.h).
//
// Canonicalisation holds for all integers, so it never assumes that a symbol is positive or a
// symbolic divisor not zero: where the expression as written has a value, the canonical one has the
// same. Expressions that are equal only as functions may differ: x - x floordiv 2 and x ceildiv 2
// do.
//
// Arithmetic that leaves 64 bits gives the invalid expression, which absorbs every operation; a
// consumer of untrusted input checks `isValid()`. Division by the constant zero is invalid too, and
// so is an expression of absurd size (about 500 terms, 64 factors, 128 operands of min, 200 levels
// or 16000 nodes): work and stack depth are bounded whatever the input.
#ifndef KILN_SYM_EXPR_H
#define KILN_SYM_EXPR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMapInfo.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdint>
#include <optional>
#include <string>

namespace kiln::sym {

enum class Kind : uint8_t { Invalid, Constant, Symbol, Dim, Add, Mul, FloorDiv, Min, Max };

namespace detail {
struct Node;
}

/// A handle to an interned expression; the default is the constant 0.
class Expr {
public:
  Expr();
  Expr(int64_t constant); // NOLINT: sizes are mostly plain numbers
  /// Invalid unless `name` can be read back as a symbol: [A-Za-z_][A-Za-z0-9_.$]*, neither an
  /// operator's name nor d<digits>.
  static Expr symbol(llvm::StringRef name);
  static Expr dim(unsigned index);
  static Expr invalid();

  /// Parses the textual form above; the error says where and what was expected.
  static llvm::Expected<Expr> parse(llvm::StringRef text);

  Kind kind() const;
  bool isValid() const { return kind() != Kind::Invalid; }
  /// An Add, Mul, FloorDiv, Min or Max node's operands. Add: at most one Constant, first; the other
  /// operands are monomials in canonical order. Mul: at most one Constant (the coefficient), first;
  /// then atoms, repeated for powers. FloorDiv: numerator, denominator.
  llvm::ArrayRef<Expr> operands() const;
  llvm::StringRef symbolName() const; // Kind::Symbol
  unsigned dimIndex() const;          // Kind::Dim
  std::optional<int64_t> constant() const;
  bool isConstant() const { return kind() == Kind::Constant; }
  bool isConstant(int64_t value) const { return constant() == value; }

  Expr operator+(Expr other) const;
  Expr operator-(Expr other) const;
  Expr operator*(Expr other) const;
  Expr operator-() const;
  Expr floorDiv(Expr divisor) const;
  Expr ceilDiv(Expr divisor) const;
  Expr mod(Expr divisor) const; // sign of the divisor, as Python's %
  static Expr min(Expr a, Expr b);
  static Expr max(Expr a, Expr b);

  bool operator==(Expr other) const { return node == other.node; }
  bool operator!=(Expr other) const { return node != other.node; }
  /// A total order that does not depend on addresses (sorted output is deterministic).
  bool operator<(Expr other) const;

  /// Bottom-up replacement: `leaf` is asked for every Symbol and Dim; nullopt keeps it.
  Expr substitute(llvm::function_ref<std::optional<Expr>(Expr leaf)> leaf) const;
  /// Dims d_i become `dims[i]`; a dim past the end is kept.
  Expr substituteDims(llvm::ArrayRef<Expr> dims) const;
  /// Calls `visit` on every Symbol and Dim, once for each occurrence.
  void walkLeaves(llvm::function_ref<void(Expr leaf)> visit) const;
  bool dependsOn(Expr leaf) const;
  bool hasDims() const;
  /// One past the largest dim index used, 0 when there are none.
  unsigned numDimsUsed() const;
  /// Value under an assignment of all leaves; nullopt on division by zero and where the value, or
  /// an operand of floordiv, min or max, leaves 64 bits. Products in a sum may.
  std::optional<int64_t> evaluate(llvm::function_ref<int64_t(Expr leaf)> value) const;

  void print(llvm::raw_ostream &os) const;
  std::string str() const;

  const void *opaque() const { return node; }
  static Expr fromOpaque(const void *pointer);

private:
  struct Interned {
    const detail::Node *node;
  };
  // Wrapped: a bare pointer would make Expr(0) ambiguous.
  explicit Expr(Interned interned) : node(interned.node) {}
  const detail::Node *node;
  friend struct detail::Node;
};

inline Expr operator+(int64_t a, Expr b) { return Expr(a) + b; }
inline Expr operator-(int64_t a, Expr b) { return Expr(a) - b; }
inline Expr operator*(int64_t a, Expr b) { return Expr(a) * b; }
inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Expr e) {
  e.print(os);
  return os;
}
inline llvm::hash_code hash_value(Expr e) { return llvm::hash_value(e.opaque()); }

/// `expr == coefficient * leaf + rest`, neither part containing `leaf`; nullopt when `leaf` occurs
/// inside a floordiv, min or max, or to a higher power.
struct Linear {
  Expr coefficient, rest;
};
std::optional<Linear> splitLinear(Expr expr, Expr leaf);

/// Sum of all; 0 for none. One pass, where adding n terms one by one is quadratic.
Expr sum(llvm::ArrayRef<Expr> exprs);
/// Product of all; 1 for none.
Expr product(llvm::ArrayRef<Expr> exprs);
/// Row-major (contiguous) strides of a shape, in elements.
llvm::SmallVector<Expr> rowMajorStrides(llvm::ArrayRef<Expr> shape);
/// The single expression that addresses element `index` of a row-major tensor, in elements.
Expr linearize(llvm::ArrayRef<Expr> index, llvm::ArrayRef<Expr> shape);
/// The inverse of `linearize`: the index of element number `linear`, each size but the outermost
/// (which nothing depends on) wrapping around. Constant zero sizes count as 1: there is no element
/// to address.
llvm::SmallVector<Expr> delinearize(Expr linear, llvm::ArrayRef<Expr> shape);

/// A function from `numDims` loop dims to a list of expressions: `(d0, d1) -> (d1, d0 floordiv 2)`.
struct IndexMap {
  unsigned numDims = 0;
  llvm::SmallVector<Expr, 4> results;

  static IndexMap identity(unsigned rank);
  bool isIdentity() const;
  /// (this ∘ inner): the results of `inner` are put in for this map's dims.
  IndexMap compose(const IndexMap &inner) const;
  bool operator==(const IndexMap &other) const {
    return numDims == other.numDims && results == other.results;
  }
  void print(llvm::raw_ostream &os) const;
  static llvm::Expected<IndexMap> parse(llvm::StringRef text);
};
inline llvm::hash_code hash_value(const IndexMap &map) {
  return llvm::hash_combine(map.numDims,
                            llvm::hash_combine_range(map.results.begin(), map.results.end()));
}

} // namespace kiln::sym

template <> struct llvm::DenseMapInfo<kiln::sym::Expr> {
  static kiln::sym::Expr getEmptyKey() {
    return kiln::sym::Expr::fromOpaque(DenseMapInfo<void *>::getEmptyKey());
  }
  static kiln::sym::Expr getTombstoneKey() {
    return kiln::sym::Expr::fromOpaque(DenseMapInfo<void *>::getTombstoneKey());
  }
  static unsigned getHashValue(kiln::sym::Expr e) {
    return DenseMapInfo<const void *>::getHashValue(e.opaque());
  }
  static bool isEqual(kiln::sym::Expr a, kiln::sym::Expr b) { return a == b; }
};

#endif // KILN_SYM_EXPR_H
