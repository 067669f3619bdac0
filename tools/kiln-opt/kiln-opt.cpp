// Runs passes and pipelines over MLIR text: `mlir-opt` with Kiln's dialects.
#include "../DebugOption.h"
#include "kiln/Pipeline/Pipeline.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  kiln::registerDialects(registry); // and targets
  kiln::registerPasses();
  kiln::registerPipelines();
  kiln::registerDebugOption();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Kiln's optimizer driver\n", registry));
}
