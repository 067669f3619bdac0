// Right operands of contracts in panels: where their elements lie, and the maps that put them there.
#include "CPU/Contract/Panels.h"
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// The k dims in the order in which the left operand lies in memory, outermost first; the order
/// given where that is not known.
static SmallVector<unsigned> orderSums(ContractOp contract) {
  unsigned first = contract.getExtents().size() - contract.getNumK();
  SmallVector<unsigned> order(contract.getNumK());
  std::iota(order.begin(), order.end(), 0);
  ReadOp largest;
  sym::Assumptions assumptions = getAssumptions(&contract.getLhs());
  contract.getLhs().walk([&](ReadOp read) {
    auto rank = [](ReadOp r) { return cast<RankedTensorType>(r.getTensor().getType()).getRank(); };
    if (read->getParentRegion() == &contract.getLhs() && read.getValues().empty() &&
        (!largest || rank(read) > rank(largest)))
      largest = read;
  });
  if (!largest)
    return order;
  sym::Expr offset = assumptions.simplify(
      sym::linearize(largest.getMap().getResults(), sym::getShape(largest.getTensor())));
  SmallVector<int64_t> strides;
  for (unsigned i = 0; i < order.size(); ++i) {
    std::optional<sym::Linear> linear = sym::splitLinear(offset, sym::Expr::dim(first + i));
    std::optional<int64_t> stride =
        linear ? linear->coefficient.constant() : std::optional<int64_t>();
    if (!stride)
      return order;
    strides.push_back(std::abs(*stride));
  }
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
  });
  return order;
}

PanelColumns::PanelColumns(ContractOp contract) : isBatch(columnsAreBatch(contract)) {
  first = isBatch ? contract.getNumBatch() - 1 : contract.getNumBatch() + contract.getNumM();
  extents = isBatch ? contract.getBatch().getSizes().take_back() : contract.getN().getSizes();
}

Panels::Panels(ContractOp contract) : contract(contract), order(orderSums(contract)) {}

SmallVector<sym::Expr> Panels::getSums() const {
  ArrayRef<sym::Expr> sizes = contract.getK().getSizes();
  SmallVector<sym::Expr> sums;
  for (unsigned dim : order)
    sums.push_back(sizes[dim]);
  return sums;
}

/// The batch dims of the packed operand: those that it does not depend on, and one that is the
/// columns, have size 1.
SmallVector<sym::Expr> Panels::getBatch() const {
  PanelColumns columns(contract);
  SmallVector<sym::Expr> sizes;
  for (auto [i, size] : llvm::enumerate(contract.getBatch().getSizes())) {
    bool isColumns = columns.isBatch && i == columns.first;
    sizes.push_back(!isColumns && usesDim(contract.getRhs(), i) ? size : sym::Expr(1));
  }
  return sizes;
}

Value Panels::create(Type element, sym::Expr rows, RewriterBase &rewriter, Compute compute) const {
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(contract);
  Location loc = contract.getLoc();
  PanelColumns columns(contract);
  unsigned numBatch = contract.getNumBatch(), numDims = contract.getExtents().size();
  sym::Expr end = sym::product(columns.extents);
  SmallVector<sym::Expr> shape = getBatch(), k = getSums();
  shape.append({end.ceilDiv(panel), rows, panel});

  auto packed = MapOp::create(rewriter, loc, TypeRange(sym::getTensorType(shape, element)));
  rewriter.setInsertionPointToStart(&packed.getBody().emplaceBlock());
  sym::Assumptions assumptions = getAssumptions(&packed.getBody());
  sym::Expr column = sym::Expr::dim(numBatch) * panel + sym::Expr::dim(numBatch + 2);

  DimSubstitution substitution;
  substitution.sourceDims = numDims;
  substitution.targetDims = shape.size();
  substitution.dims.assign(numDims, sym::Expr(0));
  for (unsigned i = 0; i < numBatch; ++i)
    substitution.dims[i] = sym::Expr::dim(i);
  for (auto [i, value] : llvm::enumerate(sym::delinearize(column, columns.extents)))
    substitution.dims[columns.first + i] = assumptions.simplify(value);
  if (!assumptions.isLess(column, end)) {
    MLIRContext *context = contract.getContext();
    sym::IndexMap inside{static_cast<unsigned>(shape.size()), {column}};
    substitution.mask =
        InsideOp::create(rewriter, loc, rewriter.getI1Type(), sym::MapAttr::get(context, inside),
                         sym::ShapeAttr::get(context, {end}), ValueRange());
  }
  auto cloneAt = [&](sym::Expr step) {
    for (auto [old, value] : llvm::zip(order, sym::delinearize(step, k)))
      substitution.dims[firstK() + old] = assumptions.simplify(value);
    IRMapping mapping;
    Block &body = contract.getRhs().front();
    SmallVector<Value> values = cloneBody(rewriter, body, substitution, mapping);
    mapping.map(body.getTerminator()->getOperands(), values);
    return mapping;
  };
  Value value = compute(cloneAt, sym::Expr::dim(numBatch + 1), substitution.mask);
  YieldOp::create(rewriter, loc, value);
  eraseUnused(packed.getBody().front());
  return packed.getResult(0);
}

sym::IndexMap Panels::getPlace(unsigned numDims, sym::Expr row) const {
  PanelColumns columns(contract);
  sym::IndexMap index{numDims, {}};
  for (auto [i, size] : llvm::enumerate(getBatch()))
    index.results.push_back(size.isConstant(1) ? sym::Expr(0) : sym::Expr::dim(i));
  SmallVector<sym::Expr> n;
  for (unsigned i = 0; i < columns.extents.size(); ++i)
    n.push_back(sym::Expr::dim(columns.first + i));
  sym::Expr column = sym::linearize(n, columns.extents);
  index.results.append({column.floorDiv(panel), row, column.mod(panel)});
  return index;
}
