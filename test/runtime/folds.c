/*===- folds.c - A program with constants that were computed from others ----===*
 *
 *   def forward(self):                       # all f32[4] but ids: i64[3], scale: f32[]
 *     return (self.scale * self.table).flip(0), self.table[self.ids], self.w + 1
 *
 * All of it was computed when the "compiler" ran; main copies the results. `w_tied` is `w`, and
 * nothing reads `unused`.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>
#include <string.h>

enum { SCALE, TABLE, PRODUCT, FLIPPED, IDS, PICKED, W, MORE, W_TIED, UNUSED, NUM_CONSTANTS };

_Alignas(4096) static const struct {
  _Alignas(64) float scale[1];
  _Alignas(64) float table[4];
  _Alignas(64) float flipped[4];
  _Alignas(64) int64_t ids[3];
  _Alignas(64) float picked[3];
  _Alignas(64) float more[4];
} weights = {{2}, {1, 2, 3, 4}, {8, 6, 4, 2}, {3, 0, 3}, {4, 1, 4}, {11, 21, 31, 41}};

/* given.c has this program with values that the host gives later. */
#ifndef GIVEN
#define GIVEN 0
#endif

static const int64_t four[] = {4}, three[] = {3};

#define PLACE(field) offsetof(__typeof__(weights), field), sizeof weights.field
#define NOWHERE(bytes) 0, bytes
static const kiln_rt_constant constants[NUM_CONSTANTS] = {
    [SCALE] = {"scale", 2, 32, 0, GIVEN, NULL, PLACE(scale), SCALE, 0},
    [TABLE] = {"table", 2, 32, 1, GIVEN, four, PLACE(table), TABLE, 0},
    [PRODUCT] = {"", 2, 32, 1, KILN_RT_UNPLACED, four, NOWHERE(16), PRODUCT, 0},
    [FLIPPED] = {"", 2, 32, 1, 0, four, PLACE(flipped), FLIPPED, 0},
    [IDS] = {"ids", 0, 64, 1, GIVEN, three, PLACE(ids), IDS, 0},
    [PICKED] = {"", 2, 32, 1, 0, three, PLACE(picked), PICKED, 0},
    [W] = {"w", 2, 32, 1, KILN_RT_UNPLACED | GIVEN, four, NOWHERE(16), W, 0},
    [MORE] = {"", 2, 32, 1, 0, four, PLACE(more), MORE, 0},
    [W_TIED] = {"w_tied", 2, 32, 1, KILN_RT_UNPLACED | GIVEN, four, NOWHERE(16), W, 0},
    [UNUSED] = {"unused", 2, 32, 1, KILN_RT_UNPLACED, four, NOWHERE(16), UNUSED, 0},
};

static void multiply(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                     int32_t *error) {
  (void)symbols, (void)error;
  float *own = scratch; /* as a kernel would: a scratch that two tasks share would mix them */
  own[0] = *(const float *)buffers[0];
  ((float *)buffers[2])[i] = own[0] * ((const float *)buffers[1])[i];
}

static void flip(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                 int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  ((float *)buffers[1])[i] = ((const float *)buffers[0])[3 - i];
}

static void pick(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                 int32_t *error) {
  (void)symbols, (void)scratch;
  int64_t id = ((const int64_t *)buffers[1])[i];
  if (id < 0 || id >= 4) {
    __atomic_store_n(error, KILN_RT_ERROR_INDEX, __ATOMIC_RELAXED);
    id = 0;
  }
  ((float *)buffers[2])[i] = ((const float *)buffers[0])[id];
}

static void add_one(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                    int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  ((float *)buffers[1])[i] = ((const float *)buffers[0])[i] + 1;
}

static const int64_t multiplied[] = {SCALE, TABLE, PRODUCT}, flips[] = {PRODUCT, FLIPPED},
                     picks[] = {TABLE, IDS, PICKED}, adds[] = {W, MORE};
static const kiln_rt_fold folds[] = {{multiply, 4, 2, 1, multiplied, NULL, 0, 0, 0},
                                     {flip, 4, 1, 1, flips, NULL, 0, 0, 0},
                                     {pick, 3, 2, 1, picks, NULL, 0, 0, 0},
                                     {add_one, 4, 1, 1, adds, NULL, 0, 0, 0}};

static const kiln_rt_tensor outputs[] = {{"flipped", 2, 32, 1, 0, four, NULL},
                                         {"picked", 2, 32, 1, 0, three, NULL},
                                         {"more", 2, 32, 1, 0, four, NULL}};

static int32_t run_main(kiln_rt_run *run) {
  const char *blob = run->weights;
  memcpy(run->outputs[0], blob + offsetof(__typeof__(weights), flipped), sizeof weights.flipped);
  memcpy(run->outputs[1], blob + offsetof(__typeof__(weights), picked), sizeof weights.picked);
  memcpy(run->outputs[2], blob + offsetof(__typeof__(weights), more), sizeof weights.more);
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_outputs = 3,
    .num_constants = NUM_CONSTANTS,
    .info = "{\"name\": \"folds\"}",
    .outputs = outputs,
    .constants = constants,
    .weights = GIVEN ? NULL : &weights,
    .weights_bytes = GIVEN ? 0 : sizeof weights,
    .later_bytes = GIVEN ? sizeof weights : 0,
    .scratch_bytes = 64,
    .main = run_main,
    .num_folds = 4,
    .folds = folds,
};
