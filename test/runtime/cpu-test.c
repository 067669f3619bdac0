/* CPUs that have what a model's code needs, lack it, or have an operating system that does not save
 * its registers. */
#include "changing.h"
#include "harness.h"

#include <errno.h>

#include "../../runtime/cpu.h"
#include "../../runtime/cpu_features.h"

/* Answers of CPUID: leaf, subleaf, and the registers. */
typedef struct {
  uint32_t leaf, subleaf;
  kiln_cpuid_registers answer;
} answer;

enum { NONE = 0, VECTORS = 0x7, AVX512 = 0xe7, TILES = 0x600e7 };

static const answer *answers;
static uint64_t saved;
static bool reads_xcr0;

/* What was asked so far: nothing twice, since a virtual machine's answers take long. */
static struct {
  uint32_t leaf, subleaf;
} questions[64];
static int num_questions;

static kiln_cpuid_registers cpuid(uint32_t leaf, uint32_t subleaf) {
  for (int i = 0; i < num_questions; ++i)
    CHECK(questions[i].leaf != leaf || questions[i].subleaf != subleaf);
  questions[num_questions].leaf = leaf;
  questions[num_questions++].subleaf = subleaf;
  for (const answer *a = answers; a->leaf != ~0u; ++a)
    if (a->leaf == leaf && a->subleaf == subleaf)
      return a->answer;
  return (kiln_cpuid_registers){0, 0, 0, 0};
}

static uint64_t xcr0(void) {
  reads_xcr0 = true;
  return saved;
}

static uint64_t features_of(const answer *cpu, uint64_t state) {
  static const kiln_cpu asked = {cpuid, xcr0, NULL};
  answers = cpu;
  saved = state;
  reads_xcr0 = false;
  num_questions = 0;
  return kiln_cpu_features(&asked);
}

#define END {~0u, 0, {0, 0, 0, 0}}
#define V3_LEAF_1 {1, 0, {0, 0, 1u << 28 | 1u << 29 | 1u << 12 | 1u << 22 | 1u << 27, 0}}
#define V3_LEAF_7 (1u << 5 | 1u << 3 | 1u << 8)
#define V4_LEAF_7 (V3_LEAF_7 | 1u << 16 | 1u << 30 | 1u << 28 | 1u << 17 | 1u << 31)
#define EXTENDED                                                                                   \
  {0x80000000u, 0, {0x80000001u, 0, 0, 0}}, { 0x80000001u, 0, {0, 0, 1u << 5, 0} }

static const answer haswell[] = {
    {0, 0, {0xd, 0, 0, 0}}, V3_LEAF_1, {7, 0, {0, V3_LEAF_7, 0, 0}}, EXTENDED, END};
static const answer skylake_server[] = {
    {0, 0, {0x16, 0, 0, 0}}, V3_LEAF_1, {7, 0, {0, V4_LEAF_7, 0, 0}}, EXTENDED, END};
static const answer sapphire_rapids[] = {{0, 0, {0x20, 0, 0, 0}},
                                         V3_LEAF_1,
                                         {7, 0, {2, V4_LEAF_7, 0, 1u << 24 | 1u << 25 | 1u << 22}},
                                         {7, 1, {1u << 5 | 1u << 4, 0, 0, 0}},
                                         EXTENDED,
                                         END};
/* AVX10 of this version, and the subleaf 1 of leaf 7 that the maximum says is not there. */
#define AVX10(version)                                                                             \
  {0, 0, {0x24, 0, 0, 0}}, {7, 1, {1u << 4, 0, 0, 0}}, { 0x24, 0, {0, version, 0, 0} }
static const answer avx10_1[] = {AVX10(1), V3_LEAF_1, END}, avx10_2[] = {AVX10(2), V3_LEAF_1, END},
                    avx10_4[] = {AVX10(4), V3_LEAF_1, END};
static const answer old[] = {{0, 0, {6, 0, 0, 0}}, {1, 0, {0, 0, 1u << 22, 0}}, END};

/* The bit of a feature. */
static uint64_t bit_of(const char *name) {
#define NAME(name, ...) name,
  static const char *const names[] = {KILN_CPU_FEATURES(NAME)};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
    if (strcmp(names[i], name) == 0)
      return (uint64_t)1 << i;
  CHECK(!"a feature");
  return 0;
}

