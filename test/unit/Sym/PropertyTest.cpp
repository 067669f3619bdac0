// Random expressions against naive evaluation.
#include "Tree.h"
#include "gtest/gtest.h"

using namespace kiln::sym;
using namespace kiln::sym::test;

namespace {

const std::vector<Expr> leaves = {Expr::symbol("s0"), Expr::symbol("s1"), Expr::dim(0),
                                  Expr::dim(1)};

std::optional<int64_t> evaluate(Expr expr, llvm::ArrayRef<int64_t> values) {
  return expr.evaluate(
      [&](Expr leaf) { return values[llvm::find(leaves, leaf) - leaves.begin()]; });
}

TEST(SymProperty, CanonicalFormKeepsTheValue) {
  Random random(1);
  unsigned invalid = 0, defined = 0;
  for (int i = 0; i < 40000; ++i) {
    Tree tree = randomTree(random, {4, static_cast<unsigned>(random.in(1, 5)), 12, true});
    Expr expr = tree.build(leaves);
    invalid += !expr.isValid();
    for (int k = 0; k < 12; ++k) {
      int64_t bound = random.oneIn(4) ? 1000 : 9;
      std::vector<int64_t> values;
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf)
        values.push_back(random.in(-bound, bound));
      std::optional<int64_t> expected = tree.evaluate(values);
      if (!expected)
        continue;
      ++defined;
      ASSERT_TRUE(expr.isValid()) << tree.text(leaves);
      ASSERT_EQ(evaluate(expr, values), expected) << tree.text(leaves) << "\n=> " << expr.str();
    }
  }
  EXPECT_GT(defined, 200000u);
  EXPECT_LT(invalid, 8000u); // constants that divide by zero
}

TEST(SymProperty, QuotientsRoundDownForDivisorsOfAnySign) {
  auto divide = [](int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); };
  Expr n = leaves[0];
  Assumptions assumptions;
  for (int64_t b : {-7, -3, -1, 1, 2, 100})
    for (int64_t c : {-100, -4, -3, -1, 1, 5}) {
      Expr nested = n.floorDiv(b).floorDiv(c), rest = n.floorDiv(b).mod(c), up = n.ceilDiv(b * c);
      for (int64_t value = -1250; value <= 1250; value += 7)
        for (bool simplified : {false, true}) {
          auto at = [&](Expr expr) {
            return *evaluate(simplified ? assumptions.simplify(expr) : expr, {value, 0, 0, 0});
          };
          int64_t quotient = divide(value, b);
          ASSERT_EQ(at(nested), divide(quotient, c)) << value << " // " << b << " // " << c;
          ASSERT_EQ(at(rest), quotient - c * divide(quotient, c))
              << value << " // " << b << " % " << c;
          ASSERT_EQ(at(up), -divide(-value, b * c)) << value << " ceildiv " << b * c;
        }
    }
}

TEST(SymProperty, TextReadsBackAsTheSamePointer) {
  Random random(2);
  for (int i = 0; i < 30000; ++i) {
    int64_t bound = random.oneIn(20) ? INT64_MAX : random.oneIn(2) ? 4 : 40;
    Tree tree = randomTree(random, {4, static_cast<unsigned>(random.in(1, 5)), bound / 2, true});
    Expr expr = tree.build(leaves);
    if (!expr.isValid())
      continue;
    llvm::Expected<Expr> again = Expr::parse(expr.str());
    ASSERT_TRUE(static_cast<bool>(again)) << expr.str() << "\n"
                                          << llvm::toString(again.takeError());
    ASSERT_EQ(again->str(), expr.str()) << tree.text(leaves);
    ASSERT_EQ(*again, expr) << expr.str();
    llvm::Expected<Expr> source = Expr::parse(tree.text(leaves));
    if (bound > 40)
      llvm::consumeError(source.takeError()); // a number in the middle may leave 64 bits
    else
      ASSERT_EQ(llvm::cantFail(std::move(source)), expr) << tree.text(leaves);
  }
}

