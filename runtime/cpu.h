/*===- cpu.h - The CPU that runs a model ------------------------------------===*/
#ifndef KILN_RUNTIME_CPU_H
#define KILN_RUNTIME_CPU_H

#include <stdint.h>

typedef struct {
  uint32_t a, b, c, d;
} kiln_cpuid_registers;

/* A CPU's answers, and the registers that its operating system saves. */
typedef struct {
  kiln_cpuid_registers (*cpuid)(uint32_t leaf, uint32_t subleaf);
  uint64_t (*xcr0)(void);
  int (*permit_tiles)(void); /* 0, or errno */
} kiln_cpu;

/* The features of cpu_features.h that a CPU has, feature i as bit i. */
uint64_t kiln_cpu_features(const kiln_cpu *cpu);
/* Fails if the model's code needs more than these. */
int32_t kiln_cpu_compare(uint64_t has);
/* Asks the operating system for the registers that a process has only if it asks. Fails if the model's
 * code needs them and it refuses. */
int32_t kiln_cpu_permit(const kiln_cpu *cpu);
/* Both, with this machine's features. */
int32_t kiln_check_cpu(void);

#if defined(__x86_64__)
/* Lets this process use tiles (AMX): 0, or errno. Once it may, it may be asked again. */
int kiln_permit_tiles(void);
#endif

#endif /* KILN_RUNTIME_CPU_H */
