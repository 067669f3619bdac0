/* The rate at which one core multiplies and adds fp32: independent chains of fused multiply-adds on
 * registers, as many as hide their latency. Under the commands of protocol.h; a run is RUN_FMAS
 * vector operations, and the program first prints the floating-point operations of one run. */
#include "protocol.h"

#include <immintrin.h>

enum { CHAINS = 12, ROUNDS = 200000 };
static volatile float sink;

#define DEFINE_RUN(NAME, TARGET, VECTOR, SET, FMA, FIRST)                                          \
  __attribute__((target(TARGET), noinline)) static void NAME(void) {                               \
    VECTOR a[CHAINS], x = SET(0.999999f), y = SET(1e-7f);                                          \
    for (int i = 0; i < CHAINS; ++i)                                                               \
      a[i] = SET((float)i);                                                                        \
    for (long round = 0; round < ROUNDS; ++round) {                                                \
      _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; ++i) a[i] = FMA(a[i], x, y);            \
    }                                                                                              \
    for (int i = 1; i < CHAINS; ++i)                                                               \
      a[0] = FMA(a[i], x, a[0]);                                                                   \
    sink = FIRST(a[0]);                                                                            \
  }

DEFINE_RUN(run_avx512, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_cvtss_f32)
DEFINE_RUN(run_avx2, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_cvtss_f32)

int main(void) {
  int wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("fma"))
    die("peak", "this processor has no fused multiply-add");
  printf("%lld\n", 2LL * CHAINS * ROUNDS * (wide ? 16 : 8));
  void (*run)(void) = wide ? run_avx512 : run_avx2;
  run();
  return serve(run);
}
