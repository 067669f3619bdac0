//===- DebugOption.h - --debug-only without LLVM's own ---------*- C++ -*-===//
#ifndef KILN_TOOLS_DEBUGOPTION_H
#define KILN_TOOLS_DEBUGOPTION_H

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"
#include <string>
#include <vector>

namespace kiln {

/// Registers --debug-only, which prints the lines that passes write with LDBG(), in builds with
/// assertions: others have no such lines. LLVM has the option itself where it was built so.
inline void registerDebugOption() {
#ifndef NDEBUG
  if (llvm::cl::getRegisteredOptions().contains("debug-only"))
    return;
  static std::vector<std::string> passes;
  static llvm::cl::list<std::string> option(
      "debug-only", llvm::cl::CommaSeparated, llvm::cl::Hidden, llvm::cl::value_desc("pass,..."),
      llvm::cl::desc("print what these passes consider"),
      llvm::cl::callback([](const std::string &pass) {
        passes.push_back(pass);
        auto names = llvm::map_to_vector(passes, std::mem_fn(&std::string::c_str));
        llvm::setCurrentDebugTypes(names.data(), names.size());
        llvm::DebugFlag = true;
      }));
#endif
}

} // namespace kiln

#endif // KILN_TOOLS_DEBUGOPTION_H
