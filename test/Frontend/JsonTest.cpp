#include "Frontend/Json.h"
#include "llvm/Support/JSON.h"
#include <gtest/gtest.h>

using namespace kiln::frontend::json;

namespace {

struct Point {
  int64_t x = 0;
  std::optional<int64_t> y;
  std::vector<std::string> names;
};

bool fromJSON(const Value &value, Point &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("x", out.x) && map.map("y", out.y) && map.mapOptional("names", out.names);
}

/// Empty when `text` is a Point, which is put in `out`.
std::string read(llvm::StringRef text, Point &out) {
  llvm::Expected<Document> document = Document::parse(text);
  if (!document)
    return llvm::toString(document.takeError());
  Path::Root root("point");
  return fromJSON(document->root(), out, root) ? "" : llvm::toString(root.getError());
}

std::string errorIn(llvm::StringRef text) {
  Point point;
  return read(text, point);
}

std::string stringOf(llvm::StringRef text) {
  llvm::Expected<Document> document = Document::parse(text);
  if (!document)
    return llvm::toString(document.takeError());
  return document->root().getAsString().value_or("not a string").str();
}

TEST(Json, ReadsStructs) {
  Point point;
  EXPECT_EQ(read(R"( {"x": -3, "y": null, "other": {"a": [1, 2.5e3, true]}} )", point), "");
  EXPECT_EQ(point.x, -3);
  EXPECT_FALSE(point.y);
  EXPECT_EQ(read(R"({"names": ["a", "b"], "y": 4, "x": 9223372036854775807})", point), "");
  EXPECT_EQ(point.x, INT64_MAX);
  EXPECT_EQ(point.y, 4);
  EXPECT_EQ(point.names, (std::vector<std::string>{"a", "b"}));
}

TEST(Json, SaysWhereAValueIsWrong) {
  EXPECT_EQ(errorIn("{}"), "missing value at point.x");
  EXPECT_EQ(errorIn("[]"), "expected object when parsing point");
  EXPECT_EQ(errorIn(R"({"x": 1.0})"), "expected integer at point.x");
  EXPECT_EQ(errorIn(R"({"x": 9223372036854775808})"), "an integer of more than 64 bits at point.x");
  EXPECT_EQ(errorIn(R"({"x": -9223372036854775809})"),
            "an integer of more than 64 bits at point.x");
  EXPECT_EQ(errorIn(R"({"x": 1, "y": "2"})"), "expected integer at point.y");
  EXPECT_EQ(errorIn(R"({"x": 1, "names": {}})"), "expected array at point.names");
  EXPECT_EQ(errorIn(R"({"x": 1, "names": ["a", null]})"), "expected string at point.names[1]");
}

TEST(Json, SaysWhereTheTextIsWrong) {
  EXPECT_EQ(errorIn(R"({"x": 1,})"), "invalid JSON at byte 8: expected a key");
  EXPECT_EQ(errorIn(R"({"x" 1})"), "invalid JSON at byte 5: expected ':'");
  EXPECT_EQ(errorIn(R"({"x": 1} {)"), "invalid JSON at byte 9: unexpected text after the value");
  EXPECT_EQ(errorIn(R"({"x": 1e999})"), "invalid JSON at byte 6: bad number");
  EXPECT_EQ(errorIn(R"({"x": nul})"), "invalid JSON at byte 6: expected a value");
  EXPECT_EQ(errorIn(R"({"x": "a)"), "invalid JSON at byte 7: unterminated string");
}

TEST(Json, Strings) {
  EXPECT_EQ(stringOf(R"("plain")"), "plain");
  EXPECT_EQ(stringOf(R"("\"\\\/\b\f\n\r\tA")"), "\"\\/\b\f\n\r\tA");
  EXPECT_EQ(stringOf(R"("caf\u00e9 \ud83d\ude00")"), "caf\u00e9 \U0001F600");
  EXPECT_EQ(stringOf(R"("\ud83d lone")"), "\ufffd lone");
  EXPECT_EQ(stringOf(R"("\u12")"), "invalid JSON at byte 3: bad escape");
}

/// What llvm::json says about texts of a few characters, as far as it is as strict.
TEST(Json, AgreesWithLLVM) {
  constexpr llvm::StringLiteral alphabet = "[]{},:\"1-.e ";
  std::string text(4, ' ');
  for (unsigned n = 0; n < 12 * 12 * 12 * 12; ++n) {
    unsigned rest = n;
    for (char &c : text) {
      c = alphabet[rest % alphabet.size()];
      rest /= alphabet.size();
    }
    llvm::Expected<llvm::json::Value> expected = llvm::json::parse(text);
    llvm::Expected<Document> document = Document::parse(text);
    // llvm::json takes `1.` and the like for numbers, RFC 8259 does not.
    bool isLenientNumber = llvm::StringRef(text).find_first_of(".e") != llvm::StringRef::npos;
    if (expected && !isLenientNumber) {
      EXPECT_TRUE(static_cast<bool>(document)) << text;
    }
    if (!expected) {
      EXPECT_FALSE(static_cast<bool>(document)) << text;
      llvm::consumeError(expected.takeError());
    }
    if (!document)
      llvm::consumeError(document.takeError());
  }
}

} // namespace
