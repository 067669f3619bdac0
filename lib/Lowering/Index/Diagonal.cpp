// Matrices made of diagonals and blocks, and the indices of triangles.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Matrices [.., n + |offset|, n + |offset|] in dims `row` and `column` of the result with the last
/// dim of `tensor` on a diagonal.
static Value embedDiagonal(Call &call, Value tensor, int64_t offset, int64_t row, int64_t column) {
  Exprs sizes = shapeOf(tensor), shape;
  Expr side = call.kernels.known().simplify(sizes.back() + std::abs(offset));
  int64_t rank = rankOf(tensor) + 1;
  for (int64_t i = 0, next = 0; i < rank; ++i)
    shape.push_back(i == row || i == column ? side : sizes[next++]);
  Type type = elementType(tensor);
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs index;
    for (int64_t i = 0; i < rank; ++i)
      if (i != row && i != column)
        index.push_back(body.dim(i));
    index.push_back(offset >= 0 ? body.dim(row) : body.dim(column));
    Element isOn = body.index(body.dim(row) + offset) == body.index(body.dim(column));
    return body.read(tensor, index, isOn, body.constant(type, 0));
  });
}

static LogicalResult lowerDiagEmbed(Call &call) {
  Value self = call.tensor(0);
  int64_t rank = rankOf(self) + 1;
  int64_t row = call.dim("dim1", rank), column = call.dim("dim2", rank);
  if (rank < 2 || row == column)
    return call.refuse("needs two different dims");
  // Rows of a negative offset are those of the transposed matrix, which the mask takes care of.
  return call.set(embedDiagonal(call, self, call.args.integer("offset"), row, column));
}

static LogicalResult lowerDiagflat(Call &call) {
  Value flat = call.kernels.reshape(call.tensor(0), {sym::product(shapeOf(call.tensor(0)))});
  return call.set(embedDiagonal(call, flat, call.args.integer("offset"), 0, 1));
}

static LogicalResult lowerDiag(Call &call) { // a matrix of a vector, the diagonal of a matrix
  Value self = call.tensor(0);
  int64_t offset = call.args.integer("diagonal");
  if (rankOf(self) == 1)
    return call.set(embedDiagonal(call, self, offset, 0, 1));
  if (rankOf(self) != 2)
    return call.refuse("needs a vector or a matrix");
  Expr below = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  return call.set(call.kernels.view(self, call.resultShape(), [&](ArrayRef<Expr> dims) {
    return Exprs{dims[0] + below, dims[0] + right};
  }));
}

static LogicalResult lowerBlockDiag(Call &call) {
  SmallVector<Value> blocks = call.args.tensorList(0);
  Type type = call.resultType();
  for (Value &block : blocks) {
    Exprs shape = shapeOf(block);
    if (shape.size() > 2)
      return call.refuse("a block with more than two dims");
    shape.insert(shape.begin(), 2 - shape.size(), Expr(1));
    block = call.kernels.reshape(block, shape);
  }
  return call.set(call.kernels.map(call.resultShape(), type, [&](BodyBuilder &body) {
    Element value = body.constant(type, 0);
    Expr row = 0, column = 0;
    for (Value block : blocks) {
      Exprs shape = shapeOf(block), index = {body.dim(0) - row, body.dim(1) - column};
      Element isIn = body.inside(index, shape);
      Element read = body.read(block, index, isIn, body.constant(elementType(block), 0));
      value = select(isIn, convert(read, type), value);
      row = row + shape[0];
      column = column + shape[1];
    }
    return value;
  }));
}

//===-- Indices of triangles ------------------------------------------------------------------===//

/// min(1, c) + … + min(m, c) of integers m >= 0.
static Element sumOfClamped(Element m, Element c) {
  Element one = m.constant(1);
  Element few = truncDiv(m * (m + one), m.constant(2));
  Element many = truncDiv(c * (c + one), m.constant(2)) + (m - c) * c;
  return select(m <= c, few, many);
}

/// Element k of the rows' indices, row by row: the row is the last one that begins at or before k.
static Lowering triangleIndices(bool lower) {
  return [lower](Call &call) -> LogicalResult {
    int64_t rows = call.args.integer("row"), columns = call.args.integer("col");
    // The upper triangle is what a lower one leaves.
    int64_t offset = call.args.integer("offset") - (lower ? 0 : 1);
    auto layout = call.args.layout("layout");
    if (!isInt(call.resultType()) || (layout && *layout != torch::Layout::Strided))
      return call.refuse("this dtype or layout");
    return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
      Element k = body.index(body.dim(1)), zero = k.constant(0), c = k.constant(columns);
      Element before = sumOfClamped(maximum(k.constant(offset), zero), c);
      auto begin = [&](Element row) {
        Element inLower = sumOfClamped(maximum(row + k.constant(offset), zero), c) - before;
        return lower ? inLower : row * c - inLower;
      };
      Element row = zero;
      for (int64_t step = llvm::PowerOf2Ceil(std::max<int64_t>(rows, 1)); step > 0; step /= 2) {
        Element next = row + k.constant(step);
        row = select((next < k.constant(rows)) & (begin(next) <= k), next, row);
      }
      Element column = k - begin(row);
      if (!lower)
        column = column + minimum(maximum(row + k.constant(offset + 1), zero), c);
      return select(body.index(body.dim(0)) == zero, row, column);
    }));
  };
}

/// With `wrap`, the diagonal of a tall matrix begins again one row after it has ended (of a
/// row-major one: of others ATen writes past the columns).
static LogicalResult lowerFillDiagonal(Call &call) {
  Value self = call.tensor(0);
  Exprs shape = shapeOf(self);
  torch::Scalar fill = call.args.scalar("fill_value");
  bool wraps = call.args.boolean("wrap") && shape.size() == 2;
  for (size_t i = 1; shape.size() > 2 && i < shape.size(); ++i)
    call.requireSame(shape[i], shape[0], "expected sizes of a diagonal that are all the same");
  Type type = elementType(self);
  Value result = call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Expr row = body.dim(0);
    if (wraps)
      row = row - (shape[1] + 1) * row.floorDiv(shape[1] + 1);
    Element first = body.index(row), on = constant(body.b(), body.b().getI1Type(), int64_t(1));
    for (size_t i = 1; i < shape.size(); ++i)
      on = on & (body.index(body.dim(i)) == first);
    return select(on, call.number(body, fill, type), body.broadcast(self));
  });
  SmallVector<Value> results(call.numResults(), result);
  return call.set(results);
}

void lowering::registerDiagonal(LoweringTable &table) {
  table.add("aten.diag_embed.default", lowerDiagEmbed);
  table.add("aten.diagflat.default", lowerDiagflat);
  table.add("aten.diag.default", lowerDiag);
  table.addUpdating("aten.fill_diagonal_.default", lowerFillDiagonal);
  table.add("aten.block_diag.default", lowerBlockDiag);
  table.add("aten.tril_indices.default", triangleIndices(true));
  table.add("aten.triu_indices.default", triangleIndices(false));
}
