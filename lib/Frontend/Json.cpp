// The parser of JSON texts.
#include "Json.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include <cmath>

using namespace llvm;
using namespace kiln::frontend::json;

const Value *Object::get(StringRef key) const {
  for (const Member &member : members)
    if (member.key == key)
      return &member.value;
  return nullptr;
}

namespace kiln::frontend::json {

bool fromJSON(const Value &value, bool &out, Path path) {
  if (std::optional<bool> boolean = value.getAsBool()) {
    out = *boolean;
    return true;
  }
  path.report("expected boolean");
  return false;
}

bool fromJSON(const Value &value, int64_t &out, Path path) {
  if (std::optional<int64_t> integer = value.getAsInteger()) {
    out = *integer;
    return true;
  }
  if (value.getAsHuge())
    path.report("an integer of more than 64 bits");
  else
    path.report("expected integer");
  return false;
}

bool fromJSON(const Value &value, std::string &out, Path path) {
  if (std::optional<StringRef> string = value.getAsString()) {
    out = string->str();
    return true;
  }
  path.report("expected string");
  return false;
}

} // namespace kiln::frontend::json

namespace {

/// The parser is recursive, and so are the readers of what it makes. A nested graph takes 13
/// levels.
constexpr unsigned maxNesting = 512;

class Parser {
public:
  Parser(StringRef text, BumpPtrAllocator &arena) : text(text), rest(text), arena(arena) {}

  Expected<Value> parse() {
    size_t offset;
    if (!llvm::json::isUTF8(text, &offset)) {
      rest = text.drop_front(offset);
      fail("invalid UTF-8");
    } else {
      Value result;
      skipSpace();
      if (value(result, 0) && rest.empty())
        return result;
      fail("unexpected text after the value");
    }
    return createStringError("invalid JSON at byte " + Twine(errorOffset) + ": " + error);
  }

private:
  bool fail(StringLiteral message) {
    if (error.empty()) {
      error = message;
      errorOffset = text.size() - rest.size();
    }
    return false;
  }
  void skipSpace() { rest = rest.ltrim(" \t\r\n"); }
  bool consume(StringRef token) {
    if (!rest.consume_front(token))
      return false;
    skipSpace();
    return true;
  }

  template <typename T> ArrayRef<T> inArena(ArrayRef<T> elements) { return elements.copy(arena); }

  bool value(Value &result, unsigned depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    if (rest.empty())
      return fail("unexpected end");
    switch (rest.front()) {
    case '{':
      return object(result, depth);
    case '[':
      return array(result, depth);
    case '"': {
      StringRef contents;
      if (!string(contents))
        return false;
      result = Value(contents);
      return true;
    }
    case 't':
      result = Value(true);
      return consume("true") || fail("expected a value");
    case 'f':
      result = Value(false);
      return consume("false") || fail("expected a value");
    case 'n':
      result = Value();
      return consume("null") || fail("expected a value");
    default:
      return number(result);
    }
  }

  bool object(Value &result, unsigned depth) {
    SmallVector<Member> members;
    consume("{");
    if (!consume("}")) {
      do {
        Member &member = members.emplace_back();
        if (!rest.starts_with("\""))
          return fail("expected a key");
        if (!string(member.key))
          return false;
        if (!consume(":"))
          return fail("expected ':'");
        if (!value(member.value, depth + 1))
          return false;
      } while (consume(","));
      if (!consume("}"))
        return fail("expected ',' or '}'");
    }
    result = Value(Object(inArena(ArrayRef(members))));
    return true;
  }

  bool array(Value &result, unsigned depth) {
    SmallVector<Value> elements;
    consume("[");
    if (!consume("]")) {
      do {
        if (!value(elements.emplace_back(), depth + 1))
          return false;
      } while (consume(","));
      if (!consume("]"))
        return fail("expected ',' or ']'");
    }
    result = Value(inArena(ArrayRef(elements)));
    return true;
  }

  bool number(Value &result) {
    StringRef token =
        rest.take_while([](char c) { return isAlnum(c) || StringRef("+-.").contains(c); });
    StringRef digits = token;
    digits.consume_front("-");
    bool isNumber = !digits.empty() && isDigit(digits.front()) &&
                    (digits.size() == 1 || digits[0] != '0' || !isDigit(digits[1]));
    if (!isNumber)
      return fail("expected a value");
    int64_t integer;
    double real;
    if (all_of(digits, isDigit)) {
      result =
          token.getAsInteger(10, integer) ? Value::huge(token.starts_with("-")) : Value(integer);
    } else if (!all_of(digits,
                       [](char c) { return isDigit(c) || StringRef("+-.eE").contains(c); }) ||
               !to_float(token, real) || !std::isfinite(real)) {
      return fail("bad number");
    } else {
      result = Value(real);
    }
    rest = rest.drop_front(token.size());
    skipSpace();
    return true;
  }

  bool string(StringRef &result) {
    rest = rest.drop_front();
    size_t end = rest.find_first_of("\"\\");
    SmallString<64> unescaped;
    bool hasEscapes = false;
    while (true) {
      if (end == StringRef::npos)
        return fail("unterminated string");
      StringRef plain = rest.take_front(end);
      if (any_of(plain, [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
        return fail("control character in a string");
      rest = rest.drop_front(end + 1);
      if (plain.data()[end] == '"') {
        if (hasEscapes)
          unescaped += plain;
        result = hasEscapes ? unescaped.str().copy(arena) : plain;
        skipSpace();
        return true;
      }
      hasEscapes = true;
      unescaped += plain;
      if (!escape(unescaped))
        return false;
      end = rest.find_first_of("\"\\");
    }
  }

  bool hex4(unsigned &code) {
    StringRef digits = rest.take_front(4);
    if (digits.size() < 4 || !all_of(digits, isHexDigit) || digits.getAsInteger(16, code))
      return fail("bad escape");
    rest = rest.drop_front(4);
    return true;
  }

  bool escape(SmallVectorImpl<char> &out) {
    if (rest.empty())
      return fail("bad escape");
    char c = rest.front();
    rest = rest.drop_front();
    constexpr StringLiteral from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (size_t index = from.find(c); index != StringRef::npos) {
      out.push_back(to[index]);
      return true;
    }
    unsigned code;
    if (c != 'u')
      return fail("bad escape");
    if (!hex4(code))
      return false;
    constexpr unsigned replacement = 0xfffd;
    if (code >= 0xd800 && code < 0xdc00) {
      unsigned low = 0;
      if (rest.starts_with("\\u")) {
        rest = rest.drop_front(2);
        if (!hex4(low))
          return false;
      }
      bool isPair = low >= 0xdc00 && low < 0xe000;
      code = isPair ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : replacement;
    } else if (code >= 0xdc00 && code < 0xe000) {
      code = replacement;
    }
    char utf8[UNI_MAX_UTF8_BYTES_PER_CODE_POINT], *end = utf8;
    if (!ConvertCodePointToUTF8(code, end))
      return fail("bad escape");
    out.append(utf8, end);
    return true;
  }

  StringRef text, rest;
  BumpPtrAllocator &arena;
  StringRef error;
  size_t errorOffset = 0;
};

} // namespace

Expected<Document> Document::parse(StringRef text) {
  Document document;
  Expected<Value> value = Parser(text, document.arena).parse();
  if (!value)
    return value.takeError();
  document.value = *value;
  return document;
}
