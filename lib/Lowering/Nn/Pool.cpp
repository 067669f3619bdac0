// Pooling, computed channels-last like convolutions, between which it stands.
#include "Core/NonEmpty.h"
#include "Core/ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// x is [N, C, spatial…] or [C, spatial…]; lists have an entry for each spatial dim.
struct Pool {
  Value x;
  size_t spatial;
  SmallVector<int64_t> kernel, stride, padding, dilation;
  Exprs output;

  size_t leading() const { return shapeOf(x).size() - spatial; } // N and C
  Expr size(size_t i) const { return shapeOf(x)[leading() + i]; }
};
} // namespace

static bool isPoolable(Call &call, size_t spatial) {
  Value x = call.tensor(0);
  int64_t rank = rankOf(x);
  if (isComplex(elementType(x)) || isBool(elementType(x)) ||
      (rank != static_cast<int64_t>(spatial) + 1 && rank != static_cast<int64_t>(spatial) + 2)) {
    call.kernels.fail("this dtype or rank");
    return false;
  }
  return true;
}

/// Elements of `outputs`, one value for each, on [N, spatial…, C], seen as [N, C, spatial…].
/// `compute` gets the leading index (n, c) and the spatial dims.
static SmallVector<Value> channelsLast(
    Call &call, const Pool &pool, ArrayRef<Type> types,
    function_ref<BodyBuilder::Elements(BodyBuilder &, ArrayRef<Expr>, ArrayRef<Expr>)> compute) {
  Exprs shape = shapeOf(pool.x), domain;
  bool batched = pool.leading() == 2;
  if (batched)
    domain.push_back(shape[0]);
  llvm::append_range(domain, pool.output);
  domain.push_back(shape[batched]);
  unsigned rank = domain.size();
  SmallVector<Value> results = call.kernels.map(domain, types, [&](BodyBuilder &body) {
    Exprs leading;
    if (batched)
      leading.push_back(body.dim(0));
    leading.push_back(body.dim(rank - 1));
    return compute(body, leading, body.dims(batched, rank - 1));
  });
  SmallVector<int64_t> perm;
  if (batched)
    perm.push_back(0);
  perm.push_back(rank - 1);
  for (unsigned i = batched; i + 1 < rank; ++i)
    perm.push_back(i);
  for (Value &result : results)
    result = call.kernels.permute(result, perm);
  return results;
}

static constexpr StringLiteral emptyImage = "pooling of an empty dim that is not the batch";

/// The window arguments; an empty stride is the kernel's size.
static std::optional<Pool> windowArguments(Call &call, size_t spatial, bool dilated) {
  if (!isPoolable(call, spatial))
    return std::nullopt;
  Pool pool{call.tensor(0), spatial, call.ints("kernel_size", spatial), {}, {}, {}, {}};
  bool hasStride = call.args.optInteger("stride") ||
                   !call.args.optSymIntList("stride").value_or(Exprs()).empty();
  pool.stride = hasStride ? call.ints("stride", spatial) : pool.kernel;
  pool.padding = call.ints("padding", spatial);
  pool.dilation.assign(spatial, 1);
  if (dilated)
    pool.dilation = call.ints("dilation", spatial);
  for (size_t i = 0; i < spatial; ++i)
    if (pool.kernel[i] <= 0 || pool.stride[i] <= 0 || pool.dilation[i] <= 0 ||
        pool.padding[i] < 0 || pool.padding[i] > pool.kernel[i] / 2)
      call.kernels.fail("a window of this size, stride or padding");
  if (call.kernels.failure)
    return std::nullopt;
  bool ceil = call.args.boolean("ceil_mode");
  const sym::Assumptions &known = call.kernels.known();
  for (size_t i = 0; i < spatial; ++i) {
    Expr room = pool.size(i) + 2 * pool.padding[i] - pool.dilation[i] * (pool.kernel[i] - 1) - 1;
    Expr stride = pool.stride[i];
    if (!ceil) {
      pool.output.push_back(known.simplify(room.floorDiv(stride) + 1));
      continue;
    }
    // The last window must begin inside the input or the padding in front of it.
    Expr windows = known.simplify(room.ceilDiv(stride) + 1);
    Expr excess = (windows - 1) * stride - pool.size(i) - pool.padding[i];
    windows = windows - Expr::min(Expr::max(excess + 1, 0), 1);
    pool.output.push_back(known.simplify(windows));
  }
  for (Expr size : pool.output)
    call.require(size - 1, "pooling of a dim that is too small for a window");
  return pool;
}

static Exprs windowExtents(const Pool &pool) {
  return Exprs(pool.kernel.begin(), pool.kernel.end());
}

static Exprs windowIndex(const Pool &pool, ArrayRef<Expr> leading, ArrayRef<Expr> out,
                         ArrayRef<Expr> at) {
  Exprs index(leading);
  for (size_t i = 0; i < pool.spatial; ++i)
    index.push_back(out[i] * pool.stride[i] + at[i] * pool.dilation[i] - pool.padding[i]);
  return index;
}

//===-- Maximum -------------------------------------------------------------------------------===//

