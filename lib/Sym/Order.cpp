// The canonical order of expressions: by structure only, never by address or hash, so that printed
// IR and generated code are the same in every run.
#include "Node.h"
#include "llvm/ADT/StringExtras.h"

using namespace kiln::sym;
using namespace kiln::sym::detail;

static int compareNumbers(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/// Runs of digits compare as numbers: s2 before s10.
static int compareNames(llvm::StringRef a, llvm::StringRef b) {
  llvm::StringRef x = a, y = b;
  while (!x.empty() && !y.empty()) {
    if (llvm::isDigit(x.front()) && llvm::isDigit(y.front())) {
      llvm::StringRef m = x.take_while(llvm::isDigit), n = y.take_while(llvm::isDigit);
      x = x.drop_front(m.size());
      y = y.drop_front(n.size());
      m = m.ltrim('0');
      n = n.ltrim('0');
      if (m.size() != n.size())
        return m.size() < n.size() ? -1 : 1;
      if (int order = m.compare(n))
        return order;
      continue;
    }
    if (x.front() != y.front())
      return static_cast<unsigned char>(x.front()) < static_cast<unsigned char>(y.front()) ? -1 : 1;
    x = x.drop_front();
    y = y.drop_front();
  }
  if (x.empty() != y.empty())
    return x.empty() ? -1 : 1;
  return a.compare(b); // equal but for leading zeros
}

static int compareLists(llvm::ArrayRef<Expr> a, llvm::ArrayRef<Expr> b) {
  for (size_t i = 0, n = std::min(a.size(), b.size()); i < n; ++i)
    if (int order = compare(a[i], b[i]))
      return order;
  // The longer one first: a product of more factors is the bigger stride.
  return compareNumbers(b.size(), a.size());
}

static int rank(Kind kind) {
  switch (kind) {
  case Kind::Invalid:
    return 0;
  case Kind::Constant:
    return 1;
  case Kind::Dim:
    return 2;
  case Kind::Symbol:
    return 3;
  case Kind::FloorDiv:
    return 4;
  case Kind::Min:
    return 5;
  case Kind::Max:
    return 6;
  case Kind::Mul:
    return 7;
  case Kind::Add:
    return 8;
  }
  llvm_unreachable("all kinds are listed");
}

int detail::compare(Expr a, Expr b) {
  if (a == b)
    return 0;
  const Node &m = Node::of(a), &n = Node::of(b);
  if (m.kind == Kind::Mul || n.kind == Kind::Mul) {
    auto isMonomial = [](Kind kind) { return rank(kind) >= 2 && rank(kind) <= 7; };
    if (isMonomial(m.kind) && isMonomial(n.kind)) {
      if (int order = compareLists(atomsOf(a), atomsOf(b)))
        return order;
      int64_t x = m.kind == Kind::Mul ? m.value : 1, y = n.kind == Kind::Mul ? n.value : 1;
      return compareNumbers(x, y);
    }
  }
  if (m.kind != n.kind)
    return compareNumbers(rank(m.kind), rank(n.kind));
  switch (m.kind) {
  case Kind::Constant:
  case Kind::Dim:
    return compareNumbers(m.value, n.value);
  case Kind::Symbol:
    return compareNames(m.name, n.name);
  default:
    return compareLists(m.operands, n.operands);
  }
}

bool Expr::operator<(Expr other) const { return compare(*this, other) < 0; }
