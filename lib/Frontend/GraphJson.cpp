// Reads graphs, nodes, arguments and tensor metadata from JSON.
//
// The path of a value is kept beside it; a reader reports there what it expected and returns false.
#include "GraphJson.h"
#include "llvm/ADT/StringExtras.h"
#include <limits>

using namespace llvm;
using namespace kiln::frontend::json;

namespace kiln::frontend {

const Member *unionField(const Value &value, Path path) {
  const Object *object = value.getAsObject();
  if (object && object->size() == 1)
    return &*object->begin();
  if (object)
    path.report("expected exactly one alternative of a union");
  else
    path.report("expected object");
  return nullptr;
}

namespace {

/// A number, or the text that stands for a non-finite one.
struct Float {
  double value = 0;
};

bool fromJSON(const Value &value, Float &out, Path path) {
  if (std::optional<double> number = value.getAsNumber()) {
    out.value = *number;
    return true;
  }
  StringRef text = value.getAsString().value_or("");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity")
    out.value = infinity;
  else if (text == "-Infinity")
    out.value = -infinity;
  else if (text == "NaN")
    out.value = std::numeric_limits<double>::quiet_NaN();
  else {
    path.report("expected number");
    return false;
  }
  return true;
}

//===-- Enums and small structs -------------------------------------------------------------===//

bool isIn(int64_t code, int64_t first, int64_t last) { return code >= first && code <= last; }

} // namespace

static bool fromJSON(const Value &value, ScalarTypeCode &out, Path path) {
  if (!json::fromJSON(value, out.code, path))
    return false;
  if (isIn(out.code, 0, 13) || isIn(out.code, 28, 35))
    return true;
  path.report("unknown scalar type");
  return false;
}

static bool fromJSON(const Value &value, LayoutCode &out, Path path) {
  if (!json::fromJSON(value, out.code, path))
    return false;
  if (isIn(out.code, 0, 7))
    return true;
  path.report("unknown layout");
  return false;
}

static bool fromJSON(const Value &value, MemoryFormatCode &out, Path path) {
  if (!json::fromJSON(value, out.code, path))
    return false;
  if (isIn(out.code, 0, 4))
    return true;
  path.report("unknown memory format");
  return false;
}

static bool fromJSON(const Value &value, Device &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("type", out.type) && map.map("index", out.index);
}

bool fromJSON(const Value &value, TensorRef &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("name", out.name);
}

bool fromJSON(const Value &value, CustomObject &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("name", out.name) && map.map("class_fqn", out.className);
}

static bool fromJSON(const Value &value, ComplexValue &out, Path path) {
  ObjectMapper map(value, path);
  Float real, imag;
  if (!map || !map.map("real", real) || !map.map("imag", imag))
    return false;
  out = {real.value, imag.value};
  return true;
}

static bool fromJSON(const Value &value, OptionalTensorRef &out, Path path) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  if (field->key == "as_none") {
    bool ignored;
    out.reset();
    return json::fromJSON(field->value, ignored, path.field("as_none"));
  }
  if (field->key == "as_tensor")
    return fromJSON(field->value, out.emplace(), path.field("as_tensor"));
  path.report("expected as_none or as_tensor");
  return false;
}

/// `{"as_name": …}` or a constant under `constantField`.
template <typename Ref, typename Constant>
static bool symRefFromJSON(const Value &value, Ref &out, Path path, StringLiteral constantField) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  if (field->key == "as_name")
    return json::fromJSON(field->value, out.value.template emplace<std::string>(),
                          path.field("as_name"));
  if (field->key == constantField) {
    Constant constant;
    if (!fromJSON(field->value, constant, path.field(constantField)))
      return false;
    if constexpr (std::is_same_v<Constant, Float>)
      out.value = constant.value;
    else
      out.value = constant;
    return true;
  }
  path.report("expected as_name or a constant");
  return false;
}

static bool fromJSON(const Value &value, SymIntRef &out, Path path) {
  return symRefFromJSON<SymIntRef, int64_t>(value, out, path, "as_int");
}
static bool fromJSON(const Value &value, SymFloatRef &out, Path path) {
  return symRefFromJSON<SymFloatRef, Float>(value, out, path, "as_float");
}
static bool fromJSON(const Value &value, SymBoolRef &out, Path path) {
  return symRefFromJSON<SymBoolRef, bool>(value, out, path, "as_bool");
}

static bool fromJSON(const Value &value, GraphRef &out, Path path) {
  ObjectMapper map(value, path);
  out.graph = std::make_shared<Graph>();
  return map && map.map("name", out.name) && map.map("graph", *out.graph);
}

static bool fromJSON(const Value &value, OperatorRef &out, Path path) {
  return json::fromJSON(value, out.target, path);
}

//===-- Symbolic values ---------------------------------------------------------------------===//