static LogicalResult lowerMaxPool(Call &call, size_t spatial) {
  auto pool = windowArguments(call, spatial, /*dilated=*/true);
  if (!pool)
    return failure();
  Type type = elementType(pool->x), i64 = IntegerType::get(type.getContext(), 64);
  requireElements(call, pool->x, pool->leading() - 1, emptyImage);
  if (call.numResults() == 1)
    return call.set(channelsLast(
        call, *pool, type, [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> out) {
          return BodyBuilder::Elements{
              body.max(windowExtents(*pool), type, [&](BodyBuilder &inner) {
                return inner.readPadded(pool->x, windowIndex(*pool, leading, out, inner.ownDims()),
                                        lowest(inner.b(), type));
              })};
        }));
  // Also the position of the maximum in the flattened spatial dims; padding never is one.
  return call.set(channelsLast(
      call, *pool, {type, i64}, [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> out) {
        auto [value, position] = body.argExtreme(
            windowExtents(*pool), type, /*largest=*/true, /*lastNan=*/true,
            [&](BodyBuilder &inner) {
              Exprs index = windowIndex(*pool, leading, out, inner.ownDims());
              ArrayRef<Expr> where = ArrayRef(index).drop_front(leading.size());
              Exprs sizes = shapeOf(pool->x);
              ArrayRef<Expr> bounds = ArrayRef(sizes).drop_front(leading.size());
              Element inside = inner.inside(where, bounds);
              Element x = inner.readPadded(pool->x, index, lowest(inner.b(), type));
              Element flat = inner.index(sym::linearize(where, bounds));
              return std::make_pair(x, select(inside, flat, highest(inner.b(), i64)));
            });
        return BodyBuilder::Elements{value, position};
      }));
}

//===-- Average -------------------------------------------------------------------------------===//

static LogicalResult lowerAvgPool(Call &call, size_t spatial) {
  auto pool = windowArguments(call, spatial, /*dilated=*/false);
  if (!pool)
    return failure();
  requireElements(call, pool->x, pool->leading() - 1, emptyImage);
  for (size_t i = 0; spatial == 3 && i < spatial; ++i) // ATen does not count padding here
    call.require(pool->size(i) - pool->kernel[i], "pooling of an image smaller than the kernel");
  Type type = elementType(pool->x), wide = opmath(type);
  bool withPadding = call.args.boolean("count_include_pad");
  std::optional<int64_t> divisor;
  if (call.args.has("divisor_override"))
    divisor = call.args.optInteger("divisor_override");
  if (divisor == 0)
    return call.refuse("divisor_override = 0");
  return call.set(channelsLast(
      call, *pool, type, [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> out) {
        Element sum = body.sum(windowExtents(*pool), wide, [&](BodyBuilder &inner) {
          Element zero = inner.constant(type, 0);
          return convert(
              inner.readPadded(pool->x, windowIndex(*pool, leading, out, inner.ownDims()), zero),
              wide);
        });
        Expr count = 1;
        for (size_t i = 0; i < pool->spatial; ++i) {
          Expr first = out[i] * pool->stride[i] - pool->padding[i];
          Expr limit = pool->size(i) + (withPadding ? pool->padding[i] : 0);
          Expr end = Expr::min(first + pool->kernel[i], limit);
          count = count * (end - (withPadding ? first : Expr::max(first, Expr(0))));
        }
        Expr by = divisor ? Expr(*divisor) : body.known().simplify(count);
        Element divisorElement = countAs(body, by, wide);
        return BodyBuilder::Elements{isFloat(wide) ? sum / divisorElement
                                                   : truncDiv(sum, divisorElement)};
      }));
}

//===-- Adaptive ------------------------------------------------------------------------------===//

namespace {
/// Windows that cover the input: output o of a dim is of the elements floor(o * in / out) to
/// ceil((o + 1) * in / out).
struct AdaptiveWindows {
  Pool pool;
  Exprs counts;  // of windows; at least one, also where the run has none
  Exprs extents; // of the longest window

  /// First element and length of the window at `out`.
  std::pair<Exprs, Exprs> at(BodyBuilder &body, ArrayRef<Expr> out) const {
    Exprs first, length;
    for (size_t i = 0; i < pool.spatial; ++i) {
      Expr begin = (out[i] * pool.size(i)).floorDiv(counts[i]);
      Expr end = ((out[i] + 1) * pool.size(i)).ceilDiv(counts[i]);
      first.push_back(body.known().simplify(begin));
      length.push_back(body.known().simplify(end - begin));
    }
    return {first, length};
  }

  /// The input's index inside the reduction over `extents`, and whether the window has it.
  std::pair<Exprs, Element> element(BodyBuilder &inner, ArrayRef<Expr> leading,
                                    ArrayRef<Expr> first, ArrayRef<Expr> length) const {
    Exprs index(leading), rest;
    for (auto [i, dim] : llvm::enumerate(inner.ownDims())) {
      index.push_back(first[i] + dim);
      rest.push_back(length[i] - 1 - dim);
    }
    return {index, inner.inside(rest, extents)};
  }
};
} // namespace

