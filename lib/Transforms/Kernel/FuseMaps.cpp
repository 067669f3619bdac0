// Replaces reads of a map by its body, where nothing expensive is computed more often for it.
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/Mutations.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "kernel-fuse-maps"

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
/// One half of a concatenation, as rotary embeddings are, may be computed for the other half as
/// well, if it is no more than this.
constexpr int64_t maxPartArithmetic = 4;
/// Padded images of bytes are dequantized so often by windows that read them instead of four times as much memory: those of
/// 3x3 pixels and stride 2 do so 2.25 times.
constexpr int64_t maxWidened = 3;
/// Queries of attention for which keys and values are found, or made of bytes, again for each block of queries.
constexpr int64_t maxQueriesOfGathered = 16, maxQueriesOfBytes = 2;

/// A read's place in a structured op, which says how often it is evaluated.
struct Place {
  StructuredOpInterface root;
  SmallVector<sym::Expr> extents; // all dims in scope
  llvm::SmallBitVector evaluated; // dims that count towards the number of evaluations
  bool isOperand = false;
};

Place getPlace(ReadOp read) {
  Region *region = read->getParentRegion();
  Place place;
  place.extents = getDimExtents(region);
  while (!isStructured(region->getParentOp()))
    region = region->getParentRegion();
  place.root = cast<StructuredOpInterface>(region->getParentOp());
  place.evaluated = place.root.getRegionDims(*region);
  place.evaluated.resize(place.extents.size(), true);
  place.isOperand = place.root.isOperand(*region);
  return place;
}

sym::Expr evaluations(const Place &place, size_t numDims) {
  sym::Expr count = 1;
  for (size_t i = 0; i < std::min(numDims, place.extents.size()); ++i)
    if (place.evaluated[i])
      count = count * place.extents[i];
  return count;
}

/// Small numbers are computed with as larger ones: what is trivial of f32 is trivial of bf16, and of bytes.
int64_t countConversions(Region &body) {
  int64_t count = 0;
  body.walk([&](Operation *op) {
    count +=
        isa<arith::ExtFOp, arith::TruncFOp>(op) ||
        (isa<arith::SIToFPOp, arith::UIToFPOp>(op) && op->getOperand(0).getType().isInteger(8));
  });
  return count;
}

