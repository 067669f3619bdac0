// The attributes that stand for the arguments of a call, and the types of its schema.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

bool kiln::torch::fits(Attribute attr, const SchemaType &type) {
  if (isa<UnitAttr>(attr))
    return type.optional || type.base == BaseType::Other;
  if (type.list) {
    auto list = dyn_cast<ArrayAttr>(attr);
    if (!list)
      return false;
    SchemaType element{type.base, type.elementOptional};
    return llvm::all_of(list, [&](Attribute a) { return fits(a, element); });
  }
  bool isBool = isa<BoolAttr>(attr);
  auto integer = dyn_cast<IntegerAttr>(attr);
  bool isInt = integer && !isBool && integer.getType().isInteger(64);
  bool isSymbolic = isa<sym::ExprAttr, ScalarAttr>(attr);
  bool isFloat = isa<FloatAttr>(attr) && cast<FloatAttr>(attr).getType().isF64();
  switch (type.base) {
  case BaseType::Tensor:
    return isa<ArgAttr, ComplexAttr>(attr) || isBool || isInt || isFloat || isSymbolic;
  case BaseType::Scalar:
    return isa<ComplexAttr>(attr) || isBool || isInt || isFloat || isSymbolic;
  case BaseType::Int:
    return isInt;
  case BaseType::SymInt:
    return isInt || isa<sym::ExprAttr>(attr);
  case BaseType::Float:
    return isFloat || isSymbolic;
  case BaseType::Bool:
    return isBool || isa<ScalarAttr>(attr);
  case BaseType::String:
    return isa<StringAttr>(attr);
  case BaseType::DType:
    return isa<DTypeAttr>(attr);
  case BaseType::Device:
    return isa<DeviceAttr>(attr);
  case BaseType::Layout:
    return isa<LayoutAttr>(attr);
  case BaseType::MemoryFormat:
    return isa<MemoryFormatAttr>(attr);
  case BaseType::Other:
    return true;
  }
  llvm_unreachable("all base types are handled");
}

Attribute kiln::torch::coerce(Attribute attr, const SchemaType &type) {
  Builder b(attr.getContext());
  if (type.list) {
    SchemaType element{type.base, type.elementOptional};
    if (auto list = dyn_cast<ArrayAttr>(attr))
      return b.getArrayAttr(
          llvm::map_to_vector(list, [&](Attribute a) { return coerce(a, element); }));
    if (isa<UnitAttr, DictionaryAttr>(attr) || type.base == BaseType::Tensor)
      return attr;
    return b.getArrayAttr(
        SmallVector<Attribute>(std::max(type.listSize, 1u), coerce(attr, element)));
  }
  auto boolean = dyn_cast<BoolAttr>(attr);
  auto integer = boolean ? IntegerAttr() : dyn_cast<IntegerAttr>(attr);
  switch (type.base) {
  case BaseType::Int:
  case BaseType::SymInt:
    return boolean ? b.getI64IntegerAttr(boolean.getValue()) : attr;
  case BaseType::Float:
    if (boolean)
      return b.getF64FloatAttr(boolean.getValue());
    return integer ? b.getF64FloatAttr(static_cast<double>(integer.getInt())) : attr;
  case BaseType::Bool:
    return integer ? b.getBoolAttr(integer.getInt() != 0) : attr;
  default:
    return attr;
  }
}

//===-- Defaults ----------------------------------------------------------------------------===//

/// One word of a schema's default.
static Attribute parseDefault(Builder &b, StringRef text, BaseType base) {
  if (text == "None")
    return b.getUnitAttr();
  if (text == "True" || text == "False")
    return b.getBoolAttr(text == "True");
  if (text.starts_with("\"") || text.starts_with("'")) {
    std::string unescaped;
    text = text.drop_front().drop_back();
    for (size_t i = 0; i < text.size(); ++i) {
      i += text[i] == '\\' && i + 1 < text.size();
      unescaped += text[i];
    }
    return b.getStringAttr(unescaped);
  }
  if (base == BaseType::MemoryFormat)
    return MemoryFormatAttr::get(
        b.getContext(),
        symbolizeMemoryFormat(text.split("_format").first).value_or(MemoryFormat::Contiguous));
  if (base == BaseType::Layout)
    return LayoutAttr::get(b.getContext(), symbolizeLayout(text).value_or(Layout::Strided));
  if (base == BaseType::DType) {
    Type type = StringSwitch<Type>(text)
                    .Case("long", b.getI64Type())
                    .Case("float", b.getF32Type())
                    .Case("double", b.getF64Type())
                    .Case("bool", b.getI1Type())
                    .Default(Type());
    return type ? Attribute(DTypeAttr::get(b.getContext(), type)) : Attribute();
  }
  // at::Reduction
  if (text == "Mean")
    return b.getI64IntegerAttr(1);
  if (text == "Sum")
    return b.getI64IntegerAttr(2);
  int64_t integer;
  if (!text.getAsInteger(10, integer))
    return b.getI64IntegerAttr(integer);
  double number;
  if (!text.getAsDouble(number))
    return b.getF64FloatAttr(number);
  return {};
}

Attribute kiln::torch::defaultAttr(const SchemaArgument &argument, MLIRContext *context) {
  Builder b(context);
  if (!argument.defaultText)
    return {};
  StringRef text = *argument.defaultText;
  Attribute attr;
  if (text.consume_front("[") && text.consume_back("]")) {
    SmallVector<StringRef> words;
    SmallVector<Attribute> elements;
    text.split(words, ',', -1, /*KeepEmpty=*/false);
    for (StringRef word : words)
      if (Attribute element = parseDefault(b, word.trim(), argument.type.base))
        elements.push_back(element);
    attr = b.getArrayAttr(elements);
  } else {
    attr = parseDefault(b, text, argument.type.base);
  }
  return attr ? coerce(attr, argument.type) : attr;
}
