// scaled_dot_product_attention, as kernel.attention; with heads of a size that only the run knows,
// or very large ones, as two products with a softmax between them.
#include "Linalg/Linalg.h"
#include "kiln/Dialect/Kernel/Builder/AttentionProducts.h"
#include "kiln/Lowering/Lowering.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Targets keep a row of features beside a tile of scores.
static constexpr int64_t mostFeatures = 4096;

namespace {
/// query [batch…, m, d], key [batch…, n, d], value [batch…, n, dv], mask broadcast to [batch…, m,
/// n].
struct Attention {
  Value query, key, value, mask;
  std::optional<double> scale;
  bool causal, grouped;
};
} // namespace

/// Broadcast batch dims of all three, also of different ranks; nullopt if they do not fit. With `grouped`, the last batch
/// dim (the heads) of key and value divides the query's, and ranks are the same.
static std::optional<Exprs> batchDims(Call &call, const Attention &a) {
  SmallVector<Exprs> batches;
  for (Value tensor : {a.query, a.key, a.value}) {
    if (rankOf(tensor) < 2 || (a.grouped && rankOf(tensor) != rankOf(a.query)))
      return std::nullopt;
    batches.push_back(Exprs(batchOf(shapeOf(tensor))));
  }
  std::optional<Expr> heads;
  if (a.grouped && !batches.front().empty()) {
    heads = batches.front().back();
    for (Exprs &batch : batches)
      batch.pop_back();
  }
  auto batch = commonDims(call, batches, "query, key and value of different batches");
  if (batch && heads)
    batch->push_back(*heads);
  return batch;
}

/// An element of query, key or value, of which one head serves `group` heads of the query.
static Element readHeads(BodyBuilder &body, Value tensor, const Exprs &batch, Expr group, Expr row,
                         Expr column) {
  unsigned rank = batch.size();
  Exprs at = body.dims(0, rank), shape = batch, own = shapeOf(tensor);
  if (rank > 0 && !group.isConstant(1)) {
    at.back() = at.back().floorDiv(group);
    shape.back() = own[rank - 1];
  }
  at.append({row, column});
  shape.append({own[own.size() - 2], own.back()});
  return body.broadcast(tensor, at, shape);
}

static Element readBias(BodyBuilder &body, Value mask, const AttentionSpec &spec, Type type) {
  Exprs at = body.dims(0, spec.batch.size() + 2), shape = spec.batch;
  shape.append({spec.m, spec.n});
  Element element = body.broadcast(mask, at, shape);
  if (isBool(element.type()))
    return select(element, body.constant(type, 0), lowest(body.b(), type));
  return convert(element, type);
}

