// Shared libraries that add targets, external code generators, passes and dialects to the tools (`--load-plugin=FILE.so`);
// docs/plugins.md explains how one is built.
#ifndef KILN_PIPELINE_PLUGIN_H
#define KILN_PIPELINE_PLUGIN_H

#include "kiln/Extern/ExternGenerator.h"
#include "kiln/Pipeline/Version.h.inc"
#include "kiln/Targets/Target.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Config/llvm-config.h"

namespace kiln {

/// Takes what a plug-in adds. A name that is taken is a mistake, and so is a plug-in that adds
/// nothing; the tool then refuses the plug-in before anything of it is known to others.
class PluginRegistry {
public:
  /// Its dialects and passes come with it. Names and texts stay where they are: literals, best.
  void addTarget(TargetRegistration target) { targets.push_back(std::move(target)); }

  /// The generators of `--extern=NAME`.
  void addExternGenerator(externs::ExternRegistration generator) {
    generators.push_back(std::move(generator));
  }

  /// A pass that kiln-opt runs by its name, and that options of both tools name.
  template <typename ConcretePass> void addPass() {
    passes.push_back(
        []() -> std::unique_ptr<mlir::Pass> { return std::make_unique<ConcretePass>(); });
  }

  /// Dialects beside those of targets.
  template <typename... Dialects> void addDialects() {
    (addDialect(Dialects::getDialectNamespace(),
                [](mlir::DialectRegistry &registry) { registry.insert<Dialects>(); }),
     ...);
  }

private:
  friend class PluginLoader;
  using InsertDialect = void (*)(mlir::DialectRegistry &registry);
  void addDialect(llvm::StringRef name, InsertDialect insert) {
    dialects.emplace_back(name, insert);
  }

  std::vector<TargetRegistration> targets;
  std::vector<externs::ExternRegistration> generators;
  std::vector<mlir::PassAllocatorFunction> passes;
  std::vector<std::pair<std::string, InsertDialect>> dialects;
};

/// Changes with the layout of PluginInfo and with what of it means something else.
constexpr uint32_t pluginApiVersion = 2;

/// The result of `kilnGetPluginInfo`, a plug-in's function. The first member stays the first.
struct PluginInfo {
  uint32_t apiVersion;
  const char *kilnVersion; // of the headers that it is built with
  const char *llvmVersion;
  const char *name;
  void (*addTo)(PluginRegistry &registry);
};

/// Loads a plug-in and registers what it adds. Call it after `registerTargets` and
/// `registerPasses`, before any context is made. The plug-in stays loaded.
llvm::Error loadPlugin(llvm::StringRef path);

} // namespace kiln

/// Once in a plug-in, outside of namespaces: KILN_PLUGIN("name", addEverything)
#define KILN_PLUGIN(NAME, ADD_TO)                                                                  \
  extern "C" __attribute__((visibility("default"))) const ::kiln::PluginInfo *                     \
  kilnGetPluginInfo() {                                                                            \
    static const ::kiln::PluginInfo info = {::kiln::pluginApiVersion, KILN_VERSION_STRING,         \
                                            LLVM_VERSION_STRING, NAME, ADD_TO};                    \
    return &info;                                                                                  \
  }

#endif // KILN_PIPELINE_PLUGIN_H
