// The layout of int4 weights that an archive holds packed.
#ifndef KILN_LIB_PIPELINE_INT4LAYOUT_H
#define KILN_LIB_PIPELINE_INT4LAYOUT_H

#include "kiln/Pipeline/Compile.h"
#include "mlir/IR/BuiltinOps.h"

namespace kiln {

/// Archives do not say where weights have been packed: most likely on a machine like this one.
void setInt4Layout(mlir::ModuleOp module, const CompileOptions &options);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_INT4LAYOUT_H
