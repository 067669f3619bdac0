// Normalisations. Statistics are two-pass (the mean, then squared distances from it): as accurate
// as Welford's recurrence and free of its divisions. A row is in cache at the second pass.
#include "Core/ReducedDims.h"
#include "Pointwise/ComplexFunctions.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
struct Moments {
  Element mean, rstd;
};
} // namespace

/// Mean and 1 / sqrt(variance + eps) of what `read` gives, in `type`, inside a reduction over
/// `extents`. Both are summed up in `sumType` if there is one.
static Moments moments(BodyBuilder &body, ArrayRef<Expr> extents, Type type,
                       function_ref<Element(BodyBuilder &)> read, double eps, Type sumType = {}) {
  if (!sumType)
    sumType = type;
  Element count = countAs(body, sym::product(extents), sumType);
  Element sum =
      body.sum(extents, sumType, [&](BodyBuilder &inner) { return convert(read(inner), sumType); });
  Element mean = convert(sum / count, type);
  Element squares = body.sum(extents, sumType, [&](BodyBuilder &inner) {
    Element distance = read(inner) - mean;
    return convert(distance * distance, sumType);
  });
  return {mean, convert(rsqrt(squares / count + eps), type)};
}

/// y * weight + bias, either of which may be null; both are read at `at`.
static Element affine(BodyBuilder &body, Element y, Value weight, Value bias, ArrayRef<Expr> at) {
  if (weight)
    y = y * convert(body.read(weight, at), y.type());
  if (bias)
    y = y + convert(body.read(bias, at), y.type());
  return y;
}

//===-- Over trailing dims --------------------------------------------------------------------===//

/// The trailing dims that `normalized_shape` names, checked with the affine parameters.
static std::optional<ReducedDims> trailingDims(Call &call, ArrayRef<Value> parameters,
                                               bool takesComplex = false) {
  Value x = call.tensor(0);
  Exprs normalized = call.args.symIntList(1), shape = shapeOf(x);
  if (!isFloat(elementType(x)) && !(takesComplex && isComplex(elementType(x)))) {
    call.kernels.fail("this dtype");
    return std::nullopt;
  }
  constexpr StringLiteral reason = "normalized_shape is not the input's or the parameters' shape";
  bool fits = normalized.size() <= shape.size() &&
              call.fits(ArrayRef(shape).take_back(normalized.size()), normalized, reason);
  for (Value parameter : parameters)
    fits = fits && (!parameter || call.fits(shapeOf(parameter), normalized, reason));
  if (!fits) {
    call.kernels.fail(reason);
    return std::nullopt;
  }
  auto first = static_cast<int64_t>(shape.size() - normalized.size());
  return ReducedDims(x, llvm::to_vector(llvm::seq<int64_t>(first, shape.size())));
}

/// (x - mean) * rstd * weight + bias; the moments are of the row that the dims before name.
static Value normalizeRows(Call &call, const ReducedDims &rows, Value weight, Value bias,
                           double eps) {
  Value x = call.tensor(0);
  Type wide = opmath(elementType(x));
  size_t first = rows.shape.size() - rows.dims.size();
  return call.kernels.map(rows.shape, call.resultType(), [&](BodyBuilder &body) {
    Moments row = moments(
        body, rows.extents, wide,
        [&](BodyBuilder &inner) {
          return convert(inner.read(x, rows.indexFromTensor(inner)), wide);
        },
        eps);
    Element y = (convert(body.broadcast(x), wide) - row.mean) * row.rstd;
    return affine(body, y, weight, bias, body.dims(first, rows.shape.size()));
  });
}

static LogicalResult lowerLayerNorm(Call &call) {
  Value weight = call.args.optTensor("weight"), bias = call.args.optTensor("bias");
  auto rows = trailingDims(call, {weight, bias});
  if (!rows)
    return failure();
  return call.set(normalizeRows(call, *rows, weight, bias, call.args.number("eps")));
}

