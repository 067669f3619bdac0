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
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
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

/* CPUID's answers so far: it takes long, much longer where it is a virtual machine's. */
typedef struct {
  const kiln_cpu *cpu;
  int count;
  struct {
    uint32_t leaf, subleaf;
    kiln_cpuid_registers registers;
  } known[NUM_FEATURES + 2]; /* leaves of features, and the two that tell which there are */
} cpu_answers;

static kiln_cpuid_registers ask(cpu_answers *answers, uint32_t leaf, uint32_t subleaf) {
  for (int i = 0; i < answers->count; ++i)
    if (answers->known[i].leaf == leaf && answers->known[i].subleaf == subleaf)
      return answers->known[i].registers;
  kiln_cpuid_registers answer = {0, 0, 0, 0};
  uint32_t first = leaf & 0x80000000u;
  bool is_there = leaf == first || ask(answers, first, 0).a >= leaf;
  /* Subleaf 0 of these says how many there are. */
  if (is_there && subleaf && leaf == 7)
    is_there = ask(answers, leaf, 0).a >= subleaf;
  if (is_there)
    answer = answers->cpu->cpuid(leaf, subleaf);
  if (is_there && leaf == 0x24)
    answer.b = (1u << (answer.b & 0x1f)) - 1;
  int at = answers->count++;
  answers->known[at].leaf = leaf;
  answers->known[at].subleaf = subleaf;
  answers->known[at].registers = answer;
  return answer;
}

uint64_t kiln_cpu_features(const kiln_cpu *cpu) {
  uint64_t has = 0, saved = 0;
  cpu_answers answers;
  answers.cpu = cpu;
  answers.count = 0;
  if (ask(&answers, 1, 0).c & OSXSAVE)
    saved = cpu->xcr0();
  for (int i = 0; i < NUM_FEATURES; ++i) {
    const cpu_feature *feature = &features[i];
    kiln_cpuid_registers answer = ask(&answers, feature->leaf, feature->subleaf);
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

int32_t kiln_cpu_permit(const kiln_cpu *cpu) {
  bool needs = false;
  for (int i = 0; i < NUM_FEATURES; ++i)
    needs |= features[i].state == KILN_CPU_TILES && (kiln_program.cpu_features >> i & 1);
  int error = needs ? cpu->permit_tiles() : 0;
  if (!error)
    return KILN_OK;
  return kiln_fail(KILN_UNSUPPORTED,
                   "the model was compiled for the CPU '%s', and the operating system does not let "
                   "this process use amx-tile (%s): compile it with --cpu=%s,-amx-tile",
                   kiln_program.cpu, strerror(error), kiln_program.cpu);
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

int kiln_permit_tiles(void) {
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0 ? 0 : errno;
}

int32_t kiln_check_cpu(void) {
  static const kiln_cpu cpu = {ask_cpu, read_xcr0, kiln_permit_tiles};
  if (!kiln_program.cpu_features)
    return KILN_OK;
  int32_t status = kiln_cpu_compare(kiln_cpu_features(&cpu));
  return status == KILN_OK ? kiln_cpu_permit(&cpu) : status;
}
#else
int32_t kiln_check_cpu(void) { return KILN_OK; }
#endif
