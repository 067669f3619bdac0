// The width of the panels that products are tiled and packed by.
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// Rows of the tallest tile.
static int64_t countTileRows(int64_t vectors, ContractTarget target) {
  return (target.registers - 1 - vectors) / vectors;
}

/// Cycles of a step of the sum, for all rows and columns, in panels of so many vectors.
static double countCycles(ContractSize size, int64_t vectors, ContractTarget target) {
  constexpr double cacheRate = 20; // bytes a cycle out of level 2 cache, where long panels are
  constexpr int64_t bytes = 32;    // of a vector
  auto count = [&](int64_t height) {
    double products = double(height * vectors) / double(target.fmaUnits);
    return std::max({products, double(target.fmaLatency), double(vectors * bytes) / cacheRate});
  };
  int64_t run = std::max<int64_t>(size.run, 1);
  int64_t tiles = llvm::divideCeilSigned(run, countTileRows(vectors, target));
  int64_t height = run / tiles, taller = run % tiles;
  double cycles = double(taller) * count(height + 1) + double(tiles - taller) * count(height);
  return cycles * double(size.m) / double(run) *
         double(llvm::divideCeilSigned(size.n, vectors * target.lanes));
}

/// Three vectors instead of two: tiles of 4 rows and 24 columns take 0.95 to 0.98 of the time of 6 rows and 16 columns for the products of BERT, GPT-2, ViT and
/// ResNet-50 on Zen 3, but as long for operands that are in the caches; in rows of 7 pixels, 3x3 windows of 512 channels take 0.87.
/// Other windows take up to 1.06 times as long where both widths have as much to do, and sums of 16 to 64 steps up to 1.1.
static bool isThreeBetter(ContractSize size, ContractTarget target) {
  constexpr int64_t fewRegisters = 16, shortSum = 64;
  if (target.registers != fewRegisters || size.m < countTileRows(2, target))
    return false;
  double limit = size.run == size.m && size.k > shortSum ? 1.04 : 0.97;
  return countCycles(size, 3, target) <= limit * countCycles(size, 2, target);
}

int64_t kernel::chooseContractPanel(int64_t m, int64_t n, ContractTarget target) {
  constexpr int64_t widest = 8, usual = 2;
  int64_t vectors = usual;
  if (m < countTileRows(usual, target)) {
    vectors = (target.registers - 1) / (std::max<int64_t>(m, 1) + 1);
    vectors = std::clamp<int64_t>(vectors, usual, widest);
  }
  int64_t needed = std::max<int64_t>(llvm::divideCeil(std::max<int64_t>(n, 1), target.lanes), 1);
  return std::min(vectors, needed) * target.lanes;
}

int64_t kernel::chooseConstantPanel(ContractSize size, ContractTarget target) {
  return isThreeBetter(size, target) ? 3 * target.lanes
                                     : chooseContractPanel(size.m, size.n, target);
}

int64_t kernel::chooseSharedPanel(ArrayRef<int64_t> panels, ContractTarget target) {
  int64_t between = std::max<int64_t>(target.registers / 8, 3) * target.lanes;
  return std::clamp(between, *llvm::min_element(panels), *llvm::max_element(panels));
}

bool kernel::isSameInGroups(ArrayRef<sym::Expr> extents, sym::Expr expr, unsigned dim,
                            int64_t group, sym::Assumptions known) {
  SmallVector<sym::Expr> dims;
  unsigned number = extents.size(), within = number + 1;
  known.setExtent(number, extents[dim].floorDiv(group));
  known.setExtent(within, group);
  for (unsigned i = 0; i < extents.size(); ++i)
    dims.push_back(sym::Expr::dim(i));
  dims[dim] = group * sym::Expr::dim(number) + sym::Expr::dim(within);
  return !known.simplify(expr.substituteDims(dims)).dependsOn(sym::Expr::dim(within));
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
