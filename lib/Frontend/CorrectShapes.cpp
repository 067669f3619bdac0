// Shapes that export gets wrong. Along dim -1 it declares the values of `unique_consecutive` as
// `shape[:-1] + [number] + shape[0:]`, for the dims behind are those from -1 + 1, and the counts to
// be as many as the last of these.
#include "GraphJson.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace kiln::frontend {

static std::string textOf(const SymInt &value) {
  if (auto *text = std::get_if<ExprText>(&value))
    return text->text;
  return "Integer(" + std::to_string(std::get<int64_t>(value)) + ")";
}

static SymInt product(const SymInt &a, const SymInt &b) {
  auto *x = std::get_if<int64_t>(&a), *y = std::get_if<int64_t>(&b);
  if (x && *x == 1)
    return b;
  if (y && *y == 1)
    return a;
  return ExprText{"Mul(" + textOf(a) + ", " + textOf(b) + ")"};
}

static void setSizes(TensorMeta &meta, std::vector<SymInt> sizes) {
  meta.sizes = std::move(sizes);
  meta.strides.assign(meta.sizes.size(), int64_t(1));
  for (size_t dim = meta.sizes.size(); dim-- > 1;)
    meta.strides[dim - 1] = product(meta.strides[dim], meta.sizes[dim]);
}

/// The tensor that `argument` names; null where it is none.
static TensorMeta *tensor(Graph &graph, const Argument &argument) {
  auto *ref = std::get_if<TensorRef>(&argument.value);
  auto it = ref ? graph.tensorValues.find(ref->name) : graph.tensorValues.end();
  return it == graph.tensorValues.end() ? nullptr : &it->second;
}

static bool isAlongLastDim(const Node &node) {
  return any_of(node.inputs, [](const NamedArgument &input) {
    auto *dim = std::get_if<int64_t>(&input.arg.value);
    return input.name == "dim" && dim && *dim == -1;
  });
}

static void correctUniqueConsecutive(Graph &graph, const Node &node) {
  if (node.inputs.empty() || node.outputs.size() != 3 || !isAlongLastDim(node))
    return;
  TensorMeta *self = tensor(graph, node.inputs[0].arg), *values = tensor(graph, node.outputs[0]),
             *counts = tensor(graph, node.outputs[2]);
  size_t rank = self ? self->sizes.size() : 0;
  if (!rank || !values || !counts || values->sizes.size() != 2 * rank ||
      ArrayRef(self->sizes) != ArrayRef(values->sizes).take_back(rank))
    return;
  setSizes(*values, {values->sizes.begin(), values->sizes.begin() + rank});
  setSizes(*counts, {values->sizes.back()});
}

void correctShapes(Graph &graph) {
  for (const Node &node : graph.nodes)
    if (node.target == "torch.ops.aten.unique_consecutive.default")
      correctUniqueConsecutive(graph, node);
}

} // namespace kiln::frontend
