// cpu-winograd: makes kernel.winograd of convolutions that it takes less time for.
#include "kiln/Dialect/Kernel/Winograd.h"
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/Panels.h"
#include "kiln/Codegen/LoopNest.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Targets/CPU/WinogradLayout.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "llvm/Support/FormatVariadic.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUWINOGRAD
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {

/// A contract as a convolution with windows of 3 x 3 pixels. Dims are the contract's.
struct Convolution {
  kernel::ContractOp contract;
  StageAxis rows, columns;
  unsigned channels = 0;
  int64_t numChannels = 1, numFeatures = 1;

  unsigned feature() { return contract.getNumBatch() + contract.getNumM(); }
  /// The number of m dims in front of the image's.
  unsigned numImages() { return contract.getNumM() - 2; }

  /// Nothing, and why, if the contract is not of this kind.
  static std::optional<Convolution> get(kernel::ContractOp contract, const char *&reason);
};

std::optional<Convolution> Convolution::get(kernel::ContractOp contract, const char *&reason) {
  auto fail = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  auto windows = findWindows(contract);
  if (!windows || contract.getNumM() < 2 || contract.getNumK() != 3 || contract.getNumN() != 1)
    return fail(nullptr);
  Convolution result;
  result.contract = contract;
  const auto &rows = (*windows)[contract.getNumM() - 2], &columns = windows->back();
  if (!rows || !columns || llvm::count_if(*windows, [](auto &window) { return !!window; }) != 2)
    return fail(nullptr); // no convolution over two dims
  result.rows = *rows;
  result.columns = *columns;
  SmallVector<sym::Expr> extents = contract.getExtents();
  for (const StageAxis &axis : {result.rows, result.columns}) {
    if (!extents[*axis.sumDim].isConstant(kernel::winogradWindow))
      return fail("its windows are not of 3 x 3 pixels");
    if (axis.rowStep != 1 || axis.sumStep != 1)
      return fail("it has a stride or a dilation");
  }
  if (contract.getNumBatch() != 0)
    return fail("it has groups");
  for (unsigned i = contract.getNumM() + 1; i < extents.size(); ++i)
    if (i != *rows->sumDim && i != *columns->sumDim)
      result.channels = i;
  std::optional<int64_t> channels = extents[result.channels].constant(),
                         features = extents[result.feature()].constant();
  if (!channels || !features)
    return fail("its channels are not constants");
  result.numChannels = *channels;
  result.numFeatures = *features;
  Type sum = contract.getEpilogue().getArgument(0).getType();
  if (!sum.isF32() || !contract.getLhs().front().getTerminator()->getOperand(0).getType().isF32())
    return fail("it is not of f32");
  if (contract.getPerm() || contract.getPanel() || contract.getPart() ||
      contract->hasAttr(layoutAttrName))
    return fail("its operands or its result have a layout of their own");
  SmallVector<Value> weights = kernel::readTensors(contract.getRhs());
  if (weights.empty() || !llvm::all_of(weights, kernel::isKnownConstant))
    return fail("its weights are not constants");
  for (const codegen::Access &access : codegen::collectAccesses(contract.getLhs()))
    if (codegen::Walk walk = codegen::classify(access.expr, sym::Expr::dim(result.channels));
        access.isOffset && walk != codegen::Walk::Uniform && walk != codegen::Walk::Consecutive)
      return fail("its image does not have channels last");
  return result;
}

struct Winograd : kiln::cpu::impl::CpuWinogradBase<Winograd> {
  using CpuWinogradBase::CpuWinogradBase;

  void runOnOperation() override {
    FailureOr<codegen::CPUInfo> known = getTarget(getOperation());
    if (failed(known))
      return signalPassFailure();
    target = *known;
    if (tile != 2 && tile != 4) {
      getOperation().emitError() << "tiles of Winograd's convolutions are of 2 or 4 rows, not "
                                 << tile.getValue();
      return signalPassFailure();
    }
    SmallVector<kernel::ContractOp> contracts;
    getOperation()->walk([&](kernel::ContractOp contract) { contracts.push_back(contract); });
    IRRewriter rewriter(&getContext());
    for (kernel::ContractOp contract : contracts) {
      const char *reason;
      std::optional<Convolution> convolution = Convolution::get(contract, reason);
      if (convolution)
        choose(*convolution, rewriter);
      else if (reason)
        emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotWinograd", [&] {
          return RemarkText{"convolution not made of fewer multiplications", reason};
        });
    }
  }

