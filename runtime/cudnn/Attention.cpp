// Scaled dot-product attention: the graph of products and a softmax that cuDNN's flash engines know.
#include "Operation.h"

#include <limits>

using namespace kiln;
using namespace kiln::cudnn;

namespace {

/// attention(query, key, value, bias or None, scale, causal, which of query, key, value and the result
/// have heads behind their rows, finite, tf32). Key and value may have fewer heads, which divide the
/// query's.
class Attention : public Operation {
public:
  explicit Attention(const kiln_extern_call &call) : Operation(call) {
    // The first one whose softmax is an operation of its own. Newer ones know no other.
    Library::get().need(92100, "attention");
    externs::Arguments arguments(call);
    query = arguments.tensor();
    key = arguments.tensor();
    value = arguments.tensor();
    bias = arguments.tensor();
    scale = static_cast<float>(arguments.number());
    isCausal = arguments.boolean();
    for (bool &isSwapped : swapped)
      isSwapped = arguments.boolean();
    readNumerics(arguments);
  }

protected:
  Program make(Planner &planner, const std::vector<Shape> &shapes) const override;

private:
  /// [batch, heads, rows, features]
  Tensor describe(int tensor, const std::vector<Shape> &shapes, bool isSwapped) const;
  /// The bias with as many dims as the scores.
  Tensor describeBias(const std::vector<Shape> &shapes) const;
  /// The scores where a key is not behind its query, -infinity elsewhere.
  static int mask(Graph &graph, int scores, const Sizes &sizes);

  int query, key, value, bias;
  float scale;
  bool isCausal, swapped[4];
};

} // namespace

Tensor Attention::describe(int tensor, const std::vector<Shape> &shapes, bool isSwapped) const {
  Tensor made = {shapes[tensor].sizes, shapes[tensor].strides, getType(tensor)};
  if (isSwapped) {
    std::swap(made.sizes[1], made.sizes[2]);
    std::swap(made.strides[1], made.strides[2]);
  }
  return made;
}

Tensor Attention::describeBias(const std::vector<Shape> &shapes) const {
  Tensor made = {shapes[bias].sizes, shapes[bias].strides, getType(bias)};
  while (made.sizes.size() < 4) {
    made.strides.insert(made.strides.begin(), made.sizes.front() * made.strides.front());
    made.sizes.insert(made.sizes.begin(), 1);
  }
  return made;
}

int Attention::mask(Graph &graph, int scores, const Sizes &sizes) {
  int row = graph.addValue(sizes, CUDNN_DATA_INT32),
      column = graph.addValue(sizes, CUDNN_DATA_INT32);
  graph.index(row, scores, 2);
  graph.index(column, scores, 3);
  int isSeen = graph.addValue(sizes, CUDNN_DATA_BOOLEAN);
  graph.apply(CUDNN_POINTWISE_CMP_GE, isSeen, row, column, -1, CUDNN_DATA_BOOLEAN);
  int hidden = graph.addScalar(-std::numeric_limits<float>::infinity(), sizes.size());
  int masked = graph.addValue(sizes);
  graph.apply(CUDNN_POINTWISE_BINARY_SELECT, masked, scores, hidden, isSeen);
  return masked;
}

Program Attention::make(Planner &planner, const std::vector<Shape> &shapes) const {
  Tensor q = describe(query, shapes, swapped[0]), k = describe(key, shapes, swapped[1]),
         v = describe(value, shapes, swapped[2]), o = describe(result(), shapes, swapped[3]);
  // Keys are columns.
  std::swap(k.sizes[2], k.sizes[3]);
  std::swap(k.strides[2], k.strides[3]);
  Sizes scoreSizes = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[3]};

  Graph graph(planner.library);
  Program program;
  program.tensors = {query, key};
  int a = graph.addTensor(q), b = graph.addTensor(k), scores = graph.addValue(scoreSizes);
  graph.multiply(a, b, scores);
  auto apply = [&](int mode, int x, int other) {
    int y = graph.addValue(scoreSizes);
    graph.apply(mode, y, x, other);
    return y;
  };
  scores = apply(CUDNN_POINTWISE_MUL, scores, graph.addScalar(scale, 4));
  if (bias >= 0) {
    program.tensors.push_back(bias);
    scores = apply(CUDNN_POINTWISE_ADD, scores, graph.addTensor(describeBias(shapes)));
  }
  if (isCausal)
    scores = mask(graph, scores, scoreSizes);

  int weights = graph.addValue(scoreSizes, q.type);
  graph.softmax(scores, weights);
  program.tensors.insert(program.tensors.end(), {value, result()});
  int values = graph.addTensor(v), to = graph.addTensor(o);
  graph.multiply(weights, values, to);

  program.plan = planner.plan(graph, 0, "attention");
  return program;
}

std::unique_ptr<Operation> cudnn::makeAttention(const kiln_extern_call &call) {
  return std::make_unique<Attention>(call);
}
