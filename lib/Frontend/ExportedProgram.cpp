// Reads a program's signature and everything around its graph from JSON.
#include "kiln/Frontend/ExportedProgram.h"
#include "GraphJson.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace kiln::frontend::json;

namespace kiln::frontend {

static Error memberError(StringRef member, Error error) {
  std::string message = toString(std::move(error));
  // llvm::json::Path names the root of the document, which the member's name already does.
  constexpr StringLiteral root = "(root).";
  if (size_t at = message.find(root); at != std::string::npos)
    message.erase(at, root.size());
  return createStringError(Twine(member) + ": " + message);
}

static Expected<Document> parseText(StringRef text, StringRef member) {
  Expected<Document> document = Document::parse(text);
  if (!document)
    return memberError(member, document.takeError());
  return document;
}

//===-- Signature ---------------------------------------------------------------------------===//

static bool readString(const Object &object, StringLiteral name, std::string &out, Path path) {
  if (const Value *value = object.get(name))
    return fromJSON(*value, out, path.field(name));
  path.field(name).report("missing value");
  return false;
}

/// The name of the value that an argument is; empty for a constant.
static std::string nameOf(const Argument &argument) {
  if (auto *tensor = std::get_if<TensorRef>(&argument.value))
    return tensor->name;
  if (auto *object = std::get_if<CustomObject>(&argument.value))
    return object->name;
  auto symbolic = [](const auto *ref) {
    const std::string *name = ref ? std::get_if<std::string>(&ref->value) : nullptr;
    return name ? *name : std::string();
  };
  std::string name = symbolic(std::get_if<SymIntRef>(&argument.value));
  if (name.empty())
    name = symbolic(std::get_if<SymFloatRef>(&argument.value));
  return name.empty() ? symbolic(std::get_if<SymBoolRef>(&argument.value)) : name;
}

/// The `arg` of a spec, which is an Argument for user inputs and a bare TensorArgument (a name) for
/// all others.
static bool readSpecArg(const Object &spec, bool isArgument, std::string &name, Path path) {
  const Value *value = spec.get("arg");
  if (!value) {
    path.field("arg").report("missing value");
    return false;
  }
  if (isArgument) {
    Argument argument;
    if (!fromJSON(*value, argument, path.field("arg")))
      return false;
    name = nameOf(argument);
    return true;
  }
  TensorRef tensor; // a CustomObjArgument and a TokenArgument have a name too
  if (!fromJSON(*value, tensor, path.field("arg")))
    return false;
  name = tensor.name;
  return true;
}

namespace {
struct InputAlternative {
  StringLiteral field;
  InputKind kind;
  StringLiteral target; // the field with the qualified name; empty: none
};
struct OutputAlternative {
  StringLiteral field;
  OutputKind kind;
  StringLiteral target;
};
} // namespace

static constexpr InputAlternative inputAlternatives[] = {
    {"user_input", InputKind::User, ""},
    {"parameter", InputKind::Parameter, "parameter_name"},
    {"buffer", InputKind::Buffer, "buffer_name"},
    {"tensor_constant", InputKind::TensorConstant, "tensor_constant_name"},
    {"custom_obj", InputKind::CustomObject, "custom_obj_name"},
    {"token", InputKind::Token, ""},
    {"constant_input", InputKind::Constant, ""},
};

static constexpr OutputAlternative outputAlternatives[] = {
    {"user_output", OutputKind::User, ""},
    {"loss_output", OutputKind::Loss, ""},
    {"buffer_mutation", OutputKind::BufferMutation, "buffer_name"},
    {"parameter_mutation", OutputKind::ParameterMutation, "parameter_name"},
    {"user_input_mutation", OutputKind::InputMutation, "user_input_name"},
    {"gradient_to_parameter", OutputKind::GradientToParameter, "parameter_name"},
    {"gradient_to_user_input", OutputKind::GradientToInput, "user_input_name"},
    {"token", OutputKind::Token, ""},
};

static bool fromJSON(const Value &value, InputSpec &out, Path path) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  const auto *found = find_if(inputAlternatives, [&](const InputAlternative &candidate) {
    return field->key == candidate.field;
  });
  Path specPath = path.field(field->key);
  if (found == std::end(inputAlternatives)) {
    specPath.report("unknown kind of input");
    return false;
  }
  const Object *spec = field->value.getAsObject();
  if (!spec) {
    specPath.report("expected object");
    return false;
  }
  out.kind = found->kind;
  if (out.kind == InputKind::Constant) {
    const Value *constant = spec->get("value");
    if (!constant) {
      specPath.field("value").report("missing value");
      return false;
    }
    Argument ignored; // a ConstantValue is written like an Argument
    std::string name; // a constant is never referred to
    return readString(*spec, "name", name, specPath) &&
           fromJSON(*constant, ignored, specPath.field("value"));
  }
  if (!readSpecArg(*spec, out.kind == InputKind::User, out.name, specPath))
    return false;
  if (out.kind == InputKind::Buffer) {
    const Value *persistent = spec->get("persistent");
    if (!persistent) {
      specPath.field("persistent").report("missing value");
      return false;
    }
    if (!json::fromJSON(*persistent, out.persistent, specPath.field("persistent")))
      return false;
  }
  return found->target.empty() || readString(*spec, found->target, out.target, specPath);
}

