// Writes of a part of a tensor, as maps over the whole: each element of the result asks where it
// comes from. For places that data gives, that is a search over all of them, so large ones are
// refused.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The most places worth a search for each element.
static constexpr int64_t maxPlaces = 4096;

static bool isIndexType(Type type) { return isInt(type) && !type.isUnsignedInteger(64); }

//===-- Parts that expressions name -----------------------------------------------------------===//

/// Where all `exprs` lie in `bounds`, `source` at `index`; elsewhere `self`.
static LogicalResult
overwrite(Call &call, Value source,
          function_ref<void(BodyBuilder &, Exprs &index, Exprs &exprs, Exprs &bounds)> place) {
  Value self = call.tensor(0);
  if (elementType(source) != elementType(self))
    source = call.kernels.convert(source, elementType(self));
  return call.set(
      call.kernels.map(shapeOf(self), elementType(self), [&](BodyBuilder &body) -> Element {
        Exprs index, exprs, bounds;
        place(body, index, exprs, bounds);
        return body.read(source, index, body.inside(exprs, bounds), body.broadcast(self));
      }));
}

static LogicalResult lowerSelectScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Expr at = call.args.symInt("index");
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs rest = shapeOf(self);
  Expr size = rest[dim];
  if (call.kernels.known().isLess(at, 0))
    at = at + size;
  rest.erase(rest.begin() + dim);
  if (!call.kernels.known().isNonNegative(at) || !call.kernels.known().isLess(at, size))
    return call.refuse("cannot tell that the index lies inside the dim");
  source = call.kernels.expand(source, rest);
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    index = body.ownDims();
    index.erase(index.begin() + dim);
    exprs.push_back(body.dim(dim) - at);
    bounds.push_back(1);
  });
}

static LogicalResult lowerSliceScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor has no part");
  Exprs part = shapeOf(self);
  const sym::Assumptions &known = call.kernels.known();
  Expr size = part[dim], step = call.args.symInt("step");
  auto clamped = [&](torch::CallArgs::Key key, Expr missing) -> std::optional<Expr> {
    Expr bound = call.args.optSymInt(key).value_or(missing);
    if (known.isNonNegative(bound))
      return known.simplify(Expr::min(bound, size));
    if (known.isLess(bound, 0))
      return known.simplify(Expr::max(bound + size, Expr(0)));
    return std::nullopt;
  };
  auto start = clamped("start", 0), end = clamped("end", size);
  if (!start || !end || !known.isPositive(step))
    return call.refuse("cannot tell the sign of a bound or of the step");
  part[dim] = known.simplify(Expr::max((*end - *start).ceilDiv(step), Expr(0)));
  source = call.kernels.expand(source, part);
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    index = body.ownDims();
    Expr offset = body.dim(dim) - *start;
    index[dim] = offset.floorDiv(step);
    exprs.push_back(index[dim]);
    bounds.push_back(part[dim]);
    if (!step.isConstant(1)) {
      exprs.push_back(offset.mod(step));
      bounds.push_back(1);
    }
  });
}

static LogicalResult lowerDiagonalScatter(Call &call) {
  Value self = call.tensor(0), source = call.tensor(1);
  int64_t rank = rankOf(self), row = call.dim("dim1", rank), column = call.dim("dim2", rank);
  int64_t offset = call.args.integer("offset");
  if (rank < 2 || row == column || rankOf(source) != rank - 1)
    return call.refuse("needs two different dims and a source of one dim less");
  Exprs sizes = shapeOf(self), part;
  for (int64_t i = 0; i < rank; ++i)
    if (i != row && i != column)
      part.push_back(sizes[i]);
  int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  part.push_back(call.kernels.known().simplify(
      Expr::max(Expr::min(sizes[row] - down, sizes[column] - right), Expr(0))));
  if (!call.kernels.isSame(shapeOf(source), part))
    return call.refuse("a source of another shape");
  return overwrite(call, source, [&](BodyBuilder &body, Exprs &index, Exprs &exprs, Exprs &bounds) {
    for (int64_t i = 0; i < rank; ++i)
      if (i != row && i != column)
        index.push_back(body.dim(i));
    index.push_back(body.dim(row) - down);
    exprs.append({index.back(), body.dim(column) - right - index.back()});
    bounds.append({part.back(), Expr(1)});
  });
}

