// The attributes that stand for arguments of calls, and their constraints.
#include "kiln/Dialect/Sym/SymDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::sym;

static constexpr StringLiteral layoutNames[] = {
    "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "mkldnn"};
static constexpr StringLiteral memoryFormatNames[] = {"contiguous", "channels_last",
                                                      "channels_last_3d", "preserve"};

/// The enumerator whose name is the i-th.
template <typename Enum>
static std::optional<Enum> symbolize(ArrayRef<StringLiteral> names, StringRef name) {
  auto it = llvm::find(names, name);
  if (it == names.end())
    return std::nullopt;
  return static_cast<Enum>(it - names.begin());
}

StringRef kiln::sym::stringify(Layout value) { return layoutNames[static_cast<int>(value)]; }
StringRef kiln::sym::stringify(MemoryFormat value) {
  return memoryFormatNames[static_cast<int>(value)];
}
std::optional<Layout> kiln::sym::symbolizeLayout(StringRef name) {
  return symbolize<Layout>(layoutNames, name);
}
std::optional<MemoryFormat> kiln::sym::symbolizeMemoryFormat(StringRef name) {
  return symbolize<MemoryFormat>(memoryFormatNames, name);
}

template <typename Enum>
static std::optional<Enum> parseEnum(AsmParser &parser, ArrayRef<StringLiteral> names) {
  StringRef name;
  if (parser.parseLess())
    return std::nullopt;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&name) || parser.parseGreater())
    return std::nullopt;
  std::optional<Enum> value = symbolize<Enum>(names, name);
  if (!value)
    parser.emitError(loc, "expected one of ") << llvm::join(names, ", ");
  return value;
}

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  std::optional<Layout> value = parseEnum<Layout>(parser, layoutNames);
  if (!value)
    return {};
  return get(parser.getContext(), *value);
}
void LayoutAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringify(getValue()) << '>';
}

Attribute MemoryFormatAttr::parse(AsmParser &parser, Type) {
  std::optional<MemoryFormat> value = parseEnum<MemoryFormat>(parser, memoryFormatNames);
  if (!value)
    return {};
  return get(parser.getContext(), *value);
}
void MemoryFormatAttr::print(AsmPrinter &printer) const {
  printer << '<' << stringify(getValue()) << '>';
}

namespace {

/// Deeper nesting than any schema has; keeps hostile text from exhausting the stack.
constexpr unsigned maxArgNesting = 16;

/// Marks the operands that `attr` uses.
LogicalResult markOperands(Attribute attr, llvm::BitVector &used, unsigned depth,
                           function_ref<InFlightDiagnostic()> emitError) {
  if (depth > maxArgNesting)
    return emitError() << "has arguments nested too deeply";
  std::optional<unsigned> index;
  if (auto arg = dyn_cast<ArgAttr>(attr))
    index = arg.getIndex();
  else if (auto scalar = dyn_cast<ScalarAttr>(attr))
    index = scalar.getIndex();
  if (index) {
    if (*index >= used.size())
      return emitError() << "argument refers to operand " << *index << " of " << used.size();
    used.set(*index);
    return success();
  }
  if (auto list = dyn_cast<ArrayAttr>(attr)) {
    for (Attribute element : list)
      if (failed(markOperands(element, used, depth + 1, emitError)))
        return failure();
  } else if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    for (NamedAttribute element : dictionary)
      if (failed(markOperands(element.getValue(), used, depth + 1, emitError)))
        return failure();
  }
  return success();
}

} // namespace

LogicalResult kiln::sym::verifyArguments(ArrayAttr args, unsigned numOperands,
                                         function_ref<InFlightDiagnostic()> emitError) {
  llvm::BitVector used(numOperands);
  if (failed(markOperands(args, used, 0, emitError)))
    return failure();
  if (int unused = used.find_first_unset(); unused >= 0)
    return emitError() << "operand " << unused << " is not used by the arguments";
  return success();
}

/// Every entry is below `limit`, and none stands there twice.
static bool areDistinct(ArrayRef<int64_t> entries, int64_t limit) {
  llvm::SmallDenseSet<int64_t> seen;
  return llvm::all_of(entries, [&](int64_t entry) {
    return entry >= 0 && entry < limit && seen.insert(entry).second;
  });
}

LogicalResult kiln::sym::verifyResults(ArrayRef<int64_t> projection, ArrayRef<int64_t> sizes,
                                       ArrayRef<int64_t> updates, unsigned numOperands,
                                       unsigned numResults,
                                       function_ref<InFlightDiagnostic()> emitError) {
  if (sizes.size() % 2)
    return emitError() << "has sizes that are no pairs of a number and a dim";
  for (size_t i = 0; i < sizes.size(); i += 2)
    if (sizes[i] < 0 || sizes[i + 1] < -1)
      return emitError() << "asks for dim " << sizes[i + 1] << " of return value " << sizes[i];
  if (projection.size() + countKept(sizes) + updates.size() != numResults)
    return emitError() << "has " << projection.size() << " projections, " << sizes.size() / 2
                       << " sizes and " << updates.size() << " updates for " << numResults
                       << " results";
  if (!areDistinct(projection, INT64_MAX))
    return emitError() << "projects a return value twice, or one of a negative number";
  if (!areDistinct(updates, numOperands))
    return emitError() << "updates an operand twice, or one that it does not have";
  return success();
}

std::string kiln::sym::describe(Location location) {
  StringRef node;
  FileLineColLoc line;
  location->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      if (!node.empty()) // a line that follows is another node's
        return WalkResult::interrupt();
      node = name.getName().strref();
    } else if (auto file = dyn_cast<FileLineColLoc>(part))
      line = line ? line : file;
    return WalkResult::advance();
  });
  std::string text = node.empty() ? "the program" : "node '" + node.str() + "'";
  if (line)
    text += " (" + line.getFilename().str() + ":" + std::to_string(line.getLine()) + ")";
  return text;
}