static bool fromJSON(const Value &value, OutputSpec &out, Path path) {
  const Member *field = unionField(value, path);
  if (!field)
    return false;
  const auto *found = find_if(outputAlternatives, [&](const OutputAlternative &candidate) {
    return field->key == candidate.field;
  });
  Path specPath = path.field(field->key);
  if (found == std::end(outputAlternatives)) {
    specPath.report("unknown kind of output");
    return false;
  }
  const Object *spec = field->value.getAsObject();
  if (!spec) {
    specPath.report("expected object");
    return false;
  }
  out.kind = found->kind;
  std::string name; // the graph's output of the same position
  return readSpecArg(*spec, out.kind == OutputKind::User, name, specPath) &&
         (found->target.empty() || readString(*spec, found->target, out.target, specPath));
}

namespace {
struct Signature {
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
};
struct SchemaVersion {
  int64_t major = 0, minor = 0;
};
/// A field that only has to be there with the right type.
struct IgnoredArray {};
struct IgnoredObject {};

bool fromJSON(const Value &value, IgnoredArray &, Path path) {
  if (value.getAsArray())
    return true;
  path.report("expected array");
  return false;
}

bool fromJSON(const Value &value, IgnoredObject &, Path path) {
  if (value.getAsObject())
    return true;
  path.report("expected object");
  return false;
}

bool fromJSON(const Value &value, Signature &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("input_specs", out.inputs) && map.map("output_specs", out.outputs);
}

bool fromJSON(const Value &value, SchemaVersion &out, Path path) {
  ObjectMapper map(value, path);
  return map && map.map("major", out.major) && map.map("minor", out.minor);
}

} // namespace

namespace {
/// An end of a range, on the side of `isMin`. What is beyond 64 bits there bounds nothing.
struct Bound {
  bool isMin;
  std::optional<int64_t> value;
};

bool fromJSON(const Value &value, Bound &out, Path path) {
  return value.getAsHuge() == out.isMin || json::fromJSON(value, out.value, path);
}
} // namespace

static bool fromJSON(const Value &value, RangeConstraint &out, Path path) {
  ObjectMapper map(value, path);
  Bound min{/*isMin=*/true, {}}, max{/*isMin=*/false, {}};
  if (!map || !map.mapOptional("min_val", min) || !map.mapOptional("max_val", max))
    return false;
  out = {min.value, max.value};
  return true;
}

//===-- Programs ----------------------------------------------------------------------------===//

