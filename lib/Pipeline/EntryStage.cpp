// The last passes over the host program: how symbols follow from inputs, and sizes from symbols.
#include "kiln/Host/Passes.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Targets/CPU/Passes.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildSolveSymbols(OpPassManager &pm) {
  // Late: a symbol that nothing uses any more need not be known.
  pm.addPass(createWrapperSolveSymbols());
}

void kiln::buildEntryStage(OpPassManager &pm, bool shareKernels) {
  buildSolveSymbols(pm);
  // Last of all: only kernels with schedules say how many tasks they have.
  pm.addPass(host::createWrapperMaterializeSizes());
  // Every launch has the sizes that it takes by then, whichever kernel reads them.
  if (shareKernels)
    pm.addPass(createWrapperShareKernels());
}
