// Sums, products, order, overflow and the shape arithmetic.
#include "Tree.h"
#include "gtest/gtest.h"
#include <thread>

using namespace kiln::sym;
using namespace kiln::sym::test;

namespace {

const Expr s0 = Expr::symbol("s0"), s1 = Expr::symbol("s1"), d0 = Expr::dim(0), d1 = Expr::dim(1);
constexpr int64_t largest = INT64_MAX, smallest = INT64_MIN;

TEST(SymExpr, EqualExpressionsAreOnePointer) {
  EXPECT_EQ(Expr(), Expr(0));
  EXPECT_EQ(s0 + s1, s1 + s0);
  EXPECT_EQ((s0 + s1) * (s0 - s1), s0 * s0 - s1 * s1);
  EXPECT_EQ((d0 * s0 + d1) * s1 - d0 * s0 * s1, d1 * s1);
  EXPECT_EQ(64 * d1.floorDiv(64) + d1.mod(64), d1);
  EXPECT_EQ(s1 * d1.floorDiv(s1) + d1.mod(s1), d1);
  EXPECT_EQ(Expr::symbol("s0").opaque(), s0.opaque());
  EXPECT_EQ(Expr::fromOpaque(s0.opaque()), s0);
}

TEST(SymExpr, OperandsAreCanonical) {
  Expr expr = 3 + 2 * s0 * d0 + d1;
  ASSERT_EQ(expr.kind(), Kind::Add);
  ASSERT_EQ(expr.operands().size(), 3u);
  EXPECT_TRUE(expr.operands()[0].isConstant(3));
  Expr product = expr.operands()[1];
  ASSERT_EQ(product.kind(), Kind::Mul);
  EXPECT_EQ(product.operands(), llvm::ArrayRef<Expr>({Expr(2), d0, s0}));
  EXPECT_EQ(expr.operands()[2], d1);
  EXPECT_EQ((s0 * s0).operands(), llvm::ArrayRef<Expr>({s0, s0}));
  EXPECT_EQ(s0.symbolName(), "s0");
  EXPECT_EQ(d1.dimIndex(), 1u);
}

TEST(SymExpr, SymbolNames) {
  for (const char *good : {"s0", "zuf0", "_x", "a.b$c", "d", "d0x", "floordiv2"})
    EXPECT_TRUE(Expr::symbol(good).isValid()) << good;
  for (const char *bad :
       {"", "0s", "d0", "d17", "mod", "floordiv", "ceildiv", "min", "max", "a b", "a-b", "ä"})
    EXPECT_FALSE(Expr::symbol(bad).isValid()) << bad;
}

TEST(SymExpr, NumbersInNamesOrderAsNumbers) {
  EXPECT_TRUE(Expr::symbol("s2") < Expr::symbol("s10"));
  EXPECT_TRUE(Expr::symbol("s10") < Expr::symbol("t1"));
  EXPECT_TRUE(Expr::symbol("s01") < Expr::symbol("s1"));
  EXPECT_TRUE(d0 < s0 && s0 < s0.floorDiv(3));
  EXPECT_EQ((s1 + s0 + d1 + d0 * s0 + 7).str(), "d0*s0 + d1 + s0 + s1 + 7");
}

TEST(SymExpr, OverflowIsInvalidAndAbsorbs) {
  EXPECT_FALSE((Expr(largest) + 1).isValid());
  EXPECT_FALSE((Expr(smallest) - 1).isValid());
  EXPECT_FALSE((-Expr(smallest)).isValid());
  EXPECT_FALSE((Expr(largest) * 2).isValid());
  EXPECT_FALSE((largest * s0 + s0).isValid());
  EXPECT_FALSE(Expr(smallest).floorDiv(-1).isValid());
  EXPECT_FALSE(s0.floorDiv(0).isValid());
  EXPECT_FALSE(s0.mod(0).isValid());
  Expr bad = Expr::invalid();
  for (Expr expr : {bad + 1, 1 - bad, bad * 0, -bad, bad.floorDiv(2), s0.floorDiv(bad),
                    s0.ceilDiv(bad), bad.mod(3), Expr::min(bad, 1), Expr::max(1, bad),
                    sum({s0, bad}), product({s0, bad}), bad.substituteDims({s0})})
    EXPECT_FALSE(expr.isValid());
  EXPECT_FALSE(d0.substituteDims({bad}).isValid());
  EXPECT_FALSE((d0 * 0 + bad).isValid());
  EXPECT_EQ(bad.evaluate([](Expr) { return 1; }), std::nullopt);
  EXPECT_FALSE(splitLinear(bad, s0).has_value());
  EXPECT_EQ(bad.str(), "<invalid>");
}

TEST(SymExpr, OnlyTheResultMustFit) {
  EXPECT_EQ(Expr(-1) - Expr(smallest), Expr(largest));
  EXPECT_EQ(sum({largest * s0, largest * s0, smallest * s0, smallest * s0, 2 * s0}), Expr(0));
  EXPECT_EQ((smallest * s0).str(), "-9223372036854775808*s0");
  EXPECT_EQ((smallest * s0).mod(1), Expr(0));
  EXPECT_EQ(Expr(smallest).floorDiv(2), Expr(smallest / 2));
  EXPECT_EQ((smallest * s0).floorDiv(largest), -s0 - s0.ceilDiv(largest));
}

TEST(SymExpr, HostileSizesEndInInvalid) {
  Expr power = s0;
  for (int i = 0; i < 10; ++i)
    power = power * power;
  EXPECT_FALSE(power.isValid());
  Expr expanded = 1;
  for (int i = 0; i < 30 && expanded.isValid(); ++i)
    expanded = expanded * (Expr::symbol("h" + std::to_string(i)) + 1);
  EXPECT_FALSE(expanded.isValid());
  Expr deep = s0;
  for (int i = 0; i < 100000 && deep.isValid(); ++i)
    deep = (deep + 1).floorDiv(s1);
  EXPECT_FALSE(deep.isValid());
  Expr wide = s0; // a small graph that is an exponential tree
  for (int i = 0; i < 100 && wide.isValid(); ++i)
    wide = wide.floorDiv(s1) + wide.floorDiv(s0);
  EXPECT_FALSE(wide.isValid());
  Expr least = 0;
  for (int i = 0; i < 1000 && least.isValid(); ++i)
    least = Expr::min(least, Expr::symbol("h" + std::to_string(i)));
  EXPECT_FALSE(least.isValid());
  EXPECT_FALSE(Expr::dim(UINT32_MAX).isValid());
}

TEST(SymExpr, SplitLinear) {
  std::optional<Linear> linear = splitLinear(d0 * s0 + 3 * d0 + d1.floorDiv(2) + 1, d0);
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->coefficient, s0 + 3);
  EXPECT_EQ(linear->rest, d1.floorDiv(2) + 1);
  linear = splitLinear(s0, d0);
  ASSERT_TRUE(linear);
  EXPECT_TRUE(linear->coefficient.isConstant(0));
  EXPECT_EQ(linear->rest, s0);
  EXPECT_FALSE(splitLinear(d0 * d0, d0));
  EXPECT_FALSE(splitLinear(d0.floorDiv(2), d0));
  EXPECT_FALSE(splitLinear(d0 * d0.floorDiv(2), d0));
  EXPECT_FALSE(splitLinear(Expr::min(d0, s0), d0));
  EXPECT_TRUE(splitLinear(Expr::min(d0, s0) * d1, d1));
}

