// Weights and buffers that the programs of a model share.
#ifndef KILN_LIB_PIPELINE_SHAREWEIGHTS_H
#define KILN_LIB_PIPELINE_SHAREWEIGHTS_H

#include "Weights.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace kiln {

/// Names of a program's buffers that others have, too, with a number for each.
using SharedNames = llvm::StringMap<unsigned>;

/// The buffers of programs, at the torch stage, that `patterns` name (globs): they become ones that
/// are written to in all of them. An error: a pattern names none, or they do not fit together.
llvm::Expected<std::vector<SharedNames>>
shareState(llvm::ArrayRef<std::pair<std::string, mlir::ModuleOp>> modules,
           llvm::ArrayRef<std::string> patterns);

/// Gives equal constants of imported programs, all in one context, one value attribute: those of the
/// same type and bytes, and those without bytes of the same name.
void unifyConstants(llvm::ArrayRef<std::pair<std::string, mlir::ModuleOp>> modules);

/// Gives the constants of planned programs, all in one context, their places in one set of weights:
/// those of the same name, type and bytes, and what folds make of them in the same way, have the
/// same place. Leaves a program alone as it is.
SharedWeights shareWeights(llvm::ArrayRef<host::ModelEntry> entries,
                           llvm::ArrayRef<SharedNames> state);

/// A warning of buffers that several programs have under one name, each its own; empty: none have.
std::string describeOwnState(llvm::ArrayRef<host::ModelEntry> entries, const SharedWeights &shared);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_SHAREWEIGHTS_H
