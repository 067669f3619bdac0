// The exact identities of floor division, min and max, each stated as text.
#include "Tree.h"
#include "gtest/gtest.h"

using namespace kiln::sym;
using namespace kiln::sym::test;

namespace {

struct Rewrite {
  const char *from, *to;
};

void PrintTo(const Rewrite &rewrite, std::ostream *os) { *os << rewrite.from; }

class SymRewrite : public testing::TestWithParam<Rewrite> {};

TEST_P(SymRewrite, PrintsAs) {
  EXPECT_EQ(parse(GetParam().from).str(), GetParam().to);
  EXPECT_EQ(parse(GetParam().to), parse(GetParam().from));
}

INSTANTIATE_TEST_SUITE_P(Constants, SymRewrite,
                         testing::Values(Rewrite{"7 floordiv 2", "3"},
                                         Rewrite{"-7 floordiv 2", "-4"},
                                         Rewrite{"7 floordiv -2", "-4"},
                                         Rewrite{"-7 floordiv -2", "3"}, Rewrite{"7 mod 4", "3"},
                                         Rewrite{"-7 mod 4", "1"}, Rewrite{"7 mod -4", "-1"},
                                         Rewrite{"7 ceildiv 2", "4"}, Rewrite{"-7 ceildiv 2", "-3"},
                                         Rewrite{"0 floordiv s0", "0"}));

INSTANTIATE_TEST_SUITE_P(
    FloorDiv, SymRewrite,
    testing::Values(Rewrite{"x floordiv 1", "x"}, Rewrite{"x floordiv -1", "-x"},
                    Rewrite{"(8*x + 3*y + 9) floordiv 4", "2*x + (3*y + 1) floordiv 4 + 2"},
                    Rewrite{"(5*x) floordiv 4", "x + x floordiv 4"},
                    Rewrite{"(6*x) floordiv 4", "x + x floordiv 2"},
                    Rewrite{"(4*x + 3) floordiv 8", "x floordiv 2"},
                    Rewrite{"(4*x - 1) floordiv 8", "x ceildiv 2 - 1"},
                    Rewrite{"(4*x + 4*y) floordiv 8", "(x + y) floordiv 2"},
                    Rewrite{"(x floordiv 4) floordiv 8", "x floordiv 32"},
                    Rewrite{"(x floordiv 4 + 3) floordiv 8", "(x + 12) floordiv 32"},
                    Rewrite{"(x floordiv 4 + y) floordiv 8", "(x + 4*y) floordiv 32"},
                    Rewrite{"(1 - x floordiv 4) floordiv 8", "-((x + 24) floordiv 32)"},
                    Rewrite{"(x floordiv s) floordiv 8", "x floordiv (8*s)"},
                    Rewrite{"x floordiv -4", "-(x ceildiv 4)"},
                    Rewrite{"x floordiv -s", "(-x) floordiv s"},
                    Rewrite{"(4*x) floordiv (6*s)", "(2*x) floordiv (3*s)"},
                    // s may be 0, where the left side has no value
                    Rewrite{"(s*t) floordiv s", "(s*t) floordiv s"},
                    Rewrite{"s floordiv s", "s floordiv s"},
                    // s may be negative, where they differ
                    Rewrite{"(x floordiv 2) floordiv s", "(x floordiv 2) floordiv s"},
                    Rewrite{"(4*x + 1) floordiv (4*s)", "(4*x + 1) floordiv (4*s)"}));

INSTANTIATE_TEST_SUITE_P(
    Sugar, SymRewrite,
    testing::Values(
        Rewrite{"x mod 8", "x mod 8"}, Rewrite{"x mod s", "x mod s"},
        Rewrite{"x mod (s + 1)", "x mod (s + 1)"}, Rewrite{"-x mod 8", "(-x) mod 8"},
        Rewrite{"-(x mod 8)", "-(x mod 8)"}, Rewrite{"3*(x mod 8) + 1", "3*(x mod 8) + 1"},
        Rewrite{"s*(x mod t)", "s*(x mod t)"},
        Rewrite{"(x floordiv 4) mod 8", "(x floordiv 4) mod 8"},
        Rewrite{"(x mod 32) floordiv 4", "(x floordiv 4) mod 8"},
        Rewrite{"(x mod 8) mod 4", "x mod 4"}, Rewrite{"(x + 8) mod 8", "x mod 8"},
        Rewrite{"(x + 3) mod 8", "(x + 3) mod 8"}, Rewrite{"x ceildiv 4", "x ceildiv 4"},
        Rewrite{"-(-x floordiv 4)", "x ceildiv 4"}, Rewrite{"(x + 3) floordiv 4", "x ceildiv 4"},
        Rewrite{"x ceildiv s", "x ceildiv s"}, Rewrite{"-(-x floordiv s)", "x ceildiv s"},
        Rewrite{"3*(x ceildiv s)", "3*(x ceildiv s)"},
        Rewrite{"(n + 2*p - k) floordiv 2 + 1", "p + (n - k) floordiv 2 + 1"},
        Rewrite{"7 - d0", "7 - d0"}, Rewrite{"-x - 1", "-x - 1"}, Rewrite{"s0 - d0", "s0 - d0"},
        Rewrite{"-(x floordiv 3)", "-(x floordiv 3)"},
        Rewrite{"x mod 4 + x", "2*x - 4*(x floordiv 4)"}, // whose mod would it be?
        Rewrite{"64*(d1 floordiv 64) + d1 mod 64", "d1"}));

INSTANTIATE_TEST_SUITE_P(MinMax, SymRewrite,
                         testing::Values(Rewrite{"min(3, 5)", "3"}, Rewrite{"max(3, -5, 4)", "4"},
                                         Rewrite{"min(x)", "x"}, Rewrite{"min(x, x)", "x"},
                                         Rewrite{"min(y, x, 2)", "min(x, y, 2)"},
                                         Rewrite{"min(x, min(y, z))", "min(x, y, z)"},
                                         Rewrite{"max(max(x, y), max(y, z))", "max(x, y, z)"},
                                         Rewrite{"min(x, x + 1, 7, 9)", "min(x, 7)"},
                                         Rewrite{"max(x, x + 1, 7, 9)", "max(x + 1, 9)"},
                                         Rewrite{"min(x, max(x, y))", "min(x, max(x, y))"}));

} // namespace
