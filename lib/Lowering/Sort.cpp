// Sorting and searching by counting: an element's place is the number of elements before it. That
// is quadratic in the dim, so long ones are refused. Ties keep their order and NaN is the greatest.
#include "ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The longest dim worth the quadratic form.
static constexpr int64_t maxLength = 4096;

/// `a`, at place `i`, stands before `b`, at place `j`.
static Element isBefore(Element a, Element i, Element b, Element j, bool descending) {
  Element less = descending ? b < a : a < b, equal = a == b;
  if (isFloat(a.type())) {
    Element nanA = isNan(a), nanB = isNan(b);
    less = less | (descending ? nanA & ~nanB : nanB & ~nanA);
    equal = equal | (nanA & nanB);
  }
  return less | (equal & (i < j));
}

/// The position of the element that sorting puts at each place: [.., n, ..] of i64. Null, with a
/// reason, for what cannot be sorted.
static Value sortedPositions(Call &call, Value self, int64_t dim, bool descending) {
  Exprs shape = shapeOf(self);
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  if (isComplex(elementType(self))) {
    call.kernels.fail("an order of complex numbers");
    return {};
  }
  if (!call.kernels.known().isLessOrEqual(shape[dim], maxLength)) {
    call.kernels.fail("a dim that may be longer than " + Twine(maxLength));
    return {};
  }
  int64_t rank = shape.size();
  Value places = call.kernels.map(shape, i64, [&](BodyBuilder &body) {
    Element mine = body.broadcast(self), myPlace = body.index(body.dim(dim));
    return body.sum({shape[dim]}, i64, [&](BodyBuilder &inner) {
      Exprs at = body.ownDims();
      at[dim] = inner.dim(rank);
      Element other = inner.read(self, at), place = inner.index(inner.dim(rank));
      return convert(isBefore(other, place, mine, myPlace, descending), i64);
    });
  });
  return call.kernels.map(shape, i64, [&](BodyBuilder &body) {
    Element wanted = body.index(body.dim(dim));
    return body.sum({shape[dim]}, i64, [&](BodyBuilder &inner) {
      Exprs at = body.ownDims();
      at[dim] = inner.dim(rank);
      Element here = inner.read(places, at) == wanted;
      return select(here, inner.index(inner.dim(rank)), inner.constant(i64, 0));
    });
  });
}

/// The first `length` sorted values and their positions.
static LogicalResult sorted(Call &call, int64_t dim, bool descending, std::optional<Expr> length) {
  Value self = call.tensor(0);
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  if (rankOf(self) == 0)
    return call.set({self, call.kernels.full({}, i64, 0)});
  Exprs shape = shapeOf(self);
  if (length) {
    if (!call.kernels.known().isLessOrEqual(*length, shape[dim]))
      return call.refuse("cannot tell that there are so many elements");
    shape[dim] = *length;
  }
  Value positions = sortedPositions(call, self, dim, descending);
  if (!positions)
    return failure();
  Value indices = call.kernels.map(
      shape, i64, [&](BodyBuilder &body) { return body.read(positions, body.ownDims()); });
  Value values = call.kernels.map(shape, elementType(self), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[dim] = body.read(positions, body.ownDims());
    return body.read(self, at);
  });
  return call.set({values, indices});
}

static LogicalResult lowerSort(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  return sorted(call, call.dim("dim", rank), call.args.boolean("descending"), std::nullopt);
}

static LogicalResult lowerTopk(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  return sorted(call, call.dim("dim", rank), call.args.boolean("largest"), call.args.symInt("k"));
}

static LogicalResult lowerArgsort(Call &call) {
  Value self = call.tensor(0);
  if (rankOf(self) == 0)
    return call.set(call.kernels.full({}, call.resultType(), 0));
  Value positions =
      sortedPositions(call, self, call.dim("dim", rankOf(self)), call.args.boolean("descending"));
  return positions ? call.set(positions) : failure();
}

//===-- Searching -----------------------------------------------------------------------------===//