/// `copy`: src in self's dtype and shape.
static LogicalResult lowerCopy(Call &call) {
  Value source = call.kernels.expand(call.tensor(1), shapeOf(call.tensor(0)));
  return call.set(call.kernels.convert(source, call.resultType()));
}

//===-- Places that data names ----------------------------------------------------------------===//

namespace {
/// What a place that is written several times keeps.
enum class Combine { Last, Sum, Product, Mean, Max, Min };
} // namespace

/// Whether so many places may be searched; none is fine if that is known.
static bool isSearchable(Call &call, Expr places) {
  const sym::Assumptions &known = call.kernels.known();
  bool fits =
      places.isConstant(0) || (known.isPositive(places) && known.isLessOrEqual(places, maxPlaces));
  if (!fits)
    call.kernels.fail("a number of indices that is not known to be in 1.." + Twine(maxPlaces));
  return fits;
}

static std::optional<Combine> combineNamed(StringRef name) {
  if (name == "add" || name == "sum")
    return Combine::Sum;
  if (name == "multiply" || name == "prod")
    return Combine::Product;
  if (name == "mean")
    return Combine::Mean;
  if (name == "amax")
    return Combine::Max;
  if (name == "amin")
    return Combine::Min;
  return std::nullopt;
}

/// Of the `places` (positions of a further loop dim) that `hits` names, combines `old` (if
/// `include`) with what `value` reads there.
static Element combineHits(BodyBuilder &body, Combine combine, Expr places, Element old,
                           bool include, Type type, function_ref<Element(BodyBuilder &, Expr)> hits,
                           function_ref<Element(BodyBuilder &, Index)> value) {
  Type i64 = body.b().getI64Type(), wide = opmath(type);
  auto loop = [](BodyBuilder &inner) { return inner.dim(inner.numDims() - 1); };
  if (places.isConstant(0))
    return old;
  if (combine == Combine::Last) {
    Element last = body.reduce(
                           {places}, {body.constant(i64, -1)},
                           [&](BodyBuilder &inner) {
                             Element at = inner.index(loop(inner));
                             return BodyBuilder::Elements{
                                 select(hits(inner, loop(inner)), at, inner.constant(i64, -1))};
                           },
                           [](ArrayRef<Element> a, ArrayRef<Element> b) {
                             return BodyBuilder::Elements{maximum(a[0], b[0])};
                           })
                       .front();
    // Never read at -1: the value is then the old one.
    Element none = last < last.constant(0);
    return select(none, old, value(body, select(none, last.constant(0), last)));
  }
  auto read = [&](BodyBuilder &inner, Element neutral) {
    Element x = convert(value(inner, loop(inner)), wide);
    return select(hits(inner, loop(inner)), x, neutral);
  };
  Element before = convert(old, wide);
  auto any = [&] {
    return body.any({places}, [&](BodyBuilder &inner) { return hits(inner, loop(inner)); });
  };
  switch (combine) {
  case Combine::Sum:
  case Combine::Mean: {
    Element sum = body.sum(
        {places}, wide, [&](BodyBuilder &inner) { return read(inner, inner.constant(wide, 0)); });
    if (combine == Combine::Sum && include)
      return before + sum;
    Element count = body.sum(
        {places}, i64, [&](BodyBuilder &inner) { return convert(hits(inner, loop(inner)), i64); });
    Element none = count == count.constant(0);
    if (combine == Combine::Sum)
      return select(none, before, sum);
    Element total = include ? before + sum : sum;
    Element by = include ? count + count.constant(1) : select(none, count.constant(1), count);
    Element mean = isFloat(wide) ? total / convert(by, wide) : floorDiv(total, convert(by, wide));
    return include ? mean : select(none, before, mean);
  }
  case Combine::Product: {
    Element product = body.prod(
        {places}, wide, [&](BodyBuilder &inner) { return read(inner, inner.constant(wide, 1)); });
    return include ? before * product : select(any(), product, before);
  }
  case Combine::Max: {
    Element most = body.max(
        {places}, wide, [&](BodyBuilder &inner) { return read(inner, lowest(inner.b(), wide)); });
    return include ? maximum(before, most) : select(any(), most, before);
  }
  case Combine::Min: {
    Element least = body.min(
        {places}, wide, [&](BodyBuilder &inner) { return read(inner, highest(inner.b(), wide)); });
    return include ? minimum(before, least) : select(any(), least, before);
  }
  case Combine::Last:
    break;
  }
  llvm_unreachable("handled above");
}

