// Sorting, and what is read off a sorted dim. Ties keep their order and NaN is the greatest.
#include "kiln/Dialect/Kernel/Sort.h"
#include "Core/ReducedDims.h"
#include "Reduce/Order.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The bits of a floating-point number, those of a negative one turned around.
Element lowering::orderedBits(Element x) {
  ImplicitLocOpBuilder &b = x.b();
  Type i64 = b.getI64Type();
  if (x.type().isUnsignedInteger(64))
    return x.make(x.value(), i64) ^ constant(b, i64, INT64_MIN);
  if (!isFloat(x.type()))
    return convert(x, i64);
  x = convert(x, opmath(x.type()));
  unsigned width = x.type().getIntOrFloatBitWidth();
  Type type = b.getIntegerType(width);
  Element isNumber = ~isNan(x);
  x = x + 0.0; // there is one zero
  Element bits = x.make(arith::BitcastOp::create(b, type, x.value()), type);
  Element most = bits.constant(APInt::getSignedMaxValue(width).getSExtValue());
  Element sign = shiftRight(bits, bits.constant(int64_t(width - 1)));
  return convert(select(isNumber, bits ^ (sign & most), most), i64);
}

Value lowering::sortedPositions(Call &call, Value self, const SortedDim &along, bool descending,
                                std::optional<Expr> wanted) {
  if (isComplex(elementType(self))) {
    call.kernels.fail("an order of complex numbers");
    return {};
  }
  Exprs shape = along.rows();
  size_t rank = shape.size();
  shape.push_back(along.length());
  Value positions = call.kernels.sort(shape, [&](BodyBuilder &body) {
    Indices index = along.index(body.dims(0, rank), body.dim(rank));
    Element key = orderedBits(body.read(self, index));
    return descending ? ~key : key;
  });
  std::optional<int64_t> first = wanted ? wanted->constant() : std::nullopt;
  if (first && *first >= 1 && *first <= kernel::maxFirst)
    positions.getDefiningOp()->setAttr(
        kernel::firstAttrName,
        IntegerAttr::get(IntegerType::get(positions.getContext(), 64), *first));
  return positions;
}

/// `tensor` with at least one dim, and which of them `key` names.
static std::pair<Value, SortedDim> alongDim(Call &call, Value tensor, torch::CallArgs::Key key) {
  int64_t dim = call.dim(key, rankOf(tensor));
  if (rankOf(tensor) == 0)
    tensor = call.kernels.reshape(tensor, {1});
  return {tensor, {shapeOf(tensor), dim}};
}

/// The first `length` sorted values (if `values`) and their positions, in the shape of the results.
static LogicalResult setSorted(Call &call, bool descending, std::optional<Expr> length,
                               bool values = true) {
  auto [self, along] = alongDim(call, call.tensor(0), "dim");
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  Value positions = sortedPositions(call, self, along, descending, length);
  if (!positions)
    return failure();
  Exprs shape = along.shape;
  size_t rank = shape.size();
  // Fewer elements than asked for are found out when the model runs.
  bool fits = !length || call.kernels.known().isLessOrEqual(*length, shape[along.dim]);
  if (length)
    shape[along.dim] = *length;
  Value places = call.kernels.map(shape, i64, [&](BodyBuilder &body) {
    Exprs row = body.ownDims();
    row.erase(row.begin() + along.dim);
    Indices at = indicesOf(row);
    Expr place = body.dim(along.dim);
    at.push_back(fits ? Index(place) : Index(body.index(place)));
    return body.read(positions, at);
  });
  auto restore = [&](Value value) {
    return rank == call.resultShape().size() ? value
                                             : call.kernels.reshape(value, call.resultShape());
  };
  if (!values)
    return call.set(restore(places));
  Value taken = call.kernels.map(shape, elementType(self), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[along.dim] = body.broadcast(places);
    return body.read(self, at);
  });
  return call.set({restore(taken), restore(places)});
}

static LogicalResult lowerSort(Call &call) {
  return setSorted(call, call.args.boolean("descending"), std::nullopt);
}

static LogicalResult lowerTopk(Call &call) {
  return setSorted(call, call.args.boolean("largest"), call.args.symInt("k"));
}

static LogicalResult lowerArgsort(Call &call) {
  return setSorted(call, call.args.boolean("descending"), std::nullopt, /*values=*/false);
}

static LogicalResult lowerMsort(Call &call) { // sort along dim 0
  Value self = call.tensor(0);
  if (rankOf(self) == 0)
    return call.set(self);
  SortedDim along{shapeOf(self), 0};
  Value positions = sortedPositions(call, self, along, false);
  if (!positions)
    return failure();
  size_t rank = along.shape.size();
  return call.set(call.kernels.map(along.shape, elementType(self), [&](BodyBuilder &body) {
    Exprs at = body.dims(1, rank);
    Exprs row = at;
    at.push_back(body.dim(0));
    return body.read(self, along.index(row, body.read(positions, at)));
  }));
}

//===-- Order statistics ----------------------------------------------------------------------===//

/// Values and positions (each with `keepdim`) at the place of each row that `place` gives.
static SmallVector<Value>
takePlace(Call &call, Value self, const SortedDim &along, Value positions, bool keepdim,
          function_ref<Element(BodyBuilder &, ArrayRef<Expr> row)> place) {
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  Exprs shape = along.rows();
  if (keepdim)
    shape.insert(shape.begin() + along.dim, Expr(1));
  return call.kernels.map(shape, {elementType(self), i64}, [&](BodyBuilder &body) {
    Exprs row = body.ownDims();
    if (keepdim)
      row.erase(row.begin() + along.dim);
    Indices at = indicesOf(row);
    at.push_back(place(body, row));
    Element position = body.read(positions, at);
    return BodyBuilder::Elements{body.read(self, along.index(row, position)), position};
  });
}

