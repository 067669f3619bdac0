// Compares where a kernel reads an operand with where it writes.
#include "Elementwise.h"

using namespace mlir;
using namespace kiln;

bool wrapper::isElementwise(kernel::FuncOp func, BlockArgument argument) {
  auto map = dyn_cast<kernel::MapOp>(func.getRoot());
  if (!map)
    return false;
  SmallVector<sym::Expr> domain = map.getExtents(), dims;
  for (unsigned i = 0; i < domain.size(); ++i)
    dims.push_back(sym::Expr::dim(i));
  sym::Expr written = sym::linearize(dims, domain);
  SmallVector<sym::Expr> shape = sym::getShape(argument);
  return llvm::all_of(argument.getUsers(), [&](Operation *user) {
    auto read = dyn_cast<kernel::ReadOp>(user);
    if (!read || !read.getValues().empty())
      return false;
    sym::Expr address = sym::linearize(read.getMap().getResults(), shape);
    return kernel::getAssumptions(read->getParentRegion()).simplify(address) == written;
  });
}
