// The steps of a host program as profiles and reports number them.
#ifndef KILN_HOST_PROFILE_H
#define KILN_HOST_PROFILE_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"

namespace kiln::host {

/// Launches of kernels and calls of operators, in the order of the program's text (`--emit=wrapper`),
/// nested graphs included: the `launch` of a kiln_profile_event is an index into this.
llvm::SmallVector<mlir::Operation *> getProfiledSteps(mlir::ModuleOp module);

} // namespace kiln::host

#endif // KILN_HOST_PROFILE_H
