// Passes that give parts of a program to external code generators; declared in Passes.td.
#ifndef KILN_EXTERN_PASSES_H
#define KILN_EXTERN_PASSES_H

#include "kiln/Extern/ExternGenerator.h"
#include "mlir/Pass/Pass.h"
#include <memory>

namespace kiln::externs {

using Session = std::shared_ptr<ExternSession>;

/// Without a session, the option `generators` says which there are.
std::unique_ptr<mlir::Pass> createMarkExtern(Session session = nullptr);
std::unique_ptr<mlir::Pass> createOutlineExtern(Session session = nullptr);
std::unique_ptr<mlir::Pass> createGenerateExtern(Session session = nullptr);

#define GEN_PASS_DECL
#include "kiln/Extern/Passes.h.inc"

/// All of them, in order: what has code has become kernel.extern, everything else is as it was.
void buildExternPipeline(mlir::OpPassManager &pm, const Session &session);

} // namespace kiln::externs

#endif // KILN_EXTERN_PASSES_H
