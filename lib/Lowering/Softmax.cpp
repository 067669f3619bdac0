// Softmax and its logarithm.
#include "ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// exp(x - max) / sum, or x - max - log(sum), along argument `dim`. Computed in the opmath type of
/// what the input is converted to.
static LogicalResult softmax(Call &call, bool logarithm) {
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
    return logarithm ? shifted - log(sum) : exp(shifted) / sum;
  }));
}

void lowering::registerSoftmax(LoweringTable &table) {
  table.add({"aten.softmax.int", "aten._softmax.default", "aten.special_softmax.default"},
            [](Call &call) { return softmax(call, false); });
  table.add(
      {"aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.default"},
      [](Call &call) { return softmax(call, true); });
}
