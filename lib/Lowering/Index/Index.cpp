// Reads at places that data says. Generated code keeps every such index inside its tensor and fails
// the run when one was not.
#include "Index/Indexing.h"
#include "Index/Repeat.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static LogicalResult lowerEmbedding(Call &call) { // weight[indices]
  Value weight = call.tensor(0), indices = call.tensor(1);
  if (rankOf(weight) != 2 || !isIndexType(elementType(indices)))
    return call.refuse("this shape of weights or dtype of indices");
  Exprs shape = shapeOf(indices);
  size_t rank = shape.size();
  shape.push_back(shapeOf(weight)[1]);
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element row = body.read(indices, body.dims(0, rank));
    return body.read(weight, Indices{row, body.dim(rank)});
  }));
}

static LogicalResult lowerGather(Call &call) { // self[…, index[…], …]
  Value self = call.tensor(0), index = call.tensor(2);
  int64_t rank = rankOf(self), dim = call.dim(1, rank);
  if (!isIndexType(elementType(index)))
    return call.refuse("this dtype of indices");
  if (rank == 0 || rankOf(index) == 0) {
    // A 0-d tensor counts as one element.
    if (rank > 1 || rankOf(index) > 1)
      return call.refuse("tensors of different ranks");
    return call.set(call.kernels.map(shapeOf(index), call.resultType(), [&](BodyBuilder &body) {
      Element at = body.read(index, body.ownDims());
      return rank == 0 ? body.read(self, ArrayRef<Expr>()) : body.read(self, Indices{at});
    }));
  }
  if (llvm::any_of(shapeOf(index), [](Expr size) { return size.isConstant(0); }))
    return call.set(call.kernels.full(shapeOf(index), call.resultType(), 0));
  if (rank != rankOf(index))
    return call.refuse("tensors of different ranks");
  Exprs sizes = shapeOf(self), shape = shapeOf(index);
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) // if there are any indices
      call.require(Expr::max(sizes[i] - shape[i], -sym::product(shape)),
                   "more indices than elements in another dim");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[dim] = body.read(index, body.ownDims());
    return body.read(self, at);
  }));
}

static LogicalResult lowerIndexSelect(Call &call) {
  Value self = call.tensor(0), index = call.tensor(2);
  int64_t rank = rankOf(self), dim = call.dim(1, rank);
  if (rankOf(index) > 1 || !isIndexType(elementType(index)))
    return call.refuse("this shape or dtype of indices");
  Exprs shape = shapeOf(self);
  Value vector = rank == 0 ? call.kernels.reshape(self, {1}) : Value(); // one element
  if (vector)
    return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
      return body.read(vector, Indices{body.read(index, Exprs(rankOf(index), Expr(0)))});
    }));
  shape[dim] = rankOf(index) == 0 ? Expr(1) : shapeOf(index)[0];
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    Exprs where;
    if (rankOf(index) == 1)
      where.push_back(body.dim(dim));
    at[dim] = body.read(index, where);
    return body.read(self, at);
  }));
}

/// gather with the other dims broadcast. Along a dim ATen takes indices modulo its size; without
/// one it gathers from the flattened tensor, and takes no index outside of it.
static LogicalResult lowerTakeAlongDim(Call &call) {
  Value self = call.tensor(0), index = call.tensor(1);
  if (!isIndexType(elementType(index)))
    return call.refuse("this dtype of indices");
  if (call.args.isNone("dim")) {
    self = call.kernels.reshape(self, {sym::product(shapeOf(self))});
    index = call.kernels.reshape(index, {sym::product(shapeOf(index))});
  }
  int64_t rank = rankOf(self), dim = call.args.isNone("dim") ? 0 : call.dim("dim", rank);
  Exprs shape = call.resultShape(), sizes = shapeOf(self), places = shapeOf(index);
  if (rank == 0 || static_cast<int64_t>(shape.size()) != rank ||
      static_cast<int64_t>(places.size()) != rank ||
      !call.fits(shape[dim], places[dim], "another number of places"))
    return call.refuse("tensors of different ranks");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element place = body.broadcast(index);
    if (!call.args.isNone("dim")) {
      Element size = body.index(sizes[dim]);
      place = remainder(convert(place, size.type()), size);
    }
    Indices at = indicesOf(body.ownDims());
    for (int64_t i = 0; i < rank; ++i) {
      if (i == dim)
        at[i] = place;
      else if (sizes[i].isConstant(1))
        at[i] = Expr(0);
      else if (!call.kernels.isSame(sizes[i], shape[i]))
        call.kernels.fail("sizes that do not broadcast");
    }
    return body.read(self, at);
  }));
}

