// The inverse of pooling.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Elements at the given places of otherwise empty planes: [N, C, …] or [C, …].
static Lowering maxUnpool(unsigned spatial) {
  return [spatial](Call &call) -> LogicalResult {
    Value self = call.tensor(0), indices = call.tensor(1);
    Exprs shape = shapeOf(self), plane = call.symInts("output_size", spatial);
    if (shape.size() < spatial + 1 || !isInt(elementType(indices)) ||
        !call.fits(shapeOf(indices), shape, "indices of another shape"))
      return call.refuse("these shapes or dtypes");
    Type type = elementType(self);
    size_t rank = shape.size() - spatial;
    ScatterSpec spec;
    spec.batch.assign(shape.begin(), shape.begin() + rank);
    spec.targets = {sym::product(plane)};
    spec.places.assign(shape.begin() + rank, shape.end());
    auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
    auto update = [&](BodyBuilder &body) {
      Exprs at = body.dims(0, rank);
      llvm::append_range(at, body.dims(rank + 1, body.numDims()));
      return ScatterSpec::Write{{body.read(indices, at)}, {}, body.read(self, at)};
    };
    spec.init = init;
    spec.update = update;
    Value flat = call.kernels.scatter(spec, type);
    return call.set(call.kernels.reshape(flat, call.resultShape()));
  };
}

void lowering::registerUnpool(LoweringTable &table) {
  table.add("aten.max_unpool2d.default", maxUnpool(2));
  table.add("aten.max_unpool3d.default", maxUnpool(3));
}
