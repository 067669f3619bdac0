// The codegen dialect: schedules that targets share (CodegenAttributes.td).
#ifndef KILN_CODEGEN_CODEGENDIALECT_H
#define KILN_CODEGEN_CODEGENDIALECT_H

#include "kiln/Dialect/Kernel/KernelDialect.h"

#include "kiln/Codegen/CodegenDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Codegen/CodegenAttributes.h.inc"

namespace kiln::codegen {

/// The most elements that code is written for at once: two registers of 64 bytes of the narrowest
/// elements.
inline constexpr int64_t maxLanes = 256;

/// Fails unless `lanes` is a power of two up to `maxLanes`.
mlir::LogicalResult verifyLanes(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                int64_t lanes);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_CODEGENDIALECT_H
