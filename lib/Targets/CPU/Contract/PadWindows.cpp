// cpu-pad-windows: gives windows a padded image, computed once.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/ContractStaging.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln::cpu {
#define GEN_PASS_DEF_CPUPADWINDOWS
#include "kiln/Targets/CPU/Passes.h.inc"
} // namespace kiln::cpu

using namespace mlir;
using namespace kiln;
using namespace kiln::codegen;
using namespace kiln::cpu;

/// Products for each element of an image from which it is worth a tensor even if its elements come in
/// runs shorter than a vector: 3x3 windows of 7 columns.
static constexpr double manyProducts = 64;

/// Level 2 caches that an image may fill: a larger one is written to memory, and comes from there again.
static constexpr double cachesOfL2 = 4;

namespace {

/// Which dims of a contract are one dim of its padded left operand.
struct PaddedDim {
  std::optional<unsigned> row, sum; // dims of the contract
  sym::Expr extent;
  /// The contract's dims at a place of this dim, and the place that belongs to them.
  sym::Expr rowValue = 0, sumValue = 0, place;
};

struct PadWindows : kiln::cpu::impl::CpuPadWindowsBase<PadWindows> {
  void runOnOperation() override {
    FailureOr<CPUInfo> known = getTarget(getOperation());
    if (failed(known))
      return signalPassFailure();
    target = *known;
    SmallVector<kernel::ContractOp> contracts;
    getOperation()->walk([&](kernel::ContractOp contract) { contracts.push_back(contract); });
    IRRewriter rewriter(&getContext());
    for (kernel::ContractOp contract : contracts)
      if (std::optional<SmallVector<PaddedDim>> dims = findDims(contract))
        pad(contract, *dims, rewriter);
  }

private:
  /// The padded operand's dims, outermost first; none for a contract that needs no such operand.
  std::optional<SmallVector<PaddedDim>> findDims(kernel::ContractOp contract) {
    std::optional<SmallVector<std::optional<StageAxis>>> windows = findWindows(contract);
    OperandPlace place = getLayout(contract).getLhs();
    if (place == OperandPlace::Copied && contract.getPart())
      return std::nullopt;
    if (place == OperandPlace::Copied && !windows)
      windows.emplace(contract.getNumM(), std::nullopt);
    if (place == OperandPlace::Kept ||
        (place == OperandPlace::Planned && (!windows || readsInPlace(contract))))
      return std::nullopt;
    SmallVector<sym::Expr> extents = contract.getExtents();
    unsigned firstM = contract.getNumBatch(), firstN = firstM + contract.getNumM();
    unsigned firstK = firstN + contract.getNumN();
    bool isVariable = false, hasWindows = false;
    for (auto [i, window] : llvm::enumerate(*windows)) {
      hasWindows |= window.has_value();
      isVariable |= window && !extents[firstM + i].isConstant();
    }
    bool isDepthwise = kernel::columnsAreBatch(contract);
    // Tasks of a depthwise convolution divide the channels, and copy no image twice.
    if (place == OperandPlace::Planned && !isVariable && (isDepthwise || !hasWindows))
      return std::nullopt;

    SmallVector<PaddedDim> dims;
    sym::Assumptions assumptions = kernel::getAssumptions(&contract.getLhs());
    auto addPlain = [&](unsigned dim, bool isRow) {
      PaddedDim plain;
      (isRow ? plain.row : plain.sum) = dim;
      plain.extent = extents[dim];
      plain.place = sym::Expr::dim(dim);
      (isRow ? plain.rowValue : plain.sumValue) = sym::Expr::dim(dims.size());
      dims.push_back(plain);
    };
    auto addUsed = [&](unsigned begin, unsigned end, bool isRow) {
      for (unsigned i = begin; i < end; ++i)
        if (uses(contract.getLhs(), i))
          addPlain(i, isRow);
    };
    unsigned numOuter = contract.getNumBatch() - (isDepthwise ? 1 : 0);
    addUsed(0, numOuter, true);
    for (auto [i, window] : llvm::enumerate(*windows))
      if (!window && uses(contract.getLhs(), firstM + i))
        addPlain(firstM + i, true);
    size_t image = dims.size();
    for (auto [i, window] : llvm::enumerate(*windows)) {
      if (!window)
        continue;
      PaddedDim padded;
      padded.row = window->rowDim;
      padded.sum = window->sumDim;
      sym::Expr row = sym::Expr::dim(*padded.row), sum = sym::Expr::dim(*padded.sum);
      padded.place = window->rowStep * row + window->sumStep * sum;
      padded.extent = window->rowStep * (extents[*padded.row] - 1) +
                      window->sumStep * (extents[*padded.sum] - 1) + 1;
      if (!assumptions.isNonNegative(padded.extent)) // of a result without elements
        padded.extent = sym::Expr::max(padded.extent, 0);
      sym::Expr here = sym::Expr::dim(dims.size());
      padded.rowValue = window->rowBind * here;
      padded.sumValue = window->sumBind * here;
      dims.push_back(padded);
    }
    addUsed(numOuter, firstM, true);
    size_t run = dims.size();
    for (unsigned i = firstK; i < extents.size(); ++i)
      if (llvm::none_of(dims, [&](const PaddedDim &dim) { return dim.sum == i; }) &&
          uses(contract.getLhs(), i))
        addPlain(i, false);

    if (place == OperandPlace::Planned && !isVariable && isLeftToTasks(contract, dims, image, run))
      return std::nullopt;
    return dims;
  }

