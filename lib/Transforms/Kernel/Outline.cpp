// kernel-outline: gives each structured op a kernel function, which equal ones share.
#include "EqualOps.h"
#include "ReadScalars.h"
#include "ReadSpans.h"
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/SmallSet.h"

namespace kiln {
#define GEN_PASS_DEF_KERNELOUTLINE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;

/// An op that computes something of a node: views leave their names to reads, indices and masks.
static bool computes(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op))
    return !read.getValues().empty();
  return !isa<IndexOp, InsideOp, YieldOp, arith::ConstantOp, complex::ConstantOp>(op);
}

/// Scalars from memory take registers that a product's sums need, which is nothing beside long sums.
static bool mayReadScalars(Operation *root) {
  constexpr int64_t longSum = 128;
  auto contract = dyn_cast<ContractOp>(root);
  if (!contract)
    return isa<MapOp>(root);
  std::optional<int64_t> steps = sym::product(contract.getK().getSizes()).constant();
  return !steps || *steps >= longSum;
}

/// The location of a call of the kernel that `root` becomes: that of the root, followed by the nodes
/// that its body computes, which differ among the calls that share a kernel.
static Location collectNodes(Operation *root) {
  SmallVector<Location> parts;
  llvm::SmallDenseSet<Attribute> seen;
  auto add = [&](Location location) {
    location->walk([&](Location part) {
      if (!isa<NameLoc>(part))
        return WalkResult::advance();
      if (seen.insert(part).second)
        parts.push_back(part);
      return WalkResult::skip();
    });
  };
  add(root->getLoc());
  size_t own = parts.size();
  root->walk([&](Operation *op) {
    if (computes(op))
      add(op->getLoc());
  });
  if (own == 0 || parts.size() == own)
    return root->getLoc();
  auto fused = dyn_cast<FusedLoc>(root->getLoc());
  return FusedLoc::get(root->getContext(), parts, fused ? fused.getMetadata() : Attribute());
}

namespace {

/// An op and the kernels that it may become.
struct Candidate {
  Operation *root;
  FuncOp whole; // reads its operands
  FuncOp part;  // reads spans of them; null if there are none
  SmallVector<sym::ExprAttr> firsts;
  unsigned wholeNumber, partNumber; // equal for equal kernels

