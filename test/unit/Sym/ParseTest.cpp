// Texts that are read and texts that are refused.
#include "Tree.h"
#include "gtest/gtest.h"

using namespace kiln::sym;
using namespace kiln::sym::test;

namespace {

std::string errorOf(llvm::StringRef text) {
  llvm::Expected<Expr> expr = Expr::parse(text);
  return expr ? "read as " + expr->str() : llvm::toString(expr.takeError());
}

std::string mapErrorOf(llvm::StringRef text) {
  llvm::Expected<IndexMap> map = IndexMap::parse(text);
  return map ? "read" : llvm::toString(map.takeError());
}

std::string str(const IndexMap &map) {
  std::string text;
  llvm::raw_string_ostream os(text);
  map.print(os);
  return text;
}

TEST(SymParse, Precedence) {
  Expr a = parse("a"), b = parse("b"), c = parse("c");
  EXPECT_EQ(parse("a + b*c"), a + b * c);
  EXPECT_EQ(parse("a - b - c"), a - b - c);
  EXPECT_EQ(parse("a*b floordiv c"), (a * b).floorDiv(c));
  EXPECT_EQ(parse("a floordiv b*c"), a.floorDiv(b) * c);
  EXPECT_EQ(parse("a mod b floordiv c"), a.mod(b).floorDiv(c));
  EXPECT_EQ(parse("-a floordiv b"), (-a).floorDiv(b));
  EXPECT_EQ(parse("a - -b"), a + b);
  EXPECT_EQ(parse(" ( a+b )\t*2\n"), (a + b) * 2);
  EXPECT_EQ(parse("d07"), Expr::dim(7));
  EXPECT_EQ(parse("d"), Expr::symbol("d"));
}

TEST(SymParse, Numbers) {
  EXPECT_EQ(parse("9223372036854775807"), Expr(INT64_MAX));
  EXPECT_EQ(parse("-9223372036854775808"), Expr(INT64_MIN));
  EXPECT_EQ(errorOf("9223372036854775808"),
            "at column 1: expected a number that fits in 64 bits, found '9223372036854775808'");
  EXPECT_EQ(errorOf("-9223372036854775809"),
            "at column 2: expected a number that fits in 64 bits, found '9223372036854775809'");
}

TEST(SymParse, Errors) {
  EXPECT_EQ(errorOf(""), "at column 1: expected a number, a name or '(', found the end");
  EXPECT_EQ(errorOf("a +"), "at column 4: expected a number, a name or '(', found the end");
  EXPECT_EQ(errorOf("a b"), "at column 3: expected an operator or the end, found 'b'");
  EXPECT_EQ(errorOf("(a"), "at column 3: expected ')', found the end");
  EXPECT_EQ(errorOf("min a"), "at column 5: expected '(', found 'a'");
  EXPECT_EQ(errorOf("min()"), "at column 5: expected a number, a name or '(', found ')'");
  EXPECT_EQ(errorOf("a mod mod"), "at column 7: expected a number, a name or '(', found 'mod'");
  EXPECT_EQ(errorOf("a floordiv 0"), "at column 12: expected a divisor other than 0, found '0'");
  EXPECT_EQ(errorOf("a // b"), "at column 3: expected an operator or the end, found '// b'");
  EXPECT_EQ(errorOf("a \x01\xff"),
            "at column 3: expected an operator or the end, found '\\01\\FF'");
  EXPECT_EQ(errorOf("d70000"), "at column 1: expected a smaller dim number, found 'd70000'");
  EXPECT_EQ(errorOf("1 + 9223372036854775807 * a * 2"),
            "at column 5: expected an expression of 64-bit integers and moderate size, found "
            "'9223372036854775807 * a '");
  EXPECT_EQ(errorOf("2*(9223372036854775807 + 1)"),
            "at column 4: expected an expression of 64-bit integers and moderate size, found "
            "'9223372036854775807 + 1)'");
}

TEST(SymParse, HostileNestingAndLength) {
  EXPECT_EQ(errorOf(std::string(100000, '(')).substr(0, 36),
            "at column 201: expected less nesting");
  EXPECT_NE(errorOf(std::string(100000, '-') + "a").find("less nesting"), std::string::npos);
  std::string nested;
  for (int i = 0; i < 100000; ++i)
    nested += "min(";
  EXPECT_NE(errorOf(nested).find("less nesting"), std::string::npos);
  std::string chain = "a";
  for (int i = 0; i < 20000; ++i)
    chain += " floordiv b";
  EXPECT_NE(errorOf(chain).find("moderate size"), std::string::npos);
  std::string longSum = "a";
  for (int i = 0; i < 20000; ++i)
    longSum += " + a";
  EXPECT_EQ(parse(longSum), 20001 * parse("a"));
  std::string manyTerms = "a";
  for (int i = 0; i < 20000; ++i)
    manyTerms += " + a" + std::to_string(i);
  EXPECT_NE(errorOf(manyTerms).find("moderate size"), std::string::npos);
}

TEST(SymParse, RandomBytesNeverCrash) {
  Random random(11);
  const llvm::StringRef pieces[] = {"(",  ")", "min",        "max(",  ",",       "-",
                                    "+",  "*", " floordiv ", " mod ", "ceildiv", "s0",
                                    "d1", "7", "0",          "->",    "$",       "99999999"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (int64_t k = random.in(0, 20); k > 0; --k)
      text += random.oneIn(12) ? std::string(1, static_cast<char>(random.in(-128, 127)))
                               : pieces[random.in(0, std::size(pieces) - 1)].str();
    llvm::Expected<Expr> expr = Expr::parse(text);
    if (expr)
      EXPECT_EQ(parse(expr->str()), *expr);
    else
      llvm::consumeError(expr.takeError());
    llvm::consumeError(IndexMap::parse(text).takeError());
  }
}

TEST(SymIndexMap, TextRoundTrip) {
  for (const char *text :
       {"() -> ()", "(d0) -> ()", "() -> (s0)", "(d0, d1) -> (d1, d0 floordiv 2)",
        "(d0, d1, d2) -> (d0*s0 + d2, min(d1, 4), 0)"})
    EXPECT_EQ(str(llvm::cantFail(IndexMap::parse(text))), text);
  EXPECT_EQ(str(IndexMap::identity(3)), "(d0, d1, d2) -> (d0, d1, d2)");
  EXPECT_TRUE(IndexMap::identity(3).isIdentity());
  EXPECT_TRUE(IndexMap::identity(0).isIdentity());
  EXPECT_FALSE(llvm::cantFail(IndexMap::parse("(d0, d1) -> (d1, d0)")).isIdentity());
  EXPECT_FALSE(llvm::cantFail(IndexMap::parse("(d0, d1) -> (d0)")).isIdentity());
}

TEST(SymIndexMap, Errors) {
  EXPECT_EQ(mapErrorOf("(d1) -> ()"), "at column 2: expected 'd0' or ')', found 'd1) -> ()'");
  EXPECT_EQ(mapErrorOf("(d0 d1) -> ()"), "at column 5: expected ',', found 'd1) -> ()'");
  EXPECT_EQ(mapErrorOf("(d0) > ()"), "at column 6: expected '->', found '> ()'");
  EXPECT_EQ(mapErrorOf("(d0) -> (d1)"),
            "at column 10: expected only the map's own dims here, found 'd1)'");
  EXPECT_EQ(mapErrorOf("(d0) -> (d0"), "at column 12: expected ',' or ')', found the end");
  EXPECT_EQ(mapErrorOf("(d0) -> (d0) x"),
            "at column 14: expected an operator or the end, found 'x'");
  EXPECT_EQ(mapErrorOf("(d0) -> (d0,)"),
            "at column 13: expected a number, a name or '(', found ')'");
  EXPECT_EQ(mapErrorOf("(d0,) -> ()"), "at column 5: expected 'd1' or ')', found ') -> ()'");
}

TEST(SymIndexMap, Compose) {
  IndexMap outer = llvm::cantFail(IndexMap::parse("(d0, d1) -> (d1, d0 floordiv 2, 3)"));
  IndexMap inner = llvm::cantFail(IndexMap::parse("(d0) -> (4*d0, d0 + 1)"));
  EXPECT_EQ(str(outer.compose(inner)), "(d0) -> (d0 + 1, 2*d0, 3)");
  EXPECT_EQ(outer.compose(IndexMap::identity(2)), outer);
  EXPECT_EQ(IndexMap::identity(3).compose(outer), outer);
  EXPECT_EQ(hash_value(outer), hash_value(outer.compose(IndexMap::identity(2))));
}

} // namespace
