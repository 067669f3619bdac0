// self[indices] = values: several indices at once, and masks.
#include "Index/Indexing.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static bool isMaskType(Type type) { return isBool(type) || type.isUnsignedInteger(8); }

/// How many elements of a mask are true before each: [n] of i64, for the flattened mask.
static Value countTrueBefore(Call &call, Value mask) {
  Expr count = sym::product(shapeOf(mask));
  Value flat = call.kernels.reshape(mask, {count});
  Type i64 = IntegerType::get(flat.getContext(), 64);
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) {
    return Elements{body.constant(i64, 0), body.constant(i64, 0)};
  };
  auto body = [&](BodyBuilder &inner) {
    Element one = convert(isTrue(inner.read(flat, inner.ownDims())), i64);
    return Elements{one, one};
  };
  auto step = [](ArrayRef<Element> state, ArrayRef<Element> next) {
    return Elements{state[0] + next[0], next[0]};
  };
  auto finish = [](ArrayRef<Element> state) { return Elements{state[0] - state[1]}; };
  return call.kernels.scan({{count}, 0, init, body, step, finish}, i64).front();
}

namespace {
/// The part at an index of self[indices]: the dims that are not indexed, in order, and in their
/// midst the dims of a place.
struct Places {
  SmallVector<Value> indices; // one for each dim of self; null: all of it
  Exprs batch, targets;
  SmallVector<int64_t> perm;
  size_t position = 0; // of the place's dims among the others

  /// The indexed dims keep their place when they are next to each other; otherwise those of a place
  /// come first.
  Places(ArrayRef<Value> given, ArrayRef<Expr> sizes) : indices(given) {
    indices.resize(sizes.size());
    auto isIndexed = [](Value v) { return v != Value(); };
    int64_t batchDims = llvm::count_if(indices, [](Value v) { return !v; });
    for (auto [index, size] : llvm::zip_equal(indices, sizes)) {
      perm.push_back(index ? batchDims + targets.size() : batch.size());
      (index ? targets : batch).push_back(size);
    }
    auto first = llvm::find_if(indices, isIndexed);
    auto after = std::find_if_not(first, indices.end(), isIndexed);
    if (std::none_of(after, indices.end(), isIndexed))
      position = first - indices.begin();
  }
};
} // namespace

static LogicalResult writePlaces(Call &call, Value self, const Places &places, ArrayRef<Expr> shape,
                                 bool accumulate,
                                 function_ref<ScatterSpec::Write(BodyBuilder &)> update) {
  Type type = elementType(self);
  ScatterSpec spec;
  spec.batch = places.batch;
  spec.targets = places.targets;
  spec.places = Exprs(shape);
  spec.perm = places.perm;
  auto init = [&](BodyBuilder &body) {
    Exprs at;
    for (int64_t dim : places.perm)
      at.push_back(body.dim(dim));
    return body.read(self, at);
  };
  spec.init = init;
  spec.update = update;
  if (accumulate)
    spec.combine = addInOpmath;
  return call.set(call.kernels.scatter(spec, type));
}

//===-- Masks ---------------------------------------------------------------------------------===//

/// self[mask] = value with one value for all: a choice for each element.
static LogicalResult fillMasked(Call &call, Value mask, size_t position, Value values,
                                bool accumulate) {
  Value self = call.tensor(0);
  Type type = elementType(self);
  size_t rank = rankOf(mask);
  return call.set(call.kernels.map(shapeOf(self), type, [&](BodyBuilder &body) {
    Element test = isTrue(body.read(mask, body.dims(position, position + rank)));
    Element value = body.read(values, Exprs(rankOf(values), Expr(0)));
    Element old = body.broadcast(self);
    if (accumulate)
      value = addInOpmath(old, value);
    return select(test, value, old);
  }));
}

/// Asserts that a vector of `size` has one element for each place where the mask holds, or one for
/// all.
static void requireCount(Call &call, Value mask, Expr size) {
  if (size.isConstant(1))
    return;
  Type i64 = IntegerType::get(mask.getContext(), 64);
  auto isAsMany = [&](BodyBuilder &body) {
    Element count = body.sum(shapeOf(mask), i64, [&](BodyBuilder &inner) {
      return convert(isTrue(inner.read(mask, inner.ownDims())), i64);
    });
    return count == body.index(size);
  };
  call.require(call.kernels.map({}, call.kernels.b().getI1Type(), isAsMany),
               "expected " + size.str() + " places where the mask holds");
}

namespace {
/// Indices of which `mask` is one. It is there once for each of its dims, from `maskDim` on.
struct MaskedIndices {
  SmallVector<Value> indices;
  Value mask;
  size_t maskDim = 0;

