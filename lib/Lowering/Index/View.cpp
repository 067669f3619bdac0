// Operators whose result has the elements of an argument in other places. Each is a map with one
// read; none copies.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Identity and reshape ------------------------------------------------------------------===//

static LogicalResult lowerIdentity(Call &call) { return call.set(call.tensor(0)); }

/// Same elements in row-major order: the declared shape says everything.
static LogicalResult lowerReshape(Call &call) {
  return call.set(call.kernels.reshape(call.tensor(0), call.resultShape()));
}

/// The dims that the program declares to be left: whether a dim of unknown size is 1 turns out when
/// it runs.
static LogicalResult lowerSqueeze(Call &call) {
  Value tensor = call.tensor(0);
  Exprs shape = shapeOf(tensor), result = call.resultShape();
  if (auto list = call.args.optIntList("dim"); list && list->empty())
    return lowerReshape(call);
  SmallVector<int64_t> dims = call.dims("dim", rankOf(tensor));
  size_t next = 0;
  for (auto [i, size] : llvm::enumerate(shape)) {
    bool isSqueezed = llvm::is_contained(dims, static_cast<int64_t>(i));
    bool isLeft =
        !size.isConstant(1) && next < result.size() && call.kernels.isSame(size, result[next]);
    if (isSqueezed && isLeft)
      call.require(Expr::max(size - 1, 1 - size) - 1, "export has left a dim that is of size 1");
    else if (isSqueezed)
      call.requireSame(size, 1, "export has squeezed a dim that is not of size 1");
    next += !isSqueezed || isLeft;
  }
  return call.set(call.kernels.reshape(tensor, result));
}

static LogicalResult lowerExpand(Call &call) {
  return call.set(call.kernels.expand(call.tensor(0), call.resultShape()));
}

//===-- Order of dims -------------------------------------------------------------------------===//

static LogicalResult permute(Call &call, ArrayRef<int64_t> perm) {
  return call.set(call.kernels.permute(call.tensor(0), perm));
}

static SmallVector<int64_t> identity(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

static LogicalResult lowerTranspose(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  SmallVector<int64_t> perm = identity(rank);
  if (rank > 0)
    std::swap(perm[call.dim(1, rank)], perm[call.dim(2, rank)]);
  return permute(call, perm);
}

static LogicalResult lowerReverseDims(Call &call) { // t, numpy_T, matrix_H of real matrices
  SmallVector<int64_t> perm = identity(rankOf(call.tensor(0)));
  std::reverse(perm.begin(), perm.end());
  return permute(call, perm);
}

static LogicalResult lowerMatrixTranspose(Call &call) { // mT
  SmallVector<int64_t> perm = identity(rankOf(call.tensor(0)));
  if (perm.size() < 2)
    return call.refuse("needs a matrix");
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return permute(call, perm);
}

/// The conjugate of the transposed matrices.
static LogicalResult lowerAdjoint(Call &call) { // mH, adjoint, matrix_H
  int64_t rank = rankOf(call.tensor(0));
  if (rank < 2)
    return rank == 0 ? lowerIdentity(call) : call.refuse("needs a matrix");
  SmallVector<int64_t> perm = identity(rank);
  std::swap(perm[rank - 1], perm[rank - 2]);
  Value result = call.kernels.permute(call.tensor(0), perm);
  if (isComplex(elementType(result)))
    result = call.kernels.map(shapeOf(result), elementType(result), [&](BodyBuilder &body) {
      Element x = body.broadcast(result);
      return makeComplex(real(x), -imag(x));
    });
  return call.set(result);
}

/// Wraps negative dims; nullopt unless they are distinct.
static std::optional<SmallVector<int64_t>> distinctDims(SmallVector<int64_t> dims, int64_t rank) {
  llvm::SmallBitVector seen(rank);
  for (int64_t &dim : dims) {
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank || seen[dim])
      return std::nullopt;
    seen.set(dim);
  }
  return dims;
}

