// Counts of elements in bins.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Sums of weights (1 for none) at the places that elements [n] say.
static Value addAt(Call &call, ArrayRef<Expr> bins, Expr n, Type type,
                   function_ref<ScatterSpec::Write(BodyBuilder &, Expr element)> write) {
  ScatterSpec spec;
  spec.targets.assign(bins.begin(), bins.end());
  spec.places = {n};
  auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
  auto update = [&](BodyBuilder &body) { return write(body, body.dim(bins.size())); };
  auto add = [](Element old, Element value) { return old + value; };
  spec.init = init;
  spec.update = update;
  spec.combine = add;
  return call.kernels.scatter(spec, type);
}

/// One bin for each of 0, 1, … up to the greatest element, and at least `minlength`.
static LogicalResult lowerBincount(Call &call) {
  Value self = call.tensor(0), weights = call.args.optTensor("weights");
  Type i64 = IntegerType::get(call.args.op().getContext(), 64), type = call.resultType();
  Expr least = call.args.symInt("minlength");
  if (rankOf(self) != 1 || !isInt(elementType(self)))
    return call.refuse("needs a vector of integers");
  Expr n = shapeOf(self)[0], size = call.resultShape()[0];
  Value count = call.kernels.map({}, i64, [&](BodyBuilder &body) {
    Element greatest = body.max({n}, i64, [&](BodyBuilder &inner) {
      return convert(inner.read(self, inner.ownDims()), i64);
    });
    Element none = body.index(n) == body.constant(i64, 0);
    Element length = select(none, body.constant(i64, 0), greatest + body.constant(i64, 1));
    return maximum(length, body.index(least));
  });
  call.defineSize(count, size);
  return call.set(addAt(call, {size}, n, type, [&](BodyBuilder &body, Expr element) {
    Element weight =
        weights ? convert(body.read(weights, Exprs{element}), type) : body.constant(type, 1);
    return ScatterSpec::Write{{body.read(self, Exprs{element})}, {}, weight};
  }));
}

/// 1 where the last dim is the class that an element names.
static LogicalResult lowerOneHot(Call &call) {
  Value self = call.tensor(0);
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  Exprs shape = call.resultShape(), own = shapeOf(self);
  if (!isInt(elementType(self)) || shape.size() != own.size() + 1)
    return call.refuse("this dtype or shape");
  if (call.args.integer("num_classes") < 0)
    return call.refuse("a number of classes that only data says");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element klass = convert(body.read(self, body.dims(0, own.size())), i64);
    klass = call.expect(klass, (klass >= klass.constant(0)) & (klass < body.index(shape.back())),
                        "a class that is negative or not less than num_classes");
    return convert(klass == body.index(body.dim(own.size())), call.resultType());
  }));
}

//===-- Histograms ----------------------------------------------------------------------------===//

namespace {
/// Points [n, d] with an optional weight each, and what is counted of them.
struct Points {
  Value points, weight;
  Expr n;
  int64_t d;
  Type type, wide;
};
} // namespace

/// Edges [bins + 1] of equal bins between given bounds or, without, the extremes of a coordinate.
static Value equalEdges(Call &call, const Points &p, int64_t coordinate, int64_t bins,
                        std::optional<std::pair<double, double>> range) {
  Type wide = p.wide;
  Value bounds = call.kernels.map({2}, wide, [&](BodyBuilder &body) {
    Element isFirst = body.index(body.dim(0)) == body.constant(body.b().getI64Type(), 0);
    Element least = body.constant(wide, 0), most = body.constant(wide, 1);
    if (range) {
      least = body.constant(wide, range->first);
      most = body.constant(wide, range->second);
    } else if (!p.n.isConstant(0)) {
      auto element = [&](BodyBuilder &inner) {
        Expr row = inner.dim(inner.numDims() - 1);
        return convert(inner.read(p.points, Exprs{row, Expr(coordinate)}), wide);
      };
      least = body.min({p.n}, wide, element);
      most = body.max({p.n}, wide, element);
      Element extent = most - least,
              isEmpty = body.index(p.n) == body.constant(body.b().getI64Type(), 0);
      least = call.expect(least, isEmpty | (extent - extent == extent.constant(0)),
                          "a range that is not finite");
    }
    Element isSame = least == most;
    return select(isFirst, select(isSame, least - 0.5, least), select(isSame, most + 0.5, most));
  });
  return call.kernels.map({bins + 1}, p.type, [&](BodyBuilder &body) {
    Element low = body.read(bounds, Exprs{0}), high = body.read(bounds, Exprs{1});
    Element step = (high - low) / static_cast<double>(bins);
    // As linspace does: from the nearer end.
    Element i = body.index(body.dim(0)), back = i.constant(bins) - i;
    Element isLow = i < i.constant((bins + 1) / 2);
    return select(isLow, low + step * convert(i, wide), high - step * convert(back, wide));
  });
}

