// Passes over the bodies of kernels before these are planned, for any target.
#include "kiln/Codegen/Passes.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void kiln::codegen::buildSimplifyBodiesPipeline(OpPassManager &pm) {
  // A reduction that does not depend on the one around it leaves it, and meets its equals.
  pm.addPass(createKernelHoistInvariants());
  pm.addNestedPass<kernel::FuncOp>(createCSEPass());
}