static LogicalResult lowerPermute(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  auto perm = distinctDims(call.args.intList(1), rank);
  if (!perm || static_cast<int64_t>(perm->size()) != rank)
    return call.refuse("dims are not a permutation");
  return permute(call, *perm);
}

static LogicalResult lowerMovedim(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  auto list = [&](unsigned key) -> SmallVector<int64_t> {
    if (auto one = call.args.optInteger(key))
      return {*one};
    return call.args.intList(key);
  };
  auto from = distinctDims(list(1), rank), to = distinctDims(list(2), rank);
  if (rank == 0)
    return lowerIdentity(call);
  if (!from || !to || from->size() != to->size())
    return call.refuse("dims are not distinct");
  SmallVector<int64_t> perm(rank, -1);
  for (auto [source, target] : llvm::zip_equal(*from, *to))
    perm[target] = source;
  int64_t next = 0;
  for (int64_t &source : perm)
    if (source < 0) {
      while (llvm::is_contained(*from, next))
        ++next;
      source = next++;
    }
  return permute(call, perm);
}

//===-- Parts ---------------------------------------------------------------------------------===//

/// Elements start, start + step, … of a dim, `length` of them, which are inside.
static Value elementsFrom(Call &call, Value tensor, int64_t dim, Expr start, Expr step,
                          Expr length) {
  Exprs shape = shapeOf(tensor);
  if (start.isConstant(0) && step.isConstant(1) && length == shape[dim])
    return tensor;
  Expr offset = start;
  shape[dim] = length;
  return call.kernels.view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    index[dim] = offset + dims[dim] * step;
    return index;
  });
}

/// `length` consecutive elements, of which it is asserted, where it cannot be proved, that they are
/// inside.
static Value slice(Call &call, Value tensor, int64_t dim, Expr start, Expr length) {
  if (!length.isConstant(0)) {
    std::string message = "the slice is not inside dim " + std::to_string(dim);
    call.require(start, message);
    call.require(shapeOf(tensor)[dim] - start - length, message);
  }
  return call.kernels.failure ? Value() : elementsFrom(call, tensor, dim, start, 1, length);
}

/// An index that counts from the end where it is negative.
static Expr wrapIndex(Call &call, Expr index, Expr size) {
  const sym::Assumptions &known = call.kernels.known();
  if (known.isNonNegative(index))
    return index;
  if (known.isLess(index, 0))
    return index + size;
  Expr isNegative = Expr::min(Expr::max(-index, 0), 1);
  return known.simplify(index + isNegative * size);
}

/// A Python index into [0, size], clamped.
static Expr clampIndex(Call &call, Expr index, Expr size) {
  Expr wrapped = wrapIndex(call, index, size);
  return call.kernels.known().simplify(Expr::min(Expr::max(wrapped, 0), size));
}

static LogicalResult lowerSlice(Call &call) {
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor), dim = call.dim(1, rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor cannot be sliced");
  Expr size = shapeOf(tensor)[dim], length = call.resultShape()[dim];
  Expr start = clampIndex(call, call.args.optSymInt(2).value_or(Expr(0)), size);
  Expr end = clampIndex(call, call.args.optSymInt(3).value_or(size), size);
  Expr step = call.args.symInt(4);
  call.require(step - 1, "a step that is not positive");
  Expr computed = call.kernels.known().simplify(Expr::max((end - start).ceilDiv(step), Expr(0)));
  if (computed.isConstant() && length.isConstant() && length != computed)
    return call.refuse("computes another shape than the program declares");
  call.defineSize(computed, length);
  return call.set(elementsFrom(call, tensor, dim, start, step, length));
}