/// `{"as_expr": {"expr_str": …, "hint": …}}` or a constant under `constantField`.
template <typename Sym, typename Constant>
static bool symFromJSON(const Value &value, Sym &out, Path path, StringLiteral constantField) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  Path fieldPath = path.field(field->key);
  if (field->key == "as_expr") {
    ObjectMapper map(field->value, fieldPath);
    if (!map || !map.map("expr_str", out.template emplace<ExprText>().text))
      return false;
    const Value *hint = field->value.getAsObject()->get("hint");
    if (!hint || hint->isNull())
      return true;
    const Member *given = unionField(*hint, fieldPath.field("hint"));
    if (given && given->key == "as_int")
      std::get<ExprText>(out).hint = given->value.getAsInteger();
    return given != nullptr;
  }
  if (field->key == constantField) {
    Constant constant;
    if (!fromJSON(field->value, constant, fieldPath))
      return false;
    if constexpr (std::is_same_v<Constant, Float>)
      out = constant.value;
    else
      out = constant;
    return true;
  }
  path.report("expected as_expr or a constant");
  return false;
}

static bool fromJSON(const Value &value, SymInt &out, Path path) {
  return symFromJSON<SymInt, int64_t>(value, out, path, "as_int");
}
static bool fromJSON(const Value &value, SymFloat &out, Path path) {
  return symFromJSON<SymFloat, Float>(value, out, path, "as_float");
}
static bool fromJSON(const Value &value, SymBool &out, Path path) {
  return symFromJSON<SymBool, bool>(value, out, path, "as_bool");
}

bool fromJSON(const Value &value, TensorMeta &out, Path path) {
  ObjectMapper map(value, path);
  bool requiresGrad;
  if (!map || !map.map("dtype", out.dtype) || !map.map("sizes", out.sizes) ||
      !map.map("requires_grad", requiresGrad) || !map.map("device", out.device) ||
      !map.map("strides", out.strides) || !map.map("storage_offset", out.storageOffset) ||
      !map.map("layout", out.layout))
    return false;
  if (out.sizes.size() == out.strides.size())
    return true;
  path.report("expected as many strides as sizes");
  return false;
}

//===-- Arguments ---------------------------------------------------------------------------===//

/// Reads `value` as the alternative T.
template <typename T> static bool alternative(const Value &value, Argument &out, Path path) {
  return fromJSON(value, out.value.emplace<T>(), path);
}

template <> bool alternative<None>(const Value &value, Argument &out, Path path) {
  bool ignored; // None is written as `true`
  out.value = None();
  return json::fromJSON(value, ignored, path);
}

template <> bool alternative<int64_t>(const Value &value, Argument &out, Path path) {
  if (std::optional<bool> isNegative = value.getAsHuge()) {
    out.value = HugeInteger{*isNegative};
    return true;
  }
  return json::fromJSON(value, out.value.emplace<int64_t>(), path);
}

template <> bool alternative<double>(const Value &value, Argument &out, Path path) {
  Float number;
  bool read = fromJSON(value, number, path);
  out.value = number.value;
  return read;
}

static std::vector<double> values(ArrayRef<Float> numbers) {
  std::vector<double> result;
  for (Float number : numbers)
    result.push_back(number.value);
  return result;
}

template <> bool alternative<std::vector<double>>(const Value &value, Argument &out, Path path) {
  std::vector<Float> numbers;
  bool read = json::fromJSON(value, numbers, path);
  out.value = values(numbers);
  return read;
}

template <>
bool alternative<std::vector<std::vector<double>>>(const Value &value, Argument &out, Path path) {
  std::vector<std::vector<Float>> lists;
  bool read = json::fromJSON(value, lists, path);
  auto &result = out.value.emplace<std::vector<std::vector<double>>>();
  for (const std::vector<Float> &numbers : lists)
    result.push_back(values(numbers));
  return read;
}

template <> bool alternative<std::vector<bool>>(const Value &value, Argument &out, Path path) {
  const ArrayRef<Value> *array = value.getAsArray();
  if (!array) {
    path.report("expected array");
    return false;
  }
  auto &result = out.value.emplace<std::vector<bool>>();
  for (size_t i = 0; i < array->size(); ++i) {
    bool element;
    if (!json::fromJSON((*array)[i], element, path.index(i)))
      return false;
    result.push_back(element);
  }
  return true;
}

template <> bool alternative<ArgumentMap>(const Value &value, Argument &out, Path path) {
  const Object *object = value.getAsObject();
  if (!object) {
    path.report("expected object");
    return false;
  }
  ArgumentMap result;
  for (const auto &[key, element] : *object) {
    result.keys.push_back(key.str());
    if (!fromJSON(element, result.values.emplace_back(), path.field(key)))
      return false;
  }
  out.value = std::move(result);
  return true;
}

