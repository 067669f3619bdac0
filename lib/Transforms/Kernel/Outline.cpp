// kernel-outline: gives each structured op a kernel function, which equal ones share.
#include "EqualOps.h"
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
    drafted = {};
    numbers.clear();
    SmallVector<Candidate> candidates;
    for (Operation *root : roots)
      candidates.push_back(makeCandidate(root, *drafts));
    // Spans are for kernels that are equal with them alone.
    SmallVector<llvm::SmallSet<unsigned, 2>> wholes(numbers.size());
    for (const Candidate &candidate : candidates)
      wholes[candidate.partNumber].insert(candidate.wholeNumber);

    SymbolTable symbols(module);
    llvm::DenseMap<unsigned, FuncOp> kernels;
    for (Candidate &candidate : candidates) {
      bool usesSpans = candidate.part && wholes[candidate.partNumber].size() > 1;
      FuncOp &kernel = kernels[usesSpans ? candidate.partNumber : candidate.wholeNumber];
      if (!kernel) {
        kernel = usesSpans ? candidate.part : candidate.whole;
        StringRef kind = candidate.root->getName().stripDialect();
        kernel.setSymName((kind + "_" + Twine(kernels.size() - 1)).str());
        kernel->remove();
        symbols.insert(kernel);
      }
      replace(candidate, kernel, usesSpans);
    }
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

  static void replace(const Candidate &candidate, FuncOp kernel, bool usesSpans) {
    Operation *root = candidate.root;
    OpBuilder builder(root);
    SmallVector<Value> operands = getReadTensors(root);
    if (usesSpans)
      for (auto [operand, first, type] :
           llvm::zip_equal(operands, candidate.firsts, kernel.getArgumentTypes()))
        if (first)
          operand = SpanOp::create(builder, root->getLoc(), type, operand, first);
    auto call = CallOp::create(builder, collectNodes(root), root->getResultTypes(),
                               kernel.getSymName(), operands);
    root->replaceAllUsesWith(call);
    root->erase();
  }

  EqualOps drafted;
  llvm::DenseMap<Operation *, unsigned> numbers; // of the first of equal drafts
};

} // namespace
