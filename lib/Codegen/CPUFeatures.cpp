// The instruction sets of a CPU for which code is generated, as the bits that the runtime compares
// with those of the machine.
#include "kiln/Codegen/CPUFeatures.h"
#include "../../runtime/cpu_features.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

using namespace llvm;
using namespace kiln;

#define NAME(name, ...) name,
static constexpr StringLiteral names[] = {KILN_CPU_FEATURES(NAME)};
#undef NAME

uint64_t codegen::getCodeFeatures(const CPUInfo &cpu) {
  if (!Triple(cpu.triple).isX86())
    return 0;
  std::unique_ptr<TargetMachine> machine = cpu.createTargetMachine(OptLevel::O2);
  uint64_t features = 0;
  for (auto [i, name] : enumerate(names))
    if (machine->getMCSubtargetInfo()->checkFeatures(("+" + name).str()))
      features |= uint64_t(1) << i;
  return features;
}
