/* The rates that products of low precision are compared with, under the commands of protocol.h. Usage: rates read|bf16|int8
 *
 * "read" adds up a buffer that is larger than caches; the others multiply and add pairs of bf16 or fours of bytes on registers, by the
 * instructions that this machine has for them, in tiles where it has those. The program first prints the bytes or the operations of
 * one run. */
#include "protocol.h"

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

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
/* The two stay together: a compiler that puts all products first has no registers left for the sums. */
__attribute__((target("avx2"), always_inline)) static inline __m256i add_pairs(__m256i a) {
  __m256i product;
  __asm__("vpmaddwd %2, %0, %1\n\tvpaddd %1, %0, %0"
          : "+x"(a), "=&x"(product)
          : "x"(_mm256_set1_epi16(3)));
  return a;
}
DEFINE_RUN(run_bf16, "avx512f,avx512bf16", __m512, WIDE, _mm512_set1_ps, PAIRS, FIRST_FLOAT)
DEFINE_RUN(run_vnni_512, "avx512f,avx512vnni", __m512i, WIDE, _mm512_set1_epi32, FOURS_512,
           FIRST_512)
DEFINE_RUN(run_vnni_256, "avx2,avxvnni", __m256i, NARROW, _mm256_set1_epi32, FOURS_256, FIRST_256)
DEFINE_RUN(run_madd, "avx2", __m256i, NARROW, _mm256_set1_epi32, add_pairs, FIRST_256)

/* Products of 16 rows, 16 columns and 16 words, into four tiles of sums as kernels have them. */
enum { TILE_ROUNDS = ROUNDS / 8 };
struct tile_config {
  unsigned char palette, start_row, reserved[14];
  unsigned short row_bytes[16];
  unsigned char rows[16];
};

/* Constants in memory: GCC takes an instruction that reads one for a reader of its first bytes. */
#define ALL(x) {x, x, x, x, x, x, x, x}
static const struct tile_config config = {1, 0, {0}, ALL(64), ALL(16)};
/* Numbers such as models have: products of zeros need less power, and run at a higher clock. */
enum { TILE = 512, TILES = 4 };
static unsigned short operands[TILES * TILE];

static void fill_operands(int is_bf16) {
  unsigned state = 1;
  for (int i = 0; i < TILES * TILE; ++i) {
    state = state * 1664525 + 1013904223;
    /* Numbers of either sign, from 1/2 to 2. */
    operands[i] = is_bf16 ? 0x3f00 | (state >> 16 & 0x80ff) : state >> 16;
  }
}

#define DEFINE_TILES(NAME, TARGET, PRODUCT)                                                        \
  __attribute__((target(TARGET), noinline)) static void NAME(void) {                               \
    _tile_loadconfig(&config);                                                                     \
    _tile_loadd(4, operands, 64);                                                                  \
    _tile_loadd(5, operands + 1 * TILE, 64);                                                       \
    _tile_loadd(6, operands + 2 * TILE, 64);                                                       \
    _tile_loadd(7, operands + 3 * TILE, 64);                                                       \
    for (long round = 0; round < TILE_ROUNDS; ++round) {                                           \
      PRODUCT(0, 4, 6);                                                                            \
      PRODUCT(1, 4, 7);                                                                            \
      PRODUCT(2, 5, 6);                                                                            \
      PRODUCT(3, 5, 7);                                                                            \
    }                                                                                              \
    _tile_release();                                                                               \
  }
DEFINE_TILES(run_tiles_bf16, "amx-tile,amx-bf16", _tile_dpbf16ps)
DEFINE_TILES(run_tiles_int8, "amx-tile,amx-int8", _tile_dpbusd)

/* The kernel gives a process the state for tiles on request. */
static int has_tiles(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return __builtin_cpu_supports("amx-tile") &&
         syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

int main(int argc, char **argv) {
  if (argc != 2)
    die("usage", "rates read|bf16|int8");
  void (*run)(void) = NULL;
  long long operations = 0; /* of one run */
  if (strcmp(argv[1], "read") == 0) {
    buffer = aligned_alloc(1 << 21, BYTES);
    if (!buffer)
      die("rates", "no memory");
    memset(buffer, 1, BYTES);
    run = __builtin_cpu_supports("avx512f") ? read_avx512 : read_avx2;
  } else if (strcmp(argv[1], "bf16") == 0 && has_tiles()) {
    run = run_tiles_bf16;
    fill_operands(1);
    operations = TILE_ROUNDS * 4LL * 2 * 16 * 16 * 32;
  } else if (strcmp(argv[1], "bf16") == 0) {
    if (!__builtin_cpu_supports("avx512bf16"))
      die("rates", "this processor has no products of bf16");
    run = run_bf16;
    operations = ROUNDS * WIDE * 64LL;
  } else if (has_tiles()) {
    run = run_tiles_int8;
    fill_operands(0);
    operations = TILE_ROUNDS * 4LL * 2 * 16 * 16 * 64;
  } else if (__builtin_cpu_supports("avx512vnni")) {
    run = run_vnni_512;
    operations = ROUNDS * WIDE * 128LL;
  } else {
    run = __builtin_cpu_supports("avxvnni") ? run_vnni_256 : run_madd;
    operations = ROUNDS * NARROW * (run == run_madd ? 32LL : 64LL);
  }
  printf("%lld\n", operations ? operations : (long long)BYTES);
  run();
  return serve(run);
}
