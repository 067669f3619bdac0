/*===- cpu_features.h - Instruction sets that code may need -----------------===*
 *
 * The compiler says which of these a model's code may use (kiln_rt_program.cpu_features), by LLVM's
 * names; the runtime asks the CPU for them when a model is created. Instruction sets that LLVM uses
 * only where a program names their instructions (RDSEED, SHA, ...) are not here: models never do.
 * x86-64-v2 is not either: the runtime itself needs it.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CPU_FEATURES_H
#define KILN_RUNTIME_CPU_FEATURES_H

/* Bits of XCR0: registers that the operating system saves. */
#define KILN_CPU_VECTORS 0x6
#define KILN_CPU_AVX512 0xe6
#define KILN_CPU_APX 0x80000
#define KILN_CPU_TILES 0x60000

/* X(LLVM's name, leaf and subleaf of CPUID, register (a, b, c, d), bit, bits of XCR0): feature 0 and
 * so on. AVX10's version is read as if each had a bit, from version 1 at bit 0. */
#define KILN_CPU_FEATURES(X)                                                                       \
  X("avx", 1, 0, c, 28, KILN_CPU_VECTORS)                                                          \
  X("avx2", 7, 0, b, 5, KILN_CPU_VECTORS)                                                          \
  X("bmi", 7, 0, b, 3, 0)                                                                          \
  X("bmi2", 7, 0, b, 8, 0)                                                                         \
  X("f16c", 1, 0, c, 29, KILN_CPU_VECTORS)                                                         \
  X("fma", 1, 0, c, 12, KILN_CPU_VECTORS)                                                          \
  X("lzcnt", 0x80000001, 0, c, 5, 0)                                                               \
  X("movbe", 1, 0, c, 22, 0)                                                                       \
  X("avx512f", 7, 0, b, 16, KILN_CPU_AVX512)                                                       \
  X("avx512bw", 7, 0, b, 30, KILN_CPU_AVX512)                                                      \
  X("avx512cd", 7, 0, b, 28, KILN_CPU_AVX512)                                                      \
  X("avx512dq", 7, 0, b, 17, KILN_CPU_AVX512)                                                      \
  X("avx512vl", 7, 0, b, 31, KILN_CPU_AVX512)                                                      \
  X("avx512ifma", 7, 0, b, 21, KILN_CPU_AVX512)                                                    \
  X("avx512vbmi", 7, 0, c, 1, KILN_CPU_AVX512)                                                     \
  X("avx512vbmi2", 7, 0, c, 6, KILN_CPU_AVX512)                                                    \
  X("avx512vnni", 7, 0, c, 11, KILN_CPU_AVX512)                                                    \
  X("avx512bitalg", 7, 0, c, 12, KILN_CPU_AVX512)                                                  \
  X("avx512vpopcntdq", 7, 0, c, 14, KILN_CPU_AVX512)                                               \
  X("avx512fp16", 7, 0, d, 23, KILN_CPU_AVX512)                                                    \
  X("avx512bf16", 7, 1, a, 5, KILN_CPU_AVX512)                                                     \
  X("avx10.2", 0x24, 0, b, 1, KILN_CPU_AVX512)                                                     \
  X("avxvnni", 7, 1, a, 4, KILN_CPU_VECTORS)                                                       \
  X("avxvnniint8", 7, 1, d, 4, KILN_CPU_VECTORS)                                                   \
  X("avxvnniint16", 7, 1, d, 10, KILN_CPU_VECTORS)                                                 \
  X("avxifma", 7, 1, a, 23, KILN_CPU_VECTORS)                                                      \
  X("avxneconvert", 7, 1, d, 5, KILN_CPU_VECTORS)                                                  \
  X("gfni", 7, 0, c, 8, 0)                                                                         \
  X("pclmul", 1, 0, c, 1, 0)                                                                       \
  X("vpclmulqdq", 7, 0, c, 10, KILN_CPU_VECTORS)                                                   \
  X("sse4a", 0x80000001, 0, c, 6, 0)                                                               \
  X("xop", 0x80000001, 0, c, 11, KILN_CPU_VECTORS)                                                 \
  X("fma4", 0x80000001, 0, c, 16, KILN_CPU_VECTORS)                                                \
  X("tbm", 0x80000001, 0, c, 21, 0)                                                                \
  X("egpr", 7, 1, d, 21, KILN_CPU_APX)                                                             \
  X("amx-tile", 7, 0, d, 24, KILN_CPU_TILES)                                                       \
  X("amx-int8", 7, 0, d, 25, KILN_CPU_TILES)                                                       \
  X("amx-bf16", 7, 0, d, 22, KILN_CPU_TILES)                                                       \
  X("amx-fp16", 7, 1, a, 21, KILN_CPU_TILES)                                                       \
  X("amx-complex", 7, 1, d, 8, KILN_CPU_TILES)                                                     \
  X("amx-fp8", 0x1e, 1, a, 4, KILN_CPU_TILES)                                                      \
  X("amx-tf32", 0x1e, 1, a, 6, KILN_CPU_TILES)                                                     \
  X("amx-avx512", 0x1e, 1, a, 7, KILN_CPU_TILES)

/* The first are those of x86-64-v3, and with the next those of x86-64-v4. */
#define KILN_CPU_V3 0xffu
#define KILN_CPU_V4 0x1fffu

#endif /* KILN_RUNTIME_CPU_FEATURES_H */
