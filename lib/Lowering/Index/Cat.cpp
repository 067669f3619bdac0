// Concatenation: a chain of masked reads, each part's where the index lies in it.
#include "kiln/Lowering/Lowering.h"
#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Parts one after another along `dim`, converted to `type`. They agree in all other sizes.
static Value concatenate(Call &call, ArrayRef<Value> parts, int64_t dim, Type type) {
  Exprs shape = shapeOf(parts.front()), offsets;
  Expr total = 0;
  for (Value part : parts) {
    Exprs sizes = shapeOf(part);
    offsets.push_back(total);
    total = total + sizes[dim];
    sizes[dim] = shape[dim];
    // Export has not always written down that they do.
    if (!call.fits(sizes, shape,
                   "expected parts of a concatenation that agree in all other sizes")) {
      call.kernels.fail("parts that differ in another size");
      return {};
    }
  }
  shape[dim] = call.kernels.known().simplify(total);
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Element value;
    for (auto [part, offset] : llvm::reverse(llvm::zip_equal(parts, offsets))) {
      Exprs index = body.ownDims();
      index[dim] = index[dim] - offset;
      Element inside = body.inside({index[dim]}, {shapeOf(part)[dim]});
      Type own = elementType(part);
      if (own == type) {
        Element other = value ? value : body.constant(type, 0);
        value = body.read(part, index, inside, other);
      } else {
        Element read = body.read(part, index, inside, body.constant(own, 0));
        value = value ? select(inside, convert(read, type), value) : convert(read, type);
      }
    }
    return value;
  });
}

static LogicalResult lowerCat(Call &call) {
  SmallVector<Value> parts = call.args.tensorList(0);
  // An empty 1-d tensor takes part in no way but promotion.
  llvm::erase_if(parts, [&](Value part) {
    return rankOf(part) == 1 && shapeOf(part)[0].isConstant(0) && call.resultShape().size() != 1;
  });
  if (parts.empty())
    return call.set(call.kernels.full(call.resultShape(), call.resultType(), 0));
  int64_t rank = rankOf(parts.front());
  if (rank == 0 || llvm::any_of(parts, [&](Value part) { return rankOf(part) != rank; }))
    return call.refuse("parts of different ranks");
  Value result = concatenate(call, parts, call.dim(1, rank), call.resultType());
  return result ? call.set(result) : failure();
}

/// Parts gain a dim of size 1 that they are concatenated along.
static LogicalResult lowerStack(Call &call) {
  SmallVector<Value> parts = call.args.tensorList(0);
  if (parts.empty())
    return call.refuse("nothing to stack");
  int64_t rank = rankOf(parts.front()) + 1, dim = call.dim(1, rank);
  for (Value &part : parts) {
    Exprs shape = shapeOf(part);
    if (static_cast<int64_t>(shape.size()) + 1 != rank)
      return call.refuse("parts of different ranks");
    shape.insert(shape.begin() + dim, Expr(1));
    part = call.kernels.reshape(part, shape);
  }
  Value result = concatenate(call, parts, dim, call.resultType());
  return result ? call.set(result) : failure();
}

/// Concatenates parts that have at least `rank` dims: missing ones are added in front, or, for a
/// vector in dstack and column_stack, as `shapeOfVector` says.
static LogicalResult stackAlong(Call &call, int64_t rank, int64_t dim,
                                function_ref<Exprs(Expr)> shapeOfVector) {
  SmallVector<Value> parts = call.args.tensorList(0);
  if (parts.empty())
    return call.refuse("nothing to stack");
  for (Value &part : parts) {
    Exprs shape = shapeOf(part);
    if (shape.empty())
      shape = shapeOfVector(1);
    else if (shape.size() == 1)
      shape = shapeOfVector(shape[0]);
    while (static_cast<int64_t>(shape.size()) < rank)
      shape.push_back(1);
    part = call.kernels.reshape(part, shape);
    if (rankOf(part) != rankOf(parts.front()))
      return call.refuse("parts of different ranks");
  }
  Value result = concatenate(call, parts, dim, call.resultType());
  return result ? call.set(result) : failure();
}

