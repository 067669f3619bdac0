// Mutations of exported programs that leave them whole: other operators with the same parameters, more nodes, other dtypes, sizes
// and arguments, sizes that become symbols. Such programs get further into the compiler than those with a hole in them.
#ifndef KILN_TEST_FUZZ_PROGRAMMUTATOR_H
#define KILN_TEST_FUZZ_PROGRAMMUTATOR_H

#include "kiln/Dialect/Torch/OpSchema.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include <random>
#include <vector>

/// Operators by what they take and give.
class OperatorFamilies {
public:
  OperatorFamilies() {
    llvm::SmallVector<llvm::StringRef> lines;
    kiln::torch::schemaTable().split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef line : lines) {
      auto [name, signature] = line.split('(');
      names[signature].push_back(name);
      signatures[name] = signature;
    }
  }

  /// Those with the parameters of `name`; empty: it is unknown.
  llvm::ArrayRef<llvm::StringRef> like(llvm::StringRef name) const {
    auto signature = signatures.find(name);
    if (signature == signatures.end())
      return {};
    return names.find(signature->second)->second;
  }

private:
  llvm::StringMap<std::vector<llvm::StringRef>> names;
  llvm::StringMap<llvm::StringRef> signatures;
};

class ProgramMutator {
public:
  ProgramMutator(llvm::json::Value &document, unsigned seed) : random(seed), document(document) {
    collect(document, nullptr);
  }

  void run() {
    if (nodes.empty() || tensors.empty())
      return;
    switch (random() % 8) {
    case 0:
    case 1:
      return changeOperator();
    case 2:
    case 3:
      return addNode();
    case 4:
      return changeDtype();
    case 5:
      return changeSize();
    case 6:
      return openSize();
    default:
      return changeArgument();
    }
  }

private:
  using Object = llvm::json::Object;
  using Array = llvm::json::Array;
  using Value = llvm::json::Value;
  using Node = std::pair<Object *, Object *>; // and its graph

  void collect(Value &value, Object *graph) {
    if (Array *array = value.getAsArray())
      for (Value &item : *array)
        collect(item, graph);
    Object *object = value.getAsObject();
    if (!object)
      return;
    if (object->getArray("nodes") && object->getObject("tensor_values"))
      graph = object;
    if (graph && object->getString("target") && object->getArray("inputs"))
      nodes.push_back({object, graph});
    // One inside of another could be gone when it is its turn.
    if (object->getArray("sizes") && object->getArray("strides") && object->getInteger("dtype"))
      return tensors.push_back(object);
    for (auto &[key, item] : *object)
      collect(item, graph);
  }

  template <typename T> auto &pick(T &&values) { return values[random() % std::size(values)]; }

  static const OperatorFamilies &families() {
    static const OperatorFamilies all;
    return all;
  }

  void changeOperator() {
    Value &target = *pick(nodes).first->get("target");
    llvm::StringRef name = *target.getAsString();
    name.consume_front("torch.ops.");
    if (llvm::ArrayRef<llvm::StringRef> others = families().like(name); !others.empty())
      target = "torch.ops." + pick(others).str();
  }

  static Object argument(llvm::StringRef name, llvm::StringRef tensor) {
    return Object{{"name", name.str()},
                  {"kind", 1},
                  {"arg", Object{{"as_tensor", Object{{"name", tensor.str()}}}}}};
  }

  /// A node between a node and one of its operands, with as many elements.
  void addNode() {
    Object *node, *graph;
    std::tie(node, graph) = pick(nodes);
    Array &all = *graph->getArray("nodes");
    auto find = [&] {
      return llvm::find_if(all, [&](Value &item) { return item.getAsObject() == node; });
    };
    if (find() == all.end()) // elsewhere in the graph
      return;
    Array &operands = *node->getArray("inputs");
    Object *input = operands.empty() ? nullptr : pick(operands).getAsObject();
    Object *arg = input ? input->getObject("arg") : nullptr;
    Object *tensor = arg ? arg->getObject("as_tensor") : nullptr;
    Object &values = *graph->getObject("tensor_values");
    const Value *name = tensor ? tensor->get("name") : nullptr;
    const Value *meta = name && name->getAsString() ? values.get(*name->getAsString()) : nullptr;
    if (!meta || !meta->getAsObject())
      return;
    std::string operand = name->getAsString()->str(), added = "added_" + llvm::utostr(random());
    Array inputs{argument("self", operand)};
    llvm::StringRef like = "aten.relu.default";
    if (random() % 2) {
      like = "aten.maximum.default";
      inputs.push_back(argument("other", operand));
    }
    Value copy = *meta;
    values[added] = std::move(copy);
    (*tensor)["name"] = added;
    Value made = Object{{"target", "torch.ops." + pick(families().like(like)).str()},
                        {"inputs", std::move(inputs)},
                        {"outputs", Array{Object{{"as_tensor", Object{{"name", added}}}}}},
                        {"metadata", Object()},
                        {"is_hop_single_tensor_return", nullptr},
                        {"name", added}};
    all.insert(find(), std::move(made));
  }