TEST(SymExpr, Leaves) {
  Expr expr = d0 * s0 + Expr::dim(4).floorDiv(s1);
  EXPECT_EQ(expr.numDimsUsed(), 5u);
  EXPECT_TRUE(expr.hasDims());
  EXPECT_FALSE((s0 + 1).hasDims());
  EXPECT_TRUE(expr.dependsOn(s1) && expr.dependsOn(d0));
  EXPECT_FALSE(expr.dependsOn(d1));
  unsigned count = 0;
  (s0 * s0 + s0.floorDiv(3)).walkLeaves([&](Expr leaf) { count += leaf == s0; });
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(expr.substituteDims({d1}), d1 * s0 + Expr::dim(4).floorDiv(s1));
  EXPECT_EQ((d0 - d1).substituteDims({d1, d0}), d1 - d0);
}

TEST(SymExpr, EvaluateKeepsProductsWide) {
  auto big = [](Expr) { return int64_t(1) << 40; };
  EXPECT_EQ((s0 * s1 - s0 * s1 + 1).evaluate(big), 1);
  EXPECT_EQ((s0 * s1 - s0 * s0 + 1).evaluate(big), 1);
  EXPECT_EQ((s0 * s1).evaluate(big), std::nullopt);
  EXPECT_EQ((s0 * s1).floorDiv(s0).evaluate(big), std::nullopt); // a dividend of 80 bits
  EXPECT_EQ(s0.floorDiv(s1).evaluate([](Expr leaf) { return leaf == s0 ? 1 : 0; }), std::nullopt);
}

TEST(SymExpr, Shapes) {
  llvm::SmallVector<Expr> shape = {s0, s1, 4};
  EXPECT_EQ(rowMajorStrides(shape), (llvm::SmallVector<Expr>{4 * s1, 4, 1}));
  EXPECT_EQ(linearize({d0, d1, Expr::dim(2)}, shape), 4 * s1 * d0 + 4 * d1 + Expr::dim(2));
  EXPECT_EQ(product(shape), 4 * s0 * s1);
  EXPECT_EQ(product({}), Expr(1));
  EXPECT_EQ(sum({}), Expr(0));
  EXPECT_TRUE(rowMajorStrides({}).empty());
  EXPECT_TRUE(delinearize(0, {}).empty());
  EXPECT_EQ(delinearize(d0, {Expr(2), Expr(3)}),
            (llvm::SmallVector<Expr>{d0.floorDiv(3), d0.mod(3)}));
  EXPECT_EQ(delinearize(d0, {Expr(1), Expr(1)}), (llvm::SmallVector<Expr>{d0, 0}));
  for (Expr index : delinearize(d0, {Expr(4), Expr(0), Expr(3)}))
    EXPECT_TRUE(index.isValid()); // nothing to address, but nothing to trip over either
}

TEST(SymExpr, DelinearizeInvertsLinearize) {
  llvm::SmallVector<Expr> shape = {3, 4, 5};
  for (int64_t i = 0; i < 60; ++i) {
    llvm::SmallVector<Expr> index = delinearize(i, shape);
    EXPECT_EQ(linearize(index, shape), Expr(i));
    for (auto [at, size] : llvm::zip(index, shape))
      EXPECT_TRUE(*at.constant() >= 0 && *at.constant() < *size.constant());
  }
}

TEST(SymExpr, ThreadsShareOneTable) {
  constexpr int numThreads = 4, count = 2000;
  std::vector<std::vector<const void *>> seen(numThreads);
  std::vector<std::thread> threads;
  for (auto &pointers : seen)
    threads.emplace_back([&pointers] {
      for (int i = 0; i < count; ++i)
        pointers.push_back(
            ((Expr::symbol("t" + std::to_string(i)) + i).floorDiv(7) * d0 + 100000 * i).opaque());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (int i = 1; i < numThreads; ++i)
    EXPECT_EQ(seen[i], seen[0]);
}

} // namespace