static void test_features(void) {
  CHECK(features_of(haswell, VECTORS) == KILN_CPU_V3 && reads_xcr0);
  CHECK(features_of(skylake_server, AVX512) == KILN_CPU_V4);
  uint64_t rapids = features_of(sapphire_rapids, TILES);
  CHECK((rapids & KILN_CPU_V4) == KILN_CPU_V4);
  CHECK((rapids & bit_of("amx-tile")) && (rapids & bit_of("amx-int8")) &&
        (rapids & bit_of("amx-bf16")) && !(rapids & bit_of("amx-fp16")));
  CHECK((rapids & bit_of("avx512bf16")) && (rapids & bit_of("avxvnni")));
  /* The system saves fewer registers than the CPU has. */
  uint64_t tileless = features_of(sapphire_rapids, AVX512);
  CHECK(!(tileless & bit_of("amx-tile")) && (tileless & bit_of("avx512bf16")));
  CHECK(features_of(skylake_server, VECTORS) == KILN_CPU_V3);
  uint64_t vectorless = features_of(haswell, NONE);
  CHECK(vectorless == (bit_of("bmi") | bit_of("bmi2") | bit_of("lzcnt") | bit_of("movbe")));
  /* XCR0 cannot be read, and there is no leaf 7. */
  CHECK(features_of(old, TILES) == bit_of("movbe") && !reads_xcr0);
  CHECK(!(features_of(avx10_1, AVX512) & bit_of("avx10.2")));
  CHECK(features_of(avx10_2, AVX512) & bit_of("avx10.2"));
  CHECK(features_of(avx10_4, AVX512) & bit_of("avx10.2"));
  CHECK(!(features_of(avx10_4, AVX512) & bit_of("avxvnni")));
}

static void test_messages(void) {
  restore();
  changing.cpu = "sapphirerapids";
  changing.cpu_features = features_of(sapphire_rapids, TILES);
  CHECK_OK(kiln_cpu_compare(changing.cpu_features));
  CHECK_OK(kiln_cpu_compare(~(uint64_t)0));
  CHECK_FAILS(kiln_cpu_compare(features_of(sapphire_rapids, AVX512)), KILN_UNSUPPORTED,
              "compiled for the CPU 'sapphirerapids', and this machine, or its operating system, "
              "lacks amx-tile, amx-int8, amx-bf16: compile it with --cpu=x86-64-v4");
  CHECK_FAILS(kiln_cpu_compare(features_of(haswell, VECTORS)), KILN_UNSUPPORTED,
              "lacks avx512f, avx512bw, avx512cd, avx512dq, avx512vl, avx512bf16, avxvnni, "
              "amx-tile, amx-int8, amx-bf16: compile it with --cpu=x86-64-v3");
  CHECK_FAILS(kiln_cpu_compare(features_of(old, NONE)), KILN_UNSUPPORTED,
              "no --cpu is below x86-64-v3");
  changing.cpu = NULL; /* all names fit */
  changing.cpu_features = ~(uint64_t)0;
  CHECK_FAILS(kiln_cpu_compare(0), KILN_UNSUPPORTED, "amx-avx512: no --cpu is below");
}

static int refusal, asked_for_tiles;

static int permit_tiles(void) {
  ++asked_for_tiles;
  return refusal;
}

/* The operating system is asked for tiles by models that need them, and may say no. */
static void test_permission(void) {
  static const kiln_cpu cpu = {cpuid, xcr0, permit_tiles};
  restore();
  changing.cpu = "sapphirerapids";
  changing.cpu_features = features_of(sapphire_rapids, AVX512);
  refusal = ENOSPC; /* a signal's stack is too small */
  CHECK_OK(kiln_cpu_permit(&cpu));
  CHECK(asked_for_tiles == 0);
  changing.cpu_features = features_of(sapphire_rapids, TILES);
  CHECK_FAILS(kiln_cpu_permit(&cpu), KILN_UNSUPPORTED,
              "does not let this process use amx-tile (No space left on device): compile it with "
              "--cpu=sapphirerapids,-amx-tile");
  refusal = 0;
  CHECK_OK(kiln_cpu_permit(&cpu));
  CHECK(asked_for_tiles == 2);
}

/* This machine's instruction sets, by the names in /proc/cpuinfo. */
static void test_this_machine(void) {
#if defined(__x86_64__)
  restore();
  kiln_options options = quiet_options(1);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  kiln_model_destroy(model);
  changing.cpu_features = ~(uint64_t)0; /* which no CPU has */
  CHECK_FAILS(kiln_model_create(&options, &model), KILN_UNSUPPORTED, "this machine");
  CHECK(!model);
  static const char *const names[][2] = {{" avx2 ", "avx2"},
                                         {" avx512f ", "avx512f"},
                                         {" avx512_vnni ", "avx512vnni"},
                                         {" avx512_bf16 ", "avx512bf16"},
                                         {" avx_vnni ", "avxvnni"},
                                         {" amx_tile ", "amx-tile"},
                                         {" gfni ", "gfni"}};
  static char text[1 << 16];
  FILE *file = fopen("/proc/cpuinfo", "r");
  CHECK(file && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    changing.cpu_features = bit_of(names[i][1]);
    CHECK((kiln_check_cpu() == KILN_OK) == (strstr(text, names[i][0]) != NULL));
  }
  if (!strstr(text, " amx_tile "))
    CHECK(kiln_permit_tiles() != 0);
#endif
}

int main(void) {
  test_features();
  test_messages();
  test_permission();
  test_this_machine();
  puts("cpu-test: passed");
  return 0;
}