namespace {
struct Alternative {
  StringLiteral field;
  bool (*read)(const Value &, Argument &, Path);
};
} // namespace

static constexpr Alternative alternatives[] = {
    {"as_none", alternative<None>},
    {"as_tensor", alternative<TensorRef>},
    {"as_tensors", alternative<std::vector<TensorRef>>},
    {"as_optional_tensor", alternative<OptionalTensorRef>},
    {"as_optional_tensors", alternative<std::vector<OptionalTensorRef>>},
    {"as_nested_tensors", alternative<std::vector<std::vector<TensorRef>>>},
    {"as_int", alternative<int64_t>},
    {"as_ints", alternative<std::vector<int64_t>>},
    {"as_int_lists", alternative<std::vector<std::vector<int64_t>>>},
    {"as_float", alternative<double>},
    {"as_floats", alternative<std::vector<double>>},
    {"as_float_lists", alternative<std::vector<std::vector<double>>>},
    {"as_bool", alternative<bool>},
    {"as_bools", alternative<std::vector<bool>>},
    {"as_string", alternative<std::string>},
    {"as_strings", alternative<std::vector<std::string>>},
    {"as_sym_int", alternative<SymIntRef>},
    {"as_sym_ints", alternative<std::vector<SymIntRef>>},
    {"as_sym_float", alternative<SymFloatRef>},
    {"as_sym_floats", alternative<std::vector<SymFloatRef>>},
    {"as_sym_bool", alternative<SymBoolRef>},
    {"as_sym_bools", alternative<std::vector<SymBoolRef>>},
    {"as_scalar_type", alternative<ScalarTypeCode>},
    {"as_layout", alternative<LayoutCode>},
    {"as_memory_format", alternative<MemoryFormatCode>},
    {"as_device", alternative<Device>},
    {"as_complex", alternative<ComplexValue>},
    {"as_graph", alternative<GraphRef>},
    {"as_custom_obj", alternative<CustomObject>},
    {"as_operator", alternative<OperatorRef>},
    {"as_string_to_argument", alternative<ArgumentMap>},
};

bool fromJSON(const Value &value, Argument &out, Path path) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  for (const Alternative &candidate : alternatives)
    if (field->key == candidate.field)
      return candidate.read(field->value, out, path.field(field->key));
  path.field(field->key).report("unknown kind of argument");
  return false;
}

static bool fromJSON(const Value &value, NamedArgument &out, Path path) {
  ObjectMapper map(value, path);
  if (!map || !map.map("name", out.name) || !map.map("arg", out.arg))
    return false;
  std::optional<int64_t> kind;
  if (!map.map("kind", kind))
    return false;
  if (!kind || isIn(*kind, 0, 2))
    return true;
  path.field("kind").report("unknown argument kind");
  return false;
}

//===-- Graphs ------------------------------------------------------------------------------===//

static bool fromJSON(const Value &value, Node &out, Path path) {
  ObjectMapper map(value, path);
  std::map<std::string, std::string> metadata;
  std::optional<bool> isSingle;
  std::optional<std::string> name;
  if (!map || !map.map("target", out.target) || !map.map("inputs", out.inputs) ||
      !map.map("outputs", out.outputs) || !map.map("metadata", metadata) ||
      !map.map("is_hop_single_tensor_return", isSingle) || !map.map("name", name))
    return false;
  if (auto trace = metadata.find("stack_trace"); trace != metadata.end())
    out.stackTrace = trace->second;
  if (auto modules = metadata.find("nn_module_stack"); modules != metadata.end())
    out.modules = modules->second;
  out.name = name.value_or("");
  return true;
}

bool fromJSON(const Value &value, Graph &out, Path path) {
  ObjectMapper map(value, path);
  bool isSingle = false;
  StringMap<CustomObject> objects;
  if (!map || !map.map("inputs", out.inputs) || !map.map("outputs", out.outputs) ||
      !map.map("nodes", out.nodes) || !map.mapOptional("is_single_tensor_return", isSingle))
    return false;
  const Object &object = *value.getAsObject();
  auto readMap = [&](StringLiteral name, auto &result, bool isOptional) {
    const Value *field = object.get(name);
    if (field)
      return mapFromJSON(*field, result, path.field(name));
    if (!isOptional)
      path.field(name).report("missing value");
    return isOptional;
  };
  if (!readMap("tensor_values", out.tensorValues, false) ||
      !readMap("sym_int_values", out.symIntValues, false) ||
      !readMap("sym_bool_values", out.symBoolValues, false) ||
      !readMap("sym_float_values", out.symFloatValues, true) ||
      !readMap("custom_obj_values", objects, true))
    return false;
  correctShapes(out);
  return true;
}

} // namespace kiln::frontend
