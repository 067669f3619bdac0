// The passes from lowered operators to kernels: folding, layouts, fusion, packing.
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

/// After bodies have been put into one another: simpler maps, one copy of what is equal.
static void addCleanup(OpPassManager &pm) {
  pm.addPass(createKernelSimplifyIndices());
  // Before MergeEqual, which looks at the same and at enclosing blocks.
  pm.addPass(createKernelHoistInvariants());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createKernelMergeEqual());
}

void kiln::buildFuseStage(OpPassManager &pm, const Target &target,
                          const KernelStageOptions &options) {
  // Constants are folded on the host, whatever the target is.
  pm.addPass(cpu::createCpuSetTarget({target.getHost().name, target.getHost().tuning}));
  addCleanup(pm);
  // Before anything else is done to a graph that may go away.
  pm.addPass(createKernelBatchLoops());
  // Constants are simplified, folded and packed inside the graph that uses them.
  pm.addPass(createKernelSinkConstants());
  // First of all, since a view between an op and its constant, or its user, hides one from the
  // other.
  pm.addNestedPass<func::FuncOp>(createKernelFoldViews());
  // Before fusion, which puts the padding into the map that follows.
  pm.addNestedPass<func::FuncOp>(createKernelDelayPads());
  // Before fusion, which makes one map of several writes.
  pm.addNestedPass<func::FuncOp>(createKernelMergeUpdates());
  // Before small weights are folded into large ones.
  target.buildRewriteProducts(pm);
  // Before fusion, which would compute a weight's square root for every element that is scaled by
  // it.
  cpu::CpuFoldConstantsOptions fold;
  fold.jobs = options.jobs;
  pm.addPass(cpu::createCpuFoldConstants(fold, options.folds));
  // Again: what has been folded is a constant, too.
  pm.addPass(createKernelSinkConstants());

  // Before maps between the products become parts of one another.
  pm.addNestedPass<func::FuncOp>(createKernelFuseAttention());
  // Before fusion, so that a map and its producer agree on the order of their dims.
  pm.addNestedPass<func::FuncOp>(createKernelPropagateLayouts());
  pm.addNestedPass<func::FuncOp>(createKernelFoldViews());
  // Operands come later: an activation between two contracts is the first one's epilogue.
  KernelFuseMapsOptions fuse;
  fuse.operands = false;
  pm.addNestedPass<func::FuncOp>(createKernelFuseMaps(fuse));
  addCleanup(pm);
  // After maps have become as large as they get: an epilogue takes one map at a time.
  pm.addNestedPass<func::FuncOp>(createKernelFuseEpilogues());
  // Values that an epilogue or an operand reads may now be computed there.
  pm.addNestedPass<func::FuncOp>(createKernelFuseMaps());
  // After fusion, whose maps read what is shared.
  pm.addNestedPass<func::FuncOp>(createKernelShareReductions());
  // A mask is in the bias now.
  pm.addNestedPass<func::FuncOp>(createKernelFindCausal());
  addCleanup(pm);
}

// From here on no pass may read through views: what a target makes of operands are some.
void kiln::buildPrepareStage(OpPassManager &pm, const Target &target,
                             const KernelStageOptions &options) {
  target.buildPrepareKernels(pm);
  cpu::CpuFoldConstantsOptions fold;
  fold.jobs = options.jobs;
  fold.views = true;
  pm.addPass(cpu::createCpuFoldConstants(fold, options.folds));

  pm.addPass(createKernelOutline());
  // After Outline: the kernels that fold constants are functions of their own, too.
  pm.addPass(createKernelListFailures());
  pm.addPass(createKernelVerify());
}

void kiln::buildKernelStage(OpPassManager &pm, const Target &target,
                            const KernelStageOptions &options) {
  buildFuseStage(pm, target, options);
  buildPrepareStage(pm, target, options);
}
