// The programs that a compilation is of.
#ifndef KILN_LIB_PIPELINE_ENTRIES_H
#define KILN_LIB_PIPELINE_ENTRIES_H

#include "kiln/Host/ModelInfo.h"
#include "kiln/Pipeline/Compile.h"
#include "mlir/IR/OwningOpRef.h"

namespace kiln {

/// A program on its way through the stages.
struct Entry {
  std::string name;
  std::string file;
  /// Its name in the archive; empty: the frontend chooses.
  std::string program;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  wrapper::ProgramOp host; // from the wrapper stage on
};

/// Reads which programs the files hold. An error: there is none, or a name is bad or there twice.
llvm::Expected<std::vector<Entry>> findEntries(const CompileOptions &options);

/// An error: the options are for one program, and there are several, or the other way round.
llvm::Error checkEntries(llvm::ArrayRef<Entry> entries, const CompileOptions &options);

/// The modules of the entries, each under its name, in one; the entries have none any more.
mlir::OwningOpRef<mlir::ModuleOp> joinModules(llvm::MutableArrayRef<Entry> entries);

/// The error, which says what entry it is of.
llvm::Error nameEntry(llvm::Error error, const Entry &entry);

/// Begins the names of the module's kernels with the entry's, so that no other entry has them.
void prefixKernels(mlir::ModuleOp module, llvm::StringRef entry);

} // namespace kiln

#endif // KILN_LIB_PIPELINE_ENTRIES_H
