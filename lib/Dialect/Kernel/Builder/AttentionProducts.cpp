// Attention as two products and a softmax.
#include "kiln/Dialect/Kernel/Builder/AttentionProducts.h"
#include "kiln/Dialect/Kernel/Builder/Softmax.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// scale * q kᵀ + bias, or what `score` makes of them, or -inf for keys that a query does not see, [batch…, m, n].
static Value makeScores(KernelBuilder &kernels, const AttentionSpec &spec,
                        std::optional<double> scale, Type wide) {
  unsigned rank = spec.batch.size();
  Contraction product;
  product.batch = spec.batch;
  product.m = {spec.m};
  product.n = {spec.n};
  product.k = {spec.d};
  product.lhs = spec.q;
  product.rhs = spec.k;
  auto finish = [&](BodyBuilder &body, Element sum) {
    Element factor = sum.constant(scale.value_or(0));
    if (!scale) {
      // Scores without features are zero.
      Expr features = Expr::max(spec.d, Expr(1));
      Element size = convert(body.index(features), Float64Type::get(wide.getContext()));
      factor = convert(rsqrt(size), sum.type());
    }
    Element score = sum * factor, bias;
    if (spec.bias)
      bias = convert(spec.bias(body), sum.type());
    if (spec.score)
      score = spec.score(body, score, bias);
    else if (bias)
      score = score + bias;
    if (!spec.causal)
      return score;
    return select(body.index(body.dim(rank + 1)) <= body.index(body.dim(rank)), score,
                  lowest(body.b(), sum.type()));
  };
  product.epilogue = finish;
  return kernels.contract(product, wide);
}

Value kernel::attentionOfProducts(KernelBuilder &kernels, const AttentionSpec &spec,
                                  std::optional<double> scale,
                                  function_ref<Element(BodyBuilder &, Expr n, Expr dv)> value,
                                  Type type, Type weightType) {
  unsigned rank = spec.batch.size();
  Value scores = makeScores(kernels, spec, scale, opmath(type));
  Value weights = kernels.map(shapeOf(scores), weightType, [&](BodyBuilder &body) {
    auto read = [&](BodyBuilder &inner) {
      Exprs at = inner.dims(0, rank + 1);
      at.push_back(inner.dim(rank + 2));
      return inner.read(scores, at);
    };
    return softmax(body, body.broadcast(scores), {spec.n}, read,
                   spec.nan ? SoftmaxKind::Plain : SoftmaxKind::Safe);
  });
  Contraction mean;
  mean.batch = spec.batch;
  mean.m = {spec.m};
  mean.n = {spec.dv};
  mean.k = {spec.n};
  mean.perm = spec.perm;
  auto readWeight = [&](BodyBuilder &body) {
    Exprs at = body.dims(0, rank + 1);
    at.push_back(body.dim(rank + 2));
    return body.read(weights, at);
  };
  auto readValue = [&](BodyBuilder &body) {
    return convert(value(body, body.dim(rank + 2), body.dim(rank + 1)), weightType);
  };
  mean.lhs = readWeight;
  mean.rhs = readValue;
  return kernels.contract(mean, type);
}
