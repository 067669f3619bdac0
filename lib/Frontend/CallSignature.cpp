// How Python calls a program: the containers that its inputs and outputs are in, and the inputs that export made constants of.
#include "CallSignature.h"
#include "Json.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace llvm;

namespace kiln::frontend {

/// Of containers in containers: more than any program has, and what readers of JSON take.
static constexpr unsigned maxNesting = 100;

/// The same value for the writer; null for what is nested too deeply.
static llvm::json::Value toJson(const json::Value &value, unsigned depth = 0) {
  if (std::optional<bool> boolean = value.getAsBool())
    return *boolean;
  if (std::optional<int64_t> integer = value.getAsInteger())
    return *integer;
  if (std::optional<double> real = value.getAsNumber())
    return *real;
  if (std::optional<StringRef> text = value.getAsString())
    return text->str();
  llvm::json::Array elements;
  llvm::json::Object members;
  if (depth < maxNesting) {
    if (const ArrayRef<json::Value> *array = value.getAsArray()) {
      for (const json::Value &element : *array)
        elements.push_back(toJson(element, depth + 1));
      return elements;
    }
    if (const json::Object *object = value.getAsObject()) {
      for (const json::Member &member : *object)
        members[member.key.str()] = toJson(member.value, depth + 1);
      return members;
    }
  }
  return nullptr;
}

namespace {
/// Writes a tree of containers: null for a leaf, `[type, context, [children]]` otherwise.
class TreeWriter {
public:
  explicit TreeWriter(llvm::json::OStream &out) : out(out) {}

  bool write(const json::Value &node, unsigned depth = 0) {
    const json::Object *fields = node.getAsObject();
    const json::Value *type = fields ? fields->get("type") : nullptr;
    const json::Value *context = fields ? fields->get("context") : nullptr;
    const json::Value *children = fields ? fields->get("children_spec") : nullptr;
    bool isNode = type && context && children && children->getAsArray() && depth <= maxNesting &&
                  (type->isNull() || type->getAsString());
    if (!isNode || type->isNull()) {
      ++numLeaves;
      out.value(nullptr); // the writer takes no place without a value
      return isNode && children->getAsArray()->empty();
    }
    bool isGood = true;
    out.array([&] {
      out.value(*type->getAsString());
      out.value(toJson(*context));
      out.array([&] {
        for (const json::Value &child : *children->getAsArray())
          isGood = isGood && write(child, depth + 1);
      });
    });
    return isGood;
  }

  size_t numLeaves = 0;

private:
  llvm::json::OStream &out;
};
} // namespace

/// A tree that has as many leaves as it should, as JSON.
static std::optional<std::string> describeTree(StringRef text, size_t numLeaves) {
  Expected<json::Document> document = json::Document::parse(text);
  if (!document) {
    consumeError(document.takeError());
    return std::nullopt;
  }
  const ArrayRef<json::Value> *parts = document->root().getAsArray();
  if (!parts || parts->size() != 2 || (*parts)[0].getAsInteger() != 1)
    return std::nullopt; // another version of the format
  std::string result;
  raw_string_ostream stream(result);
  llvm::json::OStream out(stream);
  TreeWriter writer(out);
  if (!writer.write((*parts)[1]) || writer.numLeaves != numLeaves)
    return std::nullopt;
  out.flush();
  return result;
}

/// The value of an input that export made a constant.
static std::optional<llvm::json::Value> constantValue(const Argument &input) {
  if (std::holds_alternative<None>(input.value))
    return llvm::json::Value(nullptr);
  if (auto *boolean = std::get_if<bool>(&input.value))
    return llvm::json::Value(*boolean);
  if (auto *integer = std::get_if<int64_t>(&input.value))
    return llvm::json::Value(*integer);
  if (auto *real = std::get_if<double>(&input.value); real && std::isfinite(*real))
    return llvm::json::Value(*real);
  if (auto *text = std::get_if<std::string>(&input.value))
    return llvm::json::Value(*text);
  return std::nullopt;
}

/// For each leaf of the inputs, the position of the model's input, or `{"value": …}`, with a dtype if that is a float.
static std::optional<llvm::json::Array> describeInputs(const ExportedProgram &program) {
  llvm::json::Array leaves;
  int64_t position = 0;
  for (auto [spec, input] : zip(program.inputSpecs, program.graph.inputs)) {
    if (spec.kind != InputKind::User && spec.kind != InputKind::Constant)
      continue;
    if (spec.kind == InputKind::User && !spec.name.empty()) {
      leaves.push_back(position++);
      continue;
    }
    std::optional<llvm::json::Value> value = constantValue(input);
    if (!value)
      return std::nullopt;
    llvm::json::Object leaf{{"value", std::move(*value)}};
    if (std::holds_alternative<double>(input.value)) // 2.0 is written as 2
      leaf["dtype"] = "float64";
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

/// For each output, true if it is a number of Python's, false if it is none, and `{"value": …}` for a text.
static llvm::json::Array describeOutputs(const ExportedProgram &program) {
  llvm::json::Array leaves;
  for (auto [spec, output] : zip(program.outputSpecs, program.graph.outputs))
    if (spec.kind != OutputKind::BufferMutation && spec.kind != OutputKind::ParameterMutation &&
        spec.kind != OutputKind::InputMutation && spec.kind != OutputKind::Token) {
      if (auto *text = std::get_if<std::string>(&output.value))
        leaves.push_back(llvm::json::Object{{"value", *text}});
      else
        leaves.push_back(!std::holds_alternative<TensorRef>(output.value) &&
                         !std::holds_alternative<None>(output.value));
    }
  return leaves;
}

std::optional<std::string> describeCall(const ExportedProgram &program) {
  if (!program.call)
    return std::nullopt;
  std::optional<llvm::json::Array> inputs = describeInputs(program);
  if (!inputs)
    return std::nullopt;
  llvm::json::Array outputs = describeOutputs(program), names;
  std::optional<std::string> inputTree = describeTree(program.call->inputs, inputs->size());
  std::optional<std::string> outputTree = describeTree(program.call->outputs, outputs.size());
  if (!inputTree || !outputTree)
    return std::nullopt;
  for (const std::string &name : program.call->names)
    names.push_back(name);
  std::string text;
  raw_string_ostream stream(text);
  llvm::json::OStream out(stream);
  out.object([&] {
    out.attributeBegin("arguments");
    out.rawValue(*inputTree);
    out.attributeEnd();
    out.attribute("names", std::move(names));
    out.attribute("inputs", std::move(*inputs));
    out.attributeBegin("results");
    out.rawValue(*outputTree);
    out.attributeEnd();
    out.attribute("numbers", std::move(outputs));
  });
  return text;
}

} // namespace kiln::frontend