  LogicalResult read(Call &call, ArrayRef<Value> given, ArrayRef<Expr> sizes) {
    for (Value index : given) {
      bool isMask = index && isMaskType(elementType(index));
      if (isMask && mask)
        return call.refuse("two masks as indices");
      if (isMask) {
        mask = index;
        maskDim = indices.size();
        indices.append(rankOf(mask), mask);
      } else {
        indices.push_back(index);
      }
    }
    if (indices.size() > sizes.size())
      return call.refuse("more indices than dims");
    for (auto [i, size] : llvm::enumerate(shapeOf(mask)))
      call.requireSame(size, sizes[maskDim + i], "a mask of another shape than the tensor");
    return success();
  }
};
} // namespace

/// One of the indices is a mask of k dims, which stands for k indices: where it is true, in
/// row-major order. The value at a place is found by counting those before it.
static LogicalResult putMasked(Call &call, ArrayRef<Value> given, Value values, bool accumulate) {
  Value self = call.tensor(0);
  Exprs sizes = shapeOf(self);
  MaskedIndices masked;
  if (failed(masked.read(call, given, sizes)))
    return failure();
  auto &[indices, mask, maskDim] = masked;
  size_t rank = rankOf(mask);
  bool alone = llvm::all_of(given, [&](Value index) { return !index || index == mask; });
  bool one = llvm::all_of(shapeOf(values), [](Expr size) { return size.isConstant(1); });
  if (rank == 0 || (alone && one))
    return alone && one ? fillMasked(call, mask, maskDim, values, accumulate)
                        : call.refuse("a 0-d mask beside other indices or values");
  for (Value index : indices)
    if (index && index != mask && (rankOf(index) > 1 || !isIndexType(elementType(index))))
      return call.refuse("a mask beside an index of several dims");

  Places places(indices, sizes);
  // Values are aligned at their last dim; theirs that the places stand at, if they have it.
  Exprs own = shapeOf(values);
  size_t dims = places.batch.size() + 1;
  while (own.size() > dims && own.front().isConstant(1))
    own.erase(own.begin());
  if (own.size() > dims)
    return call.refuse("values of more dims than are written");
  values = call.kernels.reshape(values, own);
  size_t missing = dims - own.size();
  if (places.position >= missing)
    requireCount(call, mask, own[places.position - missing]);
  for (Value index : indices)
    if (index && index != mask && rankOf(index) == 1)
      requireCount(call, mask, shapeOf(index)[0]);
  Value before = countTrueBefore(call, mask);
  Exprs maskShape = shapeOf(mask);
  return writePlaces(call, self, places, maskShape, accumulate, [&](BodyBuilder &body) {
    size_t batch = places.batch.size(), first = batch + places.targets.size();
    Exprs place = body.dims(first, first + rank);
    Element enabled = isTrue(body.read(mask, place));
    Element number = body.read(before, Exprs{sym::linearize(place, maskShape)});
    ScatterSpec::Write write;
    write.enabled = enabled;
    for (auto [i, index] : llvm::enumerate(places.indices)) {
      if (!index)
        continue;
      if (index == mask) {
        write.index.push_back(body.index(place[i - maskDim]));
        continue;
      }
      Indices at;
      if (rankOf(index) == 1)
        at.push_back(shapeOf(index)[0].isConstant(1) ? Index(int64_t(0)) : Index(number));
      Element value = body.read(index, at, enabled, body.constant(elementType(index), 0));
      write.index.push_back(wrapIndex(body, value, sizes[i]));
    }
    // Values repeat along dims of size 1.
    Indices all = indicesOf(body.dims(0, batch));
    all.insert(all.begin() + places.position, Index(number));
    Indices at(all.begin() + missing, all.end());
    for (auto [index, size] : llvm::zip_equal(at, own))
      if (size.isConstant(1))
        index = Index(int64_t(0));
    write.value = body.read(values, at, enabled, body.constant(elementType(values), 0));
    return write;
  });
}

//===-- Indices -------------------------------------------------------------------------------===//

