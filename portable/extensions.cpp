// An extension that Debian's LLVM has in a library of its own, for link-time optimization.
#include "llvm/Plugins/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "polly", "", [](llvm::PassBuilder &) {}};
}