/// One element of a dim; that dim goes away.
static Value selectIndex(Call &call, Value tensor, int64_t dim, Expr index) {
  Exprs shape = shapeOf(tensor);
  Expr size = shape[dim];
  const sym::Assumptions &known = call.kernels.known();
  std::string message = "index " + index.str() + " is not inside dim " + std::to_string(dim) +
                        " of size " + size.str();
  bool isConstant = index.isConstant();
  if (known.isLess(index, 0))
    index = index + size;
  // Whether a dim of unknown size is large enough for a constant index turns out before the kernel.
  if (isConstant) {
    call.require(index, message);
    call.require(size - 1 - index, message);
    if (call.kernels.failure)
      return {};
  }
  bool inside = isConstant || (known.isNonNegative(index) && known.isLess(index, size));
  shape.erase(shape.begin() + dim);
  return call.kernels.map(shape, elementType(tensor), [&](BodyBuilder &body) {
    Indices indices = indicesOf(body.ownDims());
    if (inside) {
      indices.insert(indices.begin() + dim, index);
    } else {
      // Only known when the model runs: read as data, which generated code checks.
      Element at = body.index(index);
      at = select(at < at.constant(0), at + body.index(size), at);
      indices.insert(indices.begin() + dim, at);
    }
    return body.read(tensor, indices);
  });
}

static LogicalResult lowerSelect(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  if (rank == 0)
    return call.refuse("a 0-d tensor has nothing to select");
  Value result = selectIndex(call, call.tensor(0), call.dim(1, rank), call.args.symInt(2));
  return result ? call.set(result) : failure();
}

