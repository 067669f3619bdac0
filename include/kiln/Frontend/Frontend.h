// Reads an exported program into the torch dialect. No Python, and nothing is ever unpickled.
#ifndef KILN_FRONTEND_FRONTEND_H
#define KILN_FRONTEND_FRONTEND_H

#include "kiln/Frontend/Pt2Archive.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace kiln::frontend {

struct ImportOptions {
  /// Each call gets `torch.modules`, the Python modules around its node as export writes them
  /// (KEY,PATH,TYPE;…, the outermost first). Passes do not know of it.
  bool modules = false;
  /// One of the archive's programs; empty: the only one, or `model` among several.
  std::string program;
  /// Parameters and buffers have no values: the archive need not hold any.
  bool laterWeights = false;
  /// Bytes of memory that the archive's contents may take beyond the file's size: inflated members,
  /// and weights whose elements are not where they are wanted.
  uint64_t maxUnpacked = Pt2Archive::defaultMaxUnpacked;
};

/// The names of the programs in the archive at `path`. An error is one line that begins with `path`.
llvm::Expected<std::vector<std::string>> listPrograms(llvm::StringRef path, uint64_t maxUnpacked);

/// Imports the `.pt2` archive at `path` (torch.export.save, schema 8.x) as a module of the torch
/// dialect; kiln/Dialect/Torch/TorchOps.td says what it looks like. All calls are imported, whether
/// a later stage can lower them or not.
///
/// Weights are resources over the mapped file, which stays mapped as long as the context lives.
///
/// An error is one line that names the file, and the JSON path or the node with its Python source
/// line:
///   model.pt2: models/model.json: missing value at graph_module.graph.nodes[3].target
///   model.pt2: node 'linear_1' (model.py:12): 'weight' refers to 'p_fc', which is not defined
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importPt2(llvm::StringRef path, mlir::MLIRContext &context, const ImportOptions &options = {});

} // namespace kiln::frontend

#endif // KILN_FRONTEND_FRONTEND_H
