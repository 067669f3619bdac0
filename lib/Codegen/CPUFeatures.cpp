// The instruction sets of a CPU for which code is generated, as the bits that the runtime compares
// with those of the machine.
#include "kiln/Codegen/CPUFeatures.h"
#include "../../runtime/cpu_features.h"
#include "Subtarget.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

using namespace llvm;
using namespace kiln;

#define NAME(name, leaf, subleaf, from, bit, state) {name, (state) == KILN_CPU_TILES},
static constexpr std::pair<StringLiteral, bool> features[] = {KILN_CPU_FEATURES(NAME)};
#undef NAME

uint64_t codegen::getCodeFeatures(const CPUInfo &cpu, bool usesTiles) {
  Triple triple(cpu.triple);
  if (!triple.isX86())
    return 0;
  std::unique_ptr<MCSubtargetInfo> subtarget = createSubtarget(triple, cpu.cpu, cpu.features);
  uint64_t needed = 0;
  for (auto [i, feature] : enumerate(features)) {
    auto [name, isOfTiles] = feature;
    if ((usesTiles || !isOfTiles) && subtarget->checkFeatures(("+" + name).str()))
      needed |= uint64_t(1) << i;
  }
  return needed;
}
