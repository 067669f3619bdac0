// Text of an expression, with the sugar that the canonical form does not have.
//
//   k*x - k*m*(x floordiv m)        k*(x mod m)
//   (x + m - 1) floordiv m          x ceildiv m
//   -k*((-x) floordiv m)            k*(x ceildiv m)      for a symbolic m
//
// Sugar only regroups: the printed pieces are expressions that add up to the printed one, so
// reading the text back gives the same pointer whatever the choice of pieces.
#include "Node.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

namespace {

/// factor * (dividend mod divisor), the place of its first term, and what it stands for.
struct ModPiece {
  Expr factor, dividend, divisor;
  Expr value() const { return factor * dividend.mod(divisor); }
};

struct Piece {
  size_t place;
  bool negative;
  bool isQuotient; // a bare `a floordiv b`, which a leading minus sign would capture only half of
  std::string text;
};

class SumPrinter {
public:
  explicit SumPrinter(Expr expr) : terms(termsOf(expr)) {
    if (!terms.empty() && terms.front().isConstant()) {
      constant = terms.front().coefficient;
      terms.erase(terms.begin());
    }
    used.resize(terms.size());
  }

  void print(llvm::raw_ostream &os) {
    for (size_t i = 0; i < terms.size(); ++i)
      if (!used[i])
        takeMod(i);
    for (size_t i = 0; i < terms.size(); ++i)
      if (!used[i])
        addTerm(i);
    llvm::sort(pieces, [](const Piece &a, const Piece &b) { return a.place < b.place; });
    if (constant || pieces.empty())
      pieces.push_back({terms.size(), constant < 0, false, std::to_string(magnitude(constant))});
    // 7 - d0 rather than -d0 + 7
    auto positive = llvm::find_if(pieces, [](const Piece &piece) { return !piece.negative; });
    if (positive != pieces.end())
      std::rotate(pieces.begin(), positive, positive + 1);

    for (auto [i, piece] : llvm::enumerate(pieces)) {
      if (i)
        os << (piece.negative ? " - " : " + ");
      else if (piece.negative)
        os << '-';
      if (i == 0 && piece.negative && piece.isQuotient)
        os << '(' << piece.text << ')';
      else
        os << piece.text;
    }
  }

private:
  /// Takes the terms of `mod` out of the sum when all of them are in it.
  bool take(const ModPiece &mod) {
    Expr value = mod.value();
    if (!value.isValid())
      return false;
    llvm::SmallVector<size_t, 4> places;
    int64_t left = constant;
    for (Term term : termsOf(value)) {
      if (term.isConstant()) {
        if (__builtin_sub_overflow(constant, term.coefficient, &left))
          return false;
        continue;
      }
      auto it = llvm::find_if(terms, [&](Term t) { return t.monomial == term.monomial; });
      size_t place = it - terms.begin();
      if (it == terms.end() || used[place] || it->coefficient != term.coefficient)
        return false;
      places.push_back(place);
    }
    if (places.size() < 2)
      return false;
    constant = left;
    for (size_t place : places)
      used[place] = true;
    Term factor = termsOf(mod.factor).front();
    Piece piece{*llvm::min_element(places), factor.coefficient < 0, false, {}};
    std::string inner;
    llvm::raw_string_ostream os(inner);
    printOperand(mod.dividend, os);
    os << " mod ";
    printOperand(mod.divisor, os);
    finish(piece, factor, inner);
    return true;
  }

  void takeMod(size_t i) {
    Term term = terms[i];
    for (Expr atom : atomsOf(term.monomial)) {
      if (atom.kind() != Kind::FloorDiv)
        continue;
      Expr numerator = atom.operands()[0], divisor = atom.operands()[1];
      Expr others = *divideMonomial(term.monomial, atom);
      Term lead = termsOf(divisor).back();
      std::optional<Expr> quotient = divideMonomial(others, lead.monomial);
      if (quotient && term.coefficient != INT64_MIN && term.coefficient % lead.coefficient == 0) {
        Expr factor = *quotient * (-term.coefficient / lead.coefficient);
        std::optional<int64_t> m = divisor.constant();
        // -x - m*((-x) floordiv m) has become -x + m*((x + m - 1) floordiv m).
        if (m && term.coefficient > 0 && constantOf(numerator) == *m - 1 &&
            take({-factor, *m - 1 - numerator, divisor}))
          return;
        if (take({factor, numerator, divisor}))
          return;
      }
      if (divisor.isConstant() && takeNestedMod(term, others, numerator, *divisor.constant()))
        return;
    }
  }

  /// (x floordiv a) mod m is x floordiv a - m*(x floordiv (a*m)).
  bool takeNestedMod(Term term, Expr others, Expr numerator, int64_t divisor) {
    for (size_t j = 0; j < terms.size(); ++j) {
      int64_t k = terms[j].coefficient;
      if (used[j] || (k < 0) == (term.coefficient < 0) || term.coefficient == INT64_MIN ||
          term.coefficient % k != 0)
        continue;
      int64_t m = -(term.coefficient / k);
      if (m > 1 && m != divisor && divisor % m == 0 &&
          take({others * k, numerator.floorDiv(divisor / m), m}))
        return true;
    }
    return false;
  }

