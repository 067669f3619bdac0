// The registry of targets.
#include "kiln/Targets/Target.h"
#include "llvm/ADT/StringExtras.h"

using namespace kiln;
using llvm::StringRef;

Target::~Target() = default;

llvm::Expected<std::string> Target::emitAssembly(mlir::ModuleOp, const CodeOptions &) const {
  return llvm::createStringError("the target " + getName() + " has no assembly language");
}

llvm::Expected<Target::Objects> ProgramWriter::compileKernels(mlir::ModuleOp,
                                                              const CodeOptions &) const {
  return llvm::createStringError("the target " + getName() + " has no machine code");
}

static std::vector<TargetRegistration> &registry() {
  static std::vector<TargetRegistration> targets;
  return targets;
}

void kiln::registerTarget(TargetRegistration registration) {
  assert(!lookupTarget(registration.name) && "registered twice");
  registry().push_back(std::move(registration));
}

llvm::ArrayRef<TargetRegistration> kiln::getRegisteredTargets() { return registry(); }

const TargetRegistration *kiln::lookupTarget(StringRef spec) {
  StringRef name = spec.split('{').first;
  auto found = llvm::find_if(registry(),
                             [&](const TargetRegistration &target) { return target.name == name; });
  return found == registry().end() ? nullptr : &*found;
}

llvm::Expected<std::unique_ptr<Target>> Target::create(StringRef spec, StringRef cpu) {
  const TargetRegistration *target = lookupTarget(spec);
  if (!target) {
    auto names = llvm::map_range(registry(), [](const auto &target) { return target.name; });
    return llvm::createStringError("no target is called '" + spec.split('{').first +
                                   "'; there are: " + llvm::join(names, ", "));
  }
  StringRef options = spec.drop_front(target->name.size());
  if (options.consume_front("{") && !options.consume_back("}"))
    return llvm::createStringError("target '" + spec + "': expected NAME{OPTIONS}");
  llvm::Expected<codegen::CPUInfo> host = codegen::CPUInfo::get(cpu);
  if (!host)
    return host.takeError();
  return target->create(options, std::move(*host));
}
