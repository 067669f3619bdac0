// The cpu dialect: schedules of kernels on CPUs (CPUAttributes.td).
#ifndef KILN_TARGETS_CPU_CPUDIALECT_H
#define KILN_TARGETS_CPU_CPUDIALECT_H

#include "kiln/Codegen/CodegenDialect.h"

#include "kiln/Targets/CPU/CPUDialect.h.inc"
#include "kiln/Targets/CPU/CPUEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Targets/CPU/CPUAttributes.h.inc"

#endif // KILN_TARGETS_CPU_CPUDIALECT_H