/// With an argument `mask`, adds where that is true, and ATen checks no index.
static LogicalResult lowerIndexPut(Call &call) {
  Value self = call.tensor(0), values = call.tensor("values");
  SmallVector<Value> indices = call.args.optTensorList("indices");
  Value only = call.args.has("mask") ? call.tensor("mask") : Value();
  bool accumulate = only || call.args.boolean("accumulate");
  Exprs sizes = shapeOf(self), shape;
  if (indices.size() > sizes.size())
    return call.refuse("more indices than dims");
  if (elementType(values) != elementType(self))
    return call.refuse("values of another dtype");
  for (Value index : indices)
    if (index && isMaskType(elementType(index)) && only)
      return call.refuse("a mask as an index");
    else if (index && isMaskType(elementType(index)))
      return putMasked(call, indices, values, accumulate);
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
  Places places(indices, sizes);
  return writePlaces(call, self, places, shape, accumulate, [&](BodyBuilder &body) {
    size_t batch = places.batch.size(), first = batch + places.targets.size();
    Exprs place = body.dims(first, first + shape.size());
    ScatterSpec::Write write;
    auto &toPlace = only ? clampIndex : wrapIndex;
    for (auto [index, size] : llvm::zip_equal(places.indices, sizes))
      if (index)
        write.index.push_back(toPlace(body, body.broadcast(index, place, shape), size));
    Exprs at = body.dims(0, batch), valueShape = places.batch;
    at.insert(at.begin() + places.position, place.begin(), place.end());
    valueShape.insert(valueShape.begin() + places.position, shape.begin(), shape.end());
    if (only)
      write.enabled = isPlace(body, isTrue(body.broadcast(only, at, valueShape)), sizes);
    write.value = body.broadcast(values, at, valueShape);
    return write;
  });
}

/// Writes to the flattened tensor.
static LogicalResult lowerPut(Call &call) {
  Value self = call.tensor(0), index = call.tensor("index"), source = call.tensor("source");
  Expr size = sym::product(shapeOf(self)), count = sym::product(shapeOf(index));
  if (!isIndexType(elementType(index)) || elementType(source) != elementType(self))
    return call.refuse("these dtypes");
  index = call.kernels.reshape(index, {count});
  source = call.kernels.reshape(source, {count});
  Type type = elementType(self);
  Value flat = call.kernels.reshape(self, {size});
  ScatterSpec spec;
  spec.targets = {size};
  spec.places = {count};
  auto init = [&](BodyBuilder &body) { return body.read(flat, Exprs{body.dim(0)}); };
  auto update = [&](BodyBuilder &body) {
    Element at = wrapIndex(body, body.read(index, Exprs{body.dim(1)}), size);
    return ScatterSpec::Write{{at}, {}, body.read(source, Exprs{body.dim(1)})};
  };
  spec.init = init;
  spec.update = update;
  if (call.args.boolean("accumulate"))
    spec.combine = addInOpmath;
  return call.set(call.kernels.reshape(call.kernels.scatter(spec, type), shapeOf(self)));
}

/// The places where the mask is true get the source's elements one after the other.
static LogicalResult lowerMaskedScatter(Call &call) {
  Value self = call.tensor(0), mask = call.tensor(1), source = call.tensor(2);
  if (!isMaskType(elementType(mask)) || elementType(source) != elementType(self))
    return call.refuse("these dtypes");
  Exprs shape = call.resultShape();
  mask = call.kernels.expand(mask, shape);
  Value before = countTrueBefore(call, mask);
  Value flat = call.kernels.reshape(source, {sym::product(shapeOf(source))});
  return call.set(call.kernels.map(shape, elementType(self), [&](BodyBuilder &body) {
    Element test = isTrue(body.read(mask, body.ownDims()));
    Element number = body.read(before, Exprs{sym::linearize(body.ownDims(), shape)});
    return body.read(flat, Indices{number}, test, body.broadcast(self));
  }));
}

/// The source's gradient: what stands where the mask is true, one after the other, and zeros for elements that were not used.
static LogicalResult lowerMaskedScatterBackward(Call &call) {
  Value gradient = call.tensor(0), mask = call.tensor(1);
  Type type = elementType(gradient);
  if (!isMaskType(elementType(mask)) || type != call.resultType())
    return call.refuse("these dtypes");
  Exprs shape = shapeOf(gradient);
  mask = call.kernels.expand(mask, shape);
  Value before = countTrueBefore(call, mask);
  ScatterSpec spec;
  spec.targets = {sym::product(call.resultShape())};
  spec.places = shape;
  auto init = [&](BodyBuilder &body) { return body.constant(type, 0); };
  auto update = [&](BodyBuilder &body) {
    Exprs at = body.dims(1, body.numDims());
    Element number = body.read(before, Exprs{sym::linearize(at, shape)});
    return ScatterSpec::Write{{number}, isTrue(body.read(mask, at)), body.read(gradient, at)};
  };
  spec.init = init;
  spec.update = update;
  return call.set(call.kernels.reshape(call.kernels.scatter(spec, type), call.resultShape()));
}

void lowering::registerIndexPut(LoweringTable &table) {
  table.add({"aten.index_put.default", "aten._unsafe_index_put.default",
             "aten._unsafe_masked_index_put_accumulate.default"},
            lowerIndexPut);
  table.add("aten.put.default", lowerPut);
  table.add("aten.masked_scatter.default", lowerMaskedScatter);
  table.add("aten.masked_scatter_backward.default", lowerMaskedScatterBackward);
}