static LogicalResult lowerUnbind(Call &call) {
  int64_t rank = rankOf(call.tensor(0)), dim = call.dim(1, rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor cannot be unbound");
  SmallVector<Value> parts;
  call.requireSame(shapeOf(call.tensor(0))[dim], static_cast<int64_t>(call.numResults()),
                   "unbind gives another number of tensors");
  for (unsigned i = 0; i < call.numResults() && !call.kernels.failure; ++i)
    parts.push_back(selectIndex(call, call.tensor(0), dim, int64_t(i)));
  return call.kernels.failure ? failure() : call.set(parts);
}

static LogicalResult lowerNarrow(Call &call) {
  int64_t rank = rankOf(call.tensor(0)), dim = call.dim(1, rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor cannot be narrowed");
  Expr size = shapeOf(call.tensor(0))[dim];
  Expr start = wrapIndex(call, call.args.symInt(2), size);
  Value result = slice(call, call.tensor(0), dim, start, call.args.symInt(3));
  return result ? call.set(result) : failure();
}

/// Consecutive parts that make up the dim, each as long as declared.
static LogicalResult splitDeclared(Call &call, int64_t dim) {
  Value tensor = call.tensor(0);
  SmallVector<Value> parts;
  Expr offset = 0;
  for (unsigned i = 0; i < call.numResults(); ++i) {
    Exprs shape = call.resultShape(i);
    if (dim >= static_cast<int64_t>(shape.size()))
      return call.refuse("computes another shape than the program declares");
    call.require(shape[dim], "a part of negative size");
    parts.push_back(elementsFrom(call, tensor, dim, offset, 1, shape[dim]));
    offset = offset + shape[dim];
  }
  call.requireSame(offset, shapeOf(tensor)[dim], "the parts do not make up the whole");
  return call.kernels.failure ? failure() : call.set(parts);
}

static LogicalResult lowerSplit(Call &call) { // split, split_with_sizes, chunk
  int64_t rank = rankOf(call.tensor(0)), dim = call.dim(2, rank);
  if (rank == 0)
    return call.refuse("a 0-d tensor cannot be split");
  return splitDeclared(call, dim);
}

static LogicalResult lowerTensorSplit(Call &call) { // sections of nearly equal length
  int64_t rank = rankOf(call.tensor(0)), dim = call.dim(2, rank);
  return rank == 0 ? call.refuse("a 0-d tensor cannot be split") : splitDeclared(call, dim);
}

/// Parts that end where the next index is, and at the end.
static LogicalResult splitAt(Call &call, int64_t dim, ArrayRef<Expr> indices) {
  Value tensor = call.tensor(0);
  if (dim >= rankOf(tensor) || call.numResults() != indices.size() + 1)
    return call.refuse("a tensor of fewer dims, or another number of parts");
  Expr size = shapeOf(tensor)[dim], start = 0;
  SmallVector<Value> parts;
  for (unsigned i = 0; i < call.numResults(); ++i) {
    Expr end = i < indices.size() ? clampIndex(call, indices[i], size) : size;
    Expr length = call.kernels.known().simplify(Expr::max(end - start, Expr(0)));
    parts.push_back(elementsFrom(call, tensor, dim, start, 1, length));
    start = end;
  }
  return call.set(parts);
}

static LogicalResult lowerTensorSplitAt(Call &call) {
  int64_t rank = rankOf(call.tensor(0));
  return splitAt(call, call.dim("dim", rank), call.args.symIntList("indices"));
}

/// The parts of splitAt with indices in a tensor, or as many as its only element says.
static LogicalResult lowerTensorSplitByTensor(Call &call) {
  Value tensor = call.tensor(0), where = call.tensor(1);
  int64_t rank = rankOf(tensor), dim = call.dim("dim", rank), numParts = call.numResults();
  if (rank == 0 || rankOf(where) > 1 || !elementType(where).isInteger(64))
    return call.refuse("a 0-d tensor cannot be split, or an index of this dtype or rank");
  KernelBuilder &kernels = call.kernels;
  Type i64 = kernels.b().getI64Type();
  if (rankOf(where) == 0) {
    call.require(kernels.map({}, kernels.b().getI1Type(),
                             [&](BodyBuilder &body) {
                               Element sections = body.read(where, Exprs());
                               return sections == sections.constant(numParts);
                             }),
                 "expected " + Twine(numParts) + " sections");
    return splitDeclared(call, dim);
  }
  if (!call.fits(shapeOf(where)[0], numParts - 1, "another number of parts"))
    return call.refuse("another number of parts");
  Expr size = shapeOf(tensor)[dim];
  auto clamped = [&](BodyBuilder &body, int64_t i) {
    if (i < 0 || i == numParts - 1)
      return i < 0 ? body.constant(i64, 0) : body.index(size);
    Element index = body.read(where, Exprs{Expr(i)}), length = body.index(size);
    Element wrapped = select(index < index.constant(0), index + length, index);
    return minimum(maximum(wrapped, wrapped.constant(0)), length);
  };
  SmallVector<Value> parts;
  for (int64_t i = 0; i < numParts; ++i) {
    Exprs shape = call.resultShape(i);
    if (static_cast<int64_t>(shape.size()) != rank)
      return call.refuse("computes another shape than the program declares");
    Value length = kernels.map({}, i64, [&](BodyBuilder &body) {
      Element begin = clamped(body, i - 1), end = clamped(body, i);
      return maximum(end - begin, begin.constant(0));
    });
    call.defineSize(length, shape[dim]);
    Value start = kernels.map({}, i64, [&](BodyBuilder &body) { return clamped(body, i - 1); });
    parts.push_back(kernels.map(shape, elementType(tensor), [&](BodyBuilder &body) {
      Indices at = indicesOf(body.ownDims());
      at[dim] = body.read(start, Exprs()) + body.index(body.dim(dim));
      return body.read(tensor, at);
    }));
  }
  return call.set(parts);
}

/// hsplit, vsplit and dsplit: along dims 1 (of a vector 0), 0 and 2.
static LogicalResult splitAlong(Call &call, int64_t dim) {
  int64_t rank = rankOf(call.tensor(0));
  if (dim == 1 && rank == 1)
    dim = 0;
  if (dim >= rank)
    return call.refuse("a tensor of fewer dims");
  if (call.args.has("indices"))
    return splitAt(call, dim, call.args.symIntList("indices"));
  return splitDeclared(call, dim);
}

static LogicalResult lowerDiagonal(Call &call) {
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor), row = call.dim("dim1", rank), column = call.dim("dim2", rank);
  int64_t offset = call.args.integer("offset");
  if (rank < 2 || row == column)
    return call.refuse("needs two different dims");
  Exprs sizes = shapeOf(tensor), shape;
  for (int64_t i = 0; i < rank; ++i)
    if (i != row && i != column)
      shape.push_back(sizes[i]);
  Expr rows = offset >= 0 ? sizes[row] : sizes[row] + offset;
  Expr columns = offset >= 0 ? sizes[column] - offset : sizes[column];
  shape.push_back(call.kernels.known().simplify(Expr::max(Expr::min(rows, columns), Expr(0))));
  return call.set(call.kernels.view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index;
    unsigned next = 0;
    for (int64_t i = 0; i < rank; ++i)
      if (i == row)
        index.push_back(dims.back() + std::max<int64_t>(-offset, 0));
      else if (i == column)
        index.push_back(dims.back() + std::max<int64_t>(offset, 0));
      else
        index.push_back(dims[next++]);
    return index;
  }));
}

