// The compilation's process, with less than its user may do.
#ifndef KILN_TOOLS_SANDBOX_H
#define KILN_TOOLS_SANDBOX_H

#include "kiln/Pipeline/Compile.h"
#include <string>
#include <vector>

namespace kiln {

/// The files that a sandboxed process keeps.
struct SandboxFiles {
  std::vector<std::string> readable;
  /// Files may be made, read, written, renamed and removed there.
  std::vector<std::string> writableFolders;
};

/// The files that the options name, and what a compilation reads of the machine. Makes folders that
/// are not there.
llvm::Expected<SandboxFiles> getSandboxFiles(const CompileOptions &options);

/// This kernel can do what `enterSandbox` needs; an error says what it lacks.
llvm::Error checkSandbox();

/// From here on this process and its threads open no other files, start no programs or processes,
/// have no network, and signal nobody but themselves. Files that are open are closed, but for the
/// standard ones. There is only one thread.
llvm::Error enterSandbox(const SandboxFiles &files);

} // namespace kiln

#endif // KILN_TOOLS_SANDBOX_H
