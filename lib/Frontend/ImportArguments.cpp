// Arguments of a call: the program's, put in the schema's order, and the defaults of those that it
// did not give.
#include "Importer.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using torch::SchemaType;

Expected<Attribute> Importer::refer(StringRef name, CallArguments &call) {
  auto it = scope->entries.find(name);
  if (it == scope->entries.end())
    return fail("refers to '" + name + "', which is not defined");
  const Entry &entry = it->second;
  if (entry.attribute)
    return entry.attribute;
  auto index = static_cast<unsigned>(call.operands.size());
  call.operands.push_back(entry.value);
  if (entry.isNumber)
    return torch::ScalarAttr::get(&context, index);
  return torch::ArgAttr::get(&context, index);
}

//===-- Values to attributes ----------------------------------------------------------------===//

namespace {

/// Makes an Attribute of each alternative; `Import` gives the parts that need the importer.
template <typename Import> struct ArgumentVisitor {
  Builder &b;
  Import import;
  using Result = Expected<Attribute>;

  template <typename T> Result list(const std::vector<T> &values) {
    SmallVector<Attribute> attrs;
    for (const T &value : values) {
      Result attr = (*this)(value);
      if (!attr)
        return attr.takeError();
      attrs.push_back(*attr);
    }
    return b.getArrayAttr(attrs);
  }

  Result operator()(None) { return b.getUnitAttr(); }
  Result operator()(int64_t value) { return b.getI64IntegerAttr(value); }
  Result operator()(double value) { return b.getF64FloatAttr(value); }
  Result operator()(bool value) { return b.getBoolAttr(value); }
  Result operator()(const std::string &value) { return b.getStringAttr(value); }
  Result operator()(const OptionalTensorRef &value) {
    return value ? import(*value) : Result(b.getUnitAttr());
  }
  template <typename T> Result operator()(const std::vector<T> &values) { return list(values); }
  Result operator()(const std::vector<bool> &values) {
    return b.getArrayAttr(
        llvm::map_to_vector(values, [&](bool value) -> Attribute { return b.getBoolAttr(value); }));
  }
  Result operator()(const ComplexValue &value) {
    return torch::ComplexAttr::get(b.getContext(), b.getF64FloatAttr(value.real),
                                   b.getF64FloatAttr(value.imag));
  }
  Result operator()(const CustomObject &value) {
    return torch::ObjectAttr::get(b.getContext(), value.name, value.className);
  }
  template <typename T> Result operator()(const T &value) { return import(value); }
};

} // namespace

/// A name or a constant of SymIntRef and its like.
template <typename Constant> static const std::string *nameIn(const Constant &ref) {
  return std::get_if<std::string>(&ref.value);
}

/// PyTorch's name of an operator, less `torch.ops.`.
static StringRef shortTarget(StringRef target) {
  target.consume_front("torch.ops.");
  return target;
}

Expected<Attribute> Importer::importArgument(const Argument &argument, const SchemaType *type,
                                             CallArguments &call) {
  using Result = Expected<Attribute>;
  auto import = [&](const auto &value) -> Result {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, TensorRef>) {
      return refer(value.name, call);
    } else if constexpr (std::is_same_v<T, SymIntRef>) {
      if (const std::string *name = nameIn(value))
        return refer(*name, call);
      return builder.getI64IntegerAttr(std::get<int64_t>(value.value));
    } else if constexpr (std::is_same_v<T, SymFloatRef>) {
      if (const std::string *name = nameIn(value))
        return refer(*name, call);
      return builder.getF64FloatAttr(std::get<double>(value.value));
    } else if constexpr (std::is_same_v<T, SymBoolRef>) {
      if (const std::string *name = nameIn(value))
        return refer(*name, call);
      return builder.getBoolAttr(std::get<bool>(value.value));
    } else if constexpr (std::is_same_v<T, ScalarTypeCode>) {
      Expected<Type> element = elementType(value);
      if (!element)
        return element.takeError();
      return torch::DTypeAttr::get(&context, *element);
    } else if constexpr (std::is_same_v<T, LayoutCode>) {
      Expected<torch::LayoutAttr> layout = layoutAttr(value);
      if (!layout)
        return layout.takeError();
      return *layout;
    } else if constexpr (std::is_same_v<T, MemoryFormatCode>) {
      return memoryFormatAttr(value);
    } else if constexpr (std::is_same_v<T, Device>) {
      return deviceAttr(value);
    } else if constexpr (std::is_same_v<T, OperatorRef>) {
      return torch::OperatorAttr::get(&context, shortTarget(value.target));
    } else if constexpr (std::is_same_v<T, HugeInteger>) {
      return fail("an integer of more than 64 bits");
    } else if constexpr (std::is_same_v<T, GraphRef>) {
      Expected<FlatSymbolRefAttr> nested = importNested(value);
      if (!nested)
        return nested.takeError();
      return *nested;
    } else {
      static_assert(std::is_same_v<T, ArgumentMap>);
      SmallVector<Attribute> keys, values; // in the program's order, which a dictionary loses
      for (auto [key, element] : llvm::zip(value.keys, value.values)) {
        Result attr = importArgument(element, nullptr, call);
        if (!attr)
          return attr.takeError();
        keys.push_back(builder.getStringAttr(key));
        values.push_back(*attr);
      }
      return builder.getDictionaryAttr(
          {builder.getNamedAttr("keys", builder.getArrayAttr(keys)),
           builder.getNamedAttr("values", builder.getArrayAttr(values))});
    }
  };
  Result attr = std::visit(ArgumentVisitor<decltype(import)>{builder, import}, argument.value);
  if (!attr || !type)
    return attr;
  return torch::coerce(*attr, *type);
}

//===-- Calls -------------------------------------------------------------------------------===//

Error Importer::importArguments(const Node &node, StringRef target, CallArguments &call) {
  auto failArgument = [&](const Twine &name, Error error) {
    return createStringError(toString(std::move(error)) + " (argument " + name + " of " + target +
                             ")");
  };
  const torch::OpSchema *schema = torch::lookupSchema(target);
  if (!schema) {
    bool hasNames = false;
    for (const NamedArgument &input : node.inputs) {
      Expected<Attribute> attr = importArgument(input.arg, nullptr, call);
      if (!attr)
        return failArgument(Twine(call.args.size()), attr.takeError());
      call.args.push_back(*attr);
      call.names.push_back(builder.getStringAttr(input.name));
      hasNames |= !input.name.empty();
    }
    if (!hasNames)
      call.names.clear();
    return Error::success();
  }
  SmallVector<const NamedArgument *> given(schema->arguments.size(), nullptr);
  for (const NamedArgument &input : node.inputs) {
    int position = schema->indexOf(input.name);
    if (position < 0)
      return fail(target + " has no argument '" + input.name + "'");
    if (given[position])
      return fail("argument '" + input.name + "' of " + target + " is given twice");
    given[position] = &input;
  }
  for (auto [argument, input] : llvm::zip(schema->arguments, given)) {
    Attribute attr = torch::defaultAttr(argument, &context);
    if (input) {
      Expected<Attribute> imported = importArgument(input->arg, &argument.type, call);
      if (!imported)
        return failArgument("'" + argument.name + "'", imported.takeError());
      attr = *imported;
    }
    if (!attr)
      return fail("argument '" + argument.name + "' of " + target + " is missing");
    if (!torch::fits(attr, argument.type)) {
      std::string text;
      raw_string_ostream(text) << attr;
      return fail("argument '" + argument.name + "' of " + target + " cannot be " + text);
    }
    call.args.push_back(attr);
  }
  return Error::success();
}
