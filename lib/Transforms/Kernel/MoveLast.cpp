// Constants in the order in which they are read.
#include "kiln/Transforms/Kernel/MoveLast.h"

using namespace mlir;
using namespace kiln;

/// Which dim of the tensor that `read` reads walks along `column`, if moving it last would make the
/// walk consecutive: every index is a dim of its own or constant.
static std::optional<unsigned> findColumn(kernel::ReadOp read, sym::Expr column) {
  if (!read.getValues().empty() || read.getMask())
    return std::nullopt;
  ArrayRef<sym::Expr> results = read.getMap().getResults();
  std::optional<unsigned> found;
  for (auto [i, result] : llvm::enumerate(results)) {
    if (result == column && !found)
      found = i;
    else if (result.dependsOn(column))
      return std::nullopt;
  }
  // Dims of extent 1 behind it do not separate its elements.
  SmallVector<sym::Expr> shape = sym::getShape(read.getTensor());
  if (!found || sym::product(ArrayRef(shape).drop_front(*found + 1)).isConstant(1))
    return std::nullopt;
  return found;
}

/// `tensor` with dim `dim` moved last, as a view in front of `before`.
static Value createMoved(Value tensor, unsigned dim, Operation *before) {
  SmallVector<sym::Expr> shape = sym::getShape(tensor);
  unsigned rank = shape.size();
  SmallVector<sym::Expr> moved(shape);
  moved.erase(moved.begin() + dim);
  moved.push_back(shape[dim]);
  // Element (d0, …) of the view is the tensor's with the last dim put back in its place.
  sym::IndexMap index{rank, {}};
  for (unsigned i = 0; i < rank; ++i)
    index.results.push_back(sym::Expr::dim(i < dim ? i : i == dim ? rank - 1 : i - 1));

  OpBuilder builder(before);
  Location loc = before->getLoc();
  Type type = sym::getTensorType(moved, cast<RankedTensorType>(tensor.getType()).getElementType());
  auto view = kernel::MapOp::create(builder, loc, TypeRange{type});
  builder.createBlock(&view.getBody());
  Value element = kernel::ReadOp::create(builder, loc, tensor, index);
  kernel::YieldOp::create(builder, loc, element);
  return view.getResult(0);
}

void kernel::moveLast(Operation *op, Region &region, sym::Expr column) {
  DenseMap<std::pair<Value, unsigned>, Value> packed;
  region.walk([&](kernel::ReadOp read) {
    auto constant = read.getTensor().getDefiningOp<kernel::ConstantOp>();
    if (!constant || constant->hasAttr(kernel::mutatedAttrName))
      return;
    std::optional<unsigned> dim = findColumn(read, column);
    if (!dim)
      return;
    Value &view = packed[{constant, *dim}];
    if (!view)
      view = createMoved(constant, *dim, op);
    sym::IndexMap index = read.getMap().getMap();
    sym::Expr last = index.results[*dim];
    index.results.erase(index.results.begin() + *dim);
    index.results.push_back(last);
    read.getTensorMutable().assign(view);
    read.setMapAttr(sym::MapAttr::get(read.getContext(), index));
  });
}