static LogicalResult lowerNativeLayerNorm(Call &call) { // also mean and rstd
  Value x = call.tensor(0);
  Value weight = call.args.optTensor("weight"), bias = call.args.optTensor("bias");
  double eps = call.args.number("eps");
  auto rows = trailingDims(call, {weight, bias});
  if (!rows)
    return failure();
  Type wide = opmath(elementType(x));
  SmallVector<Value> results = {normalizeRows(call, *rows, weight, bias, eps), {}, {}};
  if (!call.isUnused(1) || !call.isUnused(2)) {
    auto statistics = call.kernels.map(
        rows->resultShape(true), {call.resultType(1), call.resultType(2)}, [&](BodyBuilder &body) {
          Moments row = moments(
              body, rows->extents, wide,
              [&](BodyBuilder &inner) {
                return convert(inner.read(x, rows->indexFromResult(inner, true)), wide);
              },
              eps);
          return BodyBuilder::Elements{row.mean, row.rstd};
        });
    results[1] = statistics[0];
    results[2] = statistics[1];
  }
  return call.set(results);
}

/// x * rsqrt(mean(x²) + eps) * weight; eps defaults to the opmath type's epsilon. The square of a
/// complex number is not that of its magnitude.
static LogicalResult lowerRmsNorm(Call &call) {
  Value x = call.tensor(0), weight = call.args.optTensor("weight");
  auto rows = trailingDims(call, {weight}, /*takesComplex=*/true);
  if (!rows)
    return failure();
  Type wide = opmath(elementType(x)), part = wide;
  if (auto type = dyn_cast<ComplexType>(wide))
    part = type.getElementType();
  double epsilon =
      part.isF64() ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  double eps = call.args.optNumber("eps").value_or(epsilon);
  auto scale = [&](BodyBuilder &body, function_ref<Exprs(BodyBuilder &)> index) {
    Element squares = body.sum(rows->extents, wide, [&](BodyBuilder &inner) {
      Element value = convert(inner.read(x, index(inner)), wide);
      return value * value;
    });
    Element mean = squares / countAs(body, rows->count(), wide) + eps;
    return part == wide ? rsqrt(mean) : complexes::rsqrt(mean);
  };
  size_t first = rows->shape.size() - rows->dims.size();
  SmallVector<Value> results;
  results.push_back(call.kernels.map(rows->shape, call.resultType(), [&](BodyBuilder &body) {
    Element rstd = scale(body, [&](BodyBuilder &inner) { return rows->indexFromTensor(inner); });
    Element y = convert(body.broadcast(x), wide) * rstd;
    return affine(body, y, weight, {}, body.dims(first, rows->shape.size()));
  }));
  if (call.numResults() == 2) // _fused_rms_norm gives rstd too
    results.push_back(
        call.kernels.map(rows->resultShape(true), call.resultType(1), [&](BodyBuilder &body) {
          return scale(body,
                       [&](BodyBuilder &inner) { return rows->indexFromResult(inner, true); });
        }));
  return call.set(results);
}

//===-- Over channels -------------------------------------------------------------------------===//

/// All of these are vectors of `channels` elements (or null).
static bool areChannelVectors(Call &call, ArrayRef<Value> vectors, Expr channels) {
  return llvm::all_of(vectors, [&](Value vector) {
    return !vector || (rankOf(vector) == 1 &&
                       call.fits(shapeOf(vector)[0], channels, "parameters of other channels"));
  });
}

/// x * scale[c] + shift[c], with scale and shift computed once on [C]: from parameters alone they
/// are constants, which fold into a convolution before them.
static Value scaleShift(Call &call, Value x, Value weight, Value bias, Type wide,
                        function_ref<Moments(BodyBuilder &)> statistics) {
  Exprs channels = {shapeOf(x)[1]};
  Value scale = call.kernels.map(channels, wide, [&](BodyBuilder &body) {
    return affine(body, statistics(body).rstd, weight, {}, body.ownDims());
  });
  Value shift = call.kernels.map(channels, wide, [&](BodyBuilder &body) {
    Exprs at = body.ownDims();
    return affine(body, -(statistics(body).mean * body.read(scale, at)), {}, bias, at);
  });
  return call.kernels.map(shapeOf(x), call.resultType(), [&](BodyBuilder &body) {
    Exprs channel = {body.dim(1)};
    Element value = convert(body.broadcast(x), wide);
    return value * body.read(scale, channel) + body.read(shift, channel);
  });
}

