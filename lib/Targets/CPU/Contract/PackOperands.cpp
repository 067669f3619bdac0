// cpu-pack-operands: lays out constants that maps and contracts read as vectors want them.
#include "CPU/Map/MapPlan.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUPACKOPERANDS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

namespace {

struct PackOperands : kiln::cpu::impl::CpuPackOperandsBase<PackOperands> {
  using CpuPackOperandsBase::CpuPackOperandsBase;

  void runOnOperation() override {
    FailureOr<CPUInfo> target = getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<kernel::MapOp> maps;
    getOperation()->walk([&](kernel::MapOp map) {
      // The kernel of a fold has one op.
      if (!map.getView() && !map->getParentOfType<kernel::FuncOp>())
        maps.push_back(map);
    });
    for (kernel::MapOp map : maps)
      packOperands(map, *target);
    SmallVector<kernel::ContractOp> contracts;
    getOperation()->walk([&](kernel::ContractOp contract) { contracts.push_back(contract); });
    for (kernel::ContractOp contract : contracts)
      if (!contract.getPanel() && contract.getNumN() > 0)
        kernel::moveLast(
            contract, contract.getRhs(),
            sym::Expr::dim(contract.getNumBatch() + contract.getNumM() + contract.getNumN() - 1));
  }

  static void packOperands(kernel::MapOp map, const CPUInfo &target) {
    MapPlan plan = makeMapPlan(map, target);
    if (!plan.columns)
      return;
    kernel::moveLast(map, map.getBody(), plan.columns->lastDim());
  }
};

} // namespace
