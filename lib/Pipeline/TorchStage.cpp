// The passes from what PyTorch exported to kernels that have not been fused.
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Transforms/Passes.h"

using namespace mlir;
using namespace kiln;

void kiln::buildTorchStage(OpPassManager &pm, const TorchStageOptions &options) {
  TorchBindCustomOpsOptions bind;
  bind.ops.assign(options.customOps.begin(), options.customOps.end());
  if (options.externs)
    for (const auto &generator : options.externs->generators)
      for (const std::string &target : generator->getPureOperators())
        bind.pure.push_back(target);
  // First of all: everything else takes a symbol for one number, and relies on what is known of it.
  pm.addPass(createTorchSpecializeSubgraphs());
  pm.addPass(createTorchRenameSymbols());
  pm.addPass(createTorchSimplifyGuards());
  pm.addPass(createTorchNormalizeFloorDiv());
  // While all of them are there.
  pm.addPass(createTorchListConstants());
  // Before contexts are gone with their graphs.
  pm.addPass(createTorchLowerAutocast());
  pm.addPass(createTorchOutlineVmap());
  pm.addPass(createTorchExpandRnn());
  pm.addPass(createTorchExpandEncoderLayer());
  // In-place forms write as other operators do.
  pm.addPass(createTorchExpandForeach());
  // Functionalization follows what is written through one graph.
  pm.addPass(createTorchInlineSubgraphs());
  pm.addPass(createTorchBindCustomOps(bind)); // says what they write
  // Lowerings take values: a call that writes its argument has none.
  pm.addPass(createTorchFunctionalize());
  // Its results have no views, and nothing writes them.
  pm.addPass(createTorchLowerAutoFunctionalized());
  pm.addPass(createTorchBindCustomOps(bind)); // the calls which that has made
  // Once no call draws by writing its argument.
  pm.addPass(createTorchThreadRandom());
  // Before operators are taken apart: libraries have them whole.
  if (options.externs)
    externs::buildExternPipeline(pm, options.externs);
  pm.addPass(createTorchConvolveBeforeUpsample());
  TorchLowerToKernelOptions lower;
  lower.fallback = options.fallback;
  lower.triton = options.triton;
  pm.addPass(createTorchLowerToKernel(lower));
  // Passes from here on assume ranges of symbols, which hold only where they were checked.
  pm.addPass(createKernelGuardSymbols());
  // Again, for patterns over what operators compute.
  if (options.externs)
    externs::buildExternPipeline(pm, options.externs);
}