/// How many elements of the sorted sequence come before each value. ATen's binary search walks past
/// everything when it looks for NaN, which the negated comparison does too.
static LogicalResult search(Call &call, Value sequence, const Operand &values, bool right,
                            Value sorter) {
  Type type = elementType(sequence), i64 = IntegerType::get(type.getContext(), 64);
  Exprs shape = call.resultShape(), sizes = shapeOf(sequence);
  if (isComplex(type) || sizes.empty() || (values.tensor && elementType(values.tensor) != type))
    return call.refuse("these dtypes or ranks");
  bool shared = sizes.size() == 1;
  if (!shared && (!values.tensor || sizes.size() != shape.size() ||
                  !call.kernels.isSame(ArrayRef(sizes).drop_back(), ArrayRef(shape).drop_back())))
    return call.refuse("a sequence of another rank than the values");
  if (sorter && !call.kernels.isSame(shapeOf(sorter), sizes))
    return call.refuse("a sorter of another shape");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element value = call.read(body, values, type);
    Element count = body.sum({sizes.back()}, i64, [&](BodyBuilder &inner) {
      Exprs at = shared ? Exprs() : inner.dims(0, sizes.size() - 1);
      at.push_back(inner.dim(inner.numDims() - 1));
      Indices where = indicesOf(at);
      if (sorter)
        where.back() = inner.read(sorter, at);
      Element element = inner.read(sequence, where);
      Element after = right ? element > value : element >= value;
      return convert(~after, i64);
    });
    return count;
  }));
}

static LogicalResult lowerSearchsorted(Call &call) {
  bool right = call.args.boolean("right");
  if (!call.args.isNone("side"))
    right = call.args.string("side") == "right";
  Value sorter = call.args.has("sorter") ? call.args.optTensor("sorter") : Value();
  return search(call, call.tensor(0), call.operand(1), right, sorter);
}

static LogicalResult lowerBucketize(Call &call) {
  if (rankOf(call.tensor("boundaries")) != 1)
    return call.refuse("boundaries that are not a vector");
  return search(call, call.tensor("boundaries"), call.operand(0), call.args.boolean("right"), {});
}

static LogicalResult lowerIsin(Call &call) {
  Operand elements = call.operand(0), test = call.operand(1);
  Type common = lowering::resultType(call.args.op().getContext(), {elements, test});
  if (!common)
    return call.refuse("dtypes that do not promote");
  bool invert = call.args.boolean("invert");
  Exprs extents = test.tensor ? shapeOf(test.tensor) : Exprs();
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    Element value = call.read(body, elements, common);
    Element found = body.any(extents, [&](BodyBuilder &inner) {
      Element other = test.tensor ? convert(inner.read(test.tensor, inner.ownDims()), common)
                                  : call.number(inner, *test.number, common);
      return other == value;
    });
    return invert ? ~found : found;
  }));
}

/// Counts in `bins` equal parts of [min, max]; what lies outside is in none.
static LogicalResult lowerHistc(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  int64_t bins = call.args.integer("bins");
  double low = call.constantNumber("min"), high = call.constantNumber("max");
  if (!isFloat(type) && !isInt(type))
    return call.refuse("this dtype");
  if (low >= high)
    return call.refuse("bounds that are taken from data");
  Type wide = isFloat(type) ? opmath(type) : type;
  Exprs extents = shapeOf(self);
  return call.set(call.kernels.map({Expr(bins)}, call.resultType(), [&](BodyBuilder &body) {
    Element bin = body.index(body.dim(0));
    Element count = body.sum(extents, i64, [&](BodyBuilder &inner) {
      Element x = convert(inner.read(self, inner.ownDims()), wide);
      Element first = inner.constant(wide, low), last = inner.constant(wide, high);
      Element scaled = (x - first) * x.constant(bins);
      Element width = last - first;
      Element place = isFloat(wide) ? scaled / width : truncDiv(scaled, width);
      Element inside = (x >= first) & (x <= last);
      place = convert(select(inside, place, place.constant(0)), i64);
      place = select(place == place.constant(bins), place.constant(bins - 1), place);
      return convert(inside & (place == bin), i64);
    });
    return count;
  }));
}

void lowering::registerSort(LoweringTable &table) {
  table.add({"aten.sort.default", "aten.sort.stable"}, lowerSort);
  table.add("aten.topk.default", lowerTopk);
  table.add({"aten.argsort.default", "aten.argsort.stable"}, lowerArgsort);
  table.add({"aten.searchsorted.Tensor", "aten.searchsorted.Scalar"}, lowerSearchsorted);
  table.add({"aten.bucketize.Tensor", "aten.bucketize.Scalar"}, lowerBucketize);
  table.add({"aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor"},
            lowerIsin);
  table.add("aten.histc.default", lowerHistc);
}
