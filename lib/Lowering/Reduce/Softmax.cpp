// Softmax and its logarithm.
#include "kiln/Dialect/Kernel/Builder/Softmax.h"
#include "Core/ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Along argument `dim`, computed in the opmath type of what the input is converted to.
static LogicalResult lowerSoftmax(Call &call, SoftmaxKind kind) {
  Value tensor = call.tensor(0);
  Type type = opmath(call.resultType());
  int64_t rank = rankOf(tensor);
  if (!isFloat(type))
    return call.refuse("this dtype");
  SmallVector<int64_t> dims;
  if (rank > 0)
    dims.push_back(call.dim("dim", rank));
  ReducedDims reduced(tensor, dims);
  return call.set(call.kernels.map(reduced.shape, call.resultType(), [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner) {
      return convert(inner.read(tensor, reduced.indexFromTensor(inner)), type);
    };
    return softmax(body, convert(body.broadcast(tensor), type), reduced.extents, read, kind);
  }));
}

/// The gradient of the softmax: y * (g - sum(y * g)), along argument `dim`; of its logarithm: g -
/// exp(y) * sum(g).
static LogicalResult softmaxBackward(Call &call, bool logarithm) {
  Value gradient = call.tensor("grad_output"), output = call.tensor("output");
  Type type = elementType(output), wide = opmath(type);
  int64_t rank = rankOf(output);
  if (!isFloat(type) || elementType(gradient) != type ||
      !call.fits(shapeOf(gradient), shapeOf(output), "a gradient of another shape"))
    return call.refuse("these dtypes or shapes");
  SmallVector<int64_t> dims;
  if (rank > 0)
    dims.push_back(call.dim("dim", rank));
  ReducedDims reduced(output, dims);
  return call.set(call.kernels.map(reduced.shape, call.resultType(), [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner, Value tensor) {
      return convert(inner.read(tensor, reduced.indexFromTensor(inner)), wide);
    };
    Element sum = body.sum(reduced.extents, wide, [&](BodyBuilder &inner) {
      Element g = read(inner, gradient);
      return logarithm ? g : g * read(inner, output);
    });
    Element g = convert(body.broadcast(gradient), wide), y = convert(body.broadcast(output), wide);
    return logarithm ? g - exp(y) * sum : y * (g - sum);
  }));
}

void lowering::registerSoftmax(LoweringTable &table) {
  table.add({"aten.softmax.int", "aten._softmax.default", "aten.special_softmax.default"},
            [](Call &call) { return lowerSoftmax(call, SoftmaxKind::Plain); });
  table.add("aten._safe_softmax.default",
            [](Call &call) { return lowerSoftmax(call, SoftmaxKind::Safe); });
  table.add("aten._softmax_backward_data.default",
            [](Call &call) { return softmaxBackward(call, false); });
  table.add("aten._log_softmax_backward_data.default",
            [](Call &call) { return softmaxBackward(call, true); });
  table.add(
      {"aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.default"},
      [](Call &call) { return lowerSoftmax(call, SoftmaxKind::Logarithm); });
}
