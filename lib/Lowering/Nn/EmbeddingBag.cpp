// Sums, means and maxima of rows of a table, a bag of indices each.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// Bag b holds the indices from offsets[b] to the next bag's.
struct Bags {
  explicit Bags(Call &call)
      : call(call), weight(call.tensor("weight")), indices(call.tensor("indices")),
        offsets(call.tensor("offsets")), factors(call.args.optTensor("per_sample_weights")),
        type(elementType(weight)), wide(opmath(type)), i64(IntegerType::get(type.getContext(), 64)),
        mode(call.args.integer("mode")) {}

  /// A reason, or nothing.
  StringRef findObstacle() const {
    if (!isFloat(type) || rankOf(weight) != 2 || rankOf(indices) != 1 || rankOf(offsets) != 1 ||
        !isInt(elementType(indices)) || !isInt(elementType(offsets)) || mode < Sum || mode > Max)
      return "these dtypes, ranks or this mode";
    if (factors && (mode != Sum || elementType(factors) != type))
      return "per_sample_weights of another dtype, or in other than sums";
    return "";
  }

  /// To be called before the others. A negative padding_idx is counted from the last row, or none.
  void findBags(bool countsFromLast) {
    std::optional<int64_t> number = call.args.optInteger("padding_idx");
    if (number && *number >= 0)
      padding = *number;
    else if (number && countsFromLast)
      padding = shapeOf(weight)[0] + *number;
    count = shapeOf(indices)[0];
    columns = shapeOf(weight)[1];
    bags = shapeOf(offsets)[0];
    bagOf = call.kernels.map({count}, i64, [&](BodyBuilder &body) {
      Element at = body.index(body.dim(0));
      Element begun = body.sum({bags}, i64, [&](BodyBuilder &inner) {
        Element offset = convert(inner.read(offsets, inner.ownDims()), i64);
        offset = call.expect(offset, offset <= inner.index(count), "an offset past the indices");
        return convert(offset <= at, i64);
      });
      return begun - begun.constant(1);
    });
    // With include_last_offset the last offset ends a bag and begins none.
    if (call.args.boolean("include_last_offset"))
      bags = bags - 1;
  }

  /// Puts together, for each bag and each of `batch`, the values of the bag's indices.
  Value reduce(Type resultType, function_ref<Element(BodyBuilder &)> init,
               function_ref<Element(BodyBuilder &, Expr)> value,
               function_ref<Element(Element, Element)> combine, ArrayRef<Expr> batch) {
    ScatterSpec spec;
    spec.batch = Exprs(batch);
    spec.targets = {bags};
    spec.places = {count};
    if (!batch.empty())
      spec.perm = {1, 0};
    auto update = [&](BodyBuilder &body) {
      Expr place = body.dim(batch.size() + 1);
      return ScatterSpec::Write{
          {body.read(bagOf, Exprs{place})}, isCounted(body, place), value(body, place)};
    };
    spec.init = init;
    spec.update = update;
    spec.combine = combine;
    return call.kernels.scatter(spec, resultType);
  }

  /// The sums or maxima of the bags' rows.
  Value reduceRows() {
    auto init = [&](BodyBuilder &body) {
      return mode == Max ? lowest(body.b(), wide) : body.constant(wide, 0);
    };
    auto row = [&](BodyBuilder &body, Expr place) {
      Element index = body.read(indices, Exprs{place});
      Element x = convert(body.read(weight, Indices{index, body.dim(0)}), wide);
      return factors ? x * convert(body.read(factors, Exprs{place}), wide) : x;
    };
    auto combine = [&](Element a, Element b) { return mode == Max ? maximum(a, b) : a + b; };
    return reduce(wide, init, row, combine, columns);
  }

  Value countRows() {
    return reduce(
        i64, [&](BodyBuilder &body) { return body.constant(i64, 0); },
        [&](BodyBuilder &body, Expr) { return body.constant(i64, 1); },
        [](Element a, Element b) { return a + b; }, {});
  }

  enum { Sum, Mean, Max };

  Call &call;
  Value weight, indices, offsets, factors, bagOf;
  Type type, wide, i64;
  int64_t mode;
  std::optional<Expr> padding;
  Expr count, columns, bags;

private:
  /// Null: always.
  Element isCounted(BodyBuilder &body, Expr place) {
    if (!padding)
      return {};
    Element index = convert(body.read(indices, Exprs{place}), i64);
    return index != body.index(*padding);
  }
};
} // namespace

