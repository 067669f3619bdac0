// The torch dialect's attributes and the spellings of its enums.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln::torch;

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Torch/TorchAttributes.cpp.inc"

void TorchDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/Torch/TorchAttributes.cpp.inc"
      >();
}

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

StringRef kiln::torch::stringify(Layout value) { return layoutNames[static_cast<int>(value)]; }
StringRef kiln::torch::stringify(MemoryFormat value) {
  return memoryFormatNames[static_cast<int>(value)];
}
std::optional<Layout> kiln::torch::symbolizeLayout(StringRef name) {
  return symbolize<Layout>(layoutNames, name);
}
std::optional<MemoryFormat> kiln::torch::symbolizeMemoryFormat(StringRef name) {
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