/// How many points lie in each box between edges, of which the last ones belong to the last boxes.
static Value countInBoxes(Call &call, const Points &p, ArrayRef<Value> edges, bool density) {
  Type i64 = IntegerType::get(p.type.getContext(), 64);
  Exprs bins;
  for (Value edge : edges)
    bins.push_back(call.kernels.known().simplify(shapeOf(edge)[0] - 1));
  Value counts = addAt(call, bins, p.n, p.wide, [&](BodyBuilder &body, Expr row) {
    ScatterSpec::Write write;
    write.enabled = body.constant(body.b().getI1Type(), 1);
    for (auto [i, edge] : llvm::enumerate(edges)) {
      Element x = convert(body.read(p.points, Exprs{row, Expr(static_cast<int64_t>(i))}), p.wide);
      Element below = body.sum({shapeOf(edge)[0]}, i64, [&](BodyBuilder &inner) {
        Element bound = inner.read(edge, Exprs{inner.dim(inner.numDims() - 1)});
        return convert(convert(bound, p.wide) <= x, i64);
      });
      Element last = convert(body.read(edge, Exprs{bins[i]}), p.wide), zero = below.constant(0);
      write.enabled = write.enabled & (below > zero) & (x <= last);
      Element place = minimum(below - zero.constant(1), body.index(bins[i] - 1));
      write.index.push_back(maximum(place, zero));
    }
    write.value =
        p.weight ? convert(body.read(p.weight, Exprs{row}), p.wide) : body.constant(p.wide, 1);
    return write;
  });
  if (!density)
    return call.kernels.convert(counts, p.type);
  Value total = call.kernels.map({}, p.wide, [&](BodyBuilder &body) {
    return body.sum(bins, p.wide,
                    [&](BodyBuilder &inner) { return inner.read(counts, inner.ownDims()); });
  });
  return call.kernels.map(bins, p.type, [&](BodyBuilder &body) {
    Element value = body.read(counts, body.ownDims()) / body.read(total, Exprs());
    for (auto [i, edge] : llvm::enumerate(edges)) {
      Element width = convert(body.read(edge, Exprs{body.dim(i) + 1}), p.wide) -
                      convert(body.read(edge, Exprs{body.dim(i)}), p.wide);
      value = value / width;
    }
    return value;
  });
}

/// All elements of argument 0 as points of `d` coordinates.
static std::optional<Points> pointsOf(Call &call, int64_t d) {
  Value self = call.tensor(0), weight = call.args.optTensor("weight");
  Type type = elementType(self);
  if (!isFloat(type)) {
    call.kernels.fail("this dtype");
    return std::nullopt;
  }
  Expr count = sym::product(shapeOf(self));
  Expr n = d == 1 ? count : call.kernels.known().simplify(count.floorDiv(d));
  Points p{call.kernels.reshape(self, {n, Expr(d)}), weight, n, d, type, opmath(type)};
  if (weight)
    p.weight = call.kernels.reshape(weight, {n});
  return p;
}

static LogicalResult lowerHistogram(Call &call) {
  auto p = pointsOf(call, 1);
  if (!p)
    return failure();
  Value edges = call.tensor("bins");
  if (!edges) {
    int64_t bins = call.args.integer("bins");
    SmallVector<double> range;
    if (!call.args.isNone("range"))
      range = call.args.numberList("range");
    if (bins <= 0 || (!range.empty() && range.size() != 2))
      return call.refuse("no bins, or a range that is no pair");
    std::optional<std::pair<double, double>> bounds;
    if (!range.empty())
      bounds = {range[0], range[1]};
    edges = equalEdges(call, *p, 0, bins, bounds);
  }
  if (rankOf(edges) != 1)
    return call.refuse("edges that are no vector");
  return call.set({countInBoxes(call, *p, edges, call.args.boolean("density")), edges});
}

namespace {
enum class Parts : uint8_t { All, Counts, Edges };
}

static LogicalResult lowerHistogramdd(Call &call, Parts parts) {
  Value self = call.tensor(0);
  if (rankOf(self) < 2)
    return call.refuse("needs points");
  auto d = shapeOf(self).back().constant();
  auto p = d ? pointsOf(call, *d) : std::nullopt;
  if (!p)
    return call.refuse("these dtypes, or points of unknown dimension");
  SmallVector<Value> edges;
  if (const torch::OpSchema &schema = *call.args.schema();
      schema.arguments[schema.indexOf("bins")].type.base == torch::BaseType::Tensor) {
    edges = call.args.tensorList("bins");
  } else {
    SmallVector<int64_t> bins = call.ints("bins", *d);
    SmallVector<double> range;
    if (!call.args.isNone("range"))
      range = call.args.numberList("range");
    if (!range.empty() && range.size() != size_t(2 * *d))
      return call.refuse("a range that is not a pair for each dimension");
    for (int64_t i = 0; i < *d; ++i) {
      std::optional<std::pair<double, double>> bounds;
      if (!range.empty())
        bounds = {range[2 * i], range[2 * i + 1]};
      if (bins[i] <= 0)
        return call.refuse("no bins");
      edges.push_back(equalEdges(call, *p, i, bins[i], bounds));
    }
  }
  if (static_cast<int64_t>(edges.size()) != *d)
    return call.refuse("as many edges as dimensions are needed");
  SmallVector<Value> results;
  if (parts != Parts::Edges)
    results.push_back(countInBoxes(call, *p, edges, call.args.boolean("density")));
  if (parts != Parts::Counts)
    llvm::append_range(results, edges);
  return call.numResults() == results.size() ? call.set(results) : call.refuse("these results");
}

void lowering::registerHistogram(LoweringTable &table) {
  table.add("aten.bincount.default", lowerBincount);
  table.add("aten.one_hot.default", lowerOneHot);
  table.add({"aten.histogram.bin_ct", "aten.histogram.bins_tensor"}, lowerHistogram);
  auto multi = [](Parts parts) {
    return [parts](Call &call) { return lowerHistogramdd(call, parts); };
  };
  table.add(
      {"aten.histogramdd.default", "aten.histogramdd.int_bins", "aten.histogramdd.TensorList_bins"},
      multi(Parts::All));
  table.add(
      {"aten._histogramdd_from_bin_cts.default", "aten._histogramdd_from_bin_tensors.default"},
      multi(Parts::Counts));
  table.add("aten._histogramdd_bin_edges.default", multi(Parts::Edges));
}