static LogicalResult lowerUnfold(Call &call) { // windows of `size` elements, `step` apart
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor), dim = call.dim(1, rank);
  int64_t size = call.args.integer(2), step = call.args.integer(3);
  if (rank == 0 && size <= 1) // counts as one element
    return call.set(
        call.kernels.view(tensor, {Expr(size)}, [](ArrayRef<Expr>) { return Exprs(); }));
  if (rank == 0 || step <= 0 || size < 0)
    return call.refuse("needs a tensor with dims and a positive step");
  Exprs shape = shapeOf(tensor);
  shape[dim] = call.kernels.known().simplify((shape[dim] - size).floorDiv(step) + 1);
  shape.push_back(size);
  return call.set(call.kernels.view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims.drop_back());
    index[dim] = dims[dim] * step + dims.back();
    return index;
  }));
}

//===-- Repetition and rotation ---------------------------------------------------------------===//

static LogicalResult lowerRepeat(Call &call) { // repeat, tile
  Value tensor = call.tensor(0);
  Exprs repeats = call.args.symIntList(1), sizes = shapeOf(tensor), shape;
  size_t rank = std::max(repeats.size(), sizes.size());
  repeats.insert(repeats.begin(), rank - repeats.size(), Expr(1));
  size_t added = rank - sizes.size();
  for (size_t i = 0; i < rank; ++i)
    shape.push_back(repeats[i] * (i < added ? Expr(1) : sizes[i - added]));
  return call.set(call.kernels.view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index;
    for (size_t i = added; i < rank; ++i)
      index.push_back(sizes[i - added].isConstant(0) ? Expr(0) : dims[i].mod(sizes[i - added]));
    return index;
  }));
}

static LogicalResult lowerRepeatInterleaveInt(Call &call) {
  Value tensor = call.tensor(0);
  Expr repeats = call.args.symInt("repeats");
  call.require(repeats, "a negative number of repeats");
  int64_t dim = 0;
  if (call.args.isNone("dim"))
    tensor = call.kernels.reshape(tensor, {sym::product(shapeOf(tensor))});
  else
    dim = call.dim("dim", rankOf(tensor));
  Exprs shape = shapeOf(tensor);
  if (shape.empty())
    return call.refuse("a 0-d tensor has no dim to repeat");
  shape[dim] = shape[dim] * repeats;
  return call.set(call.kernels.view(tensor, shape, [&](ArrayRef<Expr> dims) {
    Exprs index(dims);
    index[dim] = dims[dim].floorDiv(Expr::max(repeats, 1)); // of none there is nothing to read
    return index;
  }));
}

static Value flip(Call &call, Value tensor, ArrayRef<int64_t> dims) {
  Exprs sizes = shapeOf(tensor);
  return call.kernels.view(tensor, sizes, [&](ArrayRef<Expr> at) {
    Exprs index(at);
    for (int64_t dim : dims)
      index[dim] = sizes[dim] - 1 - at[dim];
    return index;
  });
}

static LogicalResult lowerFlip(Call &call) {
  SmallVector<int64_t> dims;
  if (!call.args.intList(1).empty())
    dims = call.dims(1, rankOf(call.tensor(0)));
  return call.set(flip(call, call.tensor(0), dims));
}

