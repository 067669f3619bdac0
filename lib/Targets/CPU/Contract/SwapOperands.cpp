// cpu-swap-operands: exchanges a contract's rows and columns where vectors then have more to fill.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUSWAPOPERANDS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Rows beside which a few columns are few.
static constexpr int64_t manyRows = 64;

bool cpu::liesAlongRows(ContractOp contract) {
  if (!isa<ReadOp>(contract.getLhs().front().front()) || contract.getNumM() == 0 ||
      contract.getNumK() == 0)
    return false;
  unsigned lastRow = contract.getNumBatch() + contract.getNumM() - 1;
  unsigned lastStep = contract.getExtents().size() - 1;
  return cpu::walksAlong(contract.getLhs(), lastRow, lastStep);
}

/// The left operand is one read that vectors can go along.
static bool isDense(ContractOp contract) {
  unsigned lastRow = contract.getNumBatch() + contract.getNumM() - 1;
  unsigned lastStep = contract.getExtents().size() - 1;
  return contract.getNumK() != 0 && llvm::hasNItems(contract.getLhs().front(), 2) &&
         (cpu::liesAlongRows(contract) || cpu::walksAlong(contract.getLhs(), lastStep, lastRow));
}

bool cpu::canSwap(ContractOp contract) {
  return !contract.getPanel() && !contract.getPart() && !contract.getBytes() &&
         !columnsAreBatch(contract);
}

bool cpu::isSwapPlanned(ContractOp contract, const codegen::CPUInfo &target) {
  if (!canSwap(contract))
    return false;
  std::optional<int64_t> rows = sym::product(contract.getM().getSizes()).constant();
  std::optional<int64_t> columns = sym::product(contract.getN().getSizes()).constant();
  if (!columns || *columns < 1 || rows == 1)
    return false;
  if (*columns == 1)
    return liesAlongRows(contract);
  // Columns that do not fill half of a vector; a constant is packed, and read by the vector.
  Type sum = contract.getEpilogue().getArgument(0).getType();
  return 2 * *columns <= target.lanes(sum) && rows.value_or(0) >= manyRows && isDense(contract) &&
         !llvm::all_of(readTensors(contract.getRhs()), isKnownConstant);
}

namespace {

struct SwapOperands : kiln::cpu::impl::CpuSwapOperandsBase<SwapOperands> {
  using CpuSwapOperandsBase::CpuSwapOperandsBase;

  void runOnOperation() override {
    FailureOr<codegen::CPUInfo> target = cpu::getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<ContractOp> contracts;
    getOperation()->walk([&](ContractOp contract) {
      if (isSwapped(contract, *target))
        contracts.push_back(contract);
    });
    IRRewriter rewriter(&getContext());
    for (ContractOp contract : contracts) {
      emitRemark(RemarkKind::Done, contract, getArgument(), "Swapped", [&] {
        return RemarkText{"rows and columns exchanged, so that vectors are filled"};
      });
      swap(contract, rewriter);
    }
  }

private:
  static bool isSwapped(ContractOp contract, const codegen::CPUInfo &target) {
    OperandOrder order = getLayout(contract).getOrder();
    return order == OperandOrder::Planned ? isSwapPlanned(contract, target)
                                          : order == OperandOrder::Swapped && canSwap(contract);
  }

  void swap(ContractOp contract, IRRewriter &rewriter) {
    unsigned numBatch = contract.getNumBatch(), numM = contract.getNumM(),
             numN = contract.getNumN();
    // Dim i of the old op is dim renamed[i] of the new one.
    SmallVector<int64_t> renamed;
    for (int64_t i = 0, e = contract.getExtents().size(); i < e; ++i) {
      if (i >= numBatch && i < numBatch + numM)
        renamed.push_back(i + numN);
      else if (i >= numBatch + numM && i < numBatch + numM + numN)
        renamed.push_back(i - numM);
      else
        renamed.push_back(i);
    }
    SmallVector<sym::Expr> dims;
    for (int64_t dim : renamed)
      dims.push_back(sym::Expr::dim(dim));
    SmallVector<int64_t> perm;
    for (int64_t dim : contract.getResultDims())
      perm.push_back(renamed[dim]);
    rewriter.setInsertionPoint(contract);
    auto result = ContractOp::create(
        rewriter, contract.getLoc(), contract.getResult().getType(), contract.getBatchAttr(),
        contract.getNAttr(), contract.getMAttr(), contract.getKAttr(),
        rewriter.getDenseI64ArrayAttr(perm), /*panel=*/IntegerAttr(), /*part=*/sym::ExprAttr(),
        /*bytes=*/IntegerAttr(), /*narrow=*/UnitAttr());
    kernel::renameBody(contract.getRhs(), result.getLhs(), dims, rewriter);
    kernel::renameBody(contract.getLhs(), result.getRhs(), dims, rewriter);
    kernel::renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter);
    if (Attribute layout = contract->getAttr(layoutAttrName))
      result->setAttr(layoutAttrName, layout);
    rewriter.replaceOp(contract, result);
  }
};

} // namespace
