// Compares where a kernel reads an operand with where it writes.
#include "Elementwise.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

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

SmallVector<Value> wrapper::getWrittenOperands(GraphCallOpInterface call,
                                               const SymbolTable &symbols) {
  SmallVector<Value> arguments;
  auto add = [&](ValueRange operands) { llvm::append_range(arguments, operands); };
  llvm::TypeSwitch<Operation *>(call)
      .Case<CallOp, IfOp>([&](auto op) { add(op.getIns()); })
      .Case([&](WhileOp op) {
        add(op.getCarried());
        add(op.getIns());
      })
      .Case([&](ForOp op) {
        add(op.getCarried());
        add(op.getSlices());
        add(op.getIns());
      });
  llvm::SetVector<Value> written;
  for (FlatSymbolRefAttr name : call.getGraphs())
    for (auto [i, operand] : llvm::enumerate(arguments))
      if (mayWriteArgument(symbols.lookup<FuncOp>(name.getValue()), i))
        written.insert(operand);
  return written.takeVector();
}