/// Null, with a reason, for what cannot be expressed.
static Value lowerAttention(Call &call, const Attention &a) {
  auto refuse = [&](const Twine &reason) {
    call.kernels.fail(reason);
    return Value();
  };
  Type type = elementType(a.query);
  if (!isFloat(type) || elementType(a.key) != type || elementType(a.value) != type ||
      call.resultType() != type)
    return refuse("these dtypes");
  auto batch = batchDims(call, a);
  Exprs q = shapeOf(a.query), k = shapeOf(a.key), v = shapeOf(a.value);
  if (!batch || !call.fits(q.back(), k.back(), "query and key of different features"))
    return refuse("shapes of query, key and value that do not fit");
  // The operator's meta function does not compare them, so no guard need have.
  call.kernels.assertSame(k[k.size() - 2], v[v.size() - 2]);
  AttentionSpec spec;
  spec.batch = *batch;
  spec.m = q[q.size() - 2];
  spec.n = k[k.size() - 2];
  spec.d = q.back();
  spec.dv = v.back();
  spec.causal = a.causal;
  std::optional<int64_t> depth = spec.d.constant(), features = spec.dv.constant();
  std::optional<double> scale = a.scale;
  if (!scale && depth) // the default; scores without features are zero
    scale = *depth > 0 ? 1 / std::sqrt(static_cast<double>(*depth)) : 1;

  unsigned rank = spec.batch.size();
  // Query heads that one key and value head serves.
  Expr group = 1;
  if (a.grouped && rank > 0) {
    Expr queries = q[rank - 1], keys = k[rank - 1];
    group = call.kernels.known().simplify(queries.floorDiv(keys));
    if (!call.fits({keys, group * keys}, {v[rank - 1], queries},
                   "query heads that key and value heads do not divide"))
      return refuse("query heads that key and value heads do not divide");
  }
  auto read = [&](BodyBuilder &body, Value tensor, Expr row, Expr column, bool shared) {
    return readHeads(body, tensor, spec.batch, shared ? group : Expr(1), row, column);
  };
  Expr m = Expr::dim(rank), n = Expr::dim(rank + 1), d = Expr::dim(rank + 2);
  Expr dv = Expr::dim(rank + 3);
  auto readQuery = [&](BodyBuilder &body) { return read(body, a.query, m, d, false); };
  auto readKey = [&](BodyBuilder &body) { return read(body, a.key, n, d, true); };
  auto readValue = [&](BodyBuilder &body) { return read(body, a.value, n, dv, true); };
  auto bias = [&](BodyBuilder &body) { return readBias(body, a.mask, spec, type); };
  spec.q = readQuery;
  spec.k = readKey;
  spec.v = readValue;
  if (a.mask) {
    if (!isBool(elementType(a.mask)) && !isFloat(elementType(a.mask)))
      return refuse("a mask of this dtype");
    spec.bias = bias;
  }
  // Heads next to the features, as the projection after attention wants them: [batch, m, heads, dv]
  // is contiguous and the result a view of it.
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank + 2));
  if (rank >= 2)
    std::swap(perm[rank - 1], perm[rank]);
  spec.perm = perm;
  Value result;
  // A kernel of attention has features to compute with.
  auto fits = [](std::optional<int64_t> size) {
    return size && *size > 0 && *size <= mostFeatures;
  };
  if (fits(depth) && fits(features)) {
    spec.scale = *scale;
    result = call.kernels.attention(spec, call.resultType());
  } else {
    result = attentionOfProducts(
        call.kernels, spec, scale,
        [&](BodyBuilder &body, Expr n, Expr dv) { return read(body, a.value, n, dv, true); },
        call.resultType(), /*weightType=*/opmath(type));
  }
  return call.kernels.permute(result, perm); // a swap is its own inverse
}

/// The forms that decompositions choose for a device have more results, which only training uses: logarithms of sums, weights, the
/// state of a generator.
static LogicalResult lowerScaledDotProduct(Call &call) {
  auto find = [&](StringRef key) {
    return call.args.has(key) ? call.args.optTensor(key) : Value();
  };
  if (call.args.number("dropout_p") != 0 || find("dropout_mask"))
    return call.refuse("dropout in training mode");
  for (unsigned i = 1; i < call.numResults(); ++i)
    if (!call.isUnused(i))
      return call.refuse("a result that only training uses");
  Value mask = find("attn_mask"), bias = find("attn_bias");
  bool isForAll = call.args.has("enable_gqa"); // the forms for one device take groups as they are
  Attention a{call.tensor(0),
              call.tensor(1),
              call.tensor(2),
              mask ? mask : bias,
              call.args.optNumber("scale"),
              call.args.boolean("is_causal"),
              !isForAll || call.args.boolean("enable_gqa")};
  if (isForAll && a.mask && a.causal)
    return call.refuse("both a mask and is_causal");
  SmallVector<Value> results(call.numResults());
  results[0] = lowerAttention(call, a);
  return results[0] ? call.set(results) : failure();
}

void lowering::registerAttention(LoweringTable &table) {
  table.add({"aten.scaled_dot_product_attention.default",
             "aten._scaled_dot_product_attention_math.default",
             "aten._scaled_dot_product_flash_attention_for_cpu.default",
             "aten._scaled_dot_product_flash_attention.default",
             "aten._scaled_dot_product_efficient_attention.default",
             "aten._scaled_dot_product_cudnn_attention.default",
             "aten._scaled_dot_product_fused_attention_overrideable.default"},
            lowerScaledDotProduct);
}