/// self[…, index[…], …] = source[…] along `dim`, where index and source are looked at within
/// index's shape. A source that is a number stands for a tensor of it.
static LogicalResult scatter(Call &call, const Operand &source, Combine combine, bool include) {
  Value self = call.tensor(0), index = call.tensor("index");
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Type type = elementType(self);
  if (isComplex(type) || !isIndexType(elementType(index)) || rank != rankOf(index) || rank == 0)
    return call.refuse("these dtypes or ranks");
  if (source.tensor && (rankOf(source.tensor) != rank || elementType(source.tensor) != type))
    return call.refuse("a source of another dtype or rank");
  Exprs sizes = shapeOf(self), places = shapeOf(index);
  const sym::Assumptions &known = call.kernels.known();
  for (int64_t i = 0; i < rank; ++i) {
    bool fits = i == dim || known.isLessOrEqual(places[i], sizes[i]);
    if (source.tensor)
      fits &= known.isLessOrEqual(places[i], shapeOf(source.tensor)[i]);
    if (!fits)
      return call.refuse("cannot tell that the indices lie inside the other dims");
  }
  if (!isSearchable(call, places[dim]))
    return failure();
  if (isBool(type) && combine != Combine::Last)
    return call.refuse("a reduction of bool");
  Type i64 = IntegerType::get(type.getContext(), 64);
  return call.set(call.kernels.map(sizes, type, [&](BodyBuilder &body) {
    Exprs own = body.ownDims(), bounded = own, bounds = places;
    bounded.erase(bounded.begin() + dim);
    bounds.erase(bounds.begin() + dim);
    auto hits = [&](BodyBuilder &inner, Expr place) {
      Exprs at = own;
      at[dim] = place;
      Element within = inner.inside(bounded, bounds);
      Element other = convert(inner.constant(i64, -1), elementType(index));
      Element target = convert(inner.read(index, at, within, other), i64);
      return target == inner.index(own[dim]);
    };
    auto value = [&](BodyBuilder &inner, Index place) {
      if (!source.tensor)
        return call.number(inner, *source.number, type);
      Indices at = indicesOf(own);
      at[dim] = place;
      return inner.read(source.tensor, at, inner.inside(bounded, bounds), inner.constant(type, 0));
    };
    return combineHits(body, combine, places[dim], body.broadcast(self), include, type, hits,
                       value);
  }));
}

static LogicalResult lowerScatter(Call &call) { // scatter.src, .value, .reduce, .value_reduce
  Operand source = call.operand(3);
  if (!call.args.has("reduce"))
    return scatter(call, source, Combine::Last, true);
  auto combine = combineNamed(call.args.string("reduce"));
  return combine ? scatter(call, source, *combine, true) : call.refuse("this reduction");
}

static LogicalResult lowerScatterAdd(Call &call) {
  return scatter(call, call.operand(3), Combine::Sum, true);
}

static LogicalResult lowerScatterReduce(Call &call) { // scatter_reduce.two
  auto combine = combineNamed(call.args.string("reduce"));
  return combine ? scatter(call, call.operand(3), *combine, call.args.boolean("include_self"))
                 : call.refuse("this reduction");
}