static LogicalResult flipDim(Call &call, int64_t dim) { // flipud, fliplr
  if (rankOf(call.tensor(0)) <= dim)
    return call.refuse("a tensor of fewer dims");
  return call.set(flip(call, call.tensor(0), dim));
}

/// k quarter turns from the first dim toward the second.
static LogicalResult lowerRot90(Call &call) {
  Value tensor = call.tensor(0);
  int64_t rank = rankOf(tensor), turns = ((call.args.integer(1) % 4) + 4) % 4;
  auto dims = distinctDims(call.args.intList(2), rank);
  if (!dims || dims->size() != 2)
    return call.refuse("dims are not two different ones");
  SmallVector<int64_t> perm = identity(rank);
  if (turns == 2)
    return call.set(flip(call, tensor, *dims));
  if (turns == 0)
    return call.set(tensor);
  std::swap(perm[(*dims)[0]], perm[(*dims)[1]]);
  Value turned = flip(call, tensor, (*dims)[turns == 1 ? 1 : 0]);
  return call.set(call.kernels.permute(turned, perm));
}

static LogicalResult lowerReshapeEach(Call &call) { // atleast_1d and so on of several tensors
  SmallVector<Value> results;
  for (auto [i, tensor] : llvm::enumerate(call.args.tensorList(0)))
    results.push_back(call.kernels.reshape(tensor, call.resultShape(i)));
  return call.set(results);
}

static LogicalResult lowerBroadcastTensors(Call &call) {
  SmallVector<Value> results;
  for (auto [i, tensor] : llvm::enumerate(call.args.tensorList(0)))
    results.push_back(call.kernels.expand(tensor, call.resultShape(i)));
  return call.kernels.failure ? failure() : call.set(results);
}

static LogicalResult lowerRoll(Call &call) {
  Value tensor = call.tensor(0);
  Exprs shifts = call.args.symIntList(1), shape = shapeOf(tensor);
  SmallVector<int64_t> dims = call.args.intList(2);
  if (dims.empty() && shifts.size() == 1) { // of the flattened tensor
    tensor = call.kernels.reshape(tensor, {sym::product(shape)});
    dims = {0};
  }
  if (dims.size() != shifts.size())
    return call.refuse("as many shifts as dims are needed");
  int64_t rank = rankOf(tensor);
  for (int64_t &dim : dims) {
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
      return call.refuse("a dim is out of range");
  }
  Exprs sizes = shapeOf(tensor);
  Value rolled = call.kernels.view(tensor, sizes, [&](ArrayRef<Expr> at) {
    Exprs index(at);
    for (auto [dim, shift] : llvm::zip_equal(dims, shifts))
      if (!sizes[dim].isConstant(0))
        index[dim] = (index[dim] - shift).mod(sizes[dim]);
    return index;
  });
  return call.set(call.kernels.reshape(rolled, shape));
}

static LogicalResult lowerMeshgrid(Call &call) {
  SmallVector<Value> axes = call.args.tensorList(0);
  bool xy = call.args.has("indexing") && call.args.string("indexing") == "xy" && axes.size() > 1;
  SmallVector<Value> grids;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    unsigned dim = xy && i < 2 ? 1 - i : i;
    if (rankOf(axis) > 1)
      return call.refuse("needs 1-d tensors");
    grids.push_back(call.kernels.view(axis, call.resultShape(i), [&](ArrayRef<Expr> dims) {
      return rankOf(axis) == 0 ? Exprs() : Exprs{dims[dim]};
    }));
    Exprs shape = call.resultShape(i);
    if (rankOf(axis) == 1 && !call.fits(shapeOf(axis)[0], shape[dim], "an axis of another length"))
      return call.refuse("computes another shape than the program declares");
  }
  return call.set(grids);
}