  void changeDtype() {
    int64_t from = *pick(tensors)->getInteger("dtype"), to = 1 + random() % 29;
    for (Object *tensor : tensors)
      if (tensor->getInteger("dtype") == from)
        (*tensor)["dtype"] = to;
  }

  static std::optional<int64_t> getInteger(const Value &value) {
    const Object *object = value.getAsObject();
    return object ? object->getInteger("as_int") : std::nullopt;
  }

  /// Every size that is `from` becomes another, and tensors stay contiguous if they were.
  void replaceSize(int64_t from, const Value &to, llvm::StringRef text) {
    for (Object *tensor : tensors) {
      Array &sizes = *tensor->getArray("sizes"), &strides = *tensor->getArray("strides");
      if (llvm::none_of(sizes, [&](const Value &size) { return getInteger(size) == from; }) ||
          sizes.size() != strides.size())
        continue;
      std::vector<std::string> factors;
      int64_t product = 1;
      for (size_t i = sizes.size(); i-- > 0;) {
        std::optional<int64_t> size = getInteger(sizes[i]);
        bool isReplaced = size == from;
        if (!factors.empty())
          strides[i] = Object{
              {"as_expr", Object{{"expr_str", llvm::formatv("Mul(Integer({0}), {1})", product,
                                                            llvm::join(factors, ", "))
                                                  .str()},
                                 {"hint", Object{{"as_int", product}}}}}};
        else
          strides[i] = Object{{"as_int", product}};
        if (isReplaced)
          sizes[i] = to;
        std::optional<int64_t> now = getInteger(sizes[i]);
        if (now)
          product = static_cast<int64_t>(static_cast<uint64_t>(product) * *now);
        else if (isReplaced)
          factors.push_back(text.str());
        else
          break; // another symbol: what is outside of it stays
      }
    }
  }

  std::optional<int64_t> pickSize() {
    Array &sizes = *pick(tensors)->getArray("sizes");
    return sizes.empty() ? std::nullopt : getInteger(pick(sizes));
  }

  void changeSize() {
    static const int64_t others[] = {0,  1,  2,  3,   5,    8,       15,      16,       17,
                                     31, 33, 64, 100, 1000, 1 << 20, 1 << 30, 1LL << 31};
    if (std::optional<int64_t> from = pickSize())
      replaceSize(*from, Object{{"as_int", pick(others)}}, "");
  }

  void openSize() {
    std::optional<int64_t> from = pickSize();
    Object *program =
        document.getAsObject() ? document.getAsObject()->getObject("program") : nullptr;
    Object *ranges = program ? program->getObject("range_constraints") : nullptr;
    if (!from || !ranges)
      return;
    std::string name = "s" + llvm::utostr(random() % 4);
    std::string text = "Symbol('" + name + "', positive=True, integer=True)";
    (*ranges)[name] = Object{{"min_val", static_cast<int64_t>(random() % 3)}, {"max_val", nullptr}};
    replaceSize(
        *from, Object{{"as_expr", Object{{"expr_str", text}, {"hint", Object{{"as_int", *from}}}}}},
        text);
  }

  void changeArgument() {
    Array &inputs = *pick(nodes).first->getArray("inputs");
    if (inputs.empty())
      return;
    Object *input = pick(inputs).getAsObject(), *arg = input ? input->getObject("arg") : nullptr;
    if (!arg || arg->empty())
      return;
    static const int64_t integers[] = {-3, -2, -1,      0,         1,         2,        3,
                                       4,  7,  1 << 16, INT32_MAX, INT64_MAX, INT64_MIN};
    static const double reals[] = {0, -0.0, 1, -1, 0.5, 1e-30, 1e300};
    Value &value = arg->begin()->second;
    llvm::StringRef kind = arg->begin()->first;
    if (kind == "as_int")
      value = pick(integers);
    else if (kind == "as_float")
      value = pick(reals);
    else if (kind == "as_bool")
      value = random() % 2 == 0;
    else if (Array *array = value.getAsArray(); array && kind == "as_ints" && !array->empty())
      pick(*array) = pick(integers);
  }

  std::minstd_rand random;
  Value &document;
  std::vector<Node> nodes;
  std::vector<Object *> tensors;
};

#endif // KILN_TEST_FUZZ_PROGRAMMUTATOR_H