static std::optional<AdaptiveWindows> adaptiveWindows(Call &call, size_t spatial) {
  if (!isPoolable(call, spatial))
    return std::nullopt;
  if (call.resultShape().size() != shapeOf(call.tensor(0)).size()) {
    call.kernels.fail("computes another shape than the program declares");
    return std::nullopt;
  }
  Pool pool{call.tensor(0), spatial, {}, {}, {}, {}, {}};
  pool.output = call.resultShape();
  pool.output.erase(pool.output.begin(), pool.output.end() - spatial);
  const sym::Assumptions &known = call.kernels.known();
  Exprs counts, extents;
  for (size_t i = 0; i < spatial; ++i) {
    Expr count = counts.emplace_back(known.simplify(Expr::max(pool.output[i], 1)));
    // Windows of equal length need no mask; others are at most one longer than the ratio.
    Expr ratio = known.simplify(pool.size(i).floorDiv(count));
    bool equal = call.kernels.isSame(ratio * count, pool.size(i));
    extents.push_back(equal ? ratio : known.simplify((pool.size(i) - 1).ceilDiv(count) + 1));
  }
  return AdaptiveWindows{pool, counts, extents};
}

static LogicalResult lowerAdaptiveAvgPool(Call &call, size_t spatial) {
  if (!isPoolable(call, spatial))
    return failure();
  // A single window is a mean to ATen, also that of nothing.
  Exprs shape = call.resultShape();
  bool isMean =
      !call.args.op().getTarget().contains("._adaptive") &&
      llvm::all_of(ArrayRef(shape).take_back(spatial), [](Expr e) { return e.isConstant(1); });
  if (!isMean)
    requireElements(call, call.tensor(0), spatial == 3 ? 1 : rankOf(call.tensor(0)) - spatial,
                    emptyImage);
  if (llvm::any_of(call.resultShape(), [](Expr size) { return size.isConstant(0); }))
    return call.set(call.kernels.full(call.resultShape(), call.resultType(), 0));
  auto windows = adaptiveWindows(call, spatial);
  if (!windows)
    return failure();
  const Pool &pool = windows->pool;
  Type type = elementType(pool.x);
  if (!isFloat(type))
    return call.refuse("this dtype");
  return call.set(channelsLast(
      call, pool, type, [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> out) {
        auto [first, length] = windows->at(body, out);
        Element sum = preciseSum(body, windows->extents, type,
                                 [&, &first = first, &length = length](BodyBuilder &inner) {
                                   auto [index, mask] =
                                       windows->element(inner, leading, first, length);
                                   return inner.read(pool.x, index, mask, inner.constant(type, 0));
                                 });
        Expr count = body.known().simplify(sym::product(length));
        return BodyBuilder::Elements{sum / countAs(body, count, sum.type())};
      }));
}

/// The maximum and its position in the flattened spatial dims.
static LogicalResult lowerAdaptiveMaxPool(Call &call, size_t spatial) {
  auto windows = adaptiveWindows(call, spatial);
  if (!windows)
    return failure();
  requireElements(call, windows->pool.x, 1, emptyImage);
  const Pool &pool = windows->pool;
  Type type = elementType(pool.x), i64 = IntegerType::get(type.getContext(), 64);
  return call.set(channelsLast(
      call, pool, {type, i64}, [&](BodyBuilder &body, ArrayRef<Expr> leading, ArrayRef<Expr> out) {
        auto [first, length] = windows->at(body, out);
        auto [value, position] =
            body.argExtreme(windows->extents, type, /*largest=*/true, /*lastNan=*/true,
                            [&, &first = first, &length = length](BodyBuilder &inner) {
                              auto [index, mask] = windows->element(inner, leading, first, length);
                              Exprs sizes = shapeOf(pool.x);
                              Element x = inner.read(pool.x, index, mask, lowest(inner.b(), type));
                              Element flat = inner.index(
                                  sym::linearize(ArrayRef(index).drop_front(leading.size()),
                                                 ArrayRef(sizes).drop_front(leading.size())));
                              return std::make_pair(x, select(mask, flat, highest(inner.b(), i64)));
                            });
        return BodyBuilder::Elements{value, position};
      }));
}

void lowering::registerPool(LoweringTable &table) {
  for (size_t spatial : {1, 2, 3}) {
    std::string suffix = (Twine(spatial) + "d").str();
    auto maxPool = [=](Call &call) { return lowerMaxPool(call, spatial); };
    auto avgPool = [=](Call &call) { return lowerAvgPool(call, spatial); };
    auto adaptive = [=](Call &call) { return lowerAdaptiveAvgPool(call, spatial); };
    table.add("aten.max_pool" + suffix + ".default", maxPool);
    table.add("aten.max_pool" + suffix + "_with_indices.default", maxPool);
    table.add("aten.avg_pool" + suffix + ".default", avgPool);
    table.add("aten.adaptive_avg_pool" + suffix + ".default", adaptive);
    table.add("aten.adaptive_max_pool" + suffix + ".default",
              [=](Call &call) { return lowerAdaptiveMaxPool(call, spatial); });
    if (spatial > 1)
      table.add("aten._adaptive_avg_pool" + suffix + ".default", adaptive);
  }
}