  /// Each task had better copy what it needs of an image of known size: dims from `image` on are those of one, from `run` on
  /// its channels.
  bool isLeftToTasks(kernel::ContractOp contract, ArrayRef<PaddedDim> dims, size_t image,
                     size_t run) {
    auto count = [](ArrayRef<PaddedDim> dims) {
      double elements = 1;
      for (const PaddedDim &dim : dims)
        elements *= double(estimate(dim.extent));
      return elements;
    };
    // One column's products may be summed along the lanes, but not those of a copy.
    if (sym::product(contract.getN().getSizes()).isConstant(1))
      return false;
    double products = 1;
    for (sym::Expr extent : contract.getExtents())
      products *= double(estimate(extent));
    Type element = contract.getLhs().front().getTerminator()->getOperand(0).getType();
    if (count(dims.drop_front(run)) < double(target.lanes(element)))
      return products < manyProducts * count(dims);
    // A copy that is a transpose takes long, and is not made again for each block of columns.
    unsigned row = *dims[run - 1].row, channel = *dims.back().sum;
    if (!walksAlong(contract.getLhs(), channel, row))
      return false;
    double bytes = double(std::max(element.getIntOrFloatBitWidth() / 8, 1u));
    double windowRows = double(estimate(contract.getExtents()[*dims[image].sum]));
    double windowBytes = bytes * windowRows * count(dims.drop_front(image + 1));
    return bytes * count(dims.drop_front(image)) > cachesOfL2 * double(target.l2Bytes) &&
           windowBytes <= double(target.l2Bytes);
  }

  static bool uses(Region &region, unsigned dim) {
    return region
        .walk([&](Operation *op) {
          auto map = kernel::getIndexMap(op);
          bool found = map && llvm::any_of(map.getResults(), [&](sym::Expr expr) {
                         return expr.dependsOn(sym::Expr::dim(dim));
                       });
          return found ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  static void pad(kernel::ContractOp contract, ArrayRef<PaddedDim> dims, IRRewriter &rewriter) {
    rewriter.setInsertionPoint(contract);
    Location loc = contract.getLoc();
    Block &body = contract.getLhs().front();
    unsigned rank = contract.getExtents().size();

    kernel::DimSubstitution substitution;
    substitution.sourceDims = rank;
    substitution.targetDims = dims.size();
    substitution.dims.assign(rank, sym::Expr(0));
    SmallVector<sym::Expr> shape;
    sym::IndexMap index{rank, {}};
    for (const PaddedDim &dim : dims) {
      if (dim.row)
        substitution.dims[*dim.row] = dim.rowValue;
      if (dim.sum)
        substitution.dims[*dim.sum] = dim.sumValue;
      shape.push_back(dim.extent);
      index.results.push_back(dim.place);
    }
    Type element = body.getTerminator()->getOperand(0).getType();
    auto padded =
        kernel::MapOp::create(rewriter, loc, TypeRange(sym::getTensorType(shape, element)));
    rewriter.setInsertionPointToStart(&padded.getBody().emplaceBlock());
    IRMapping mapping;
    SmallVector<Value> values = kernel::cloneBody(rewriter, body, substitution, mapping);
    kernel::YieldOp::create(rewriter, loc, values);

    body.clear();
    rewriter.setInsertionPointToStart(&body);
    Value value = kernel::ReadOp::create(rewriter, loc, padded.getResult(0), index);
    kernel::YieldOp::create(rewriter, loc, value);
  }

  CPUInfo target;
};

} // namespace