private:
  void choose(Convolution &convolution, IRRewriter &rewriter) {
    kernel::ContractOp contract = convolution.contract;
    SmallVector<sym::Expr> extents = contract.getExtents();
    int64_t images = 1, y = estimate(convolution.rows, extents),
            x = estimate(convolution.columns, extents);
    for (unsigned i = 0; i < convolution.numImages(); ++i)
      images *= std::clamp<int64_t>(codegen::estimate(extents[i]), 1, 1 << 20);
    double direct =
        double(images * y * x) * double(convolution.numChannels * 9) *
        double(llvm::divideCeilSigned(convolution.numFeatures, target.vectorBytes / 4)) /
        double(target.fmaUnits);
    double least = direct;
    int64_t best = 0;
    for (int64_t each = 2; each <= tile; each += 2) {
      int64_t tiles = llvm::divideCeilSigned(y, each) * llvm::divideCeilSigned(x, each);
      double cycles = estimateWinogradCycles(each, tiles, images, convolution.numChannels,
                                             convolution.numFeatures, target);
      if (cycles < least) {
        least = cycles;
        best = each;
      }
    }
    if (best == 0) {
      emitRemark(RemarkKind::NotDone, contract, getArgument(), "NotWinograd", [] {
        return RemarkText{"convolution not made of fewer multiplications",
                          "they would take longer"};
      });
      return;
    }
    emitRemark(RemarkKind::Done, contract, getArgument(), "Winograd", [&] {
      return RemarkText{
          llvm::formatv("convolution made of products of tiles of {0} x {0} pixels", best).str(),
          llvm::formatv("{0:f2} of the cycles", least / direct).str()};
    });
    replace(convolution, best, rewriter);
  }

  static int64_t estimate(const StageAxis &axis, ArrayRef<sym::Expr> extents) {
    return std::clamp<int64_t>(codegen::estimate(extents[*axis.rowDim]), 1, 1 << 20);
  }

  void replace(Convolution &convolution, int64_t size, IRRewriter &rewriter) {
    kernel::ContractOp contract = convolution.contract;
    MLIRContext *context = &getContext();
    SmallVector<sym::Expr> extents = contract.getExtents();
    unsigned images = convolution.numImages();
    int64_t points = size + kernel::winogradWindow - 1;
    Panels panels(contract);
    panels.panel = chooseWinogradPanel(convolution.numFeatures, target);
    Value packed = pack(convolution, panels, size, rewriter);

    rewriter.setInsertionPoint(contract);
    Location loc = contract.getLoc();
    ArrayRef<sym::Expr> m = contract.getM().getSizes();
    auto expr = [&](unsigned dim) { return sym::ExprAttr::get(context, extents[dim]); };
    auto result =
        kernel::WinogradOp::create(rewriter, loc, contract.getResult().getType(), size,
                                   panels.panel, sym::ShapeAttr::get(context, m.take_front(images)),
                                   sym::ShapeAttr::get(context, m.take_back(2)),
                                   expr(convolution.feature()), expr(convolution.channels));
    // A place of the image stands for a row of the result and one of the window.
    SmallVector<sym::Expr> dims(extents.size(), sym::Expr(0));
    for (unsigned i = 0; i < images; ++i)
      dims[i] = sym::Expr::dim(i);
    unsigned place = result.imageDim();
    for (const StageAxis &axis : {convolution.rows, convolution.columns}) {
      dims[*axis.rowDim] = axis.rowBind * sym::Expr::dim(place);
      dims[*axis.sumDim] = axis.sumBind * sym::Expr::dim(place);
      ++place;
    }
    dims[convolution.channels] = sym::Expr::dim(result.cDim());
    unsigned numDims = result.getExtents().size();
    kernel::renameBody(contract.getLhs(), result.getLhs(), dims, rewriter, numDims);
    // Batch, y, x and n have the numbers of the m and n dims.
    for (auto [i, dim] : llvm::enumerate(dims))
      dim = i <= convolution.feature() ? sym::Expr::dim(i) : sym::Expr(0);
    kernel::renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter, numDims);
    rewriter.setInsertionPointToStart(&result.getRhs().emplaceBlock());
    sym::Expr point =
        sym::Expr::dim(result.pointDim()) * points + sym::Expr::dim(result.pointDim() + 1);
    sym::IndexMap index =
        panels.getPlace(numDims, point * convolution.numChannels + sym::Expr::dim(result.cDim()));
    kernel::YieldOp::create(rewriter, loc,
                            kernel::ReadOp::create(rewriter, loc, packed, index).getResult());
    rewriter.replaceOp(contract, result);
  }

  /// U, computed in f64 and rounded once, as the rows of panels: points² times the channels.
  Value pack(Convolution &convolution, const Panels &panels, int64_t size, IRRewriter &rewriter) {
    Location loc = convolution.contract.getLoc();
    constexpr int64_t window = kernel::winogradWindow;
    int64_t points = size + window - 1, channels = convolution.numChannels;
    Type f64 = rewriter.getF64Type(), f32 = rewriter.getF32Type();

    SmallVector<double> values;
    for (const auto &row : kernel::WinogradMatrices(size).window)
      llvm::append_range(values, row);
    auto type = RankedTensorType::get({points, window}, f64);
    rewriter.setInsertionPoint(convolution.contract);
    Value matrix = kernel::ConstantOp::create(
        rewriter, loc, type, DenseElementsAttr::get(type, ArrayRef(values)), StringAttr());

    unsigned firstK = panels.firstK();
    auto compute = [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) -> Value {
      SmallVector<sym::Expr> places = sym::delinearize(row, {points, points, channels});
      auto readMatrix = [&](sym::Expr point, int64_t column) -> Value {
        return kernel::ReadOp::create(rewriter, loc, matrix,
                                      sym::IndexMap{3, {point, sym::Expr(column)}});
      };
      auto add = [&](Value before, Value term) {
        return before ? arith::AddFOp::create(rewriter, loc, before, term).getResult() : term;
      };
      Value yielded = convolution.contract.getRhs().front().getTerminator()->getOperand(0), sum;
      SmallVector<sym::Expr> steps(panels.order.size());
      for (int64_t i = 0; i < window; ++i) {
        Value ofRow;
        for (int64_t j = 0; j < window; ++j) {
          for (auto [step, dim] : llvm::zip(steps, panels.order))
            step = firstK + dim == *convolution.rows.sumDim      ? sym::Expr(i)
                   : firstK + dim == *convolution.columns.sumDim ? sym::Expr(j)
                                                                 : places[2];
          Value weight = cloneAt(sym::linearize(steps, panels.getSums())).lookup(yielded);
          Value wide = arith::ExtFOp::create(rewriter, loc, f64, weight);
          ofRow = add(ofRow, arith::MulFOp::create(rewriter, loc, readMatrix(places[1], j), wide));
        }
        sum = add(sum, arith::MulFOp::create(rewriter, loc, readMatrix(places[0], i), ofRow));
      }
      Value rounded = arith::TruncFOp::create(rewriter, loc, f32, sum);
      if (!mask)
        return rounded;
      Value zero = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(f32));
      return arith::SelectOp::create(rewriter, loc, mask, rounded, zero);
    };
    Value packed = panels.create(f32, points * points * channels, rewriter, compute);
    packed.getDefiningOp()->setAttr(foldedAttrName, rewriter.getUnitAttr());
    return packed;
  }

  codegen::CPUInfo target;
};

} // namespace