/// (x - mean) * rstd * weight + bias, with statistics that are no constants: as exact as can be.
static Value normalizeChannels(Call &call, Value x, Value weight, Value bias, Type wide,
                               function_ref<Moments(BodyBuilder &)> statistics) {
  SmallVector<Value> moments =
      call.kernels.map({shapeOf(x)[1]}, {wide, wide}, [&](BodyBuilder &body) {
        Moments m = statistics(body);
        return BodyBuilder::Elements{m.mean, m.rstd};
      });
  return call.kernels.map(shapeOf(x), call.resultType(), [&](BodyBuilder &body) {
    Exprs channel = {body.dim(1)};
    Element y = (convert(body.broadcast(x), wide) - body.read(moments[0], channel)) *
                body.read(moments[1], channel);
    return affine(body, y, weight, bias, channel);
  });
}

/// The tensor's index inside a reduction over all dims but the channel, in a map over channels.
static Exprs channelIndex(const BodyBuilder &inner, size_t rank) {
  Exprs index = inner.dims(inner.numDims() - rank + 1, inner.numDims());
  index.insert(index.begin() + 1, inner.dim(0));
  return index;
}

/// The next value of a running statistic. The variance of `n` elements counts as that of n - 1.
static Element movedTowards(Element running, Element current, double momentum) {
  return running * (1 - momentum) + current * momentum;
}
static Element unbiased(BodyBuilder &body, Element rstd, double eps, Expr n) {
  Element count = countAs(body, n, rstd.type());
  return (1.0 / (rstd * rstd) - eps) * count / (count - 1.0);
}

/// Normalises with the running statistics, or with those of the batch: when there are none, and in
/// training. `updates`: what the running statistics become are two more results.
static LogicalResult batchNorm(Call &call, bool updates) {
  Value x = call.tensor(0), weight = call.args.optTensor("weight");
  Value bias = call.args.optTensor("bias");
  Value mean = call.args.optTensor("running_mean"), var = call.args.optTensor("running_var");
  double eps = call.args.number("eps");
  bool training = call.args.has("training") ? call.args.boolean("training") : updates;
  if (call.args.has("use_input_stats"))
    training = false;
  Type wide = opmath(elementType(x));
  if (call.numResults() == 1 && rankOf(x) > 0 && sym::product(shapeOf(x)).isConstant(0))
    return call.set(x); // whatever its rank
  if (!isFloat(wide) || rankOf(x) < 2)
    return call.refuse("this dtype, or no channel dim");
  if (!areChannelVectors(call, {weight, bias, mean, var}, shapeOf(x)[1]))
    return call.refuse("parameters that are not one for each channel");
  if ((training && mean && !updates) || !mean != !var)
    return call.refuse("training mode, which changes the running statistics");
  bool ofBatch = training || !mean;
  Type precise = accumulatorType(elementType(x));
  ReducedDims all(x, {});
  Exprs extents = all.shape;
  extents.erase(extents.begin() + 1);
  auto batchMoments = [&](BodyBuilder &body) {
    return moments(
        body, extents, precise,
        [&](BodyBuilder &inner) {
          return convert(inner.read(x, channelIndex(inner, all.shape.size())), precise);
        },
        eps);
  };
  auto statistics = [&](BodyBuilder &body) -> Moments {
    if (ofBatch)
      return batchMoments(body);
    Exprs at = body.ownDims();
    return {convert(body.read(mean, at), wide), rsqrt(convert(body.read(var, at), wide) + eps)};
  };
  SmallVector<Value> results = {ofBatch ? normalizeChannels(call, x, weight, bias, wide, statistics)
                                        : scaleShift(call, x, weight, bias, wide, statistics)};
  unsigned returned = call.numResults() - (updates ? 2 : 0);
  // The native forms also give the statistics of the batch, which in evaluation mode are empty, and
  // some a buffer in which other devices keep something.
  for (unsigned i = 1; i < returned; ++i) {
    Value saved;
    if (!call.isUnused(i)) {
      if (ofBatch && i < 3)
        saved = call.kernels.map({shapeOf(x)[1]}, call.resultType(i), [&](BodyBuilder &body) {
          Moments m = batchMoments(body);
          return i == 1 ? m.mean : m.rstd;
        });
      else
        saved = call.kernels.full({Expr(0)}, call.resultType(i), 0);
    }
    results.push_back(saved);
  }
  if (!updates)
    return call.set(results);
  if (!mean)
    return call.refuse("no running statistics");
  if (!training) {
    results.append({mean, var});
    return call.set(results);
  }
  double momentum = call.args.number("momentum");
  for (Value running : {mean, var})
    results.push_back(
        call.kernels.map({shapeOf(x)[1]}, elementType(running), [&](BodyBuilder &body) {
          Moments m = batchMoments(body);
          Element current =
              running == mean ? m.mean : unbiased(body, m.rstd, eps, sym::product(extents));
          Element old = convert(body.read(running, body.ownDims()), precise);
          return movedTowards(old, current, momentum);
        }));
  return call.set(results);
}

