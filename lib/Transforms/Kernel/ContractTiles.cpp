// The width of the panels that products are tiled and packed by.
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

int64_t kernel::chooseContractPanel(int64_t m, int64_t n, ContractTarget target) {
  constexpr int64_t widest = 8, usual = 2;
  int64_t vectors = usual;
  if (m < (target.registers - 1 - usual) / usual) {
    vectors = (target.registers - 1) / (std::max<int64_t>(m, 1) + 1);
    vectors = std::clamp<int64_t>(vectors, usual, widest);
  }
  int64_t needed = std::max<int64_t>(llvm::divideCeil(std::max<int64_t>(n, 1), target.lanes), 1);
  return std::min(vectors, needed) * target.lanes;
}

int64_t kernel::chooseSharedPanel(ArrayRef<int64_t> panels, ContractTarget target) {
  int64_t between = std::max<int64_t>(target.registers / 8, 3) * target.lanes;
  return std::clamp(between, *llvm::min_element(panels), *llvm::max_element(panels));
}

bool kernel::columnsAreBatch(ContractOp contract) {
  unsigned numBatch = contract.getNumBatch();
  if (numBatch == 0 || !sym::product(contract.getN().getSizes()).isConstant(1) ||
      contract.getBatch().getSizes().back().isConstant(1))
    return false;
  sym::Expr column = sym::Expr::dim(numBatch - 1);
  bool found = false;
  WalkResult result = contract.getLhs().walk([&](Operation *op) {
    auto map = kernel::getIndexMap(op);
    if (!map || llvm::none_of(map.getResults(), [&](sym::Expr e) { return e.dependsOn(column); }))
      return WalkResult::advance();
    auto read = dyn_cast<ReadOp>(op);
    if (!read || !read.getValues().empty() || read->getParentRegion() != &contract.getLhs())
      return WalkResult::interrupt();
    std::optional<sym::Linear> linear =
        sym::splitLinear(sym::linearize(map.getResults(), sym::getShape(read.getTensor())), column);
    if (!linear || !linear->coefficient.isConstant(1))
      return WalkResult::interrupt();
    found = true;
    return WalkResult::advance();
  });
  return found && !result.wasInterrupted();
}