/// The same as results of a call of which a 0-d tensor gives 0-d tensors.
static LogicalResult setPlace(Call &call, Value self, const SortedDim &along, bool keepdim,
                              function_ref<Element(BodyBuilder &, ArrayRef<Expr>)> place,
                              std::optional<Expr> wanted = std::nullopt) {
  Value positions = sortedPositions(call, self, along, false, wanted);
  if (!positions)
    return failure();
  SmallVector<Value> results = takePlace(call, self, along, positions, keepdim, place);
  for (auto [i, result] : llvm::enumerate(results))
    if (i < call.numResults() && shapeOf(result).size() != call.resultShape(i).size())
      result = call.kernels.reshape(result, call.resultShape(i));
  results.resize(call.numResults());
  return call.set(results);
}

static LogicalResult lowerKthvalue(Call &call) {
  auto [self, along] = alongDim(call, call.tensor(0), "dim");
  Expr k = call.args.symInt("k");
  return setPlace(
      call, self, along, call.args.boolean("keepdim"),
      [&](BodyBuilder &body, ArrayRef<Expr>) { return body.index(k - 1); }, k);
}

/// The lower of two middle elements; of a row with NaN its first NaN, or with `ignoreNan` the
/// median of the numbers.
static LogicalResult median(Call &call, Value self, const SortedDim &along, bool keepdim,
                            bool ignoreNan) {
  Type i64 = IntegerType::get(call.args.op().getContext(), 64);
  return setPlace(call, self, along, keepdim, [&](BodyBuilder &body, ArrayRef<Expr> row) {
    Element middle = body.index((along.length() - 1).floorDiv(2));
    if (!isFloat(elementType(self)))
      return middle;
    // NaN is last, so that the first of them stands behind all numbers.
    Element numbers = body.sum({along.length()}, i64, [&](BodyBuilder &inner) {
      Element x = inner.read(self, along.index(row, inner.dim(inner.numDims() - 1)));
      return convert(~isNan(x), i64);
    });
    Element length = body.index(along.length());
    if (ignoreNan) // of no number, place 0
      return select(numbers == numbers.constant(0), numbers,
                    shiftRight(numbers - numbers.constant(1), numbers.constant(1)));
    return select(numbers == length, middle, numbers);
  });
}

static LogicalResult lowerMedianDim(Call &call, bool ignoreNan) {
  auto [self, along] = alongDim(call, call.tensor(0), "dim");
  return median(call, self, along, call.args.boolean("keepdim"), ignoreNan);
}

static LogicalResult lowerMedian(Call &call, bool ignoreNan) { // of all elements
  Value self = call.tensor(0);
  Expr count = sym::product(shapeOf(self));
  call.require(count - 1, "the median of no elements");
  self = call.kernels.reshape(self, {count});
  return median(call, self, {{count}, 0}, false, ignoreNan);
}

/// The value that occurs most often, the least of several, and its last position.
static LogicalResult lowerMode(Call &call) {
  auto [self, along] = alongDim(call, call.tensor(0), "dim");
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  Value positions = sortedPositions(call, self, along, false);
  if (!positions)
    return failure();
  Exprs shape = along.rows();
  size_t rank = shape.size();
  shape.push_back(along.length());
  Value sorted = call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Element position = body.read(positions, body.ownDims());
    return body.read(self, along.index(body.dims(0, rank), position));
  });
  // How many equal elements end at each place.
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{body.constant(i64, 0)}; };
  auto body = [&](BodyBuilder &inner) {
    Exprs before = inner.ownDims();
    before.back() = before.back() - 1;
    Element x = inner.read(sorted, inner.ownDims());
    Element same = inner.inside({before.back()}, {along.length()}) &
                   (inner.readPadded(sorted, before, inner.constant(type, 0)) == x);
    return Elements{convert(same, i64)};
  };
  auto step = [&](ArrayRef<Element> run, ArrayRef<Element> same) {
    return Elements{run[0] * same[0] + run[0].constant(1)};
  };
  Value runs =
      call.kernels.scan({shape, static_cast<int64_t>(rank), init, body, step}, i64).front();
  bool keepdim = call.args.boolean("keepdim");
  SmallVector<Value> results =
      takePlace(call, self, along, positions, keepdim, [&](BodyBuilder &body, ArrayRef<Expr> row) {
        return body
            .argExtreme({along.length()}, i64, /*largest=*/true, /*lastNan=*/false,
                        [&](BodyBuilder &inner) {
                          Expr at = inner.dim(inner.numDims() - 1);
                          Exprs place(row);
                          place.push_back(at);
                          return std::pair(inner.read(runs, place), inner.index(at));
                        })
            .second;
      });
  for (auto [i, result] : llvm::enumerate(results))
    if (shapeOf(result).size() != call.resultShape(i).size())
      result = call.kernels.reshape(result, call.resultShape(i));
  return call.set(results);
}

void lowering::registerSort(LoweringTable &table) {
  table.add({"aten.sort.default", "aten.sort.stable"}, lowerSort);
  table.add("aten.topk.default", lowerTopk);
  table.add({"aten.argsort.default", "aten.argsort.stable"}, lowerArgsort);
  table.add("aten.msort.default", lowerMsort);
  table.add("aten.kthvalue.default", lowerKthvalue);
  table.add("aten.median.default", [](Call &call) { return lowerMedian(call, false); });
  table.add("aten.median.dim", [](Call &call) { return lowerMedianDim(call, false); });
  table.add("aten.nanmedian.default", [](Call &call) { return lowerMedian(call, true); });
  table.add("aten.nanmedian.dim", [](Call &call) { return lowerMedianDim(call, true); });
  table.add("aten.mode.default", lowerMode);
}
