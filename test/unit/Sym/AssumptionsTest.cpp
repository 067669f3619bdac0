// What must be proved, and what must not.
#include "Tree.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "gtest/gtest.h"

using namespace kiln::sym;
using namespace kiln::sym::test;

namespace {

/// s0..s3 >= 1, t of unknown range, and loops of several kinds.
class SymAssumptions : public testing::Test {
protected:
  SymAssumptions() {
    for (const char *name : {"s0", "s1", "s2", "s3"})
      known.setRange(parse(name), {1, {}});
    known.setRange(parse("b"), {0, 15});
    known.setRange(parse("one"), {1, 1});
    const char *extents[] = {"s0", "s1", "16", "64", "4*s0", "s0*s1", "1", "s0 + 1"};
    for (auto [dim, extent] : llvm::enumerate(extents))
      known.setExtent(dim, parse(extent));
  }

  std::string simplify(llvm::StringRef text) { return known.simplify(parse(text)).str(); }
  bool holds(llvm::StringRef text) { return known.isNonNegative(parse(text)); }
  std::string range(llvm::StringRef text) {
    Range range = known.rangeOf(parse(text));
    return (range.min ? std::to_string(*range.min) : "-inf") + ".." +
           (range.max ? std::to_string(*range.max) : "inf");
  }

