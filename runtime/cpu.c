/*===- cpu.c - The CPU that runs a model, and the one it was compiled for ---===*
 *
 * Code for a CPU with more instruction sets would end in SIGILL, somewhere in a
 * run. So a model is refused when it is created, before any of its code runs.
 *
 *===-----------------------------------------------------------------------===*/
#include "cpu.h"
#include "cpu_features.h"
#include "runtime.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

typedef struct {
  const char *name;
  uint32_t leaf, subleaf;
  char from;
  uint8_t bit;
  uint32_t state;
} cpu_feature;

#define ROW(name, leaf, subleaf, from, bit, state) {name, leaf, subleaf, #from[0], bit, state},
static const cpu_feature features[] = {KILN_CPU_FEATURES(ROW)};
enum { NUM_FEATURES = sizeof features / sizeof *features };
_Static_assert(NUM_FEATURES <= 64, "a bit for each");

/*===-- Asking --------------------------------------------------------------===*/

enum { OSXSAVE = 1 << 27 }; /* leaf 1, ecx: XCR0 can be read */

static kiln_cpuid_registers ask(const kiln_cpu *cpu, uint32_t leaf, uint32_t subleaf) {
  kiln_cpuid_registers none = {0, 0, 0, 0};
  if (cpu->cpuid(leaf & 0x80000000u, 0).a < leaf)
    return none;
  /* Subleaf 0 of these says how many there are. */
  if (subleaf && leaf == 7 && cpu->cpuid(leaf, 0).a < subleaf)
    return none;
  kiln_cpuid_registers answer = cpu->cpuid(leaf, subleaf);
  if (leaf == 0x24)
    answer.b = (1u << (answer.b & 0x1f)) - 1;
  return answer;
}

uint64_t kiln_cpu_features(const kiln_cpu *cpu) {
  uint64_t has = 0, saved = 0;
  kiln_cpuid_registers answer = ask(cpu, 1, 0);
  uint32_t leaf = 1, subleaf = 0;
  if (answer.c & OSXSAVE)
    saved = cpu->xcr0();
  for (int i = 0; i < NUM_FEATURES; ++i) {
    const cpu_feature *feature = &features[i];
    if (feature->leaf != leaf || feature->subleaf != subleaf) {
      leaf = feature->leaf;
      subleaf = feature->subleaf;
      answer = ask(cpu, leaf, subleaf);
    }
    uint32_t bits = feature->from == 'a'   ? answer.a
                    : feature->from == 'b' ? answer.b
                    : feature->from == 'c' ? answer.c
                                           : answer.d;
    if (bits >> feature->bit & 1 && (feature->state & ~saved) == 0)
      has |= (uint64_t)1 << i;
  }
  return has;
}

/*===-- Comparing -----------------------------------------------------------===*/

int32_t kiln_cpu_compare(uint64_t has) {
  uint64_t missing = kiln_program.cpu_features & ~has;
  if (!missing)
    return KILN_OK;
  char names[512];
  kiln_text text = {names, sizeof names, 0};
  for (int i = 0; i < NUM_FEATURES; ++i)
    if (missing >> i & 1)
      kiln_append(&text, "%s%s", text.used ? ", " : "", features[i].name);
  const char *level = (has & KILN_CPU_V4) == KILN_CPU_V4   ? "compile it with --cpu=x86-64-v4"
                      : (has & KILN_CPU_V3) == KILN_CPU_V3 ? "compile it with --cpu=x86-64-v3"
                                                           : "no --cpu is below x86-64-v3";
  return kiln_fail(KILN_UNSUPPORTED,
                   "the model was compiled for the CPU '%s', and this machine, or its operating "
                   "system, lacks %s: %s",
                   kiln_program.cpu ? kiln_program.cpu : "", names, level);
}

#if defined(__x86_64__)
static kiln_cpuid_registers ask_cpu(uint32_t leaf, uint32_t subleaf) {
  kiln_cpuid_registers answer;
  __cpuid_count(leaf, subleaf, answer.a, answer.b, answer.c, answer.d);
  return answer;
}

static uint64_t read_xcr0(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

int32_t kiln_check_cpu(void) {
  static const kiln_cpu cpu = {ask_cpu, read_xcr0};
  return kiln_program.cpu_features ? kiln_cpu_compare(kiln_cpu_features(&cpu)) : KILN_OK;
}
#else
int32_t kiln_check_cpu(void) { return KILN_OK; }
#endif
