// Expressions that compute with floats: Python's conditions,
// `math.trunc(torch.sym_float(L['x'].size()[0]) ** 0.5) == 4`, and sizes as sympy writes them,
// `TruncToInt(Mul(Float('0.7', precision=53), ToFloat(Symbol('s0'))))`.
//
// A condition on one size is a set of integers. Which ones they are is found out by evaluating it,
// in doubles as Python does, for each size up to a limit; what is left is one of integers, here
// 16 <= s0 <= 24. Sizes beyond the limit are taken for ones where it does not hold. A condition on
// several sizes is evaluated when the model runs, and so is a size.
#ifndef KILN_LIB_FRONTEND_FLOATEXPR_H
#define KILN_LIB_FRONTEND_FLOATEXPR_H

#include "kiln/Frontend/SymExpr.h"
#include <memory>

namespace kiln::frontend {

class FloatExpr {
public:
  static constexpr int64_t limit = 1 << 20;

  /// Error: the text is not such a condition.
  static llvm::Expected<FloatExpr> parse(llvm::StringRef text, InputLookup inputs);

  /// The integer expression that a part of a size's text is; none if it is not one.
  using IntegerLookup = llvm::function_ref<std::optional<sym::Expr>(llvm::StringRef text)>;

  /// Error: the text is not such a size, or has a sum or product of more than two floats, whose
  /// order sympy has not kept.
  static llvm::Expected<FloatExpr> parseSize(llvm::StringRef text, IntegerLookup integers);

  /// The sizes that it computes with.
  llvm::ArrayRef<sym::Expr> leaves() const { return inputs; }

  /// An expression that is at least zero where the condition holds, if its leaves are expressions
  /// of one symbol, which is in `range`.
  llvm::Expected<sym::Expr> toIntegers(sym::Expr symbol, sym::Range range) const;

  enum class Op : uint8_t {
    Integer,
    Float,
    Input,
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Neg,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    And,
    Or,
    Not,
    Select,
    Trunc,
    Floor,
    Ceil,
    Round,
    ToFloat,
    Abs,
    Min,
    Max,
    Sqrt,
    Exp,
    Log,
    Log2,
  };
  /// A Python number; there is none if computing it raised an exception or left what is exact.
  struct Number {
    bool isFloat = false;
    int64_t integer = 0;
    double real = 0;
  };

  struct Node {
    Op op;
    Number constant = {};
    unsigned input = 0;
    llvm::SmallVector<unsigned, 3> operands = {}; // earlier nodes
  };
  llvm::ArrayRef<Node> getNodes() const { return nodes; }
  unsigned getRoot() const { return root; }

private:
  friend class FloatExprParser;
  static constexpr unsigned maxNodes = 128;
  std::optional<Number> evaluate(const Node &node, llvm::ArrayRef<int64_t> values,
                                 llvm::ArrayRef<std::optional<Number>> results) const;
  bool holds(llvm::ArrayRef<int64_t> values) const;

  llvm::SmallVector<Node> nodes;
  unsigned root = 0;
  llvm::SmallVector<sym::Expr> inputs;
};

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_FLOATEXPR_H
