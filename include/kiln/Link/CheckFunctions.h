// C functions that a model is linked with, as they are declared and as files define them.
#ifndef KILN_LINK_CHECKFUNCTIONS_H
#define KILN_LINK_CHECKFUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace kiln {

struct ForeignFunction {
  std::string name;
  /// Its declaration: KILN_SIGNATURE (kiln-c/custom_op.h) has to say one of these.
  std::vector<std::string> signatures;
};

/// One of `files` defines each function, as a function, and none says another signature. Files that
/// are not ELF are left to the linker.
llvm::Error checkFunctions(llvm::ArrayRef<std::string> files,
                           llvm::ArrayRef<ForeignFunction> functions);

} // namespace kiln

#endif // KILN_LINK_CHECKFUNCTIONS_H
