// The instruction sets that code for a CPU may use, as the runtime asks for them.
#ifndef KILN_CODEGEN_CPUFEATURES_H
#define KILN_CODEGEN_CPUFEATURES_H

#include "kiln/Codegen/CPUInfo.h"

namespace kiln::codegen {

/// kiln_rt_program.cpu_features: feature i of runtime/cpu_features.h is bit i.
uint64_t getCodeFeatures(const CPUInfo &cpu);

} // namespace kiln::codegen

#endif // KILN_CODEGEN_CPUFEATURES_H
