/*===- layouts.c - A program that has its parameters in other layouts -------===*
 *
 *   def forward(self):
 *     return <all bytes of the weights>
 *
 * `panels` (f32[5, 3], also called `tied`) is stored in panels of four rows and transposed, `bytes`
 * (u8[6, 4]) in one panel of eight rows, four bytes each. `doubled` and `lost` are multiplied by
 * two, which is all that there is of the latter; `chained` is transposed and then doubled. `vector`
 * (f32[3]) has a gap behind each element.
 *
 *===-----------------------------------------------------------------------===*/
#include "layouts.h"

#include <stddef.h>
#include <string.h>

enum {
  PLAIN,
  PANELS,
  IN_PANELS,
  TRANSPOSED,
  BYTES,
  IN_BYTES,
  DOUBLED,
  TWICE,
  LOST,
  LOST_TWICE,
  CHAINED,
  BETWEEN,
  CHAINED_TWICE,
  SCALAR,
  EMPTY,
  TIED,
  VECTOR,
  IN_PAIRS,
  NUM_CONSTANTS
};

_Alignas(4096) static const layouts weights = {.doubled = {1, 2, 3, 4}, .twice = {2, 4, 6, 8}};

static const int64_t plain[] = {4, 2}, panels[] = {5, 3}, in_panels[] = {2, 3, 4},
                     transposed[] = {3, 5}, bytes[] = {6, 4}, in_bytes[] = {8, 4}, four[] = {4},
                     empty[] = {3, 0}, between[] = {2, 4}, three[] = {3}, in_pairs[] = {3, 2};

#define PLACE(field) offsetof(layouts, field), sizeof weights.field
#define NOWHERE(bytes) 0, bytes
#define ALL KILN_RT_UNPLACED
static const kiln_rt_constant constants[NUM_CONSTANTS] = {
    [PLAIN] = {"plain", 2, 32, 2, 0, plain, PLACE(plain), PLAIN, 0},
    [PANELS] = {"panels", 2, 32, 2, ALL, panels, NOWHERE(60), PANELS, 0},
    [IN_PANELS] = {"", 2, 32, 3, 0, in_panels, PLACE(in_panels), IN_PANELS, 0},
    [TRANSPOSED] = {"", 2, 32, 2, 0, transposed, PLACE(transposed), TRANSPOSED, 0},
    [BYTES] = {"bytes", 1, 8, 2, ALL, bytes, NOWHERE(24), BYTES, 0},
    [IN_BYTES] = {"", 1, 8, 2, 0, in_bytes, PLACE(in_bytes), IN_BYTES, 0},
    [DOUBLED] = {"doubled", 2, 32, 1, 0, four, PLACE(doubled), DOUBLED, 0},
    [TWICE] = {"", 2, 32, 1, 0, four, PLACE(twice), TWICE, 0},
    [LOST] = {"lost", 2, 32, 1, ALL, four, NOWHERE(16), LOST, 0},
    [LOST_TWICE] = {"", 2, 32, 1, 0, four, PLACE(lost_twice), LOST_TWICE, 0},
    [CHAINED] = {"chained", 2, 32, 2, ALL, plain, NOWHERE(32), CHAINED, 0},
    [BETWEEN] = {"", 2, 32, 2, ALL, between, NOWHERE(32), BETWEEN, 0},
    [CHAINED_TWICE] = {"", 2, 32, 2, 0, between, PLACE(chained_twice), CHAINED_TWICE, 0},
    [SCALAR] = {"scalar", 2, 32, 0, 0, NULL, PLACE(scalar), SCALAR, 0},
    [EMPTY] = {"empty", 2, 32, 2, 0, empty, 0, 0, EMPTY, 0},
    [TIED] = {"tied", 2, 32, 2, ALL, panels, NOWHERE(60), PANELS, 0},
    [VECTOR] = {"vector", 2, 32, 1, ALL, three, NOWHERE(12), VECTOR, 0},
    [IN_PAIRS] = {"", 2, 32, 2, 0, in_pairs, PLACE(in_pairs), IN_PAIRS, 0},
};