static LogicalResult lowerTake(Call &call) { // of the flattened tensor
  Value self = call.tensor(0), index = call.tensor(1);
  if (!isIndexType(elementType(index)))
    return call.refuse("this dtype of indices");
  Expr size = sym::product(shapeOf(self));
  Value flat = call.kernels.reshape(self, {size});
  return call.set(call.kernels.map(shapeOf(index), call.resultType(), [&](BodyBuilder &body) {
    return body.read(flat, Indices{wrapIndex(body, body.broadcast(index), size)});
  }));
}

//===-- Advanced indexing ---------------------------------------------------------------------===//

namespace {
/// The places of the parts of `self[indices]`. The indices are broadcast together to `shape`; these
/// dims stand at `position` of the result, in place of the indexed ones when those are next to each
/// other, and in front otherwise.
struct AdvancedIndex {
  SmallVector<Value> indices; // one for each dim of self; null: all of it
  Exprs shape;
  size_t position = 0;
};
} // namespace

static bool isMask(Value index) {
  return index && (isBool(elementType(index)) || elementType(index).isUnsignedInteger(8));
}

/// The entries of `indices`, with masks in place of the index of each dim that they stand for.
static SmallVector<Value> spreadMasks(ArrayRef<Value> indices) {
  SmallVector<Value> entries;
  for (Value index : indices)
    entries.append(isMask(index) ? rankOf(index) : 1, index);
  return entries;
}

static std::optional<AdvancedIndex> analyze(Call &call, Value self) {
  AdvancedIndex result;
  SmallVector<Value> given = call.args.optTensorList("indices");
  auto refuse = [&](const Twine &reason) {
    call.kernels.fail(reason);
    return std::nullopt;
  };
  result.indices = spreadMasks(given);
  if (result.indices.size() > static_cast<size_t>(rankOf(self)))
    return refuse("more indices than dims");
  result.indices.resize(rankOf(self));
  SmallVector<Value> numbers; // indices that are no masks
  for (Value index : given) {
    if (isMask(index) && rankOf(index) == 0)
      return refuse("a mask without dims");
    if (index && !isMask(index) && !isIndexType(elementType(index)))
      return refuse("an index of this dtype");
    if (!isMask(index))
      numbers.push_back(index);
  }
  auto shape = call.kernels.broadcastShapes(numbers);
  if (!shape)
    return refuse("indices that do not broadcast");
  auto isIndexed = [](Value index) { return index != Value(); };
  auto first = llvm::find_if(result.indices, isIndexed);
  auto after = std::find_if_not(first, result.indices.end(), isIndexed);
  if (std::none_of(after, result.indices.end(), isIndexed))
    result.position = first - result.indices.begin();

  // A mask is the coordinates of the places where it holds. There are as many as the declared shape
  // says.
  unsigned dim = 0;
  for (Value index : given) {
    if (!isMask(index)) {
      ++dim;
      continue;
    }
    size_t last = result.position + std::max<size_t>(shape->size(), 1) - 1;
    if (last >= call.resultShape().size())
      return refuse("computes another shape than the program declares");
    for (auto [i, size] : llvm::enumerate(shapeOf(index)))
      call.requireSame(size, shapeOf(self)[dim + i], "a mask of another shape than the tensor");
    for (Value vector : nonzeroCoordinates(call, index, call.resultShape()[last]))
      result.indices[dim++] = vector;
  }
  shape = call.kernels.broadcastShapes(result.indices);
  if (!shape)
    return refuse("indices that do not broadcast");
  result.shape = *shape;
  return result;
}

