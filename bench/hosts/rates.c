/* The rates that products of low precision are compared with, under the commands of protocol.h. Usage: rates read|bf16|int8
 *
 * "read" adds up a buffer that is larger than caches; the others multiply and add pairs of bf16 or fours of bytes on registers, by the
 * instructions that this machine has for them. The program first prints the bytes or the operations of one run. */
#include "protocol.h"

#include <immintrin.h>

/* Chains that hide the latency of an instruction and stay in registers. */
enum { WIDE = 14, NARROW = 12, ROUNDS = 200000, BYTES = 256 << 20 };
static volatile int sink;
static char *buffer;

__attribute__((target("avx512f"), noinline)) static void read_avx512(void) {
  __m512i sums[4] = {0};
  for (size_t i = 0; i < BYTES; i += 256)
    for (int j = 0; j < 4; ++j) {
      sums[j] = _mm512_xor_si512(sums[j], _mm512_load_si512(buffer + i + 64 * j));
      _mm_prefetch(buffer + i + 64 * j + 2048, _MM_HINT_T0);
    }
  sums[0] =
      _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  sink = _mm512_reduce_add_epi32(sums[0]);
}

__attribute__((target("avx2"), noinline)) static void read_avx2(void) {
  __m256i sums[4] = {0};
  for (size_t i = 0; i < BYTES; i += 128) {
    for (int j = 0; j < 4; ++j)
      sums[j] =
          _mm256_xor_si256(sums[j], _mm256_load_si256((const __m256i *)(buffer + i + 32 * j)));
    _mm_prefetch(buffer + i + 2048, _MM_HINT_T0);
    _mm_prefetch(buffer + i + 2112, _MM_HINT_T0);
  }
  sums[0] =
      _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
  sink = _mm256_extract_epi32(sums[0], 0);
}

#define DEFINE_RUN(NAME, TARGET, VECTOR, CHAINS, SET, STEP, FIRST)                                 \
  __attribute__((target(TARGET), noinline)) static void NAME(void) {                               \
    VECTOR a[CHAINS];                                                                              \
    _Pragma("GCC unroll 14") for (int i = 0; i < CHAINS; ++i) a[i] = SET(i);                       \
    for (long round = 0; round < ROUNDS; ++round) {                                                \
      _Pragma("GCC unroll 14") for (int i = 0; i < CHAINS; ++i) a[i] = STEP(a[i]);                 \
    }                                                                                              \
    _Pragma("GCC unroll 14") for (int i = 0; i < CHAINS; ++i) sink += FIRST(a[i]);                 \
  }

#define FIRST_FLOAT(a) (int)_mm512_cvtss_f32(a)
#define FIRST_512(a) _mm_cvtsi128_si32(_mm512_castsi512_si128(a))
#define FIRST_256(a) _mm_cvtsi128_si32(_mm256_castsi256_si128(a))
#define PAIRS(a)                                                                                   \
  _mm512_dpbf16_ps(a, (__m512bh)_mm512_set1_epi32(0x3f803f80),                                     \
                   (__m512bh)_mm512_set1_epi32(0x00010001))
#define FOURS_512(a)                                                                               \
  _mm512_dpbusd_epi32(a, _mm512_set1_epi32(0x01020304), _mm512_set1_epi32(0x01010101))
#define FOURS_256(a)                                                                               \
  _mm256_dpbusd_avx_epi32(a, _mm256_set1_epi32(0x01020304), _mm256_set1_epi32(0x01010101))
#define PAIRS_256(a) _mm256_add_epi32(a, _mm256_madd_epi16(a, _mm256_set1_epi16(3)))
DEFINE_RUN(run_bf16, "avx512f,avx512bf16", __m512, WIDE, _mm512_set1_ps, PAIRS, FIRST_FLOAT)
DEFINE_RUN(run_vnni_512, "avx512f,avx512vnni", __m512i, WIDE, _mm512_set1_epi32, FOURS_512,
           FIRST_512)
DEFINE_RUN(run_vnni_256, "avx2,avxvnni", __m256i, NARROW, _mm256_set1_epi32, FOURS_256, FIRST_256)
DEFINE_RUN(run_madd, "avx2", __m256i, NARROW, _mm256_set1_epi32, PAIRS_256, FIRST_256)

int main(int argc, char **argv) {
  if (argc != 2)
    die("usage", "rates read|bf16|int8");
  void (*run)(void) = NULL;
  long long operations = 0; /* of one round */
  if (strcmp(argv[1], "read") == 0) {
    buffer = aligned_alloc(1 << 21, BYTES);
    if (!buffer)
      die("rates", "no memory");
    memset(buffer, 1, BYTES);
    run = __builtin_cpu_supports("avx512f") ? read_avx512 : read_avx2;
  } else if (strcmp(argv[1], "bf16") == 0) {
    if (!__builtin_cpu_supports("avx512bf16"))
      die("rates", "this processor has no products of bf16");
    run = run_bf16;
    operations = WIDE * 64;
  } else if (__builtin_cpu_supports("avx512vnni")) {
    run = run_vnni_512;
    operations = WIDE * 128;
  } else {
    run = __builtin_cpu_supports("avxvnni") ? run_vnni_256 : run_madd;
    operations = NARROW * (run == run_madd ? 32 : 64);
  }
  printf("%lld\n", operations ? operations * ROUNDS : (long long)BYTES);
  run();
  return serve(run);
}