TEST(SymProperty, OrderIsTotalAndIndependentOfCreation) {
  Random random(3);
  std::vector<Expr> exprs;
  for (int i = 0; i < 120; ++i) {
    Expr expr = randomTree(random, {4, 3, 5, true}).build(leaves);
    if (expr.isValid())
      exprs.push_back(expr);
  }
  for (Expr a : exprs)
    for (Expr b : exprs) {
      ASSERT_EQ((a < b) + (b < a), a != b) << a.str() << " and " << b.str();
      for (Expr c : exprs)
        if (a < b && b < c)
          ASSERT_TRUE(a < c) << a.str() << ", " << b.str() << ", " << c.str();
    }
  // Addresses follow creation; the order must not.
  Expr later = Expr::symbol("order_b"), earlier = Expr::symbol("order_a");
  EXPECT_TRUE(earlier < later);
  EXPECT_EQ((later + earlier).str(), "order_a + order_b");
}

TEST(SymProperty, SubstitutionCommutesWithEvaluation) {
  Random random(4);
  for (int i = 0; i < 5000; ++i) {
    Expr expr = randomTree(random, {4, 4, 8, true}).build(leaves);
    std::vector<Expr> with;
    for (size_t k = 0; k < leaves.size(); ++k)
      with.push_back(randomTree(random, {4, 2, 6, true}).build(leaves));
    if (!expr.isValid() || llvm::any_of(with, [](Expr e) { return !e.isValid(); }))
      continue;
    Expr substituted = expr.substitute([&](Expr leaf) -> std::optional<Expr> {
      return with[llvm::find(leaves, leaf) - leaves.begin()];
    });
    for (int k = 0; k < 6; ++k) {
      std::vector<int64_t> values, inner;
      for (size_t leaf = 0; leaf < leaves.size(); ++leaf)
        values.push_back(random.in(-9, 9));
      for (Expr e : with) {
        std::optional<int64_t> value = evaluate(e, values);
        if (!value)
          break;
        inner.push_back(*value);
      }
      if (inner.size() < leaves.size() || !evaluate(expr, inner))
        continue;
      ASSERT_EQ(evaluate(substituted, values), evaluate(expr, inner)) << expr.str();
    }
  }
}

TEST(SymProperty, SplitLinearAddsUp) {
  Random random(5);
  unsigned split = 0;
  for (int i = 0; i < 10000; ++i) {
    Expr expr = randomTree(random, {4, 4, 8, true}).build(leaves);
    for (Expr leaf : leaves) {
      std::optional<Linear> linear = splitLinear(expr, leaf);
      if (!linear)
        continue;
      ++split;
      ASSERT_FALSE(linear->coefficient.dependsOn(leaf));
      ASSERT_FALSE(linear->rest.dependsOn(leaf));
      ASSERT_EQ(linear->coefficient * leaf + linear->rest, expr);
    }
  }
  EXPECT_GT(split, 10000u);
}

/// Random ranges and extents, and all points they allow.
struct World {
  Assumptions assumptions;
  int64_t min[2], max[2];
  Expr extent[2];

  explicit World(Random &random) {
    static const char *const extents[] = {"s0",      "s1", "2*s0 + 1", "s0*s1", "s0 - 1",
                                          "s0 + s1", "1",  "4",        "6",     "min(s0, s1)"};
    bool mayBeNegative = random.oneIn(4);
    for (int i = 0; i < 2; ++i) {
      min[i] = random.in(mayBeNegative ? -3 : 0, 2);
      max[i] = min[i] + random.in(0, 4);
      // What is not said must not be used.
      Range range;
      if (!random.oneIn(8))
        range.min = min[i];
      if (!random.oneIn(2))
        range.max = max[i];
      assumptions.setRange(leaves[i], range);
    }
    for (unsigned i = 0; i < 2; ++i) {
      extent[i] = parse(extents[random.in(0, std::size(extents) - 1)]);
      if (i == 1 && random.oneIn(6))
        extent[i] = Expr::dim(0) + 1; // triangular
      assumptions.setExtent(i, extent[i]);
    }
  }

