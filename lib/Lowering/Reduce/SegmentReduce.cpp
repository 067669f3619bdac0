// Reductions of consecutive parts of a dim, whose lengths only data says.
#include "Core/Combine.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// The ends of the segments of each row, and the beginning of the first one (null: 0).
struct Segments {
  Value ends, starts;
};
} // namespace

static std::optional<Combine> combineNamed(StringRef name) {
  return llvm::StringSwitch<std::optional<Combine>>(name)
      .Case("sum", Combine::Sum)
      .Case("mean", Combine::Mean)
      .Case("prod", Combine::Product)
      .Case("max", Combine::Max)
      .Case("min", Combine::Min)
      .Default(std::nullopt);
}

/// The lengths summed up; those of a row are those of the whole dim unless `unsafe`.
static Segments fromLengths(Call &call, Value lengths, Expr size) {
  Type i64 = IntegerType::get(lengths.getContext(), 64);
  Exprs shape = shapeOf(lengths), rows = shape;
  rows.pop_back();
  auto read = [&](BodyBuilder &body) {
    return convert(body.read(lengths, body.dims(0, shape.size())), i64);
  };
  if (!call.args.boolean("unsafe")) {
    Value fit = call.kernels.map({}, IntegerType::get(i64.getContext(), 1), [&](BodyBuilder &body) {
      return body.all(rows, [&](BodyBuilder &row) {
        Element sum = row.sum({shape.back()}, i64, read);
        Element least = row.min({shape.back()}, i64, read);
        return (sum == row.index(size)) & (least >= least.constant(0));
      });
    });
    call.require(fit, "segments are not as long as the dim that they divide");
  }
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{body.constant(i64, 0)}; };
  auto next = [&](BodyBuilder &body) { return Elements{read(body)}; };
  auto add = [](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] + b[0]}; };
  int64_t last = shape.size() - 1;
  return {call.kernels.scan({shape, last, init, next, add}, i64).front(), {}};
}

static Segments fromOffsets(Call &call, Value offsets, Expr count) {
  Type i64 = IntegerType::get(offsets.getContext(), 64);
  Exprs shape = shapeOf(offsets);
  size_t last = shape.size() - 1;
  shape[last] = count;
  Value ends = call.kernels.map(shape, i64, [&](BodyBuilder &body) {
    Exprs at = body.ownDims();
    at[last] = at[last] + 1;
    return convert(body.read(offsets, at), i64);
  });
  return {ends, offsets};
}

static LogicalResult lowerSegmentReduce(Call &call) {
  Value data = call.tensor(0), lengths = call.args.optTensor("lengths");
  Value offsets = call.args.optTensor("offsets"), given = lengths ? lengths : offsets;
  std::optional<Combine> kind = combineNamed(call.args.string("reduce"));
  Type type = elementType(data), i64 = IntegerType::get(type.getContext(), 64);
  Exprs shape = shapeOf(data), result = call.resultShape();
  size_t rank = shape.size(), axis = call.dim("axis", rank);
  if (!kind || !isFloat(type) || call.args.optTensor("indices") || !lengths == !offsets ||
      rank == 0 || !isInt(elementType(given)) || rankOf(given) != int64_t(axis) + 1 ||
      result.size() != rank ||
      !call.fits(ArrayRef(shapeOf(given)).drop_back(), ArrayRef(shape).take_front(axis),
                 "segments of another shape"))
    return call.refuse("these segments, dtypes or ranks");
  Expr size = shape[axis], count = result[axis];
  std::optional<double> initial;
  if (!call.args.isNone("initial"))
    initial = call.constantNumber("initial");
  Segments segments =
      lengths ? fromLengths(call, lengths, size) : fromOffsets(call, offsets, count);

  // The segment of each element: how many end before it.
  Exprs elements(ArrayRef(shape).take_front(axis + 1));
  Value owners = call.kernels.map(elements, i64, [&](BodyBuilder &body) {
    Element element = body.index(body.dim(axis));
    return body.sum({count}, i64, [&](BodyBuilder &inner) {
      Exprs at = inner.dims(0, axis);
      at.push_back(inner.dim(inner.numDims() - 1));
      return convert(inner.read(segments.ends, at) <= element, i64);
    });
  });

  ScatterSpec spec; // the other dims are the batch
  for (size_t i = 0; i < rank; ++i) {
    spec.perm.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
    if (i != axis)
      spec.batch.push_back(shape[i]);
  }
  spec.targets = {count};
  spec.places = {size};
  auto init = [&](BodyBuilder &body) {
    return initial ? body.constant(type, *initial) : identityOf(body, *kind, type);
  };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(0, rank - 1), row(ArrayRef(at).take_front(axis));
    Expr place = body.dim(rank);
    at.insert(at.begin() + axis, place);
    Exprs element = row, first = row;
    element.push_back(place);
    first.push_back(0);
    Element owner = body.read(owners, element);
    Element enabled = owner < body.index(count);
    if (segments.starts)
      enabled = enabled & (convert(body.read(segments.starts, first), i64) <= body.index(place));
    return ScatterSpec::Write{{owner}, enabled, body.read(data, at)};
  };
  auto combine = [&](Element old, Element value) { return combined(*kind, old, value); };
  spec.init = init;
  spec.update = update;
  spec.combine = combine;
  Value reduced = call.kernels.scatter(spec, type);
  if (*kind != Combine::Mean)
    return call.set(reduced);

  return call.set(call.kernels.map(result, type, [&](BodyBuilder &body) {
    Exprs at(ArrayRef(body.ownDims()).take_front(axis + 1)), before = at;
    Element end = body.read(segments.ends, at), begin;
    if (segments.starts) {
      begin = convert(body.read(segments.starts, at), i64);
    } else {
      before[axis] = before[axis] - 1;
      begin = body.readPadded(segments.ends, before, body.constant(i64, 0));
    }
    Type wide = opmath(type);
    Element sum = convert(body.broadcast(reduced), wide), length = end - begin;
    Element none = length == length.constant(0);
    Element empty = initial ? sum : sum.constant(std::numeric_limits<double>::quiet_NaN());
    return select(none, empty, sum / convert(length, wide));
  }));
}

void lowering::registerSegmentReduce(LoweringTable &table) {
  table.add("aten.segment_reduce.default", lowerSegmentReduce);
}
