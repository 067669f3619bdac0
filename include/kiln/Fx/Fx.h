// A host program as a Python module: `load()` builds a torch.fx.GraphModule that launches the
// kernels of a library of steps beside it.
#ifndef KILN_FX_FX_H
#define KILN_FX_FX_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "llvm/Support/Error.h"
#include <string>

namespace kiln::fx {

struct ModuleOptions {
  /// The name of the model, and of the file of its library.
  std::string name, library;
  /// Name and version.
  std::string compiler;
};

struct Module {
  std::string text;
  /// Stands in the text, and in the library that belongs to it.
  uint32_t hash = 0;
};

/// The Python module for the program in `module`, whose kernels have been scheduled.
/// A step that no graph can have is an error that names its node.
llvm::Expected<Module> writeModule(mlir::ModuleOp module, const ModuleOptions &options);

} // namespace kiln::fx

#endif // KILN_FX_FX_H
