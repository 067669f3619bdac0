// Giving a product the batch dims of what it is computed with.
#include "SplitBatch.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using sym::Expr;

ContractOp kernel::splitBatch(RewriterBase &rewriter, ContractOp contract, ArrayRef<Expr> sizes) {
  ArrayRef<Expr> batch = contract.getBatch().getSizes();
  if (contract.getPerm() || contract.getPart() || batch.size() != 1 || sizes.size() < 2 ||
      contract.getExtents().size() != 4 || batch.front() != sym::product(sizes))
    return contract;
  unsigned count = sizes.size();
  SmallVector<Expr> numbers;
  for (unsigned i = 0; i < count; ++i)
    numbers.push_back(Expr::dim(i));
  Expr dims[] = {sym::linearize(numbers, sizes), Expr::dim(count), Expr::dim(count + 1),
                 Expr::dim(count + 2)};

  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(contract);
  auto type = cast<RankedTensorType>(contract.getResult().getType());
  SmallVector<Expr> shape(sizes), old = sym::getShape(type);
  shape.append(old.end() - 2, old.end());
  auto split = ContractOp::create(
      rewriter, contract.getLoc(), sym::getTensorType(shape, type.getElementType()),
      sym::ShapeAttr::get(contract.getContext(), sizes), contract.getMAttr(), contract.getNAttr(),
      contract.getKAttr(), DenseI64ArrayAttr(), IntegerAttr(), sym::ExprAttr(),
      contract.getBytesAttr(), contract.getNarrowAttr());
  for (auto [from, to] : llvm::zip_equal(contract->getRegions(), split->getRegions()))
    renameBody(from, to, dims, rewriter, count + 3);
  SmallVector<Expr> index = sym::delinearize(Expr::dim(0), sizes);
  index.append({Expr::dim(1), Expr::dim(2)});
  MapOp view = createView(rewriter, contract.getLoc(), split.getResult(), old, index);
  rewriter.replaceOp(contract, view);
  foldReads(rewriter, view);
  auto simplify = [](ReadOp read) { simplifyMap(read, getAssumptions(read->getParentRegion())); };
  split->walk(simplify);
  for (Operation *user : split->getUsers())
    if (auto read = dyn_cast<ReadOp>(user))
      simplify(read);
  return split;
}
