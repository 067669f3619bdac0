// Giving a product the batch dims of what it is computed with.
#include "SplitBatch.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using sym::Expr;

/// With what is known where it stands: of a number of one batch dim, the index in one of many.
static void simplifyMap(ReadOp read) {
  sym::Assumptions known = getAssumptions(read->getParentRegion());
  sym::IndexMap map = read.getMap().getMap();
  for (Expr &expr : map.results)
    expr = known.simplify(expr);
  read.setMapAttr(sym::MapAttr::get(read.getContext(), map));
}

ContractOp kernel::splitBatch(RewriterBase &rewriter, ContractOp contract, ArrayRef<Expr> sizes) {
  ArrayRef<Expr> batch = contract.getBatch().getSizes();
  if (contract.getPerm() || contract.getPart() || batch.size() != 1 || sizes.size() < 2 ||
      contract.getExtents().size() != 4 || batch.front() != sym::product(sizes))
    return contract;
  unsigned count = sizes.size();
  DimSubstitution substitution;
  substitution.sourceDims = 4;
  substitution.targetDims = count + 3;
  SmallVector<Expr> dims;
  for (unsigned i = 0; i < count + 3; ++i)
    dims.push_back(Expr::dim(i));
  substitution.dims = {sym::linearize(ArrayRef(dims).take_front(count), sizes)};
  substitution.dims.append(dims.end() - 3, dims.end());

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(contract);
  auto type = cast<RankedTensorType>(contract.getResult().getType());
  SmallVector<Expr> shape(sizes), old = sym::getShape(type);
  shape.append(old.end() - 2, old.end());
  auto split = ContractOp::create(
      rewriter, contract.getLoc(), sym::getTensorType(shape, type.getElementType()),
      sym::ShapeAttr::get(contract.getContext(), sizes), contract.getMAttr(), contract.getNAttr(),
      contract.getKAttr(), DenseI64ArrayAttr(), IntegerAttr(), sym::ExprAttr(),
      contract.getBytesAttr());
  for (auto [from, to] : llvm::zip_equal(contract->getRegions(), split->getRegions())) {
    OpBuilder::InsertionGuard inner(rewriter);
    Block &block = to.emplaceBlock();
    IRMapping mapping;
    for (BlockArgument argument : from.getArguments())
      mapping.map(argument, block.addArgument(argument.getType(), argument.getLoc()));
    rewriter.setInsertionPointToStart(&block);
    YieldOp::create(rewriter, contract.getLoc(),
                    cloneBody(rewriter, from.front(), substitution, mapping));
  }
  SmallVector<Expr> index = sym::delinearize(Expr::dim(0), sizes);
  index.append({Expr::dim(1), Expr::dim(2)});
  MapOp view = createView(rewriter, contract.getLoc(), split.getResult(), old, index);
  rewriter.replaceOp(contract, view);
  foldReads(rewriter, view);
  split->walk(simplifyMap);
  for (Operation *user : split->getUsers())
    if (auto read = dyn_cast<ReadOp>(user))
      simplifyMap(read);
  return split;
}
