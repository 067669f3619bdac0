// The place that the remarks of a compilation go to.
#ifndef KILN_LIB_PIPELINE_REMARKS_H
#define KILN_LIB_PIPELINE_REMARKS_H

#include "kiln/Pipeline/Compile.h"
#include "kiln/Report/Report.h"
#include "mlir/IR/MLIRContext.h"

namespace kiln {

/// Lets passes in `context` report what `options` ask for, with threads switched off, so that
/// remarks come in the order of the program; and everything to `report`, unless it is null.
llvm::Error enableRemarks(mlir::MLIRContext &context, const RemarkOptions &options,
                          report::Report *report);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_REMARKS_H
