// The passes from kernels to a host program with buffers in their places.
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildWrapperStage(OpPassManager &pm, const Target &target) {
  pm.addPass(createKernelLowerToWrapper());
  // Before buffers are views of one another: every buffer is written by one step still.
  pm.addPass(createWrapperUpdateInPlace());
  // Before lives are made longer by reuse.
  pm.addPass(createWrapperJoinBuffers());
  // After launches have gone away, and before results take the places of operands, which other
  // launches of a group may read.
  target.buildGroupLaunches(pm);
  // Before frees exist: it looks for last uses itself, and makes one buffer's life two's.
  pm.addPass(createWrapperReuseInPlace());
  pm.addPass(createWrapperInsertFrees());
  // Takes frees for places where memory can be had again.
  pm.addPass(createWrapperReuseBuffers());
  pm.addPass(createWrapperPlaceConstants());
  // Last: any step that is moved or added after this has no memory.
  pm.addPass(createWrapperPlanMemory());
  pm.addPass(createWrapperVerify());
}