bool isTrivial(const BodyCost &cost, Region &body) {
  if (cost.reduces || cost.gathers || cost.transcendental)
    return false;
  return cost.reads == 0 ? cost.arithmetic <= 4
                         : cost.reads == 1 && cost.arithmetic - countConversions(body) <= 2;
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
      llvm::MapVector<MapOp, const char *> apart;
      for (ReadOp read : reads) {
        auto producer = read.getTensor().getDefiningOp<MapOp>();
        if (!producer || producer == root)
          continue;
        const char *reason = whyNot(read, producer);
        LDBG() << torch::describe(producer.getLoc()) << " into " << torch::describe(root->getLoc())
               << ": " << (reason ? reason : "yes");
        if (reason)
          apart.try_emplace(producer, reason);
        else
          chosen.push_back(read);
      }
      // The last round and the last run of the pass leave what stays apart.
      if (chosen.empty() && operands)
        for (auto [producer, reason] : apart)
          sayApart(producer, root, reason);
      for (ReadOp read : chosen) {
        auto producer = read.getTensor().getDefiningOp<MapOp>();
        sayFused(producer, root);
        Region *region = read->getParentRegion();
        inlineRead(rewriter, read, producer);
        if (isCacheOf(root, region, maxQueriesOfBytes))
          dropRounding(rewriter, *region);
        eraseIfDead(producer);
        changed = true;
      }
    }
  }

  void sayFused(MapOp producer, Operation *root) {
    if (!producer.getView()) // which computes nothing
      emitRemark(RemarkKind::Done, producer, getArgument(), "Fused",
                 [&] { return RemarkText{"fused into " + torch::describe(root->getLoc())}; });
  }

  void sayApart(MapOp producer, Operation *root, const char *reason) {
    emitRemark(RemarkKind::NotDone, producer, getArgument(), "NotFused", [&] {
      return RemarkText{"not fused into " + torch::describe(root->getLoc()), reason};
    });
  }

  /// Null if the read is to be replaced by the producer's body.
  const char *whyNot(ReadOp read, MapOp producer) {
    const char *reason = producer.getView() ? nullptr : whyBetterApart(read, producer);
    if (!reason && !producer.getView() && readsWhatIsUpdated(producer, getPlace(read).root))
      return "what it reads is updated in place before";
    if (!reason && !canInline(read, producer))
      return "an index of it cannot be expressed by what the reader reads at";
    return reason;
  }

  /// A scatter writes over something that `producer` reads, before `root` or as `root`: whoever reads it there would keep
  /// its old value alive.
  bool readsWhatIsUpdated(MapOp producer, Operation *root) {
    Block *block = producer->getBlock();
    if (root->getBlock() != block)
      return false;
    for (Value tensor : getReadTensors(producer)) {
      if (!isState(tensor))
        continue;
      for (Operation *user : tensor.getUsers()) {
        auto scatter = dyn_cast_or_null<ScatterOp>(block->findAncestorOpInBlock(*user));
        if (scatter && scatter.getInit().isAncestor(user->getParentRegion()) &&
            producer->isBeforeInBlock(scatter) &&
            (scatter == root || scatter->isBeforeInBlock(root)))
          return true;
      }
    }
    return false;
  }

  /// A value that an input or a buffer has while the program mutates it, or that is updated likewise.
  bool isState(Value tensor) {
    if (Operation *op = tensor.getDefiningOp())
      return isa<ScatterOp>(op) || (isa<ConstantOp>(op) && op->hasAttr(mutatedAttrName));
    func::FuncOp function = getOperation();
    unsigned number = cast<BlockArgument>(tensor).getArgNumber();
    Attribute name = function.getArgAttr(number, torch::nameAttrName);
    for (unsigned i = 0; name && i < function.getNumResults(); ++i)
      if (torch::getMutated(function, i, torch::State::Input) == name)
        return true;
    return false;
  }

  const char *whyBetterApart(ReadOp read, MapOp producer) {
    Place place = getPlace(read);
    if (bodySize(place.root) + bodySize(producer) > maxBodyOps)
      return "one kernel of both would take too long to compile";
    if (!takesComplex(place.root) && computesComplex(producer.getBody()))
      return "its reader is computed in vectors, and there are none of complex numbers";
    BodyCost cost = getCost(producer.getBody());
    int64_t uses = 0;
    bool soleConsumer = true;
    for (Operation *user : producer->getUsers()) {
      ++uses;
      soleConsumer &=
          isa<ReadOp>(user) && user->getParentOfType<StructuredOpInterface>() == place.root;
    }
    if (place.isOperand) {
      if (operands && ((isTrivial(cost, producer.getBody()) && (uses == 1 || cost.reads == 0)) ||
                       (uses == 1 && !cost.reduces && isExpanded(producer)) ||
                       (uses == 1 && isReadInPlace(read, producer, cost, place.root))))
        return nullptr;
      return "a product computes an operand again for each of its tiles, which costs more here "
             "than reading it";
    }
    if (isTrivial(cost, producer.getBody()))
      return nullptr;
    if (isNarrowed(producer) && readsProduct(producer))
      return "a product writes its bytes in its epilogue, instead of the larger numbers that they "
             "are made of";
    if (!soleConsumer)
      return "others read it as well, and it costs too much to compute in each of them";
    if (cost.reduces)
      return whyNotHoistable(producer, place);
    // Twice the work in one kernel is still cheaper than a trip through memory.
    int64_t copies = cost.transcendental > 1 ? 1 : 2;
    if (uses > copies)
      return "it is read at several places, and would be computed at each of them";
    if (uses > 1 && readsProduct(producer))
      return "it is read at several places, and a product computes it once in its epilogue";
    bool isCheap = !cost.gathers && !cost.transcendental &&
                   cost.arithmetic - countConversions(producer.getBody()) <= maxPartArithmetic;
    // A mask leaves most out of what is asked for, but not always out of what is computed.
    int64_t times = !isCheap ? 1 : isWidened(producer) ? maxWidened : read.getMask() ? 2 : 1;
    return isAskedForOnce(read, producer, place, place.extents.size(), times)
               ? nullptr
               : "its elements would be computed more than once";
  }

  static bool isByte(Value tensor) {
    return cast<RankedTensorType>(tensor.getType()).getElementType().isInteger(8); // of any sign
  }

  /// Its elements are made of bytes and are larger.
  static bool isWidened(MapOp producer) {
    return producer->getNumResults() == 1 && !isByte(producer.getResult(0)) &&
           llvm::all_of(getReadTensors(producer), isByte);
  }

  /// Its elements are bytes, made of larger ones.
  static bool isNarrowed(MapOp producer) {
    return producer->getNumResults() == 1 && isByte(producer.getResult(0)) &&
           llvm::none_of(getReadTensors(producer), isByte);
  }

  /// `region` is that of keys or values of attention with so many queries at most.
  static bool isCacheOf(Operation *root, Region *region, int64_t mostQueries) {
    auto attention = dyn_cast<AttentionOp>(root);
    return attention && (region == &attention.getK() || region == &attention.getV()) &&
           attention.getM().getValue().constant().value_or(mostQueries + 1) <= mostQueries;
  }

  /// Keys or values of a few queries that are better read where they are than put into memory first: rows that a table finds, as
  /// those of caches in blocks are, or bytes that are made floats with what their row has of its own.
  static bool isReadInPlace(ReadOp read, MapOp producer, const BodyCost &cost, Operation *root) {
    Region *region = read->getParentRegion();
    if (producer->getNumResults() != 1 || !isCacheOf(root, region, maxQueriesOfGathered))
      return false;
    sym::Expr last = sym::Expr::dim(producer.getExtents().size() - 1);
    if (findGatheredRows(producer.getBody(), last))
      return region->front().getTerminator()->getOperand(0) == read.getResult();
    if (!isCacheOf(root, region, maxQueriesOfBytes))
      return false;
    int64_t bytes = 0;
    for (auto own : producer.getBody().getOps<ReadOp>()) {
      bool isOfElement = llvm::any_of(own.getMap().getResults(),
                                      [&](sym::Expr expr) { return expr.dependsOn(last); });
      if (isOfElement && !isByte(own.getTensor()))
        return false;
      bytes += isOfElement;
    }
    return bytes == 1 && !cost.reduces && !cost.gathers && !cost.transcendental &&
           cost.arithmetic - countConversions(producer.getBody()) <= maxPartArithmetic;
  }

  /// Nobody else reads the result of a product that it reads.
  static bool readsProduct(MapOp producer) {
    return llvm::any_of(getReadTensors(producer), [&](Value tensor) {
      return isa_and_nonnull<ContractOp>(tensor.getDefiningOp()) &&
             llvm::all_of(tensor.getUsers(), [&](Operation *user) {
               return user->getParentOfType<MapOp>() == producer;
             });
    });
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

  /// `times`: or so often.
  bool isAskedForOnce(ReadOp read, MapOp producer, const Place &place, size_t numDims,
                      int64_t times = 1) {
    sym::Assumptions assumptions = getAssumptions(read->getParentRegion());
    return assumptions.isLessOrEqual(evaluations(place, numDims),
                                     sym::product(producer.getExtents()) * times);
  }

  /// Null if every read of `producer` asks for an element that depends on leading map dims alone.
  const char *whyNotHoistable(MapOp producer, const Place &place) {
    auto map = dyn_cast<MapOp>(*place.root);
    if (!map)
      return "it reduces, and only kernels of maps compute reductions on the way";
    auto first = cast<ReadOp>(*producer->user_begin());
    for (Operation *user : producer->getUsers()) {
      auto other = cast<ReadOp>(user);
      if (!other.getValues().empty() || other.getMask())
        return "it reduces, and data or a mask decides where it is read";
      if (other.getMap().getResults() != first.getMap().getResults())
        return "it reduces, and would be computed at each of several places where it is read";
      unsigned leading = 0;
      for (sym::Expr expr : other.getMap().getResults())
        leading = std::max(leading, expr.numDimsUsed());
      if (leading > map.getExtents().size() || !isAskedForOnce(other, producer, place, leading))
        return "its reduction would be computed more than once";
      std::optional<int64_t> rows = evaluations(place, leading).constant();
      std::optional<int64_t> all = sym::product(map.getExtents()).constant();
      if (rows && all && *rows < minParallelRows && *all > *rows * shortRow)
        return "too few rows would be left to compute in parallel";
    }
    return nullptr;
  }
};

} // namespace
