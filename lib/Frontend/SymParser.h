// The parser behind SymExprReader: sympy's two textual forms, and Python's conditions.
#ifndef KILN_LIB_FRONTEND_SYMPARSER_H
#define KILN_LIB_FRONTEND_SYMPARSER_H

#include "SymFunctions.h"
#include "kiln/Frontend/SymExpr.h"
#include "llvm/ADT/Twine.h"

namespace kiln::frontend {

/// A limit that keeps hostile text from using up the stack.
inline constexpr unsigned maxNesting = 200;

/// Reads what follows `L` off the text: `['x'][0].size()[1]`, `['x'].stride()[0]`, `['n']`.
Failure readInputProperty(llvm::StringRef &rest, InputProperty &property);

/// Takes a relation (`==`, `<`, ...) and the spaces behind it off the text; empty if it begins with
/// none.
llvm::StringRef consumeRelation(llvm::StringRef &rest);

/// The call that the text begins with, up to its closing parenthesis, or else the word.
llvm::StringRef firstCall(llvm::StringRef text);

class SymParser {
public:
  /// With `inputs`: Python text about them.
  SymParser(llvm::StringRef text, llvm::MapVector<sym::Expr, sym::Range> &ranges, bool mayAssume,
            InputLookup inputs = nullptr, const llvm::StringMap<sym::Expr> *defined = nullptr)
      : text(text), rest(text), ranges(ranges), inputs(inputs), defined(defined),
        mayAssume(mayAssume) {}

  llvm::Expected<sym::Expr> readExpr();
  /// An expression that is at least zero where the condition holds.
  llvm::Expected<sym::Expr> readCondition();

  /// The assumption that the text was read under: at least zero.
  const std::optional<sym::Expr> &assumption() const { return assumed; }

private:
  /// A number, or a condition: what is at least zero where it holds.
  struct Value {
    Quotient number;
    std::optional<sym::Expr> holds;
  };

  bool fail(const llvm::Twine &message);
  /// The outcome of a function that may have failed.
  bool check(Failure failure, llvm::StringRef name = "");
  bool consume(llvm::StringRef token);
  bool consumeWord(llvm::StringRef word);
  bool expect(llvm::StringRef token);
  llvm::StringRef word();
  llvm::Expected<sym::Expr> finish(sym::Expr result);
  bool isPython() const { return static_cast<bool>(inputs); }

  // SymConditions.cpp: from `a if c else b` down to comparisons, and what is known of inputs
  bool value(Value &result, unsigned depth);
  bool disjunction(Value &result, unsigned depth);
  bool conjunction(Value &result, unsigned depth);
  bool negation(Value &result, unsigned depth);
  bool comparison(Value &result, unsigned depth);
  bool compare(llvm::StringRef relation, Quotient a, Quotient b, sym::Expr &holds);
  bool condition(const Value &value, sym::Expr &holds);
  bool inputProperty(Quotient &result);

  // SymParser.cpp: arithmetic
  bool number(Quotient &result, unsigned depth);
  bool sum(Value &result, unsigned depth);
  bool product(Value &result, unsigned depth);
  bool unary(Value &result, unsigned depth);
  bool atom(Value &result, unsigned depth);
  bool consumeDefined(Quotient &result);
  bool call(llvm::StringRef name, Quotient &result, unsigned depth);
  bool apply(llvm::StringRef name, llvm::ArrayRef<Quotient> args, Quotient &result);
  bool literal(Quotient &result);
  bool decimal(llvm::StringRef digits, Quotient &result);
  bool quotedFloat(Quotient &result);
  bool scale(double value, Quotient &result);
  bool piecewise(Quotient &result, unsigned depth);
  bool quotedSymbol(Quotient &result);
  bool symbol(llvm::StringRef name, sym::Range range, Quotient &result);
  static Quotient toNumber(const Value &value);
  /// A bound beyond all sizes, Python's largest integer, as one that can be added to.
  void makeRoom(Quotient &number) const;

  llvm::StringRef text, rest;
  std::string error;
  llvm::MapVector<sym::Expr, sym::Range> &ranges;
  InputLookup inputs;
  const llvm::StringMap<sym::Expr> *defined; // what texts of calls stand for, or null
  bool mayAssume;
  std::optional<sym::Expr> assumed;
};

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_SYMPARSER_H