  /// Calls `visit` at every point of the loops that `used` is in.
  template <typename Visit> void forEachPoint(Expr used, Visit visit) {
    std::vector<int64_t> values(4);
    for (values[0] = min[0]; values[0] <= max[0]; ++values[0])
      for (values[1] = min[1]; values[1] <= max[1]; ++values[1]) {
        bool uses1 = used.dependsOn(leaves[3]);
        bool uses0 = used.dependsOn(leaves[2]) || (uses1 && extent[1].dependsOn(leaves[2]));
        int64_t n0 = uses0 ? evaluate(extent[0], values).value() : 1;
        for (values[2] = 0; values[2] < n0; ++values[2]) {
          int64_t n1 = uses1 ? evaluate(extent[1], values).value() : 1;
          for (values[3] = 0; values[3] < n1; ++values[3])
            visit(values);
        }
      }
  }
};

TEST(SymProperty, SimplifyAndRangesHoldAtEveryPoint) {
  Random random(6);
  unsigned simplified = 0, bounded = 0;
  for (int i = 0; i < 20000; ++i) {
    World world(random);
    Tree tree = randomTree(random, {4, static_cast<unsigned>(random.in(1, 4)), 8, true});
    Expr expr = tree.build(leaves);
    if (!expr.isValid())
      continue;
    Expr simple = world.assumptions.simplify(expr);
    Range range = world.assumptions.rangeOf(expr);
    bool nonNegative = world.assumptions.isNonNegative(expr);
    simplified += simple != expr;
    bounded += range.min || range.max;
    ASSERT_EQ(simple, world.assumptions.simplify(expr));
    world.forEachPoint(expr, [&](llvm::ArrayRef<int64_t> values) {
      std::optional<int64_t> value = evaluate(expr, values);
      if (!value || !tree.evaluate(values))
        return;
      auto where = [&] {
        std::string text = expr.str() + " => " + simple.str() + " at";
        for (int64_t v : values)
          text += " " + std::to_string(v);
        return text + ", extents " + world.extent[0].str() + ", " + world.extent[1].str();
      };
      ASSERT_EQ(evaluate(simple, values), value) << where();
      if (range.min)
        ASSERT_GE(*value, *range.min) << where();
      if (range.max)
        ASSERT_LE(*value, *range.max) << where();
      if (nonNegative)
        ASSERT_GE(*value, 0) << where();
    });
    if (HasFatalFailure())
      return;
  }
  EXPECT_GT(simplified, 4000u);
  EXPECT_GT(bounded, 8000u);
}

/// Index arithmetic as views make it: splits and merges of dims, where a lot must be simplified.
TEST(SymProperty, ViewsOfViewsKeepTheirElements) {
  Random random(7);
  static const char *const sizes[] = {"1", "2", "3", "4", "s0", "s1", "s0 + 1"};
  for (int i = 0; i < 3000; ++i) {
    std::vector<Expr> factors;
    for (int64_t k = random.in(1, 4); k > 0; --k)
      factors.push_back(parse(sizes[random.in(0, std::size(sizes) - 1)]));
    auto group = [&](Random &random) {
      llvm::SmallVector<Expr> shape{factors.front()};
      for (Expr factor : llvm::drop_begin(factors)) {
        if (random.oneIn(2))
          shape.push_back(factor);
        else
          shape.back() = shape.back() * factor;
      }
      return shape;
    };
    llvm::SmallVector<Expr> from = group(random), to = group(random);
    Assumptions assumptions;
    assumptions.setRange(leaves[0], {1, {}});
    assumptions.setRange(leaves[1], {1, {}});
    IndexMap identity = IndexMap::identity(from.size());
    for (unsigned d = 0; d < from.size(); ++d)
      assumptions.setExtent(d, from[d]);
    auto simplify = [&](llvm::SmallVector<Expr> index) {
      for (Expr &e : index)
        e = assumptions.simplify(e);
      return index;
    };
    auto there = simplify(delinearize(linearize(identity.results, from), to));
    auto back = simplify(delinearize(linearize(there, to), from));
    for (unsigned d = 0; d < from.size(); ++d) {
      ASSERT_TRUE(assumptions.isEqual(back[d], Expr::dim(d)))
          << back[d].str() << " is not d" << d << " of " << i;
      ASSERT_TRUE(assumptions.isNonNegative(there.empty() ? 0 : there[0]));
    }
    for (auto [index, size] : llvm::zip(there, to))
      ASSERT_TRUE(assumptions.isNonNegative(index) && assumptions.isLess(index, size))
          << index.str() << " in " << size.str();
  }
}

} // namespace
