// The instruction sets that code for a CPU may use, as the runtime asks for them.
#ifndef KILN_CODEGEN_CPUFEATURES_H
#define KILN_CODEGEN_CPUFEATURES_H

#include "kiln/Codegen/CPUInfo.h"

namespace kiln::codegen {

/// kiln_rt_program.cpu_features: feature i of runtime/cpu_features.h is bit i. Those of tiles, which
/// LLVM uses only where a program names their instructions, are there if code has such.
uint64_t getCodeFeatures(const CPUInfo &cpu, bool usesTiles);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_CPUFEATURES_H
