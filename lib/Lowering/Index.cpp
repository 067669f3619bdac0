// Reads at places that data says. Generated code keeps every such index inside its tensor and fails
// the run when one was not.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static bool isIndexType(Type type) { return isInt(type) && !type.isUnsignedInteger(64); }

/// A Python index: negative ones count from the end.
static Element wrapIndex(BodyBuilder &body, Element index, Expr size) {
  index = convert(index, body.b().getI64Type());
  return select(index < index.constant(0), index + body.index(size), index);
}

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
  if (rank != rankOf(index))
    return call.refuse("tensors of different ranks");
  Exprs sizes = shapeOf(self), shape = shapeOf(index);
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim && !call.kernels.known().isLessOrEqual(shape[i], sizes[i]))
      return call.refuse("cannot tell that the indices lie inside the other dims");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Indices at = indicesOf(body.ownDims());
    at[dim] = body.read(index, body.ownDims());
    return body.read(self, at);
  }));
}

static LogicalResult lowerIndexSelect(Call &call) {
  Value self = call.tensor(0), index = call.tensor(2);
  int64_t rank = rankOf(self), dim = call.dim(1, rank);
  if (rank == 0 || rankOf(index) > 1 || !isIndexType(elementType(index)))
    return call.refuse("this shape or dtype of indices");
  Exprs shape = shapeOf(self);
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

/// gather with the other dims broadcast; without a dim, of the flattened tensors.
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
      static_cast<int64_t>(places.size()) != rank || !call.kernels.isSame(shape[dim], places[dim]))
    return call.refuse("tensors of different ranks");
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    Element place = body.broadcast(index);
    Indices at = indicesOf(body.ownDims());
    for (int64_t i = 0; i < rank; ++i) {
      if (i == dim)
        at[i] = wrapIndex(body, place, sizes[i]);
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
/// Where the parts of `self[indices]` are. The indices are broadcast together to `shape`; these
/// dims stand at `position` of the result, in place of the indexed ones when those are next to each
/// other, and in front otherwise.
struct AdvancedIndex {
  SmallVector<Value> indices; // one for each dim of self; null: all of it
  Exprs shape;
  size_t position = 0;
};
} // namespace

/// The common shape of all indices, by the rules of broadcasting; nullopt if they have none.
static std::optional<Exprs> broadcastShapes(Call &call, ArrayRef<Value> tensors) {
  Exprs shape;
  for (Value tensor : tensors) {
    if (!tensor)
      continue;
    Exprs sizes = shapeOf(tensor);
    if (sizes.size() > shape.size())
      shape.insert(shape.begin(), sizes.size() - shape.size(), Expr(1));
    for (size_t i = 0; i < sizes.size(); ++i) {
      Expr &size = shape[shape.size() - sizes.size() + i];
      if (size.isConstant(1))
        size = sizes[i];
      else if (!sizes[i].isConstant(1) && !call.kernels.isSame(size, sizes[i]))
        return std::nullopt;
    }
  }
  return shape;
}

static std::optional<AdvancedIndex> analyze(Call &call, Value self) {
  AdvancedIndex result;
  result.indices = call.args.optTensorList("indices");
  auto refuse = [&](const Twine &reason) {
    call.kernels.fail(reason);
    return std::nullopt;
  };
  if (result.indices.size() > static_cast<size_t>(rankOf(self)))
    return refuse("more indices than dims");
  result.indices.resize(rankOf(self));
  for (Value index : result.indices)
    if (index && !isIndexType(elementType(index)))
      return refuse("a mask as an index: the result's size depends on data");
  auto shape = broadcastShapes(call, result.indices);
  if (!shape)
    return refuse("indices that do not broadcast");
  result.shape = *shape;
  auto isIndexed = [](Value index) { return index != Value(); };
  auto first = llvm::find_if(result.indices, isIndexed);
  auto after = std::find_if_not(first, result.indices.end(), isIndexed);
  if (std::none_of(after, result.indices.end(), isIndexed))
    result.position = first - result.indices.begin();
  return result;
}

static LogicalResult lowerIndex(Call &call) {
  Value self = call.tensor(0);
  std::optional<AdvancedIndex> advanced = analyze(call, self);
  if (!advanced)
    return failure();
  Exprs sizes = shapeOf(self), shape;
  for (auto [index, size] : llvm::zip_equal(advanced->indices, sizes))
    if (!index)
      shape.push_back(size);
  shape.insert(shape.begin() + advanced->position, advanced->shape.begin(), advanced->shape.end());
  return call.set(call.kernels.map(shape, call.resultType(), [&](BodyBuilder &body) {
    size_t begin = advanced->position, end = begin + advanced->shape.size();
    Exprs rest = body.dims(0, begin);
    llvm::append_range(rest, body.dims(end, body.numDims()));
    Indices at;
    size_t next = 0;
    for (auto [index, size] : llvm::zip_equal(advanced->indices, sizes)) {
      if (!index) {
        at.push_back(rest[next++]);
        continue;
      }
      Element value = body.broadcast(index, body.dims(begin, end), advanced->shape);
      at.push_back(wrapIndex(body, value, size));
    }
    return body.read(self, at);
  }));
}

/// self[indices] where the mask is true, `fill` elsewhere; an index is looked at only where it is
/// true.
static LogicalResult lowerMaskedIndex(Call &call) {
  Value self = call.tensor(0), mask = call.tensor("mask");
  std::optional<AdvancedIndex> advanced = analyze(call, self);
  if (!advanced)
    return failure();
  if (llvm::any_of(advanced->indices, [](Value index) { return !index; }))
    return call.refuse("a dim without an index");
  Exprs sizes = shapeOf(self), shape = call.resultShape();
  torch::Scalar fill = call.args.scalar("fill");
  return call.set(call.kernels.map(shape, elementType(self), [&](BodyBuilder &body) {
    Element test = isTrue(body.broadcast(mask));
    Indices at;
    for (auto [index, size] : llvm::zip_equal(advanced->indices, sizes))
      at.push_back(wrapIndex(body, body.broadcast(index), size));
    return body.read(self, at, test, call.number(body, fill, elementType(self)));
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
