// Looking values up: in a sorted sequence, in a set, in bins of equal width.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// How often a range of up to `size` elements can be halved until it is empty.
static int64_t countHalvings(const sym::Assumptions &known, Expr size) {
  constexpr int64_t most = 48; // more elements than memory holds
  std::optional<int64_t> limit = known.rangeOf(size).max;
  return limit && *limit < (int64_t(1) << most) ? llvm::Log2_64(*limit + 1) + 1 : most;
}

/// The place of each value in a sorted sequence, by ATen's binary search: its answer in a sequence
/// with NaN depends on where it looks.
static LogicalResult search(Call &call, Value sequence, const Operand &values, bool right,
                            Value sorter) {
  Exprs shape = call.resultShape(), sizes = shapeOf(sequence);
  MLIRContext *context = sequence.getContext();
  // A number, or a 0-d tensor, takes the sequence's dtype; ATen promotes the others.
  Type type = lowering::resultType(context, {sequence, values});
  Type i64 = IntegerType::get(context, 64);
  if (!type || isComplex(type) || sizes.empty())
    return call.refuse("these dtypes or ranks");
  bool shared = sizes.size() == 1;
  if (!shared && (!values.tensor || sizes.size() != shape.size() ||
                  !call.fits(ArrayRef(sizes).drop_back(), ArrayRef(shape).drop_back(),
                             "sequences that do not fit the values")))
    return call.refuse("a sequence of another rank than the values");
  if (sorter && !call.fits(shapeOf(sorter), sizes, "a sorter of another shape"))
    return call.refuse("a sorter of another shape");
  Expr size = sizes.back();
  int64_t halvings = countHalvings(call.kernels.known(), size);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element value = call.read(body, values, type);
    Element begin = body.constant(i64, 0), end = body.index(size);
    Indices at = indicesOf(shared ? Exprs() : body.dims(0, sizes.size() - 1));
    at.push_back(Expr(0));
    for (int64_t i = 0; i < halvings; ++i) {
      Element some = begin < end;
      Element middle = begin + shiftRight(end - begin, begin.constant(1));
      at.back() = middle;
      if (sorter)
        at.back() = body.read(sorter, at, some, body.constant(elementType(sorter), 0));
      Element other = body.constant(elementType(sequence), 0);
      Element element = convert(body.read(sequence, at, some, other), type);
      Element before = ~(right ? element > value : element >= value);
      begin = select(some & before, middle + middle.constant(1), begin);
      end = select(some & ~before, middle, end);
    }
    return begin;
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

/// Counts in `bins` equal parts of [min, max]; what lies outside is in none. Equal bounds stand for
/// the least and the greatest element.
static LogicalResult lowerHistc(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  int64_t bins = call.args.integer("bins");
  double low = call.constantNumber("min"), high = call.constantNumber("max");
  if (!isFloat(type) && !isInt(type))
    return call.refuse("this dtype");
  if (bins <= 0 || low > high)
    return call.refuse("no bins, or bounds in the wrong order");
  Type wide = isFloat(type) ? opmath(type) : type;
  Exprs extents = shapeOf(self);
  Value bounds; // [least, greatest]
  if (low == high)
    bounds = call.kernels.map({2}, wide, [&](BodyBuilder &body) {
      auto element = [&](BodyBuilder &inner) {
        return convert(inner.read(self, inner.ownDims()), wide);
      };
      Element least = body.min(extents, wide, element), most = body.max(extents, wide, element);
      if (isFloat(wide)) {
        Element extent = most - least, count = body.index(sym::product(extents));
        least = call.expect(least,
                            (count == count.constant(0)) | (extent - extent == extent.constant(0)),
                            "a range that is not finite");
      }
      Element one = body.constant(wide, 1), same = least == most;
      Element first = body.index(body.dim(0)) == body.constant(i64, 0);
      return select(first, select(same, least - one, least), select(same, most + one, most));
    });
  auto update = [&](BodyBuilder &body) {
    Element x = convert(body.read(self, body.dims(1, body.numDims())), wide);
    Element first = bounds ? body.read(bounds, Exprs{0}) : body.constant(wide, low);
    Element last = bounds ? body.read(bounds, Exprs{1}) : body.constant(wide, high);
    Element scaled = (x - first) * x.constant(bins), width = last - first;
    Element place = isFloat(wide) ? scaled / width : truncDiv(scaled, width);
    Element inside = (x >= first) & (x <= last);
    place = convert(select(inside, place, place.constant(0)), i64);
    place = select(place == place.constant(bins), place.constant(bins - 1), place);
    return ScatterSpec::Write{{place}, inside, body.constant(i64, 1)};
  };
  ScatterSpec spec;
  spec.targets = {Expr(bins)};
  spec.places = extents;
  auto init = [&](BodyBuilder &body) { return body.constant(i64, 0); };
  spec.init = init;
  spec.update = update;
  auto add = [](Element old, Element one) { return old + one; };
  spec.combine = add;
  return call.set(call.kernels.convert(call.kernels.scatter(spec, i64), call.resultType()));
}

void lowering::registerSearch(LoweringTable &table) {
  table.add({"aten.searchsorted.Tensor", "aten.searchsorted.Scalar"}, lowerSearchsorted);
  table.add({"aten.bucketize.Tensor", "aten.bucketize.Scalar"}, lowerBucketize);
  table.add({"aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor"},
            lowerIsin);
  table.add("aten.histc.default", lowerHistc);
}