/// self[…, index[i], …] combined with source[…, i, …]: a vector of indices along `dim`.
static LogicalResult indexInto(Call &call, const Operand &source, Combine combine,
                               const torch::Scalar &alpha) {
  Value self = call.tensor(0), index = call.tensor("index");
  int64_t rank = rankOf(self), dim = call.dim("dim", rank);
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  if (rank == 0 || rankOf(index) > 1 || !isIndexType(elementType(index)) || isComplex(type) ||
      (isBool(type) && combine != Combine::Last))
    return call.refuse("these dtypes or ranks");
  Exprs sizes = shapeOf(self), sourceShape = sizes;
  Expr places = rankOf(index) == 1 ? shapeOf(index)[0] : Expr(1);
  sourceShape[dim] = places;
  bool whole = source.tensor && rankOf(source.tensor) > 0;
  if (whole && (elementType(source.tensor) != type ||
                !call.kernels.isSame(shapeOf(source.tensor), sourceShape)))
    return call.refuse("a source of another dtype or shape");
  if (!isSearchable(call, places))
    return failure();
  return call.set(call.kernels.map(sizes, type, [&](BodyBuilder &body) {
    Exprs own = body.ownDims();
    auto hits = [&](BodyBuilder &inner, Expr place) {
      Element target = inner.read(index, rankOf(index) == 1 ? Exprs{place} : Exprs());
      target = convert(target, i64);
      target = select(target < target.constant(0), target + inner.index(sizes[dim]), target);
      return target == inner.index(own[dim]);
    };
    auto value = [&](BodyBuilder &inner, Index place) {
      if (!whole)
        return call.read(inner, source, type);
      Indices at = indicesOf(own);
      at[dim] = place;
      Element x = inner.read(source.tensor, at);
      if (torch::asDouble(alpha) == 1.0)
        return x;
      Type wide = opmath(type);
      return convert(convert(x, wide) * call.number(inner, alpha, wide), type);
    };
    return combineHits(body, combine, places, body.broadcast(self), true, type, hits, value);
  }));
}

static LogicalResult lowerIndexAdd(Call &call) {
  return indexInto(call, call.operand("source"), Combine::Sum, call.args.scalar("alpha"));
}
static LogicalResult lowerIndexCopy(Call &call) {
  return indexInto(call, call.operand("source"), Combine::Last, int64_t(1));
}
static LogicalResult lowerIndexFill(Call &call) {
  return indexInto(call, call.operand("value"), Combine::Last, int64_t(1));
}

//===-- index_put -----------------------------------------------------------------------------===//

/// self[mask] = value with one value for all: a choice for each element.
static LogicalResult putMasked(Call &call, ArrayRef<Value> indices, Value values, bool accumulate) {
  Value self = call.tensor(0);
  Type type = elementType(self), wide = opmath(type);
  size_t position = llvm::find_if(indices, [](Value v) { return v != Value(); }) - indices.begin();
  Value mask = indices[position];
  size_t others = llvm::count_if(indices, [](Value v) { return v != Value(); });
  bool one = llvm::all_of(shapeOf(values), [](Expr size) { return size.isConstant(1); });
  Exprs sizes = shapeOf(self);
  size_t rank = rankOf(mask);
  if (others != 1 || !one || elementType(values) != type || position + rank > sizes.size() ||
      !call.kernels.isSame(shapeOf(mask), ArrayRef(sizes).slice(position, rank)))
    return call.refuse("a mask as an index with more than one value");
  return call.set(call.kernels.map(sizes, type, [&](BodyBuilder &body) {
    Element test = isTrue(body.read(mask, body.dims(position, position + rank)));
    Element value = body.read(values, Exprs(rankOf(values), Expr(0)));
    Element old = body.broadcast(self);
    if (accumulate)
      value = convert(convert(old, wide) + convert(value, wide), type);
    return select(test, value, old);
  }));
}

