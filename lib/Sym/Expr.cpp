// Access, substitution and evaluation, and the shape arithmetic built on them.
#include "Node.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

Kind Expr::kind() const { return node->kind; }
llvm::ArrayRef<Expr> Expr::operands() const { return node->operands; }
llvm::StringRef Expr::symbolName() const { return node->name; }
unsigned Expr::dimIndex() const { return static_cast<unsigned>(node->value); }
bool Expr::hasDims() const { return node->numDims != 0; }
unsigned Expr::numDimsUsed() const { return node->numDims; }

std::optional<int64_t> Expr::constant() const {
  return node->kind == Kind::Constant ? std::optional<int64_t>(node->value) : std::nullopt;
}

Expr Expr::fromOpaque(const void *pointer) {
  return Expr(Interned{static_cast<const Node *>(pointer)});
}

static Expr rebuild(Kind kind, llvm::ArrayRef<Expr> operands) {
  switch (kind) {
  case Kind::Add:
    return sum(operands);
  case Kind::Mul:
    return product(operands);
  case Kind::FloorDiv:
    return operands[0].floorDiv(operands[1]);
  default: {
    Expr result = operands.front();
    for (Expr operand : operands.drop_front())
      result = kind == Kind::Min ? Expr::min(result, operand) : Expr::max(result, operand);
    return result;
  }
  }
}

Expr Expr::substitute(llvm::function_ref<std::optional<Expr>(Expr leaf)> leaf) const {
  if (!node->hasLeaves)
    return *this;
  if (node->operands.empty())
    return leaf(*this).value_or(*this);
  llvm::SmallVector<Expr, 8> operands;
  for (Expr operand : node->operands) {
    operands.push_back(operand.substitute(leaf));
    if (!operands.back().isValid())
      return invalid();
  }
  return llvm::ArrayRef<Expr>(operands) == node->operands ? *this : rebuild(node->kind, operands);
}

Expr Expr::substituteDims(llvm::ArrayRef<Expr> dims) const {
  if (!hasDims())
    return *this;
  return substitute([&](Expr leaf) -> std::optional<Expr> {
    if (leaf.kind() == Kind::Dim && leaf.dimIndex() < dims.size())
      return dims[leaf.dimIndex()];
    return std::nullopt;
  });
}

void Expr::walkLeaves(llvm::function_ref<void(Expr leaf)> visit) const {
  if (!node->hasLeaves)
    return;
  if (node->operands.empty())
    return visit(*this);
  for (Expr operand : node->operands)
    operand.walkLeaves(visit);
}

bool Expr::dependsOn(Expr leaf) const {
  if (*this == leaf)
    return true;
  if (!node->hasLeaves || (leaf.kind() == Kind::Dim && leaf.dimIndex() >= node->numDims))
    return false;
  return llvm::any_of(node->operands, [&](Expr operand) { return operand.dependsOn(leaf); });
}

/// Sums and products are computed in 128 bits: a stride may leave 64 bits where the index does not,
/// and generated code, which wraps around, gets those right as well.
static std::optional<__int128> evaluateWide(Expr expr,
                                            llvm::function_ref<int64_t(Expr leaf)> value) {
  using Wide = __int128;
  llvm::ArrayRef<Expr> operands = expr.operands();
  if (operands.empty())
    return expr.isConstant() ? *expr.constant() : value(expr);
  Kind kind = expr.kind();
  std::optional<Wide> result;
  for (Expr operand : operands) {
    std::optional<Wide> v;
    if (kind == Kind::Add || kind == Kind::Mul)
      v = evaluateWide(operand, value);
    else if (std::optional<int64_t> narrow = operand.evaluate(value))
      v = *narrow;
    if (!v)
      return std::nullopt;
    if (!result) {
      result = v;
      continue;
    }
    Wide &r = *result;
    switch (kind) {
    case Kind::Add:
      if (__builtin_add_overflow(r, *v, &r))
        return std::nullopt;
      break;
    case Kind::Mul:
      if (__builtin_mul_overflow(r, *v, &r))
        return std::nullopt;
      break;
    case Kind::FloorDiv:
      if (*v == 0)
        return std::nullopt;
      r = r / *v - (r % *v != 0 && (r % *v < 0) != (*v < 0));
      break;
    case Kind::Min:
      r = std::min(r, *v);
      break;
    default:
      r = std::max(r, *v);
      break;
    }
  }
  return result;
}

std::optional<int64_t> Expr::evaluate(llvm::function_ref<int64_t(Expr leaf)> value) const {
  if (!isValid())
    return std::nullopt;
  std::optional<__int128> result = evaluateWide(*this, value);
  if (!result || *result != static_cast<int64_t>(*result))
    return std::nullopt;
  return static_cast<int64_t>(*result);
}

std::optional<Linear> kiln::sym::splitLinear(Expr expr, Expr leaf) {
  if (!expr.isValid())
    return std::nullopt;
  llvm::SmallVector<Expr, 8> coefficients, rest;
  for (Term term : termsOf(expr)) {
    std::optional<Expr> quotient = divideMonomial(term.monomial, leaf);
    Expr other = quotient.value_or(term.monomial);
    if (other.dependsOn(leaf))
      return std::nullopt;
    (quotient ? coefficients : rest).push_back(other * term.coefficient);
  }
  return Linear{sum(coefficients), sum(rest)};
}

Expr kiln::sym::product(llvm::ArrayRef<Expr> exprs) {
  Expr result = 1;
  for (Expr expr : exprs)
    result = result * expr;
  return result;
}

llvm::SmallVector<Expr> kiln::sym::rowMajorStrides(llvm::ArrayRef<Expr> shape) {
  llvm::SmallVector<Expr> strides(shape.size());
  Expr stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride = stride * shape[i])
    strides[i] = stride;
  return strides;
}

Expr kiln::sym::linearize(llvm::ArrayRef<Expr> index, llvm::ArrayRef<Expr> shape) {
  assert(index.size() == shape.size() && "one index for each dimension");
  llvm::SmallVector<Expr> terms, strides = rowMajorStrides(shape);
  for (auto [i, stride] : llvm::zip(index, strides))
    terms.push_back(i * stride);
  return sum(terms);
}

llvm::SmallVector<Expr> kiln::sym::delinearize(Expr linear, llvm::ArrayRef<Expr> shape) {
  // An empty tensor has no elements to address, so its zero sizes may count as anything.
  llvm::SmallVector<Expr> sizes(shape), index(shape.size());
  for (Expr &size : sizes)
    if (size.isConstant(0))
      size = 1;
  // linear // stride - size * (linear // (stride * size)) is (linear // stride) mod size without
  // the division of a division that only Assumptions could merge when the sizes are symbols.
  llvm::SmallVector<Expr> strides = rowMajorStrides(sizes);
  Expr outer; // linear // (stride * size)
  for (size_t i = 0; i < shape.size(); ++i) {
    Expr quotient = linear.floorDiv(strides[i]);
    index[i] = i ? quotient - sizes[i] * outer : quotient;
    outer = quotient;
  }
  return index;
}
