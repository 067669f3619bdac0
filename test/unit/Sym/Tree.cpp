#include "Tree.h"

using namespace kiln::sym;
using namespace kiln::sym::test;

Expr Tree::build(llvm::ArrayRef<Expr> leaves) const {
  auto child = [&](size_t i) { return children[i].build(leaves); };
  switch (op) {
  case Leaf:
    return leaves[number];
  case Number:
    return number;
  case Add:
    return child(0) + child(1);
  case Sub:
    return child(0) - child(1);
  case Mul:
    return child(0) * child(1);
  case Neg:
    return -child(0);
  case FloorDiv:
    return child(0).floorDiv(child(1));
  case CeilDiv:
    return child(0).ceilDiv(child(1));
  case Mod:
    return child(0).mod(child(1));
  case Min:
    return Expr::min(child(0), child(1));
  case Max:
    return Expr::max(child(0), child(1));
  }
  return Expr::invalid();
}

std::optional<int64_t> Tree::evaluate(llvm::ArrayRef<int64_t> values) const {
  if (op == Leaf)
    return values[number];
  if (op == Number)
    return number;
  std::optional<int64_t> x = children[0].evaluate(values);
  std::optional<int64_t> y = children.size() > 1 ? children[1].evaluate(values) : 0;
  if (!x || !y)
    return std::nullopt;
  __int128 a = *x, b = *y, r = 0;
  switch (op) {
  case Add:
    r = a + b;
    break;
  case Sub:
    r = a - b;
    break;
  case Mul:
    r = a * b;
    break;
  case Neg:
    r = -a;
    break;
  case Min:
    r = std::min(a, b);
    break;
  case Max:
    r = std::max(a, b);
    break;
  default: {
    if (b == 0)
      return std::nullopt;
    __int128 floor = a / b;
    while (b > 0 ? floor * b > a : floor * b < a)
      --floor;
    bool exact = floor * b == a;
    r = op == FloorDiv ? floor : op == CeilDiv ? floor + !exact : a - b * floor;
  }
  }
  if (r != static_cast<int64_t>(r))
    return std::nullopt;
  return static_cast<int64_t>(r);
}

std::string Tree::text(llvm::ArrayRef<Expr> leaves) const {
  if (op == Leaf)
    return leaves[number].str();
  if (op == Number)
    return number < 0 ? "(" + std::to_string(number) + ")" : std::to_string(number);
  std::string x = children[0].text(leaves);
  if (op == Neg)
    return "(-" + x + ")";
  std::string y = children[1].text(leaves);
  static const char *const names[] = {"",           "",          " + ",   " - ", " * ", "",
                                      " floordiv ", " ceildiv ", " mod ", "min", "max"};
  if (op == Min || op == Max)
    return std::string(names[op]) + "(" + x + ", " + y + ")";
  return "(" + x + names[op] + y + ")";
}

Tree kiln::sym::test::randomTree(Random &random, const TreeOptions &options) {
  Tree tree;
  if (options.depth == 0 || random.oneIn(6)) {
    tree.op = random.oneIn(3) ? Tree::Number : Tree::Leaf;
    tree.number = tree.op == Tree::Leaf ? random.in(0, options.leaves - 1)
                                        : random.in(-options.maxNumber, options.maxNumber);
    return tree;
  }
  TreeOptions below = options;
  --below.depth;
  tree.op = static_cast<Tree::Op>(random.in(Tree::Add, Tree::Max));
  tree.children.push_back(randomTree(random, below));
  if (tree.op == Tree::Neg)
    return tree;
  bool isDivision = tree.op >= Tree::FloorDiv && tree.op <= Tree::Mod;
  if (isDivision && (!options.symbolicDivisors || !random.oneIn(3))) {
    Tree number;
    number.number = random.oneIn(4) ? random.in(-options.maxNumber, options.maxNumber)
                                    : random.in(1, options.maxNumber);
    tree.children.push_back(number);
  } else {
    tree.children.push_back(randomTree(random, below));
  }
  return tree;
}