/// The indices are broadcast together; each of their positions is a place.
static LogicalResult lowerIndexPut(Call &call) {
  Value self = call.tensor(0), values = call.tensor("values");
  SmallVector<Value> indices = call.args.optTensorList("indices");
  bool accumulate = call.args.boolean("accumulate");
  Type type = elementType(self), i64 = IntegerType::get(type.getContext(), 64);
  Exprs sizes = shapeOf(self), shape;
  if (indices.size() > sizes.size())
    return call.refuse("more indices than dims");
  for (Value index : indices)
    if (index && (isBool(elementType(index)) || elementType(index).isUnsignedInteger(8)))
      return putMasked(call, indices, values, accumulate);
  indices.resize(sizes.size());
  if (isComplex(type) || elementType(values) != type || (accumulate && isBool(type)))
    return call.refuse("these dtypes");
  for (Value index : indices) {
    if (!index)
      continue;
    if (!isIndexType(elementType(index)))
      return call.refuse("an index of this dtype");
    Exprs own = shapeOf(index);
    if (own.size() > shape.size())
      shape.insert(shape.begin(), own.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < own.size(); ++i) {
      Expr &size = shape[shape.size() - own.size() + i];
      size = size.isConstant(1) ? own[i] : size;
    }
  }
  Expr places = call.kernels.known().simplify(sym::product(shape));
  if (!isSearchable(call, places))
    return failure();
  // As in reading: the places' dims stand where the indexed dims are when those are adjacent.
  auto isIndexed = [](Value v) { return v != Value(); };
  auto first = llvm::find_if(indices, isIndexed);
  auto after = std::find_if_not(first, indices.end(), isIndexed);
  size_t position = std::none_of(after, indices.end(), isIndexed) ? first - indices.begin() : 0;
  Exprs valueShape;
  for (auto [index, size] : llvm::zip_equal(indices, sizes))
    if (!index)
      valueShape.push_back(size);
  valueShape.insert(valueShape.begin() + position, shape.begin(), shape.end());
  values = call.kernels.expand(values, valueShape);
  // The places as one dim.
  Exprs flat(ArrayRef(valueShape).take_front(position));
  flat.push_back(places);
  llvm::append_range(flat, ArrayRef(valueShape).drop_front(position + shape.size()));
  values = call.kernels.reshape(values, flat);
  for (Value &index : indices)
    if (index)
      index = call.kernels.reshape(call.kernels.expand(index, shape), {places});
  return call.set(call.kernels.map(sizes, type, [&](BodyBuilder &body) {
    auto hits = [&](BodyBuilder &inner, Expr place) {
      Element all;
      for (size_t i = 0; i < sizes.size(); ++i) {
        if (!indices[i])
          continue;
        Element target = convert(inner.read(indices[i], Exprs{place}), i64);
        target = select(target < target.constant(0), target + inner.index(sizes[i]), target);
        Element hit = target == inner.index(body.dim(i));
        all = all ? all & hit : hit;
      }
      return all ? all : inner.constant(inner.b().getI1Type(), 1);
    };
    auto value = [&](BodyBuilder &inner, Index place) {
      Indices at;
      for (size_t i = 0; i < sizes.size(); ++i)
        if (!indices[i])
          at.push_back(body.dim(i));
      at.insert(at.begin() + position, place);
      return inner.read(values, at);
    };
    return combineHits(body, accumulate ? Combine::Sum : Combine::Last, places,
                       body.broadcast(self), true, type, hits, value);
  }));
}

void lowering::registerScatter(LoweringTable &table) {
  table.add("aten.select_scatter.default", lowerSelectScatter);
  table.add("aten.slice_scatter.default", lowerSliceScatter);
  table.add("aten.diagonal_scatter.default", lowerDiagonalScatter);
  table.add("aten.copy.default", lowerCopy);
  table.add({"aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce",
             "aten.scatter.value_reduce"},
            lowerScatter);
  table.add("aten.scatter_add.default", lowerScatterAdd);
  table.add("aten.scatter_reduce.two", lowerScatterReduce);
  table.add("aten.index_add.default", lowerIndexAdd);
  table.add("aten.index_copy.default", lowerIndexCopy);
  table.add({"aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor"}, lowerIndexFill);
  table.add({"aten.index_put.default", "aten._unsafe_index_put.default"}, lowerIndexPut);
}
