// Dialects that plug-ins have added.
#ifndef KILN_LIB_PIPELINE_PLUGINDIALECTS_H
#define KILN_LIB_PIPELINE_PLUGINDIALECTS_H

#include "mlir/IR/DialectRegistry.h"

namespace kiln {

void registerPluginDialects(mlir::DialectRegistry &registry);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_PLUGINDIALECTS_H