/// self[…, mask, …] with a mask as the only index: the dims that it stands for are seen as one.
static LogicalResult selectMasked(Call &call, Value mask, size_t dim) {
  Value self = call.tensor(0);
  size_t rank = rankOf(mask);
  Exprs sizes = shapeOf(self), shape = call.resultShape();
  if (dim + rank > sizes.size() || dim >= shape.size())
    return call.refuse("more indices than dims");
  for (size_t i = 0; i < rank; ++i)
    call.requireSame(shapeOf(mask)[i], sizes[dim + i], "a mask of another shape than the tensor");
  Exprs flat(ArrayRef(sizes).take_front(dim)), result(flat);
  flat.push_back(sym::product(ArrayRef(sizes).slice(dim, rank)));
  result.push_back(shape[dim]);
  llvm::append_range(flat, ArrayRef(sizes).drop_front(dim + rank));
  llvm::append_range(result, ArrayRef(sizes).drop_front(dim + rank));
  Value places = nonzeroPlaces(call, mask, shape[dim]);
  self = call.kernels.reshape(self, flat);
  return call.set(call.kernels.map(result, call.resultType(), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[dim] = body.read(places, Exprs{body.dim(dim)});
    return body.read(self, at);
  }));
}

/// The place in `self` of an element of the result; dims without an index are the result's own.
static Indices indicesAt(BodyBuilder &body, const AdvancedIndex &advanced, Value self,
                         Element (&place)(BodyBuilder &, Element, Expr) = wrapIndex) {
  size_t begin = advanced.position, end = begin + advanced.shape.size();
  Exprs rest = body.dims(0, begin);
  llvm::append_range(rest, body.dims(end, body.numDims()));
  Indices at;
  size_t next = 0;
  for (auto [index, size] : llvm::zip_equal(advanced.indices, shapeOf(self))) {
    if (!index) {
      at.push_back(rest[next++]);
      continue;
    }
    Element value = body.broadcast(index, body.dims(begin, end), advanced.shape);
    at.push_back(place(body, value, size));
  }
  return at;
}

static LogicalResult lowerIndex(Call &call) {
  Value self = call.tensor(0);
  SmallVector<Value> given = call.args.optTensorList("indices");
  auto only = llvm::find_if(given, [](Value index) { return index != Value(); });
  if (only != given.end() && isMask(*only) && rankOf(*only) > 0 &&
      std::none_of(only + 1, given.end(), [](Value index) { return index != Value(); }))
    return selectMasked(call, *only, only - given.begin());
  std::optional<AdvancedIndex> advanced = analyze(call, self);
  if (!advanced)
    return failure();
  Exprs sizes = shapeOf(self), shape;
  for (auto [index, size] : llvm::zip_equal(advanced->indices, sizes))
    if (!index)
      shape.push_back(size);
  shape.insert(shape.begin() + advanced->position, advanced->shape.begin(), advanced->shape.end());
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    return body.read(self, indicesAt(body, *advanced, self));
  }));
}

/// self[indices] where the mask is true, `fill` elsewhere. ATen checks no index.
static LogicalResult lowerMaskedIndex(Call &call) {
  Value self = call.tensor(0), mask = call.tensor("mask");
  if (llvm::any_of(call.args.optTensorList("indices"), isMask))
    return call.refuse("a mask as an index");
  std::optional<AdvancedIndex> advanced = analyze(call, self);
  if (!advanced)
    return failure();
  Exprs shape = call.resultShape();
  // The mask may have more dims than the indices, which then are expanded to its.
  auto whole = llvm::count_if(advanced->indices, [](Value index) { return !index; });
  if (static_cast<size_t>(whole) + advanced->shape.size() > shape.size())
    return call.refuse("indices of these shapes");
  advanced->shape = Exprs(ArrayRef(shape).slice(advanced->position, shape.size() - whole));
  torch::Scalar fill = call.args.scalar("fill");
  return call.set(call.kernels.map(shape, elementType(self), [&](BodyBuilder &body) {
    Element test = isPlace(body, isTrue(body.broadcast(mask)), shapeOf(self));
    return body.read(self, indicesAt(body, *advanced, self, clampIndex), test,
                     call.number(body, fill, elementType(self)));
  }));
}

void lowering::registerIndex(LoweringTable &table) {
  table.add("aten.embedding.default", lowerEmbedding);
  table.add("aten.gather.default", lowerGather);
  table.add("aten.index_select.default", lowerIndexSelect);
  table.add("aten.take.default", lowerTake);
  table.add("aten.take_along_dim.default", lowerTakeAlongDim);
  table.add("aten._unsafe_masked_index.default", lowerMaskedIndex);
  table.add({"aten.index.Tensor", "aten._unsafe_index.Tensor"}, lowerIndex);
}