void lowering::registerView(LoweringTable &table) {
  table.add({"aten.alias.default", "aten.alias_copy.default", "aten.detach.default",
             "aten.detach_copy.default", "aten.contiguous.default", "aten.clone.default",
             "aten.lift.default", "aten.lift_fresh.default", "aten.lift_fresh_copy.default",
             "aten.positive.default", "aten.resolve_conj.default", "aten.resolve_neg.default"},
            lowerIdentity);
  table.add({"aten.view.default", "aten.view_copy.default", "aten.reshape.default",
             "aten._unsafe_view.default", "aten.reshape_as.default", "aten.view_as.default",
             "aten.flatten.using_ints", "aten.ravel.default", "aten.unflatten.int",
             "aten.unsqueeze.default", "aten.unsqueeze_copy.default", "aten.atleast_1d.default",
             "aten.atleast_2d.default", "aten._reshape_copy.default", "aten.atleast_3d.default"},
            lowerReshape);
  table.add({"aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims",
             "aten.squeeze_copy.default", "aten.squeeze_copy.dim", "aten.squeeze_copy.dims"},
            lowerSqueeze);
  table.add({"aten.expand.default", "aten.expand_copy.default", "aten.expand_as.default",
             "aten.broadcast_to.default"},
            lowerExpand);
  table.add({"aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default",
             "aten.swapdims.default"},
            lowerTranspose);
  table.add({"aten.t.default", "aten.t_copy.default", "aten.numpy_T.default"}, lowerReverseDims);
  table.add("aten.mT.default", lowerMatrixTranspose);
  table.add({"aten.mH.default", "aten.adjoint.default", "aten.matrix_H.default"}, lowerAdjoint);
  table.add({"aten.permute.default", "aten.permute_copy.default"}, lowerPermute);
  table.add(
      {"aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist"},
      lowerMovedim);
  table.add({"aten.slice.Tensor", "aten.slice_copy.Tensor"}, lowerSlice);
  table.add({"aten.select.int", "aten.select_copy.int"}, lowerSelect);
  table.add({"aten.unbind.int", "aten.unbind_copy.int"}, lowerUnbind);
  table.add({"aten.narrow.default", "aten.narrow_copy.default"}, lowerNarrow);
  table.add({"aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default",
             "aten.split_copy.Tensor", "aten.split_with_sizes_copy.default",
             "aten.unsafe_split.Tensor", "aten.unsafe_split_with_sizes.default",
             "aten.chunk.default", "aten.unsafe_chunk.default"},
            lowerSplit);
  table.add("aten.tensor_split.sections", lowerTensorSplit);
  table.add("aten.tensor_split.indices", lowerTensorSplitAt);
  table.add("aten.tensor_split.tensor_indices_or_sections", lowerTensorSplitByTensor);
  const StringRef splits[] = {"vsplit", "hsplit", "dsplit"};
  for (int64_t dim = 0; dim < 3; ++dim)
    for (StringRef overload : {".int", ".array"})
      table.add(("aten." + splits[dim] + overload).str(),
                [dim](Call &call) { return splitAlong(call, dim); });
  table.add({"aten.diagonal.default", "aten.diagonal_copy.default", "aten.linalg_diagonal.default"},
            lowerDiagonal);
  table.add({"aten.unfold.default", "aten.unfold_copy.default"}, lowerUnfold);
  table.add({"aten.repeat.default", "aten.tile.default"}, lowerRepeat);
  table.add("aten.repeat_interleave.self_int", lowerRepeatInterleaveInt);
  table.add("aten.flip.default", lowerFlip);
  table.add("aten.flipud.default", [](Call &call) { return flipDim(call, 0); });
  table.add("aten.fliplr.default", [](Call &call) { return flipDim(call, 1); });
  table.add("aten.rot90.default", lowerRot90);
  table.add("aten.broadcast_tensors.default", lowerBroadcastTensors);
  table.add({"aten.atleast_1d.Sequence", "aten.atleast_2d.Sequence", "aten.atleast_3d.Sequence"},
            lowerReshapeEach);
  table.add("aten.roll.default", lowerRoll);
  table.add({"aten.meshgrid.default", "aten.meshgrid.indexing"}, lowerMeshgrid);
}