static LogicalResult lowerBatchNorm(Call &call) { return batchNorm(call, false); }

//===-- Over groups of channels ---------------------------------------------------------------===//

/// Statistics on [N, groups], then (x - mean) * rstd * weight[c] + bias[c]. Results: the normalised
/// tensor, mean and rstd.
static SmallVector<Value> groupNorm(Call &call, Expr groups, Value weight, Value bias, double eps) {
  Value x = call.tensor(0);
  Exprs shape = shapeOf(x);
  Type wide = opmath(elementType(x));
  Expr each = call.kernels.known().simplify(shape[1].floorDiv(groups));
  if (!isFloat(wide) ||
      !call.fits(each * groups, shape[1], "channels that the groups do not divide") ||
      !areChannelVectors(call, {weight, bias}, shape[1])) {
    call.kernels.fail("this dtype, or groups or parameters that do not fit the channels");
    return {};
  }
  Exprs extents = {each};
  llvm::append_range(extents, ArrayRef(shape).drop_front(2));
  SmallVector<Value> statistics =
      call.kernels.map({shape[0], groups}, {wide, wide}, [&](BodyBuilder &body) {
        Moments m = moments(
            body, extents, wide,
            [&](BodyBuilder &inner) {
              Exprs index = {inner.dim(0), inner.dim(1) * each + inner.dim(2)};
              llvm::append_range(index, inner.dims(3, inner.numDims()));
              return convert(inner.read(x, index), wide);
            },
            eps, accumulatorType(elementType(x)));
        return BodyBuilder::Elements{m.mean, m.rstd};
      });
  Value result = call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Exprs group = {body.dim(0), body.dim(1).floorDiv(each)};
    Element y = (convert(body.broadcast(x), wide) - body.read(statistics[0], group)) *
                body.read(statistics[1], group);
    return affine(body, y, weight, bias, Exprs{body.dim(1)});
  });
  return {result, statistics[0], statistics[1]};
}

static LogicalResult lowerGroupNorm(Call &call) {
  int64_t groups = call.args.integer("num_groups");
  if (rankOf(call.tensor(0)) < 2 || groups <= 0)
    return call.refuse("no channel dim, or no groups");
  auto results = groupNorm(call, groups, call.args.optTensor("weight"), call.args.optTensor("bias"),
                           call.args.number("eps"));
  return results.empty() ? failure() : call.set(results[0]);
}

static LogicalResult lowerNativeGroupNorm(Call &call) {
  int64_t groups = call.args.integer("group");
  if (rankOf(call.tensor(0)) < 2 || groups <= 0)
    return call.refuse("no channel dim, or no groups");
  auto results = groupNorm(call, groups, call.args.optTensor("weight"), call.args.optTensor("bias"),
                           call.args.number("eps"));
  if (results.empty())
    return failure();
  for (unsigned i : {1, 2})
    results[i] = call.isUnused(i) ? Value() : call.kernels.convert(results[i], call.resultType(i));
  return call.set(results);
}

