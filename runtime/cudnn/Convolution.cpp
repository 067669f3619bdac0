// Convolutions, with what comes behind them: engines have a sum and a function where there is a bias, so
// that zeros stand for one where there is none.
#include "Operation.h"

#include <algorithm>

using namespace kiln;
using namespace kiln::cudnn;

namespace {

/// convolution(source, weights, bias or None, strides, padding, dilation, groups, whether channels
/// are the source's and the result's last dim, post-ops, the operand of "add" if that is the first of
/// them, finite, tf32).
class Convolution : public Operation {
public:
  explicit Convolution(const kiln_extern_call &call) : Operation(call) {
    externs::Arguments arguments(call);
    source = arguments.tensor();
    weights = arguments.tensor();
    bias = arguments.tensor();
    strides = arguments.integers();
    padding = arguments.integers();
    dilation = arguments.integers();
    groups = arguments.integers().at(0);
    isSourceLast = arguments.boolean();
    isResultLast = arguments.boolean();
    bool hasSum = false;
    for (uint32_t left = arguments.list(); left; --left) {
      std::string name = arguments.text();
      if (name == "add" && !hasSum && !hasRelu)
        hasSum = true;
      else if (name == "relu" && !hasRelu)
        hasRelu = true;
      else
        throw Failure{KILN_UNSUPPORTED, name + " cannot come behind this convolution"};
    }
    if (hasSum)
      added = arguments.tensor();
    readNumerics(arguments);
  }

protected:
  Program make(Planner &planner, const std::vector<Shape> &shapes) const override;

private:
  Tensor describe(const Shape &shape, int type, bool isLast) const;
  /// Adds what comes behind the convolution `y`, and the result.
  void finish(Graph &graph, int y, const Tensor &to, Program &program,
              const std::vector<Shape> &shapes) const;
  bool isPlain() const { return bias < 0 && added < 0 && !hasRelu; }

  int source, weights, bias, added = -1;
  bool hasRelu = false;
  Sizes strides, padding, dilation;
  int64_t groups;
  bool isSourceLast, isResultLast;
};

} // namespace

/// In cuDNN's order, channels second. Convolutions over lines are over images of one line.
Tensor Convolution::describe(const Shape &shape, int type, bool isLast) const {
  Tensor tensor = {shape.sizes, shape.strides, type};
  if (isLast) {
    std::rotate(tensor.sizes.begin() + 1, tensor.sizes.end() - 1, tensor.sizes.end());
    std::rotate(tensor.strides.begin() + 1, tensor.strides.end() - 1, tensor.strides.end());
  }
  if (tensor.sizes.size() == 3) {
    tensor.sizes.insert(tensor.sizes.begin() + 2, 1);
    tensor.strides.insert(tensor.strides.begin() + 2, tensor.sizes[3] * tensor.strides[2]);
  }
  return tensor;
}

void Convolution::finish(Graph &graph, int y, const Tensor &to, Program &program,
                         const std::vector<Shape> &shapes) const {
  auto add = [&](int tensor, const Tensor &other, bool isLast) {
    program.tensors.push_back(tensor);
    int number = graph.addTensor(other);
    if (isLast)
      program.tensors.push_back(result());
    int sum = isLast ? graph.addTensor(to) : graph.addValue(to.sizes);
    graph.apply(CUDNN_POINTWISE_ADD, sum, y, number);
    y = sum;
  };
  // Sum, bias, function: the order that engines know.
  if (added >= 0)
    add(added, describe(shapes[added], getType(added), isResultLast), false);
  Tensor vector = {Sizes(to.sizes.size(), 1), Sizes(to.sizes.size(), 1), to.type};
  vector.sizes[1] = vector.strides[0] = to.sizes[1];
  if (bias < 0)
    program.zeroBytes = static_cast<size_t>(to.sizes[1]) * (call.tensors[result()].bits / 8);
  add(bias < 0 ? zeros : bias, vector, !hasRelu);
  if (!hasRelu)
    return;
  program.tensors.push_back(result());
  graph.apply(CUDNN_POINTWISE_RELU_FWD, graph.addTensor(to), y);
}

Program Convolution::make(Planner &planner, const std::vector<Shape> &shapes) const {
  Tensor from = describe(shapes[source], getType(source), isSourceLast),
         with = describe(shapes[weights], getType(weights), false),
         to = describe(shapes[result()], getType(result()), isResultLast);
  if (from.sizes[1] != groups * with.sizes[1])
    throw Failure{KILN_INTERNAL, "its channels are not those of its weights"};
  Sizes windowStrides = strides, windowPadding = padding, windowDilation = dilation;
  if (strides.size() == 1) {
    windowStrides.insert(windowStrides.begin(), 1);
    windowPadding.insert(windowPadding.begin(), 0);
    windowDilation.insert(windowDilation.begin(), 1);
  }
  Program program;
  program.tensors = {source, weights};
  Graph graph(planner.library);
  int x = graph.addTensor(from), w = graph.addTensor(with);
  if (isPlain())
    program.tensors.push_back(result());
  int y = isPlain() ? graph.addTensor(to) : graph.addValue(to.sizes);
  graph.convolve(x, w, y, windowStrides, windowPadding, windowDilation);
  if (!isPlain())
    finish(graph, y, to, program, shapes);
  program.plan = planner.plan(graph, program.zeroBytes, "a convolution");
  return program;
}

std::unique_ptr<Operation> cudnn::makeConvolution(const kiln_extern_call &call) {
  return std::make_unique<Convolution>(call);
}
