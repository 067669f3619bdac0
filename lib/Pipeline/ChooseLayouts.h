// Layouts of operands that are measured.
#ifndef KILN_LIB_PIPELINE_CHOOSELAYOUTS_H
#define KILN_LIB_PIPELINE_CHOOSELAYOUTS_H

#include "kiln/Pipeline/Compile.h"
#include "kiln/Targets/Target.h"

namespace kiln {

/// Gives contracts of `module`, whose kernels are fused and not prepared, the layouts that are
/// fastest on this machine. Seconds that it took.
double chooseLayouts(mlir::ModuleOp module, const Target &target, const CompileOptions &options);

/// Gives contracts the layouts of `options.layouts`.
void setLayouts(mlir::ModuleOp module, const Target &target, const CompileOptions &options);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_CHOOSELAYOUTS_H
