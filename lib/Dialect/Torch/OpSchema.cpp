// The table of operator schemas: finding a line, and reading it.
#include "kiln/Dialect/Torch/OpSchema.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"
#include <memory>
#include <mutex>

using namespace llvm;
using namespace kiln::torch;

static constexpr StringLiteral table =
#include "AtenSchema.inc"
    ;

/// Lines `aten.add_.Tensor aten.add.Tensor`; see generator/variants.py.
static constexpr StringLiteral variantTable =
#include "AtenVariants.inc"
    ;

StringRef kiln::torch::schemaTable() { return table; }

int OpSchema::indexOf(StringRef argument) const {
  for (auto [i, candidate] : enumerate(arguments))
    if (candidate.name == argument)
      return static_cast<int>(i);
  return -1;
}

bool OpSchema::mutates() const {
  return any_of(arguments, [](const SchemaArgument &argument) { return argument.mutated; });
}

bool OpSchema::isView() const {
  return any_of(results, [](const SchemaArgument &result) {
    return !result.alias.empty() && !result.mutated;
  });
}

//===-- Reading a line ----------------------------------------------------------------------===//

namespace {

/// Splits at commas that are not inside brackets or quotes.
SmallVector<StringRef> splitTopLevel(StringRef text) {
  SmallVector<StringRef> parts;
  int depth = 0;
  char quote = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote) {
      i += c == '\\';
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(text.slice(start, i).trim());
      start = i + 1;
    }
  }
  if (StringRef last = text.drop_front(start).trim(); !last.empty() || !parts.empty())
    parts.push_back(last);
  return parts;
}

BaseType parseBaseType(StringRef name) {
  return StringSwitch<BaseType>(name)
      .Case("Tensor", BaseType::Tensor)
      .Case("int", BaseType::Int)
      .Case("SymInt", BaseType::SymInt)
      .Case("float", BaseType::Float)
      .Case("bool", BaseType::Bool)
      .Case("Scalar", BaseType::Scalar)
      .Case("str", BaseType::String)
      .Case("ScalarType", BaseType::DType)
      .Case("Device", BaseType::Device)
      .Case("Layout", BaseType::Layout)
      .Case("MemoryFormat", BaseType::MemoryFormat)
      .Default(BaseType::Other);
}

bool isNameChar(char c) { return isAlnum(c) || c == '_' || c == '.'; }

/// `Tensor(a! -> *)?[2]? name=default`; returns what is wrong, or null.
const char *parseArgument(StringRef text, SchemaArgument &argument) {
  StringRef base = text.take_while(isNameChar);
  if (base.empty())
    return "expected a type";
  argument.type.base = parseBaseType(base);
  text = text.drop_front(base.size());
  if (text.consume_front("(")) {
    auto [alias, rest] = text.split(')');
    if (rest.data() == nullptr || rest.data() == alias.data())
      return "expected ')'";
    text = rest;
    argument.mutated = alias.contains('!');
    StringRef before = alias.split("->").first.trim();
    argument.alias = before.take_while([](char c) { return c != '!' && c != ' '; });
    if (argument.alias.empty())
      argument.alias = "*";
  }
  bool optional = text.consume_front("?");
  if (text.consume_front("[")) {
    argument.type.list = true;
    argument.type.elementOptional = optional;
    StringRef size = text.take_while(isDigit);
    if (!size.empty() && size.getAsInteger(10, argument.type.listSize))
      return "bad list size";
    text = text.drop_front(size.size());
    if (!text.consume_front("]"))
      return "expected ']'";
    argument.type.optional = text.consume_front("?");
  } else {
    argument.type.optional = optional;
  }
  text = text.ltrim();
  argument.name = text.take_while(isNameChar);
  text = text.drop_front(argument.name.size()).ltrim();
  if (text.consume_front("="))
    argument.defaultText = text.trim();
  else if (!text.empty())
    return "unexpected text after the name";
  return nullptr;
}

} // namespace

std::optional<OpSchema> kiln::torch::parseSchema(StringRef line, std::string *error) {
  auto fail = [&](const Twine &message) {
    if (error)
      *error = message.str();
    return std::nullopt;
  };
  OpSchema schema;
  size_t open = line.find('('), arrow = line.rfind(" -> ");
  // A result's alias set may itself hold an arrow: the results follow the argument list's `)`.
  for (arrow = line.find(") -> "); arrow != StringRef::npos;) {
    StringRef arguments = line.slice(open + 1, arrow);
    if (arguments.count('(') == arguments.count(')'))
      break;
    arrow = line.find(") -> ", arrow + 1);
  }
  if (open == StringRef::npos || arrow == StringRef::npos || arrow <= open)
    return fail("expected 'name(arguments) -> results'");
  schema.name = line.take_front(open);
  bool kwargOnly = false;
  for (StringRef text : splitTopLevel(line.slice(open + 1, arrow))) {
    if (text == "*") {
      kwargOnly = true;
      continue;
    }
    SchemaArgument argument;
    argument.kwargOnly = kwargOnly;
    if (const char *what = parseArgument(text, argument))
      return fail(Twine(what) + " in '" + text + "'");
    if (argument.name.empty())
      return fail("argument '" + text + "' has no name");
    schema.arguments.push_back(argument);
  }
  StringRef results = line.drop_front(arrow + 5).trim();
  if (results.starts_with("(") && results.ends_with(")"))
    results = results.drop_front().drop_back();
  for (StringRef text : splitTopLevel(results)) {
    SchemaArgument result;
    if (const char *what = parseArgument(text, result))
      return fail(Twine(what) + " in result '" + text + "'");
    schema.results.push_back(result);
  }
  return schema;
}

//===-- Finding a line ----------------------------------------------------------------------===//

/// The line of `table` whose name is `target`, by binary search over the text; empty when there is
/// none.
static StringRef findLine(StringRef table, StringRef target) {
  size_t low = 0, high = table.size(); // both at starts of lines
  while (low < high) {
    size_t newline = table.rfind('\n', low + (high - low) / 2);
    size_t start = newline == StringRef::npos || newline < low ? low : newline + 1;
    StringRef line = table.slice(start, table.find('\n', start));
    int order = target.compare(line.take_until([](char c) { return c == '(' || c == ' '; }));
    if (order == 0)
      return line;
    if (order < 0)
      high = start;
    else
      low = start + line.size() + 1;
  }
  return {};
}

const OpSchema *kiln::torch::lookupSchema(StringRef target) {
  static std::mutex mutex;
  static StringMap<std::unique_ptr<OpSchema>> parsed;
  std::lock_guard<std::mutex> lock(mutex);
  auto [it, isNew] = parsed.try_emplace(target);
  if (isNew)
    if (StringRef line = findLine(table, target); !line.empty())
      if (std::optional<OpSchema> schema = parseSchema(line))
        it->second = std::make_unique<OpSchema>(std::move(*schema));
  return it->second.get();
}

StringRef kiln::torch::lookupFunctional(StringRef target) {
  return findLine(variantTable, target).split(' ').second;
}
