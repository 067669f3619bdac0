// Softmax and its logarithm.
#include "ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// exp(x - max) / sum, or x - max - log(sum), along argument `dim`. Computed in the opmath type of
/// what the input is converted to. `safe`: 0 for rows of nothing but -inf.
static LogicalResult softmax(Call &call, bool logarithm, bool safe = false) {
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
    Element largest = body.max(reduced.extents, type, read);
    Element sum = body.sum(reduced.extents, type,
                           [&](BodyBuilder &inner) { return exp(read(inner) - largest); });
    Element shifted = convert(body.broadcast(tensor), type) - largest;
    if (logarithm)
      return shifted - log(sum);
    Element value = exp(shifted) / sum;
    return safe ? select(largest == lowest(body.b(), type), value.constant(0), value) : value;
  }));
}

/// Of the softmax: y * g - y * sum(y * g), along argument `dim`; of its logarithm: g - exp(y) *
/// sum(g).
static LogicalResult softmaxBackward(Call &call, bool logarithm) {
  Value gradient = call.tensor("grad_output"), output = call.tensor("output");
  Type type = elementType(output), wide = opmath(type);
  int64_t rank = rankOf(output);
  if (!isFloat(type) || elementType(gradient) != type ||
      !call.kernels.isSame(shapeOf(gradient), shapeOf(output)))
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
    return logarithm ? g - exp(y) * sum : g * y - y * sum;
  }));
}

void lowering::registerSoftmax(LoweringTable &table) {
  table.add({"aten.softmax.int", "aten._softmax.default", "aten.special_softmax.default"},
            [](Call &call) { return softmax(call, false); });
  table.add("aten._safe_softmax.default", [](Call &call) { return softmax(call, false, true); });
  table.add("aten._softmax_backward_data.default",
            [](Call &call) { return softmaxBackward(call, false); });
  table.add("aten._log_softmax_backward_data.default",
            [](Call &call) { return softmaxBackward(call, true); });
  table.add(
      {"aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.default"},
      [](Call &call) { return softmax(call, true); });
}
