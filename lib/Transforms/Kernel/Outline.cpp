// kernel-outline: gives each structured op a kernel function, which equal ones share.
#include "kiln/Transforms/Kernel/RegionUtils.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/StringMap.h"

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

    IRRewriter rewriter(&getContext());
    SymbolTable symbols(module);
    llvm::StringMap<FuncOp> known;
    for (Operation *root : roots) {
      SmallVector<Value> operands = getReadTensors(root);
      rewriter.setInsertionPointToEnd(module.getBody());
      FuncOp func = createKernel(rewriter, root, operands, known.size());
      auto [entry, isNew] = known.try_emplace(getFingerprint(func), func);
      if (isNew)
        symbols.insert(func);
      else
        func.erase();

      rewriter.setInsertionPoint(root);
      auto call = CallOp::create(rewriter, collectNodes(root), root->getResultTypes(),
                                 entry->second.getSymName(), operands);
      rewriter.replaceOp(root, call);
    }
  }
};

} // namespace
