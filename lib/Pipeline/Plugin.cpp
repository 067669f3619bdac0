// Loads plug-ins. All that one adds is checked first, so that a plug-in is there as a whole or not
// at all.
#include "kiln/Pipeline/Plugin.h"
#include "PluginDialects.h"
#include "kiln/Pipeline/Pipeline.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include <dlfcn.h>

using namespace mlir;
using namespace kiln;

/// The functions that registerDialects calls beside its own.
static std::vector<void (*)(DialectRegistry &)> &pluginDialects() {
  static std::vector<void (*)(DialectRegistry &)> dialects;
  return dialects;
}

void kiln::registerPluginDialects(DialectRegistry &registry) {
  for (auto insert : pluginDialects())
    insert(registry);
}

namespace kiln {

class PluginLoader {
public:
  explicit PluginLoader(llvm::StringRef path) : path(path) {}

  llvm::Error load() {
    llvm::Expected<const PluginInfo *> info = open();
    if (!info)
      return info.takeError();
    PluginRegistry added;
    (*info)->addTo(added);
    name = (*info)->name;
    if (llvm::Error error = check(added))
      return error;
    for (TargetRegistration &target : added.targets) {
      if (target.registerPasses)
        target.registerPasses();
      registerTarget(std::move(target));
    }
    for (externs::ExternRegistration &generator : added.generators)
      externs::registerExternGenerator(std::move(generator));
    for (const PassAllocatorFunction &pass : added.passes)
      registerPass(pass);
    for (auto &[name, insert] : added.dialects)
      pluginDialects().push_back(insert);
    return llvm::Error::success();
  }

private:
  llvm::Error fail(const llvm::Twine &message) const {
    return llvm::createStringError("plug-in '" + path + "': " + message);
  }

  llvm::Error failOf(const llvm::Twine &message) const { return fail("'" + name + "' " + message); }

  llvm::Expected<const PluginInfo *> open() {
    // A bare name would be looked for where libraries are.
    llvm::SmallString<256> file(path);
    if (std::error_code error = llvm::sys::fs::make_absolute(file))
      return fail(error.message());
    if (!llvm::sys::fs::exists(file))
      return fail("there is no such file");
    // At once: a function that this compiler has not is found here and not when it is called.
    void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      llvm::StringRef problem = dlerror();
      problem.consume_front(file);
      problem.consume_front(": ");
      return fail("cannot be loaded: " + problem);
    }
    auto get = reinterpret_cast<const PluginInfo *(*)()>(dlsym(library, "kilnGetPluginInfo"));
    if (!get)
      return fail("not a plug-in for Kiln: it has no function kilnGetPluginInfo");
    const PluginInfo *info = get();
    if (info->apiVersion != pluginApiVersion)
      return fail("built for version " + llvm::Twine(info->apiVersion) +
                  " of the interface of plug-ins; this is version " +
                  llvm::Twine(pluginApiVersion));
    auto differs = [&](llvm::StringRef what, llvm::StringRef of, llvm::StringRef ours) {
      return fail("built for " + what + " " + of + "; this is " + ours);
    };
    // C++ classes are as they are in one version alone.
    if (llvm::StringRef(info->kilnVersion) != KILN_VERSION_STRING)
      return differs("Kiln", info->kilnVersion, KILN_VERSION_STRING);
    if (llvm::StringRef(info->llvmVersion) != LLVM_VERSION_STRING)
      return differs("LLVM", info->llvmVersion, LLVM_VERSION_STRING);
    if (!info->name || !info->addTo)
      return fail("not a plug-in for Kiln: its kilnGetPluginInfo says nothing");
    return info;
  }

  llvm::Error check(const PluginRegistry &added) const {
    if (added.targets.empty() && added.generators.empty() && added.passes.empty() &&
        added.dialects.empty())
      return failOf("adds nothing");
    llvm::StringSet<> targets, generators, passes;
    for (const TargetRegistration &target : added.targets) {
      if (target.name.empty() || !target.create)
        return failOf("adds a target without a name or a function that makes it");
      if (lookupTarget(target.name) || !targets.insert(target.name).second)
        return failOf("adds the target '" + target.name + "', which there is already");
    }
    for (const externs::ExternRegistration &generator : added.generators) {
      if (generator.name.empty() || !generator.create)
        return failOf("adds an external code generator without a name or a function that makes it");
      if (externs::lookupExternGenerator(generator.name) ||
          !generators.insert(generator.name).second)
        return failOf("adds the external code generator '" + generator.name +
                      "', which there is already");
    }
    for (const PassAllocatorFunction &allocate : added.passes) {
      llvm::StringRef argument = allocate()->getArgument();
      if (argument.empty())
        return failOf("adds a pass without a name");
      if (PassInfo::lookup(argument) || PassPipelineInfo::lookup(argument) ||
          !passes.insert(argument).second)
        return failOf("adds the pass '" + argument + "', which there is already");
    }
    DialectRegistry known;
    registerDialects(known);
    for (const auto &[dialect, insert] : added.dialects) {
      if (llvm::is_contained(known.getDialectNames(), dialect))
        return failOf("adds the dialect '" + dialect + "', which there is already");
      insert(known);
    }
    return llvm::Error::success();
  }

  llvm::StringRef path;
  llvm::StringRef name;
};

} // namespace kiln

llvm::Error kiln::loadPlugin(llvm::StringRef path) { return PluginLoader(path).load(); }
