// Parses the declarations of custom operators, SCHEMA=FUNCTION.
#include "kiln/Dialect/Torch/CustomOp.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln::torch;

static bool isIdentifier(StringRef name) {
  auto isInside = [](char c) { return isAlnum(c) || c == '_'; };
  return !name.empty() && !isDigit(name.front()) && all_of(name, isInside);
}

/// `lib::scale` or `lib::scale.wide` as targets are called; empty if it is neither.
static std::string makeTarget(StringRef name) {
  auto [space, op] = name.split("::");
  auto [base, overload] = op.split('.');
  if (!isIdentifier(space) || !isIdentifier(base) || (op.contains('.') && !isIdentifier(overload)))
    return "";
  return (space + "." + base + "." + (overload.empty() ? "default" : overload)).str();
}

/// The first thing in a schema that a C function cannot be given, or does not give.
static StringRef findUnsupported(const OpSchema &schema) {
  for (const SchemaArgument &argument : schema.arguments)
    if (argument.type.base == BaseType::Other)
      return argument.name;
  for (const SchemaArgument &result : schema.results) {
    if (result.type.base != BaseType::Tensor || result.type.optional)
      return "a result that is no tensor";
    if (!result.alias.empty())
      return "a result that is an argument";
  }
  return {};
}

Expected<CustomOp> kiln::torch::parseCustomOp(StringRef declaration) {
  auto [text, symbol] = declaration.rsplit('=');
  auto fail = [&](const Twine &problem) {
    return createStringError("'" + declaration + "': " + problem +
                             "; expected a schema and a C function, such as "
                             "lib::scale(Tensor x, float factor=1.) -> Tensor=my_scale");
  };
  symbol = symbol.trim();
  if (!isIdentifier(symbol))
    return fail("no name of a C function behind the last '='");
  if (symbol.starts_with("kiln_"))
    return fail("names that begin with kiln_ are Kiln's");
  size_t open = text.find('(');
  std::string target = makeTarget(text.take_front(open).trim());
  if (open == StringRef::npos || target.empty())
    return fail("no name of an operator");
  if (lookupSchema(target))
    return fail("an operator of PyTorch's own");
  CustomOp op;
  op.text = std::make_unique<std::string>(target + text.drop_front(open).trim().str());
  op.symbol = symbol.str();
  std::string problem;
  std::optional<OpSchema> schema = parseSchema(*op.text, &problem);
  if (!schema)
    return fail(problem);
  if (StringRef name = findUnsupported(*schema); !name.empty())
    return fail("a C function cannot have " + name);
  op.schema = std::move(*schema);
  return op;
}