namespace {
/// module_call_graph. A program can do without: what is not as expected is as good as not there.
struct Calls {
  std::optional<CallSpec> whole;
};

bool fromJSON(const Value &value, Calls &out, Path path) {
  const ArrayRef<Value> *entries = value.getAsArray();
  if (!entries) {
    path.report("expected array");
    return false;
  }
  Path::Root ignored("");
  for (const Value &entry : *entries) {
    const Object *object = entry.getAsObject();
    const Value *module = object ? object->get("fqn") : nullptr;
    const Value *signature = object ? object->get("signature") : nullptr;
    if (!module || module->getAsString() != StringRef() || !signature)
      continue;
    CallSpec call;
    ObjectMapper fields(*signature, ignored);
    if (fields && fields.map("in_spec", call.inputs) && fields.map("out_spec", call.outputs) &&
        fields.mapOptional("forward_arg_names", call.names))
      out.whole = std::move(call);
  }
  return true;
}

struct GraphModule {
  Graph graph;
  Signature signature;
  Calls calls;
};

bool fromJSON(const Value &value, GraphModule &out, Path path) {
  ObjectMapper map(value, path);
  IgnoredObject metadata;
  if (!map || !map.map("signature", out.signature) || !map.map("module_call_graph", out.calls) ||
      !map.mapOptional("metadata", metadata) || !map.map("graph", out.graph))
    return false;
  if (out.signature.inputs.size() != out.graph.inputs.size()) {
    path.field("signature").field("input_specs").report("expected one for each input of the graph");
    return false;
  }
  if (out.signature.outputs.size() != out.graph.outputs.size()) {
    path.field("signature")
        .field("output_specs")
        .report("expected one for each output of the graph");
    return false;
  }
  for (auto [i, spec, input] : enumerate(out.signature.inputs, out.graph.inputs))
    if (spec.kind != InputKind::Constant && spec.name != nameOf(input)) {
      // A path refers to the one before it, so that only one expression may build on path.field().
      path.field("signature")
          .field("input_specs")
          .index(i)
          .report("names another value than the graph's input of the same position");
      return false;
    }
  return true;
}

} // namespace

static bool fromJSON(const Value &value, ExportedProgram &out, Path path) {
  ObjectMapper map(value, path);
  GraphModule module;
  IgnoredObject opsets;
  IgnoredArray verifiers;
  std::string torchVersion;
  if (!map || !map.map("graph_module", module) || !map.map("opset_version", opsets) ||
      !map.map("range_constraints", out.rangeConstraints) ||
      !map.mapOptional("verifiers", verifiers) || !map.mapOptional("torch_version", torchVersion) ||
      !map.mapOptional("guards_code", out.guardsCode))
    return false;
  out.graph = std::move(module.graph);
  out.inputSpecs = std::move(module.signature.inputs);
  out.outputSpecs = std::move(module.signature.outputs);
  out.call = std::move(module.calls.whole);
  return true;
}

Expected<ExportedProgram> parseExportedProgram(StringRef text, StringRef member) {
  Expected<Document> document = parseText(text, member);
  if (!document)
    return document.takeError();
  const Value &value = document->root();
  Path::Root root("");
  // The version first: another major version's fields would only give misleading errors.
  SchemaVersion version;
  ObjectMapper map(value, root);
  if (!map || !map.map("schema_version", version))
    return memberError(member, root.getError());
  if (version.major != 8)
    return createStringError(formatv("{0}: schema version {1}.{2} is not supported (expected 8.x)",
                                     member, version.major, version.minor)
                                 .str());
  ExportedProgram program;
  if (!fromJSON(value, program, root))
    return memberError(member, root.getError());
  return program;
}

//===-- Weights -----------------------------------------------------------------------------===//

static bool fromJSON(const Value &value, Payload &out, Path path) {
  ObjectMapper map(value, path);
  bool isParameter;
  if (!map || !map.map("path_name", out.pathName) || !map.map("is_param", isParameter) ||
      !map.map("use_pickle", out.usePickle) || !map.map("tensor_meta", out.meta))
    return false;
  if (out.meta || out.usePickle)
    return true;
  path.field("tensor_meta").report("missing value");
  return false;
}

Expected<PayloadConfig> parsePayloadConfig(StringRef text, StringRef member) {
  Expected<Document> document = parseText(text, member);
  if (!document)
    return document.takeError();
  Path::Root root("");
  PayloadConfig config;
  const Object *object = document->root().getAsObject();
  const Value *entries = object ? object->get("config") : nullptr;
  if (!entries) {
    Path(root).field("config").report("missing value");
    return memberError(member, root.getError());
  }
  if (!mapFromJSON(*entries, config, Path(root).field("config")))
    return memberError(member, root.getError());
  return config;
}

} // namespace kiln::frontend