  void addTerm(size_t i) {
    Term term = terms[i];
    Piece piece{i, term.coefficient < 0, false, {}};
    llvm::ArrayRef<Expr> atoms = atomsOf(term.monomial);
    // A negated quotient by a symbol, with a negated numerator, is a ceiling.
    for (Expr atom : atoms) {
      if (!piece.negative || atom.kind() != Kind::FloorDiv || atom.operands()[1].isConstant() ||
          llvm::count(atoms, atom) > 1 || term.coefficient == INT64_MIN)
        continue;
      Terms numerator = termsOf(atom.operands()[0]);
      int64_t lead = leadingCoefficient(numerator);
      Expr negated = -atom.operands()[0];
      if ((lead ? lead : numerator.front().coefficient) >= 0 || !negated.isValid())
        continue;
      std::string inner;
      llvm::raw_string_ostream os(inner);
      printOperand(negated, os);
      os << " ceildiv ";
      printOperand(atom.operands()[1], os);
      piece.negative = false;
      return finish(piece, {*divideMonomial(term.monomial, atom), -term.coefficient}, inner);
    }
    if (atoms.size() == 1 && atoms.front().kind() == Kind::FloorDiv) {
      std::string inner;
      llvm::raw_string_ostream os(inner);
      Expr numerator = atoms.front().operands()[0], divisor = atoms.front().operands()[1];
      // (n - k) floordiv 2 rather than -((k - n) ceildiv 2), which is how it is kept
      if (piece.negative && divisor.isConstant() && hasNegativeTerm(numerator)) {
        numerator = *divisor.constant() - 1 - numerator;
        piece.negative = false;
      }
      printQuotient(numerator, divisor, os);
      return finish(piece, {1, term.coefficient}, inner);
    }
    llvm::raw_string_ostream os(piece.text);
    printFactors(term, os);
    pieces.push_back(std::move(piece));
  }

  /// factor * (inner), where `inner` is an operator expression.
  void finish(Piece &piece, Term factor, llvm::StringRef inner) {
    llvm::raw_string_ostream os(piece.text);
    if (factor.isConstant() && magnitude(factor.coefficient) == 1) {
      piece.isQuotient = true;
      os << inner;
    } else {
      printFactors(factor, os);
      os << "*(" << inner << ')';
    }
    pieces.push_back(std::move(piece));
  }

  /// |coefficient| * atoms
  static void printFactors(Term term, llvm::raw_ostream &os) {
    const char *separator = "";
    if (term.isConstant() || magnitude(term.coefficient) != 1) {
      os << magnitude(term.coefficient);
      separator = "*";
    }
    for (Expr atom : atomsOf(term.monomial)) {
      os << separator;
      printOperand(atom, os);
      separator = "*";
    }
  }

  static int64_t constantOf(Expr expr) {
    Terms terms = termsOf(expr);
    return !terms.empty() && terms.front().isConstant() ? terms.front().coefficient : 0;
  }

  static bool hasNegativeTerm(Expr expr) {
    return llvm::any_of(termsOf(expr),
                        [](Term term) { return !term.isConstant() && term.coefficient < 0; });
  }

  static void printQuotient(Expr numerator, Expr divisor, llvm::raw_ostream &os) {
    std::optional<int64_t> m = divisor.constant();
    bool isCeil = m && constantOf(numerator) == *m - 1;
    printOperand(isCeil ? numerator - (*m - 1) : numerator, os);
    os << (isCeil ? " ceildiv " : " floordiv ");
    printOperand(divisor, os);
  }

  /// As an operand of *, floordiv and mod.
  static void printOperand(Expr expr, llvm::raw_ostream &os) {
    bool bare = expr.kind() == Kind::Symbol || expr.kind() == Kind::Dim ||
                expr.kind() == Kind::Min || expr.kind() == Kind::Max ||
                (expr.isConstant() && *expr.constant() >= 0);
    if (!bare)
      os << '(';
    expr.print(os);
    if (!bare)
      os << ')';
  }

  Terms terms; // without the constant
  llvm::SmallVector<bool, 8> used;
  int64_t constant = 0;
  llvm::SmallVector<Piece, 8> pieces;
};

} // namespace

void Expr::print(llvm::raw_ostream &os) const {
  switch (kind()) {
  case Kind::Invalid:
    os << "<invalid>";
    return;
  case Kind::Symbol:
    os << symbolName();
    return;
  case Kind::Dim:
    os << 'd' << dimIndex();
    return;
  case Kind::Min:
  case Kind::Max:
    os << (kind() == Kind::Min ? "min(" : "max(");
    // The constant, if any, is first; text has it last as in a sum.
    llvm::interleaveComma(operands().drop_front(operands().front().isConstant()), os);
    if (operands().front().isConstant())
      os << ", " << operands().front();
    os << ')';
    return;
  default:
    SumPrinter(*this).print(os);
  }
}

std::string Expr::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  return text;
}