static LogicalResult lowerHstack(Call &call) { // along dim 1, vectors along dim 0
  SmallVector<Value> parts = call.args.tensorList(0);
  bool vectors = !parts.empty() && rankOf(parts.front()) <= 1;
  return stackAlong(call, 1, vectors ? 0 : 1, [](Expr n) { return Exprs{n}; });
}

static LogicalResult lowerVstack(Call &call) { // vectors are rows
  return stackAlong(call, 2, 0, [](Expr n) { return Exprs{Expr(1), n}; });
}

static LogicalResult lowerColumnStack(Call &call) { // vectors are columns
  return stackAlong(call, 2, 1, [](Expr n) { return Exprs{n, Expr(1)}; });
}

static LogicalResult lowerDstack(Call &call) {
  return stackAlong(call, 3, 2, [](Expr n) { return Exprs{Expr(1), n, Expr(1)}; });
}

/// Each part padded with zeros to `num_chunks` equal pieces of `dim`, which are put beside each
/// other with what the later dims hold.
static LogicalResult lowerChunkCat(Call &call) {
  int64_t chunks = call.args.integer("num_chunks");
  SmallVector<Value> parts = call.args.tensorList(0);
  if (parts.empty() || chunks <= 0)
    return call.refuse("nothing to put together");
  int64_t dim = call.dim("dim", rankOf(parts.front()));
  for (Value &part : parts) {
    Exprs shape = shapeOf(part);
    if (dim >= static_cast<int64_t>(shape.size()))
      return call.refuse("a tensor of fewer dims");
    Expr rest = sym::product(ArrayRef(shape).drop_front(dim + 1)), rows = shape[dim];
    Exprs flat(ArrayRef(shape).take_front(dim)), pieces = flat;
    flat.append({rows, rest});
    Expr each = call.kernels.known().simplify(rows.ceilDiv(Expr(chunks)));
    pieces.append({Expr(chunks), each, rest});
    Value matrix = call.kernels.reshape(part, flat);
    Type type = elementType(part);
    Value padded = call.kernels.map(pieces, type, [&](BodyBuilder &body) {
      Exprs at = body.dims(0, dim);
      at.append({body.dim(dim) * each + body.dim(dim + 1), body.dim(dim + 2)});
      return body.readPadded(matrix, at, body.constant(type, 0));
    });
    pieces.resize(dim + 1);
    pieces.push_back(each * rest);
    part = call.kernels.reshape(padded, pieces);
  }
  Value result = concatenate(call, parts, dim + 1, call.resultType());
  return result ? call.set(result) : failure();
}

/// Whether a number of this integer type is the double's whole part.
static bool holds(Type type, double value) {
  bool isSigned = !isUnsigned(type);
  unsigned bits = type.getIntOrFloatBitWidth() - isSigned;
  double end = std::ldexp(1.0, static_cast<int>(bits));
  return value < end && (isSigned ? value >= -end : value >= 0);
}

/// Sequences [L, …] of different lengths, each padded to the longest on one side, beside each
/// other.
static LogicalResult lowerPadSequence(Call &call) {
  SmallVector<Value> parts = call.args.tensorList(0);
  bool batchFirst = call.args.boolean("batch_first");
  double padding = call.args.number("padding_value");
  StringRef side = call.args.string("padding_side");
  if (parts.empty() || (side != "left" && side != "right"))
    return call.refuse("no sequences, or another side than left or right");
  // The first one says what the dtype and the other dims are.
  Type type = elementType(parts.front());
  Exprs first = shapeOf(parts.front());
  if (isInt(type) && !holds(type, padding))
    return call.refuse("a padding value that the dtype does not have");
  if (first.empty() ||
      llvm::any_of(parts, [&](Value part) { return rankOf(part) != rankOf(parts.front()); }))
    return call.refuse("sequences of different ranks");
  Expr length = 0;
  for (Value part : parts)
    length = call.kernels.known().simplify(Expr::max(length, shapeOf(part)[0]));
  for (Value &part : parts) {
    Exprs shape = first, padded = first;
    shape[0] = shapeOf(part)[0];
    padded[0] = length;
    Value sequence = call.kernels.convert(call.kernels.expand(part, shape), type);
    if (call.kernels.failure)
      return failure();
    Value whole = call.kernels.map(padded, type, [&](BodyBuilder &body) {
      Exprs at = body.ownDims();
      if (side == "left")
        at[0] = at[0] - (length - shape[0]);
      return body.readPadded(sequence, at, body.constant(type, padding));
    });
    padded.insert(padded.begin() + (batchFirst ? 0 : 1), Expr(1));
    part = call.kernels.reshape(whole, padded);
  }
  Value result = concatenate(call, parts, batchFirst ? 0 : 1, call.resultType());
  return result ? call.set(result) : failure();
}