/// Results: the bags; the bag of each index; the size of each bag; where each maximum was found.
static LogicalResult lowerEmbeddingBag(Call &call, bool countsFromLast) {
  Bags bags(call);
  if (StringRef obstacle = bags.findObstacle(); !obstacle.empty())
    return call.refuse(obstacle);
  bags.findBags(countsFromLast);
  Value rows = bags.reduceRows(), sizes = bags.countRows();
  Value output = call.kernels.map({bags.bags, bags.columns}, bags.type, [&](BodyBuilder &body) {
    Element x = body.read(rows, body.ownDims());
    if (bags.mode == Bags::Sum)
      return x;
    Element size = body.read(sizes, Exprs{body.dim(0)}), none = size == size.constant(0);
    if (bags.mode == Bags::Max)
      return select(none, x.constant(0), x);
    return x / convert(select(none, size.constant(1), size), bags.wide);
  });
  // ATen leaves the rest empty or unset for sums; what backward needs of it is not computed here.
  SmallVector<Value> results = {output};
  for (unsigned i = 1; i < call.numResults(); ++i) {
    bool isSizes = i == 2 && bags.mode != Bags::Sum && !call.isUnused(i);
    if (isSizes && call.args.boolean("include_last_offset"))
      return call.refuse("a use of bag_size with include_last_offset");
    if (bags.mode != Bags::Sum && !isSizes && !call.isUnused(i))
      return call.refuse("a use of offset2bag or max_indices");
    results.push_back(isSizes ? sizes
                              : call.kernels.full(call.resultShape(i), call.resultType(i), 0));
  }
  return call.set(results);
}

/// How often each of `rows` rows is read, in f64.
static Value countIndices(Call &call, Value indices, Expr rows) {
  Type f64 = Float64Type::get(indices.getContext()),
       i64 = IntegerType::get(indices.getContext(), 64);
  ScatterSpec spec;
  spec.targets = {rows};
  spec.places = shapeOf(indices);
  auto init = [&](BodyBuilder &body) { return body.constant(f64, 0); };
  auto update = [&](BodyBuilder &body) {
    Element index = convert(body.read(indices, body.dims(1, body.numDims())), i64);
    return ScatterSpec::Write{{index}, {}, body.constant(f64, 1)};
  };
  spec.init = init;
  spec.update = update;
  spec.combine = addInOpmath;
  return call.kernels.scatter(spec, f64);
}

/// The gradient of a table: every row of the gradient is added to the row that was read.
static LogicalResult lowerEmbeddingDenseBackward(Call &call) {
  Value gradient = call.tensor("grad_output"), indices = call.tensor("indices");
  Type type = elementType(gradient);
  Type i64 = IntegerType::get(type.getContext(), 64);
  Exprs shape = shapeOf(indices), whole = shapeOf(gradient);
  if (!isFloat(type) || !isInt(elementType(indices)) || whole.size() != shape.size() + 1)
    return call.refuse("these dtypes or ranks");
  Expr padding = call.args.symInt("padding_idx"), rows = call.args.symInt("num_weights");
  Value counts;
  if (call.args.boolean("scale_grad_by_freq"))
    counts = countIndices(call, indices, rows);
  ScatterSpec spec;
  spec.batch = {whole.back()};
  spec.targets = {rows};
  spec.places = shape;
  spec.perm = {1, 0};
  auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(2, body.numDims());
    Element index = convert(body.read(indices, at), i64);
    at.push_back(body.dim(0));
    Element x = body.read(gradient, at);
    if (counts) {
      Element count = body.read(counts, Indices{index});
      x = x * convert(count.constant(1) / count, type);
    }
    return ScatterSpec::Write{{index}, index != body.index(padding), x};
  };
  spec.init = init;
  spec.update = update;
  spec.combine = addInOpmath;
  return call.set(call.kernels.scatter(spec, type));
}

void lowering::registerEmbeddingBag(LoweringTable &table) {
  table.add({"aten._embedding_bag.default", "aten._embedding_bag_forward_only.default",
             "aten.embedding_bag.default"},
            [](Call &call) { return lowerEmbeddingBag(call, /*countsFromLast=*/false); });
  table.add("aten.embedding_bag.padding_idx",
            [](Call &call) { return lowerEmbeddingBag(call, /*countsFromLast=*/true); });
  table.add("aten.embedding_dense_backward.default", lowerEmbeddingDenseBackward);
}