/// `updates`: the running statistics move towards the means over the batch.
static LogicalResult instanceNorm(Call &call, bool updates) {
  Value x = call.tensor(0);
  Value mean = call.args.optTensor("running_mean"), var = call.args.optTensor("running_var");
  Exprs shape = shapeOf(x);
  if (shape.size() < 3)
    return call.refuse("no spatial dim");
  if (!call.args.boolean("use_input_stats")) // a batch norm with the running statistics
    return lowerBatchNorm(call);
  if (updates ? !mean || !var : mean || var)
    return call.refuse("training mode, which changes the running statistics");
  double eps = call.args.number("eps");
  auto results =
      groupNorm(call, shape[1], call.args.optTensor("weight"), call.args.optTensor("bias"), eps);
  if (results.empty() || !updates)
    return results.empty() ? failure() : call.set(results[0]);
  double momentum = call.args.number("momentum");
  Expr count = sym::product(ArrayRef(shape).drop_front(2));
  Type wide = opmath(elementType(x));
  SmallVector<Value> all = {results[0]};
  for (Value running : {mean, var})
    all.push_back(call.kernels.map({shape[1]}, elementType(running), [&](BodyBuilder &body) {
      Element sum = body.sum({shape[0]}, wide, [&](BodyBuilder &inner) {
        Exprs at = {inner.dim(1), inner.dim(0)};
        return running == mean ? inner.read(results[1], at)
                               : unbiased(inner, inner.read(results[2], at), eps, count);
      });
      Element old = convert(body.read(running, body.ownDims()), wide);
      return movedTowards(old, sum / countAs(body, shape[0], wide), momentum);
    }));
  return call.set(all);
}

/// v * (g / |v|), with the norm over all dims but one.
static LogicalResult lowerWeightNorm(Call &call) {
  Value v = call.tensor(0), g = call.tensor(1);
  Type type = elementType(v), wide = opmath(type);
  int64_t rank = rankOf(v), dim = call.dim("dim", rank);
  if (!isFloat(type) || elementType(g) != type || rankOf(g) != rank || rank == 0)
    return call.refuse("these dtypes or ranks");
  SmallVector<int64_t> others;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim)
      others.push_back(i);
  ReducedDims norm(v, others);
  if (!call.fits(norm.resultShape(true), shapeOf(g), "a magnitude of another shape"))
    return call.refuse("a magnitude of another shape");
  Value factor = call.kernels.map(shapeOf(g), wide, [&](BodyBuilder &body) {
    Element squares = body.sum(norm.extents, wide, [&](BodyBuilder &inner) {
      Element x = convert(inner.read(v, norm.indexFromResult(inner, true)), wide);
      return x * x;
    });
    return convert(body.broadcast(g), wide) / sqrt(squares);
  });
  return call.set(call.kernels.map(shapeOf(v), type, [&](BodyBuilder &body) {
    return convert(body.broadcast(v), wide) * body.broadcast(factor);
  }));
}

void lowering::registerNorm(LoweringTable &table) {
  table.add("aten.layer_norm.default", lowerLayerNorm);
  table.add("aten.native_layer_norm.default", lowerNativeLayerNorm);
  table.add({"aten.rms_norm.default", "aten._fused_rms_norm.default"}, lowerRmsNorm);
  table.add({"aten.batch_norm.default", "aten.native_batch_norm.default",
             "aten._native_batch_norm_legit_no_training.default",
             "aten._native_batch_norm_legit.no_stats"},
            lowerBatchNorm);
  // They return the new running statistics, which the updating forms write.
  table.add({"aten._native_batch_norm_legit_functional.default",
             "aten._batch_norm_with_update_functional.default"},
            [](Call &call) { return batchNorm(call, true); });
  table.add("aten.group_norm.default", lowerGroupNorm);
  table.add("aten.native_group_norm.default", lowerNativeGroupNorm);
  table.add("aten.instance_norm.default", [](Call &call) { return instanceNorm(call, false); });
  table.addUpdating("aten.instance_norm.default",
                    [](Call &call) { return instanceNorm(call, true); });
  for (StringRef target :
       {"aten.batch_norm.default", "aten.native_batch_norm.default",
        "aten._native_batch_norm_legit.default", "aten._batch_norm_with_update.default"})
    table.addUpdating(target, [](Call &call) { return batchNorm(call, true); });
  table.add("aten._weight_norm.default", lowerWeightNorm);
}