  Assumptions known;
};

TEST_F(SymAssumptions, Ranges) {
  EXPECT_EQ(range("s0"), "1..inf");
  EXPECT_EQ(range("t"), "-inf..inf");
  EXPECT_EQ(range("d2"), "0..15");
  EXPECT_EQ(range("d0"), "0..inf");
  EXPECT_EQ(range("16*d2 + d3 - 1"), "-1..302");
  EXPECT_EQ(range("-3*d2"), "-45..0");
  EXPECT_EQ(range("t*t"), "0..inf");
  EXPECT_EQ(range("d2 floordiv 4"), "0..3");
  EXPECT_EQ(range("t mod 8"), "0..7");
  EXPECT_EQ(range("(t floordiv 4) mod 8"), "0..7");
  EXPECT_EQ(range("(-t) mod 8"), "0..7");
  EXPECT_EQ(range("4*(t mod 8) + d2 mod 4"), "0..31");
  EXPECT_EQ(range("t mod b"), "-inf..inf");
  EXPECT_EQ(range("min(d2, t)"), "-inf..15");
  EXPECT_EQ(range("max(d2, t)"), "0..inf");
  EXPECT_EQ(range("d2 ceildiv 4"), "0..4");
  EXPECT_EQ(range("12"), "12..12");
  EXPECT_EQ(range("s0*9223372036854775807"), "9223372036854775807..inf");
}

TEST_F(SymAssumptions, Proofs) {
  for (const char *yes : {"s0 - 1",
                          "s0*s1 - s0",
                          "s0*s1 - s0 - s1 + 1",
                          "s0 - 1 - d0",
                          "s0*s1 - 1 - d0*s1 - d1",
                          "s0*s1*s2 - 1 - d0*s1*s2 - d1*s2 - (t mod s2)",
                          "4*s0 - 1 - d4",
                          "s0 - 1 - d4 floordiv 4",
                          "d4 - 4*(d4 floordiv 4)",
                          "s0 - d4 mod s0 - 1",
                          "t mod s0",
                          "s1 - 1 - (t floordiv s0) mod s1",
                          "(s0 + 15) floordiv 16 - 1",
                          "s0 - s0 floordiv 2",
                          "16*(s0 ceildiv 16) - s0",
                          "s0 + 15 - 16*(s0 ceildiv 16)",
                          "max(s0, t) - s0",
                          "s0 - min(s0, t)",
                          "min(s0, s1) - 1",
                          "s0 + s1 - max(s0, s1)",
                          "t - t + 0",
                          "d5 floordiv s1",
                          "s0 - 1 - d5 floordiv s1",
                          "s0 - d7",
                          "b",
                          "15 - b",
                          "s0*(15 - b)"})
    EXPECT_TRUE(holds(yes)) << yes;
  for (const char *no :
       {"s0 - 2", "s0 - s1", "s0 - d0 - 2", "-s0", "t", "t*s0", "14 - b", "d0 - 1", "s0 - d7 - 1",
        "t mod t", "s0 - d5 floordiv s0", "min(s0, t)", "t floordiv s0", "d9", "16 - d9"})
    EXPECT_FALSE(holds(no)) << no;
  EXPECT_FALSE(known.isNonNegative(Expr::invalid()));
  EXPECT_TRUE(known.isLess(parse("d3"), 64));
  EXPECT_FALSE(known.isLess(parse("d3"), 63));
  EXPECT_TRUE(known.isLessOrEqual(parse("d3"), 63));
  EXPECT_TRUE(known.isPositive(parse("s0*s1")));
}

TEST_F(SymAssumptions, LoopsThatRunAreNotEmpty) {
  Assumptions loops;
  loops.setRange(parse("n"), {0, {}});
  loops.setRange(parse("m"), {0, {}});
  loops.setExtent(0, parse("n"));
  loops.setExtent(1, parse("n*m"));
  loops.setExtent(2, parse("2*n - 5"));
  EXPECT_FALSE(loops.isPositive(parse("n"))); // no loop around it
  EXPECT_TRUE(loops.isPositive(parse("n + d0")));
  EXPECT_TRUE(loops.isPositive(parse("m + d1")));
  EXPECT_TRUE(loops.isNonNegative(parse("n - 3 + d2")));
  EXPECT_EQ(loops.simplify(parse("(d0 + 5*n) floordiv n")).str(), "5");
  EXPECT_EQ(loops.simplify(parse("(5*n) floordiv n")).str(), "(5*n) floordiv n");
}

TEST_F(SymAssumptions, Simplify) {
  const std::pair<const char *, const char *> rewrites[] = {
      {"(16*d1 + d2) floordiv 64", "d1 floordiv 4"},
      {"(16*d1 + d2) mod 64", "16*(d1 mod 4) + d2"},
      {"(16*d1 + d2 + 16) floordiv 64", "(d1 + 1) floordiv 4"},
      {"(16*d1 + d2 floordiv 2 + 7) floordiv 64", "d1 floordiv 4"},
      {"d3 floordiv 64", "0"},
      {"(d3 - 64) floordiv 64", "-1"},
      {"d3 mod 64", "d3"},
      {"d3 mod 32", "d3 mod 32"},
      {"(d1*s0 + d0) floordiv s0", "d1"},
      {"(d1*s0 + d0) mod s0", "d0"},
      {"(d0*s1 + d1) floordiv (s1*s2)", "d0 floordiv s2"},
      {"(d0*s1*s2 + d1*s2 + t mod s2) floordiv (s1*s2)", "d0"},
      {"(d1*s0 + d1 + d7) floordiv (s0 + 1)", "d1"},
      {"((s0 + s1)*s2) floordiv (s0 + s1)", "s2"},
      {"(s0*s1) floordiv s1", "s0"},
      {"(s0*t) floordiv t", "(s0*t) floordiv t"},
      {"(t floordiv s0) floordiv s1", "t floordiv (s0*s1)"},
      {"d4 floordiv (4*s0)", "0"},
      {"(d4 floordiv 4) floordiv s0", "0"},
      {"(d4 floordiv 4) mod s0", "d4 floordiv 4"},
      {"(s0 + s1 - 1) floordiv s1", "(s0 - 1) floordiv s1 + 1"},
      {"s0 ceildiv s1", "(s0 - 1) floordiv s1 + 1"},
      {"min(d3, 64)", "d3"},
      {"max(d3 mod 8, 7)", "7"},
      {"min(s0*s1, s0)", "s0"},
      {"max(0, s0, min(s0, t))", "s0"},
      {"min(t, s0)", "min(s0, t)"},
      {"d6", "d6"}, // alone it stays, so that an identity map stays one
      {"d6 + d0", "d0"},
      {"one*s0", "s0"},
      {"d9 floordiv 4", "d9 floordiv 4"}};
  for (auto [from, to] : rewrites)
    EXPECT_EQ(simplify(from), to) << from;
  EXPECT_FALSE(known.simplify(Expr::invalid()).isValid());
}

TEST_F(SymAssumptions, Equality) {
  EXPECT_TRUE(known.isEqual(parse("d6"), 0));
  EXPECT_TRUE(known.isEqual(parse("s0 ceildiv s1"), parse("(s0 + s1 - 1) floordiv s1")));
  EXPECT_TRUE(known.isEqual(parse("t mod t"), parse("t mod t")));
  EXPECT_FALSE(known.isEqual(parse("s0"), parse("s1")));
  EXPECT_FALSE(known.isEqual(Expr::invalid(), Expr::invalid()));
}

TEST_F(SymAssumptions, Multiples) {
  EXPECT_TRUE(known.isMultipleOf(parse("16*s0 + 32*t"), 8));
  EXPECT_FALSE(known.isMultipleOf(parse("16*s0 + 4"), 8));
  EXPECT_TRUE(known.isMultipleOf(parse("min(8*s0, 16)*t"), 8));
  EXPECT_TRUE(known.isMultipleOf(parse("s0*s1 + s0"), parse("s1 + 1")));
  EXPECT_TRUE(known.isMultipleOf(parse("d6"), 8));
  EXPECT_TRUE(known.isMultipleOf(0, 8));
  EXPECT_TRUE(known.isMultipleOf(8, -4));
  EXPECT_FALSE(known.isMultipleOf(parse("s0"), 0));
  EXPECT_FALSE(known.isMultipleOf(parse("s0"), 2));
  EXPECT_TRUE(known.isMultipleOf(parse("d3 - d3 mod 16"), 16));
}

/// [from] -> [to] -> [from] is the identity, with every index in bounds on the way.
TEST_F(SymAssumptions, ViewsRoundTrip) {
  using Shape = std::vector<const char *>;
  const std::pair<Shape, Shape> views[] = {{{"4", "24"}, {"4", "4", "6"}},
                                           {{"4", "4", "6"}, {"16", "6"}},
                                           {{"4", "4", "6"}, {"8", "12"}},
                                           {{"1", "128", "768"}, {"128", "12", "64"}},
                                           {{"s0", "s1*s2"}, {"s0", "s1", "s2"}},
                                           {{"s0", "s1", "s2"}, {"s0*s1", "s2"}},
                                           {{"s0*s1", "s2"}, {"s0", "s1*s2"}},
                                           {{"s0", "s1", "s2"}, {"s0*s1*s2"}},
                                           {{"s0 + 1", "s1", "s2 + 3"}, {"(s0 + 1)*s1*(s2 + 3)"}},
                                           {{"s0", "s1", "12", "64"}, {"s0*s1", "768"}},
                                           {{"2*s0", "8"}, {"s0", "16"}},
                                           {{"s0", "s1", "s2", "s3"}, {"s0*s1*s2", "s3"}},
                                           {{"s0", "2*s1 + 1", "64"}, {"s0*(2*s1 + 1)*4", "16"}}};
  for (const auto &[one, other] : views) {
    for (const auto &[from, to] : {std::pair(one, other), std::pair(other, one)}) {
      llvm::SmallVector<Expr> fromShape = llvm::map_to_vector(from, parse);
      llvm::SmallVector<Expr> toShape = llvm::map_to_vector(to, parse);
      Assumptions view = known;
      for (auto [dim, extent] : llvm::enumerate(fromShape))
        view.setExtent(dim, extent);
      auto simplified = [&](llvm::SmallVector<Expr> index) {
        for (Expr &e : index)
          e = view.simplify(e);
        return index;
      };
      IndexMap identity = IndexMap::identity(from.size());
      auto there = simplified(delinearize(linearize(identity.results, fromShape), toShape));
      auto back = simplified(delinearize(linearize(there, toShape), fromShape));
      for (auto [index, size] : llvm::zip(there, toShape)) {
        EXPECT_TRUE(view.isNonNegative(index)) << index.str();
        EXPECT_TRUE(view.isLess(index, size)) << index.str() << " in " << size.str();
      }
      for (auto [index, dim] : llvm::zip(back, identity.results))
        EXPECT_TRUE(index == dim || view.isEqual(dim, 0)) << index.str() << " is not " << dim.str();
    }
  }
}

TEST_F(SymAssumptions, AnswersFollowWhatIsAssumed) {
  Assumptions known;
  Expr quotient = parse("(d0*n + d1) floordiv n"), positive = parse("n - 3");
  known.setRange(parse("n"), {1, 10});
  known.setExtent(0, parse("n"));
  EXPECT_FALSE(known.isNonNegative(positive));
  EXPECT_NE(known.simplify(quotient), parse("d0"));
  Assumptions copy = known;
  known.setRange(parse("n"), {3, 10});
  EXPECT_TRUE(known.isNonNegative(positive));
  known.setExtent(1, parse("n"));
  EXPECT_EQ(known.simplify(quotient), parse("d0"));
  // Other dims change nothing, those asked about do.
  known.setExtent(2, 7);
  EXPECT_EQ(known.simplify(quotient), parse("d0"));
  known.setExtent(1, parse("n + 1"));
  EXPECT_NE(known.simplify(quotient), parse("d0"));
  EXPECT_FALSE(copy.isNonNegative(positive));
  copy = known;
  EXPECT_TRUE(copy.isNonNegative(positive));
}

TEST_F(SymAssumptions, HostileAssumptions) {
  Assumptions odd;
  odd.setRange(parse("n"), {5, 3}); // no value at all
  odd.setExtent(0, parse("d0 + 1"));
  odd.setExtent(1, parse("d2"));
  odd.setExtent(2, parse("d1"));
  odd.setExtent(3, Expr::invalid());
  odd.setExtent(4, 0);
  odd.setRange(parse("big"), {INT64_MIN, INT64_MAX});
  for (const char *text :
       {"d0 floordiv n", "d1 - d2", "(d1*n + d2) floordiv n", "d3 floordiv 4", "d4 mod n",
        "big*big*big floordiv big", "big mod n", "-big", "min(d0, d1, d2, d3, n)"}) {
    Expr expr = parse(text);
    EXPECT_TRUE(odd.simplify(expr).isValid()) << text;
    odd.rangeOf(expr);
    odd.isNonNegative(expr);
    odd.isMultipleOf(expr, parse("n"));
  }
}

} // namespace