  /// The one that it becomes, and the number of that.
  bool usesSpans = false;
  FuncOp chosen() const { return usesSpans ? part : whole; }
  unsigned number() const { return usesSpans ? partNumber : wholeNumber; }
};

/// Kernels that are equal but for scalars, of which they read some.
struct Kind {
  SmallVector<FuncOp> kernels; // whose constants are separate
  SmallVector<SmallVector<unsigned>> scalars;
  FuncOp shared;
};

/// The kind of a candidate, and the number of its kernel in that.
struct PlaceInKind {
  unsigned kind, number;
};

struct Outline : kiln::impl::KernelOutlineBase<Outline> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<Operation *> roots;
    module->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (isa<FuncOp>(op))
        return WalkResult::skip();
      if (!isStructured(op))
        return WalkResult::advance();
      roots.push_back(op);
      return WalkResult::skip();
    });
    OwningOpRef<ModuleOp> drafts = ModuleOp::create(module.getLoc());
    (*drafts)->setDiscardableAttrs(module->getDiscardableAttrDictionary());
    drafted = clearedDrafts = {};
    numbers.clear();
    kindNumbers.clear();
    SmallVector<Candidate> candidates;
    for (Operation *root : roots)
      candidates.push_back(makeCandidate(root, *drafts));
    // Spans are for kernels that are equal with them alone.
    SmallVector<llvm::SmallSet<unsigned, 2>> wholes(numbers.size());
    for (const Candidate &candidate : candidates)
      wholes[candidate.partNumber].insert(candidate.wholeNumber);

    llvm::DenseMap<unsigned, PlaceInKind> places;
    SmallVector<Kind> kinds;
    for (Candidate &candidate : candidates) {
      candidate.usesSpans = candidate.part && wholes[candidate.partNumber].size() > 1;
      if (places.contains(candidate.number()))
        continue;
      FuncOp separate = candidate.chosen();
      unsigned kind = getKind(candidate, *drafts, separate);
      kinds.resize(std::max<size_t>(kinds.size(), kind + 1));
      places[candidate.number()] = {kind, static_cast<unsigned>(kinds[kind].kernels.size())};
      kinds[kind].kernels.push_back(separate);
    }

    SymbolTable symbols(module);
    unsigned made = 0;
    for (Candidate &candidate : candidates) {
      PlaceInKind place = places[candidate.number()];
      Kind &kind = kinds[place.kind];
      if (!kind.shared) {
        kind.shared = createShared(kind, candidate, *drafts);
        StringRef name = candidate.root->getName().stripDialect();
        kind.shared.setSymName((name + "_" + Twine(made++)).str());
        kind.shared->remove();
        symbols.insert(kind.shared);
      }
      replace(candidate, kind, place.number);
    }
  }

  FuncOp clone(FuncOp func, ModuleOp drafts) {
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(drafts.getBody());
    return cast<FuncOp>(builder.clone(*func));
  }

  /// A number that kernels have in common that are equal but for scalars, and counts from 0;
  /// `separate` becomes such a kernel with separate constants.
  unsigned getKind(const Candidate &candidate, ModuleOp drafts, FuncOp &separate) {
    Operation *known = separate;
    if (mayReadScalars(candidate.root)) {
      separate = clone(separate, drafts);
      separateConstants(separate);
      FuncOp cleared = clone(separate, drafts);
      clearScalars(cleared);
      known = clearedDrafts.findOrAdd(cleared);
      if (!known)
        known = cleared;
    }
    return kindNumbers.try_emplace(known, kindNumbers.size()).first->second;
  }

  /// The kernel of a kind, and what it reads: one that is alone stays as it was.
  FuncOp createShared(Kind &kind, const Candidate &candidate, ModuleOp drafts) {
    if (kind.kernels.size() == 1)
      return clone(candidate.chosen(), drafts);
    kind.scalars = findDifferences(kind.kernels);
    FuncOp shared = clone(kind.kernels.front(), drafts);
    readScalars(shared, kind.scalars);
    return shared;
  }

  Candidate makeCandidate(Operation *root, ModuleOp drafts) {
    Candidate candidate{root, {}, {}, {}, 0, 0};
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(drafts.getBody());
    candidate.whole = createKernel(builder, root, getReadTensors(root), 0);
    candidate.wholeNumber = candidate.partNumber = getNumber(candidate.whole);
    candidate.part = cast<FuncOp>(builder.clone(*candidate.whole));
    candidate.firsts = readSpans(candidate.part);
    if (llvm::any_of(candidate.firsts, [](sym::ExprAttr first) { return bool(first); })) {
      candidate.partNumber = getNumber(candidate.part);
    } else {
      candidate.part.erase();
      candidate.part = {};
    }
    return candidate;
  }

  unsigned getNumber(FuncOp func) {
    Operation *equal = drafted.findOrAdd(func);
    return numbers.try_emplace(equal ? equal : func, numbers.size()).first->second;
  }

  static void replace(const Candidate &candidate, Kind &kind, unsigned number) {
    Operation *root = candidate.root;
    Location loc = root->getLoc();
    OpBuilder builder(root);
    SmallVector<Value> operands = getReadTensors(root);
    if (candidate.usesSpans)
      for (auto [operand, first, type] :
           llvm::zip(operands, candidate.firsts, kind.shared.getArgumentTypes()))
        if (first)
          operand = SpanOp::create(builder, loc, type, operand, first);
    for (DenseElementsAttr scalars : getScalars(kind.kernels[number], kind.scalars))
      operands.push_back(
          ConstantOp::create(builder, loc, scalars.getType(), scalars, StringAttr()));
    auto call = CallOp::create(builder, collectNodes(root), root->getResultTypes(),
                               kind.shared.getSymName(), operands);
    root->replaceAllUsesWith(call);
    root->erase();
  }

  EqualOps drafted, clearedDrafts;
  llvm::DenseMap<Operation *, unsigned> numbers; // of the first of equal drafts
  llvm::DenseMap<Operation *, unsigned> kindNumbers;
};

} // namespace
