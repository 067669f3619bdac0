#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELFUSEMAPS
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

namespace {

/// Bodies stop growing here, to bound compile time.
constexpr int64_t maxBodyOps = 256;
/// A reduction is not pulled into a consumer that would leave it fewer rows than this to run in
/// parallel, unless a row is short.
constexpr int64_t minParallelRows = 16, shortRow = 16384;

/// A read's place in a structured op, which says how often it is evaluated.
struct Place {
  Operation *root;                // the structured op
  SmallVector<sym::Expr> extents; // all dims in scope
  SmallVector<bool> evaluated;    // dims that count towards the number of evaluations
  bool isContractOperand = false;
};

Operation *getRoot(Operation *op) {
  while (!isStructured(op))
    op = op->getParentOp();
  return op;
}

Place getPlace(ReadOp read) {
  Place place;
  place.root = getRoot(read);
  place.extents = getDimExtents(read->getParentRegion());
  place.evaluated.assign(place.extents.size(), true);
  Region *region = read->getParentRegion();
  while (region->getParentOp() != place.root)
    region = region->getParentRegion();
  auto skip = [&](unsigned begin, unsigned end) {
    for (unsigned i = begin; i < end; ++i)
      place.evaluated[i] = false;
  };
  if (auto contract = dyn_cast<ContractOp>(place.root)) {
    unsigned m = contract.getNumBatch(), n = m + contract.getNumM(), k = n + contract.getNumN();
    place.isContractOperand = region != &contract.getEpilogue();
    if (region == &contract.getLhs())
      skip(n, k);
    else if (region == &contract.getRhs())
      skip(m, n);
    else
      skip(k, k + contract.getNumK());
  } else if (auto attention = dyn_cast<AttentionOp>(place.root)) {
    unsigned m = attention.getNumBatch(), n = m + 1, d = m + 2, dv = m + 3;
    place.isContractOperand = region != &attention.getBias();
    if (region == &attention.getQ() || region == &attention.getBias())
      skip(n, n + (region == &attention.getQ()));
    if (region != &attention.getQ() && region != &attention.getBias())
      skip(m, m + 1);
    if (region == &attention.getV() || region == &attention.getBias())
      skip(d, d + 1);
    if (region != &attention.getV())
      skip(dv, dv + 1);
  } else if (auto scatter = dyn_cast<ScatterOp>(place.root)) {
    unsigned targets = scatter.getNumBatch(), places = targets + scatter.getNumTargets();
    if (region == &scatter.getInit())
      skip(places, place.extents.size());
    else
      skip(targets, places);
  }
  return place;
}

sym::Expr evaluations(const Place &place, size_t numDims) {
  sym::Expr count = 1;
  for (size_t i = 0; i < std::min(numDims, place.extents.size()); ++i)
    if (place.evaluated[i])
      count = count * place.extents[i];
  return count;
}

bool isTrivial(const BodyCost &cost) {
  if (cost.reduces || cost.gathers || cost.transcendental)
    return false;
  return cost.reads == 0 ? cost.arithmetic <= 4 : cost.reads == 1 && cost.arithmetic <= 2;
}

struct FuseMaps : kiln::impl::KernelFuseMapsBase<FuseMaps> {
  using KernelFuseMapsBase::KernelFuseMapsBase;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    SmallVector<Operation *> roots;
    getOperation()->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!isStructured(op))
        return WalkResult::advance();
      roots.push_back(op);
      return WalkResult::skip();
    });
    for (Operation *root : roots)
      if (!erased.contains(root))
        fuseInto(root, rewriter);
    for (Operation *root : llvm::reverse(roots))
      if (!erased.contains(root) && root->use_empty())
        root->erase();
    erased.clear();
  }

  /// A dead map must not count as a consumer of what it reads.
  void eraseIfDead(Operation *producer) {
    if (!producer || !isa<MapOp>(producer) || !producer->use_empty() || erased.contains(producer))
      return;
    SmallVector<Value> tensors = getReadTensors(producer);
    erased.insert(producer);
    producer->erase();
    for (Value tensor : tensors)
      eraseIfDead(tensor.getDefiningOp());
  }

  /// Inlining uncovers the producer's own reads, which are looked at in the next round.
  void fuseInto(Operation *root, IRRewriter &rewriter) {
    for (bool changed = true; changed;) {
      changed = false;
      SmallVector<ReadOp> reads;
      root->walk([&](ReadOp read) { reads.push_back(read); });
      SmallVector<ReadOp> chosen;
      for (ReadOp read : reads) {
        auto producer = read.getTensor().getDefiningOp<MapOp>();
        if (producer && producer != root && shouldInline(read, producer) &&
            canInline(read, producer))
          chosen.push_back(read);
      }
      for (ReadOp read : chosen) {
        auto producer = read.getTensor().getDefiningOp<MapOp>();
        inlineRead(rewriter, read, producer);
        eraseIfDead(producer);
        changed = true;
      }
    }
  }

  bool shouldInline(ReadOp read, MapOp producer) {
    if (producer.getView())
      return true;
    Place place = getPlace(read);
    if (bodySize(place.root) + bodySize(producer) > maxBodyOps)
      return false;
    BodyCost cost = getCost(producer.getBody());
    int64_t uses = 0;
    bool soleConsumer = true;
    for (Operation *user : producer->getUsers()) {
      ++uses;
      soleConsumer &= isa<ReadOp>(user) && getRoot(user) == place.root;
    }
    if (place.isContractOperand)
      return operands && ((isTrivial(cost) && (uses == 1 || cost.reads == 0)) ||
                          (uses == 1 && !cost.reduces && isExpanded(producer)));
    if (isTrivial(cost))
      return true;
    if (!soleConsumer)
      return false;
    if (cost.reduces)
      return isHoistable(read, producer, place);
    // Twice the work in one kernel is still cheaper than a trip through memory.
    int64_t copies = cost.transcendental > 1 ? 1 : 2;
    return uses <= copies && isAskedForOnce(read, producer, place, place.extents.size());
  }

  /// Folding has left it: it is much larger than the constants it is computed from, as dequantized
  /// weights are, and reading those in its place saves more than computing it again costs.
  static bool isExpanded(MapOp producer) {
    SmallVector<Value> tensors = getReadTensors(producer);
    return !tensors.empty() && producer->getNumResults() == 1 &&
           cast<RankedTensorType>(producer.getResult(0).getType()).hasStaticShape() &&
           llvm::all_of(tensors, [](Value tensor) {
             auto constant = tensor.getDefiningOp<ConstantOp>();
             return constant && !constant->hasAttr(mutatedAttrName);
           });
  }

  llvm::DenseSet<Operation *> erased;

  static int64_t bodySize(Operation *op) {
    int64_t size = 0;
    op->walk([&](Operation *) { ++size; });
    return size;
  }

  bool isAskedForOnce(ReadOp read, MapOp producer, const Place &place, size_t numDims) {
    sym::Assumptions assumptions = getAssumptions(read->getParentRegion());
    return assumptions.isLessOrEqual(evaluations(place, numDims),
                                     sym::product(producer.getDomain()));
  }

  /// Every read of `producer` asks for an element that depends on leading map dims alone.
  bool isHoistable(ReadOp read, MapOp producer, const Place &place) {
    auto map = dyn_cast<MapOp>(place.root);
    if (!map)
      return false;
    for (Operation *user : producer->getUsers()) {
      auto other = cast<ReadOp>(user);
      if (!other.getValues().empty() || other.getMask())
        return false;
      unsigned leading = 0;
      for (sym::Expr expr : other.getMap().getResults())
        leading = std::max(leading, expr.numDimsUsed());
      if (leading > map.getDomain().size() || !isAskedForOnce(other, producer, place, leading))
        return false;
      std::optional<int64_t> rows = evaluations(place, leading).constant();
      std::optional<int64_t> all = sym::product(map.getDomain()).constant();
      if (rows && all && *rows < minParallelRows && *all > *rows * shortRow)
        return false;
    }
    return true;
  }
};

} // namespace
