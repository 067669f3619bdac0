// cpu-keep-small-weights: weights that are small integers are widened where they are multiplied.
#include "CPU/Contract/MultiplyGroups.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUKEEPSMALLWEIGHTS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

struct KeepSmallWeights : kiln::cpu::impl::CpuKeepSmallWeightsBase<KeepSmallWeights> {
  using CpuKeepSmallWeightsBase::CpuKeepSmallWeightsBase;

  void runOnOperation() override {
    SmallVector<ContractOp> contracts;
    getOperation()->walk([&](ContractOp contract) {
      if (!contract.getPanel() && findComputedRead(contract.getRhs()))
        contracts.push_back(contract);
    });
    IRRewriter rewriter(&getContext());
    for (ContractOp contract : contracts)
      keep(contract, rewriter);
    eraseUnused(rewriter, std::move(maps));
  }

private:
  /// Tries it with a copy.
  void keep(ContractOp contract, IRRewriter &rewriter) {
    if (!llvm::all_of(readTensors(contract.getRhs()), isKnownConstant))
      return;
    rewriter.setInsertionPoint(contract);
    auto copy = cast<ContractOp>(rewriter.clone(*contract));
    llvm::SetVector<Operation *> inlined = inlineComputedReads(rewriter, copy.getRhs());
    const char *reason;
    std::optional<cpu::SmallWeights> weights = cpu::SmallWeights::get(copy, reason);
    if (!weights) {
      emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotKept",
                 [&] { return RemarkText{"constant weights computed in memory", reason}; });
      return rewriter.eraseOp(copy);
    }
    emitRemark(RemarkKind::Done, contract, getArgument(), "Kept",
               [&] { return RemarkText{"weights of small integers widened where multiplied"}; });
    rewriter.replaceOp(contract, copy);
    if (auto read = findComputedRead(copy.getLhs()))
      maps.insert(read.getTensor().getDefiningOp());
    cpu::multiplyGroups(copy, *weights, rewriter);
    maps.insert(inlined.begin(), inlined.end());
  }

  /// The maps that have been put into contracts.
  llvm::SetVector<Operation *> maps;
};

} // namespace
