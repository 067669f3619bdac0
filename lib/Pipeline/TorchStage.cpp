#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildTorchStage(OpPassManager &pm) {
  // While all of them are there.
  pm.addPass(createTorchListConstants());
  // Functionalization follows what is written through one graph.
  pm.addPass(createTorchInlineSubgraphs());
  // Lowerings take values: a call that writes its argument has none.
  pm.addPass(createTorchFunctionalize());
  pm.addPass(createTorchLowerToKernel());
}
