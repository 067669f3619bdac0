// Queries about regions, for the passes that rewrite contracts.
#include "CPU/Contract/ContractRegions.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

cpu::LayoutAttr cpu::getLayout(ContractOp contract) {
  if (auto layout = contract->getAttrOfType<LayoutAttr>(layoutAttrName))
    return layout;
  return LayoutAttr::get(contract.getContext(), OperandPlace::Planned, OperandOrder::Planned,
                         OperandPlace::Planned, 0);
}

bool cpu::usesDim(Region &region, unsigned dim) {
  return region
      .walk([&](Operation *op) {
        auto map = kernel::getIndexMap(op);
        bool uses = map && llvm::any_of(map.getResults(), [&](sym::Expr expr) {
                      return expr.dependsOn(sym::Expr::dim(dim));
                    });
        return uses ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}
