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

static bool hasConstantColumns(ContractOp contract) {
  return llvm::all_of(readTensors(contract.getRhs()), isKnownConstant);
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
  // Columns that do not fill half of a vector; constant ones are packed, and read by the vector,
  // unless rows are planes.
  Type sum = contract.getEpilogue().getArgument(0).getType();
  bool areConstant = hasConstantColumns(contract);
  return 2 * *columns <= target.lanes(sum) &&
         rows.value_or(areConstant ? manyRows : 0) >= manyRows && isDense(contract) &&
         (!areConstant || liesAlongRows(contract));
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
    auto type = cast<RankedTensorType>(contract.getResult().getType());
    SmallVector<int64_t> written(perm);
    SmallVector<sym::Expr> shape = sym::getShape(contract.getResult()), planes, index;
    bool arePlanes = hasConstantColumns(contract) && liesAlongRows(contract);
    if (arePlanes) {
      written = orderPlanes(numBatch, numN, numM);
      for (int64_t dim : written) {
        auto before = llvm::find(perm, dim) - perm.begin();
        planes.push_back(shape[before]);
        index.push_back(sym::Expr::dim(before));
      }
      type = sym::getTensorType(planes, type.getElementType());
    }
    rewriter.setInsertionPoint(contract);
    auto result = ContractOp::create(rewriter, contract.getLoc(), type, contract.getBatchAttr(),
                                     contract.getNAttr(), contract.getMAttr(), contract.getKAttr(),
                                     rewriter.getDenseI64ArrayAttr(written),
                                     /*panel=*/IntegerAttr(), /*part=*/sym::ExprAttr(),
                                     /*bytes=*/IntegerAttr(), /*narrow=*/UnitAttr());
    kernel::renameBody(contract.getRhs(), result.getLhs(), dims, rewriter);
    kernel::renameBody(contract.getLhs(), result.getRhs(), dims, rewriter);
    kernel::renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter);
    if (Attribute layout = contract->getAttr(layoutAttrName))
      result->setAttr(layoutAttrName, layout);
    if (!arePlanes)
      return rewriter.replaceOp(contract, result);
    MapOp view = kernel::createView(rewriter, contract.getLoc(), result, shape, index);
    rewriter.replaceOp(contract, view);
    kernel::foldReads(rewriter, view);
    dropCopies(result, rewriter);
  }

  /// The dims of a product whose rows are an image's channels and whose columns are pixels as images in
  /// planes have them: the image's number, channels, and what is along vectors last.
  static SmallVector<int64_t> orderPlanes(unsigned numBatch, unsigned numM, unsigned numN) {
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, numBatch + numM + numN));
    if (numN > 1)
      std::rotate(order.begin() + numBatch, order.begin() + numBatch + numM,
                  order.begin() + numBatch + numM + 1);
    return order;
  }

  /// Readers that only put channels into planes have nothing left to do.
  static void dropCopies(ContractOp contract, IRRewriter &rewriter) {
    for (Operation *user : llvm::make_early_inc_range(contract->getUsers())) {
      auto read = dyn_cast<ReadOp>(user);
      auto map = read ? dyn_cast<MapOp>(read->getParentOp()) : MapOp();
      if (map && map.getResultTypes() == contract->getResultTypes() && !read.getMask() &&
          map.getBody().front().getTerminator()->getOperands() == ValueRange(read.getResult()) &&
          readsOwnPlaces(read))
        rewriter.replaceOp(map, contract);
    }
  }
};

} // namespace
