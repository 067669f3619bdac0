// Runs passes and pipelines over MLIR text: `mlir-opt` with Kiln's dialects.
#include "../DebugOption.h"
#include "../PluginOption.h"
#include "kiln/Pipeline/Pipeline.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  kiln::registerTargets();
  kiln::registerPasses();
  if (llvm::Error error = kiln::loadPlugins(argc, argv, llvm::cl::getGeneralCategory())) {
    llvm::logAllUnhandledErrors(std::move(error), llvm::errs(), "kiln-opt: error: ");
    return EXIT_FAILURE;
  }
  mlir::DialectRegistry registry;
  kiln::registerDialects(registry);
  kiln::registerPipelines();
  kiln::registerDebugOption();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Kiln's optimizer driver\n", registry));
}