/// All combinations of an element of each vector, the last one changing fastest.
static LogicalResult lowerCartesianProd(Call &call) {
  SmallVector<Value> vectors = call.args.tensorList(0);
  if (vectors.size() == 1)
    return call.set(vectors.front());
  Exprs sizes;
  for (Value vector : vectors) {
    if (rankOf(vector) != 1 || elementType(vector) != call.resultType())
      return call.refuse("needs vectors of one dtype");
    sizes.push_back(shapeOf(vector)[0]);
  }
  if (vectors.empty())
    return call.refuse("nothing to combine");
  SmallVector<Value> columns;
  for (auto [i, vector] : llvm::enumerate(vectors)) {
    Value grid =
        call.kernels.view(vector, sizes, [i = i](ArrayRef<Expr> dims) { return Exprs{dims[i]}; });
    columns.push_back(call.kernels.reshape(grid, {sym::product(sizes), 1}));
  }
  Value result = concatenate(call, columns, 1, call.resultType());
  return result ? call.set(result) : failure();
}

/// Differences of neighbours, n times.
static LogicalResult lowerDiff(Call &call) {
  Value self = call.tensor(0);
  int64_t rank = rankOf(self), dim = call.dim("dim", rank), n = call.args.integer("n");
  Type type = elementType(self);
  if (rank == 0 || n < 0)
    return call.refuse("a 0-d tensor or a negative n");
  SmallVector<Value> parts;
  for (Value part : {call.args.optTensor("prepend"), self, call.args.optTensor("append")})
    if (part) {
      if (rankOf(part) != rank)
        return call.refuse("parts of different ranks");
      parts.push_back(part);
    }
  Value value = parts.size() == 1 ? self : concatenate(call, parts, dim, call.resultType());
  type = call.resultType();
  for (int64_t i = 0; value && i < n; ++i) {
    Exprs shape = shapeOf(value);
    shape[dim] = call.kernels.known().simplify(Expr::max(shape[dim] - 1, Expr(0)));
    value = call.kernels.map(shape, type, [&](BodyBuilder &body) {
      Exprs here = body.ownDims(), next = here;
      next[dim] = next[dim] + 1;
      Type wide = opmath(type);
      Element a = convert(body.read(value, here), wide), b = convert(body.read(value, next), wide);
      return isBool(type) ? a ^ b : b - a;
    });
  }
  return value ? call.set(value) : failure();
}

void lowering::registerCat(LoweringTable &table) {
  table.add({"aten.cat.default", "aten.concat.default", "aten.concatenate.default"}, lowerCat);
  table.add("aten.stack.default", lowerStack);
  table.add("aten.hstack.default", lowerHstack);
  table.add({"aten.vstack.default", "aten.row_stack.default"}, lowerVstack);
  table.add("aten.column_stack.default", lowerColumnStack);
  table.add("aten.dstack.default", lowerDstack);
  table.add("aten._chunk_cat.default", lowerChunkCat);
  table.add("aten.pad_sequence.default", lowerPadSequence);
  table.add("aten.cartesian_prod.default", lowerCartesianProd);
  table.add("aten.diff.default", lowerDiff);
}