#define KERNEL(name)                                                                               \
  static void name(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,         \
                   int32_t *error)
#define UNUSED (void)symbols, (void)scratch, (void)error, (void)i

KERNEL(pack) {
  UNUSED;
  const float *from = buffers[0];
  float *to = buffers[1];
  for (int p = 0; p < 2; ++p)
    for (int k = 0; k < 3; ++k)
      for (int c = 0; c < 4; ++c)
        *to++ = 4 * p + c < 5 ? from[3 * (4 * p + c) + k] : 0;
}
KERNEL(transpose) {
  UNUSED;
  for (int e = 0; e < 15; ++e)
    ((float *)buffers[1])[e] = ((const float *)buffers[0])[e % 5 * 3 + e / 5];
}
KERNEL(pack_bytes) {
  UNUSED;
  memset(buffers[1], 0, 32);
  memcpy(buffers[1], buffers[0], 24);
}
KERNEL(transpose_chained) {
  UNUSED;
  for (int e = 0; e < 8; ++e)
    ((float *)buffers[1])[e] = ((const float *)buffers[0])[e % 4 * 2 + e / 4];
}
KERNEL(spread) {
  UNUSED;
  for (int e = 0; e < 6; ++e)
    ((float *)buffers[1])[e] = e % 2 ? 0 : ((const float *)buffers[0])[e / 2];
}
KERNEL(twice) {
  UNUSED;
  ((float *)buffers[1])[i] = 2 * ((const float *)buffers[0])[i];
}

/* Divisor, size, stride, row. */
static const int64_t panel_layout[] = {1, 4, 1, 1, 1, 3, 4, 0, 4, 2, 12, 1};
static const int64_t transposed_layout[] = {1, 5, 1, 1, 1, 3, 5, 0};
static const int64_t byte_layout[] = {1, 4, 1, 0, 1, 8, 4, 1};
static const int64_t pair_layout[] = {1, 3, 2, 1}; /* a row is one element */
static const int64_t chained_layout[] = {1, 4, 1, 1, 1, 2, 4, 0};
static const int64_t packs[] = {PANELS, IN_PANELS}, transposes[] = {PANELS, TRANSPOSED},
                     packs_bytes[] = {BYTES, IN_BYTES}, doubles[] = {DOUBLED, TWICE},
                     loses[] = {LOST, LOST_TWICE}, chains[] = {CHAINED, BETWEEN},
                     ends[] = {BETWEEN, CHAINED_TWICE}, spreads[] = {VECTOR, IN_PAIRS};
static const kiln_rt_fold folds[] = {
    {pack, 1, 1, 1, packs, panel_layout, 3, 0, 0},
    {transpose, 1, 1, 1, transposes, transposed_layout, 2, 0, 0},
    {pack_bytes, 1, 1, 1, packs_bytes, byte_layout, 2, 0, 0},
    {twice, 4, 1, 1, doubles, NULL, 0, 0, 0},
    {twice, 4, 1, 1, loses, NULL, 0, 0, 0},
    {transpose_chained, 1, 1, 1, chains, chained_layout, 2, 0, 0},
    {twice, 8, 1, 1, ends, NULL, 0, 0, 0},
    {spread, 1, 1, 1, spreads, pair_layout, 1, 0, 0},
};

static const int64_t all[] = {sizeof weights};
static const kiln_rt_tensor outputs[] = {{"all", 1, 8, 1, 0, all, NULL}};

static int32_t run_main(kiln_rt_run *run) {
  memcpy(run->outputs[0], run->weights, sizeof weights);
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_outputs = 1,
    .num_constants = NUM_CONSTANTS,
    .info = "{\"name\": \"layouts\"}",
    .outputs = outputs,
    .constants = constants,
    .weights = &weights,
    .weights_bytes = sizeof weights,
    .main = run_main,
    .num_folds = sizeof folds / sizeof *folds,
    .folds = folds,
};
