// Parses a module of kernels, runs one pass over it and prints what came out.
#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Pipeline/Pipeline.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  mlir::DialectRegistry registry;
  kiln::registerDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!module || !context.getLoadedDialect<kiln::kernel::KernelDialect>())
    return 1;
  mlir::PassManager manager(&context);
  manager.addPass(kiln::createKernelSimplifyIndices());
  if (failed(manager.run(*module)))
    return 1;
  module->print(llvm::outs());
  return 0;
}
