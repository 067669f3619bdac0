// Imports .pt2 archives, for the tests in Python: `import-pt2 FILE` prints the module; `import-pt2
// --check FILE…` prints a line for each, `ok` or the error.
#include "kiln/Frontend/Frontend.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

static bool import(llvm::StringRef path, bool print) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  llvm::Expected<OwningOpRef<ModuleOp>> module = kiln::frontend::importPt2(path, context);
  if (!module) {
    (print ? llvm::errs() : llvm::outs()) << toString(module.takeError()) << "\n";
    return false;
  }
  if (print)
    (*module)->print(llvm::outs(), OpPrintingFlags().enableDebugInfo());
  else
    llvm::outs() << "ok\n";
  return true;
}

int main(int argc, char **argv) {
  llvm::ArrayRef<char *> arguments(argv + 1, argc - 1);
  if (arguments.size() == 1)
    return import(arguments[0], /*print=*/true) ? 0 : 1;
  for (char *path : arguments.drop_front())
    import(path, /*print=*/false);
  return 0;
}
