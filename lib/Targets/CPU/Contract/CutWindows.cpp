// cpu-cut-windows: cuts the channels of convolutions whose windows slide over more than a cache holds.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/SmallWeights.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUCUTWINDOWS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Channels of a block: a copied run of them is long, and the pixels of a tile lie in different sets of
/// level 1 cache.
static constexpr int64_t blockChannels = 256;

/// The k dims along which no window slides.
static SmallVector<unsigned> findPlainSums(ContractOp contract,
                                           ArrayRef<std::optional<StageAxis>> windows) {
  SmallVector<unsigned> dims;
  unsigned end = contract.getExtents().size();
  for (unsigned k = end - contract.getNumK(); k < end; ++k)
    if (llvm::none_of(windows, [&](auto &window) { return window && window->sumDim == k; }))
      dims.push_back(k);
  return dims;
}

bool cpu::hasChannelBlocks(ContractOp contract) {
  std::optional<SmallVector<std::optional<StageAxis>>> windows = findWindows(contract);
  if (!windows || llvm::none_of(*windows, [](auto &window) { return window.has_value(); }))
    return false;
  SmallVector<unsigned> sums = findPlainSums(contract, *windows);
  return sums.size() == 2 && sums.front() == contract.getExtents().size() - contract.getNumK();
}

/// The k dim that no window slides along, if there is one such dim and it is to be cut.
static std::optional<unsigned> findChannels(ContractOp contract, const codegen::CPUInfo &target) {
  std::optional<SmallVector<std::optional<StageAxis>>> windows = findWindows(contract);
  bool isCandidate =
      windows && llvm::any_of(*windows, [](auto &window) { return window.has_value(); }) &&
      !contract.getPanel() && !contract.getPart() && !contract.getBytes() &&
      !columnsAreBatch(contract) && !readsInPlace(contract) && !whyNotPacked(contract, target);
  Type element = contract.getLhs().front().getTerminator()->getOperand(0).getType();
  // Narrower elements and weights of small integers have layouts of their own.
  const char *reason;
  if (!isCandidate || !element.isF32() || SmallWeights::get(contract, reason))
    return std::nullopt;
  SmallVector<sym::Expr> extents = contract.getExtents();
  SmallVector<unsigned> plain = findPlainSums(contract, *windows);
  if (plain.size() != 1)
    return std::nullopt;
  std::optional<int64_t> channels = extents[plain.front()].constant();
  if (!channels || *channels <= blockChannels || *channels % blockChannels != 0)
    return std::nullopt;
  // Bytes that the windows of one row of the image see.
  double bytes = double(*channels) * element.getIntOrFloatBitWidth() / 8;
  bool isOutermost = true;
  for (const std::optional<StageAxis> &window : *windows) {
    if (!window)
      continue;
    std::optional<int64_t> rows = extents[*window->rowDim].constant();
    std::optional<int64_t> steps = extents[*window->sumDim].constant();
    if (!rows || !steps)
      return std::nullopt;
    int64_t here = isOutermost ? 1 : *rows;
    bytes *= double(window->rowStep * (here - 1) + window->sumStep * (*steps - 1) + 1);
    isOutermost = false;
  }
  if (bytes <= double(target.l2Bytes))
    return std::nullopt;
  return plain.front();
}

namespace {

struct CutWindows : kiln::cpu::impl::CpuCutWindowsBase<CutWindows> {
  using CpuCutWindowsBase::CpuCutWindowsBase;

  void runOnOperation() override {
    FailureOr<codegen::CPUInfo> target = cpu::getTarget(getOperation());
    if (failed(target))
      return signalPassFailure();
    SmallVector<std::pair<ContractOp, unsigned>> cuts;
    getOperation()->walk([&](ContractOp contract) {
      if (std::optional<unsigned> channels = findChannels(contract, *target))
        cuts.emplace_back(contract, *channels);
    });
    IRRewriter rewriter(&getContext());
    for (auto [contract, channels] : cuts) {
      emitRemark(RemarkKind::Done, contract, getArgument(), "Cut", [] {
        return RemarkText{"channels cut into blocks of " + std::to_string(blockChannels)};
      });
      cut(contract, channels, rewriter);
    }
  }

private:
  /// Blocks become the outermost k dim.
  void cut(ContractOp contract, unsigned channels, IRRewriter &rewriter) {
    unsigned numDims = contract.getExtents().size(), firstK = numDims - contract.getNumK();
    SmallVector<sym::Expr> dims, k(contract.getK().getSizes());
    for (unsigned i = 0; i < numDims; ++i)
      dims.push_back(sym::Expr::dim(i < firstK ? i : i + 1));
    dims[channels] = dims[channels] + blockChannels * sym::Expr::dim(firstK);
    int64_t blocks = *k[channels - firstK].constant() / blockChannels;
    k[channels - firstK] = blockChannels;
    k.insert(k.begin(), blocks);
    rewriter.setInsertionPoint(contract);
    auto result = ContractOp::create(
        rewriter, contract.getLoc(), contract.getResult().getType(), contract.getBatchAttr(),
        contract.getMAttr(), contract.getNAttr(), sym::ShapeAttr::get(&getContext(), k),
        contract.getPermAttr(), /*panel=*/IntegerAttr(), /*part=*/sym::ExprAttr(),
        /*bytes=*/IntegerAttr());
    renameBody(contract.getLhs(), result.getLhs(), dims, rewriter, numDims + 1);
    renameBody(contract.getRhs(), result.getRhs(), dims, rewriter, numDims + 1);
    renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter, numDims + 1);
    if (Attribute layout = contract->getAttr(layoutAttrName))
      result->setAttr(layoutAttrName, layout);
    rewriter.replaceOp(contract, result);
  }
};

} // namespace
