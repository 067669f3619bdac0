// Softmax and its logarithm over a dim, as maps with reductions.
#include "kiln/Dialect/Kernel/Builder/Softmax.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

Element kernel::softmax(BodyBuilder &body, Element x, ArrayRef<Expr> extents,
                        BodyBuilder::Body read, SoftmaxKind kind) {
  Element largest = body.max(extents, x.type(), read);
  Element sum =
      body.sum(extents, x.type(), [&](BodyBuilder &inner) { return exp(read(inner) - largest); });
  if (kind == SoftmaxKind::Logarithm)
    return x - largest - log(sum);
  // The sum is at least 1: one division for all elements neither overflows nor underflows.
  Element value = exp(x - largest) * (sum.constant(1) / sum);
  if (kind == SoftmaxKind::Plain)
    return value;
  return select(largest == lowest(body.b(), x.type()), value.constant(0), value);
}
