// Right operands of bf16 in words of two steps of the sum, as instructions for pairs want them.
#include "CPU/Contract/ContractRegions.h"
#include "CPU/Contract/ContractStaging.h"
#include "CPU/Contract/SmallWeights.h"
#include "kiln/Targets/CPU/ContractLayout.h"
#include "kiln/Transforms/Kernel/ContractTiles.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::cpu;

/// Shorter sums do not pay for a copy of the left operand.
static constexpr int64_t fewestPairedSteps = 32;

/// The k dim that has more steps than one; nothing: there are others, or none.
static std::optional<unsigned> findSteps(ContractOp contract) {
  std::optional<unsigned> found;
  for (auto [i, size] : llvm::enumerate(contract.getK().getSizes()))
    if (!size.isConstant(1)) {
      if (found || !size.isConstant())
        return std::nullopt;
      found = i;
    }
  return found;
}

/// The left operand is read along the sum where it is.
static bool liesAlongSum(ContractOp contract, unsigned k) {
  unsigned end = contract.getExtents().size(), firstK = end - contract.getNumK();
  return readsInPlace(contract) && walksAlong(contract.getLhs(), firstK + k, end);
}

static bool sumsHalves(ContractOp contract) {
  auto yieldsHalves = [](Region &region) {
    return region.front().getTerminator()->getOperand(0).getType().isBF16();
  };
  return !contract.getPart() && !columnsAreBatch(contract) && yieldsHalves(contract.getLhs()) &&
         yieldsHalves(contract.getRhs()) && contract.getEpilogue().getArgument(0).getType().isF32();
}

bool cpu::sumsPairs(ContractOp contract) {
  std::optional<unsigned> k = findSteps(contract);
  if (!k || !sumsHalves(contract))
    return false;
  int64_t steps = *contract.getK().getSizes()[*k].constant();
  return steps % pairSteps == 0 && steps >= fewestPairedSteps;
}

/// Windows over an image whose channels lie next to each other, in pairs.
static bool slidesOverPairs(ContractOp contract) {
  constexpr int64_t fewestChannels = 16;
  ArrayRef<sym::Expr> sizes = contract.getK().getSizes();
  if (findSteps(contract) || sizes.empty() || !sumsHalves(contract) ||
      !sym::product(sizes).isConstant())
    return false;
  unsigned channels = Panels(contract).order.back();
  int64_t count = *sizes[channels].constant();
  return count % pairSteps == 0 && count >= fewestChannels && liesAlongSum(contract, channels);
}

void cpu::placeLeftAlongSum(ContractOp contract, RewriterBase &rewriter) {
  if (!liesAlongSum(contract, *findSteps(contract)))
    placeLeft(contract, rewriter.getBF16Type(), rewriter);
}

bool cpu::canPackPairs(ContractOp contract) {
  bool isWindow = slidesOverPairs(contract);
  if (!isWindow && !sumsPairs(contract))
    return false;
  // A matrix that lies along its rows is left to what copies it a block at a time.
  bool isPlain = llvm::hasNItems(contract.getLhs().front(), 2);
  if (!isWindow && isPlain && !liesAlongSum(contract, *findSteps(contract)))
    return false;
  // A constant table from which rows are gathered, too, has one layout for both.
  return llvm::all_of(readTensors(contract.getRhs()), [](Value tensor) {
    return !isKnownConstant(tensor) || llvm::all_of(tensor.getUsers(), [](Operation *user) {
      return isa<ContractOp>(user->getParentOp());
    });
  });
}

void cpu::packPairs(const Panels &panels, RewriterBase &rewriter) {
  ContractOp contract = panels.contract;
  Location loc = contract.getLoc();
  unsigned firstK = panels.firstK();
  if (findSteps(contract))
    placeLeftAlongSum(contract, rewriter);
  ArrayRef<sym::Expr> sizes = contract.getK().getSizes();
  sym::Expr rows = sym::product(sizes).floorDiv(pairSteps);
  Type i16 = rewriter.getI16Type(), i32 = rewriter.getI32Type();
  auto constant = [&](int64_t value) {
    return arith::ConstantIntOp::create(rewriter, loc, i32, value).getResult();
  };
  Value yielded = contract.getRhs().front().getTerminator()->getOperand(0);
  Value words = panels.create(
      i32, rows, rewriter, [&](Panels::CloneAt cloneAt, sym::Expr row, Value mask) -> Value {
        auto half = [&](int64_t which) {
          Value value = cloneAt(row * pairSteps + which).lookup(yielded);
          value = arith::BitcastOp::create(rewriter, loc, i16, value);
          return arith::ExtUIOp::create(rewriter, loc, i32, value).getResult();
        };
        Value upper = arith::ShLIOp::create(rewriter, loc, half(1), constant(16));
        Value word = arith::OrIOp::create(rewriter, loc, half(0), upper);
        return mask ? arith::SelectOp::create(rewriter, loc, mask, word, constant(0)).getResult()
                    : word;
      });

  // The k dims in the order of memory, the last in pairs.
  SmallVector<sym::Expr> sums, dims, places;
  for (unsigned i = 0; i < firstK; ++i)
    dims.push_back(sym::Expr::dim(i));
  dims.resize(firstK + sizes.size(), 0);
  unsigned last = 0;
  for (unsigned old : panels.order) {
    if (sizes[old].isConstant(1))
      continue;
    last = firstK + old;
    dims[last] = sym::Expr::dim(firstK + sums.size());
    places.push_back(dims[last]);
    sums.push_back(sizes[old]);
  }
  dims[last] = pairSteps * dims[last] + sym::Expr::dim(firstK + sums.size());
  sums.back() = sums.back().floorDiv(pairSteps);
  sym::Expr row = sym::linearize(places, sums);
  sums.push_back(pairSteps);
  unsigned numDims = firstK + sums.size();
  rewriter.setInsertionPoint(contract);
  auto result = ContractOp::create(
      rewriter, loc, contract.getResult().getType(), contract.getBatchAttr(), contract.getMAttr(),
      contract.getNAttr(), sym::ShapeAttr::get(contract.getContext(), sums), contract.getPermAttr(),
      rewriter.getI64IntegerAttr(panels.panel), sym::ExprAttr(), IntegerAttr(), UnitAttr());
  renameBody(contract.getLhs(), result.getLhs(), dims, rewriter, numDims);
  renameBody(contract.getEpilogue(), result.getEpilogue(), dims, rewriter, numDims);
  rewriter.setInsertionPointToStart(&result.getRhs().emplaceBlock());
  Value value = ReadOp::create(rewriter, loc, words, panels.getPlace(numDims, row));
  sym::IndexMap down{numDims, {16 * sym::Expr::dim(numDims - 1)}};
  Value by = IndexOp::create(rewriter, loc, rewriter.getI64Type(),
                             sym::MapAttr::get(contract.getContext(), down), ValueRange());
  by = arith::TruncIOp::create(rewriter, loc, i32, by);
  value = arith::ShRUIOp::create(rewriter, loc, value, by);
  value = arith::TruncIOp::create(rewriter, loc, i16, value);
  value = arith::BitcastOp::create(rewriter, loc, rewriter.getBF16Type(), value);
  YieldOp::create(rewriter, loc, value);
  rewriter.replaceOp(contract, result);
}
