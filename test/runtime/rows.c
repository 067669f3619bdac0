/*===- rows.c - A hand-written program: what code generation would emit -----===*
 *
 *   def forward(x: f32[s0, 8], ids: i64[s0], state: f32[4, 4], scale: float):
 *     state.add_(1)
 *     y = x * scale + w                      # w: f32[8], a parameter
 *     return y, x.gather(1, ids[:, None])[:, 0], None, y.t()
 *
 * with 1 <= s0 <= 100000. One kernel computes a row through scratch memory, and
 * another copies y to the arena, from where it
 * goes to the transposed output.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>
#include <string.h>

enum { COLUMNS = 8, SCRATCH = 1000 };

_Alignas(4096) static const struct {
  float w[COLUMNS];
} weights = {{1, 2, 3, 4, 5, 6, 7, 8}};

static const int64_t x_shape[] = {-1, COLUMNS}, ids_shape[] = {-1}, state_shape[] = {4, 4};
static const int64_t y_shape[] = {-1, COLUMNS}, picked_shape[] = {-1};
static const int64_t t_shape[] = {COLUMNS, -1}, t_strides[] = {1, COLUMNS};
static const int64_t w_shape[] = {COLUMNS};

static const kiln_rt_tensor inputs[] = {
    {"x", 2, 32, 2, 0, x_shape, NULL},
    {"ids", 0, 64, 1, 0, ids_shape, NULL},
    {"state", 2, 32, 2, KILN_RT_MUTATED, state_shape, NULL},
    {"scale", 2, 64, 0, KILN_RT_SCALAR, NULL, NULL},
};
static const kiln_rt_tensor outputs[] = {
    {"y", 2, 32, 2, 0, y_shape, NULL},
    {"picked", 2, 32, 1, 0, picked_shape, NULL},
    {"nothing", 0, 0, 0, KILN_RT_NONE, NULL, NULL},
    {"t", 2, 32, 2, 0, t_shape, t_strides},
};
static const kiln_rt_constant constants[] = {
    {"w", 2, 32, 1, 0, w_shape, 0, sizeof weights, 0, 0},
    {"unused", 2, 32, 1, KILN_RT_UNPLACED, w_shape, 0, sizeof weights, 1, 0},
};
static const kiln_rt_symbol symbols[] = {{"s0", 1, 100000}};
static const char *const expressions[] = {"s0", "32*s0"};

static const char info[] =
    "{\"name\": \"rows\", \"target\": \"cpu\", \"abi\": 1, \"compiler\": \"none\", \"inputs\": ["
    "{\"name\": \"x\", \"dtype\": \"float32\", \"shape\": [\"s0\", 8], \"device\": \"cpu\"}, "
    "{\"name\": \"ids\", \"dtype\": \"int64\", \"shape\": [\"max(s0, 2*s0 - s0) floordiv 1\"], "
    "\"device\": \"cpu\"}, "
    "{\"name\": \"state\", \"dtype\": \"float32\", \"shape\": [4, 4], \"device\": \"cpu\", "
    "\"mutated\": true}, "
    "{\"name\": \"scale\", \"dtype\": \"float64\", \"shape\": [], \"device\": \"cpu\"}], "
    "\"outputs\": ["
    "{\"name\": \"y\", \"dtype\": \"float32\", \"shape\": [\"s0\", 8], \"device\": \"cpu\"}, "
    "{\"name\": \"picked\", \"dtype\": \"float32\", \"shape\": [\"s0\"], \"device\": \"cpu\"}, "
    "{\"name\": \"nothing\", \"dtype\": null, \"shape\": null, \"device\": null}, "
    "{\"name\": \"t\", \"dtype\": \"float32\", \"shape\": [8, \"s0\"], \"device\": \"cpu\"}], "
    "\"symbols\": {\"s0\": {\"min\": 1, \"max\": 100000}, \"u0\": {\"min\": 0, \"max\": null}}, "
    "\"constants\": ["
    "{\"name\": \"w\", \"dtype\": \"float32\", \"shape\": [8]}, "
    "{\"name\": \"unused\", \"dtype\": \"float32\", \"shape\": [8]}]}";

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  return 0;
}

static int64_t eval(const int64_t *values, int64_t expr) {
  return expr == 0 ? values[0] : 32 * values[0];
}

static int64_t sizes(int64_t *values) { return eval(values, 1); }

/* buffers: x, ids, scale, w, y, picked */
static void row(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                int32_t *error) {
  (void)values;
  const float *x = (const float *)buffers[0] + COLUMNS * i;
  int64_t id = ((const int64_t *)buffers[1])[i];
  double scale = *(const double *)buffers[2];
  const float *w = buffers[3];
  float *y = (float *)buffers[4] + COLUMNS * i;
  int64_t *own = scratch;
  for (int c = 0; c < SCRATCH / 8; ++c)
    own[c] = i; /* a scratch that two tasks share would mix their rows */
  for (int c = 0; c < COLUMNS; ++c)
    y[c] = (float)(x[c] * scale) + w[c] + (float)(own[c * (SCRATCH / 8 / COLUMNS)] - i);
  if (id < 0 || id >= COLUMNS) {
    __atomic_store_n(error, KILN_RT_ERROR_INDEX, __ATOMIC_RELAXED);
    id = id < 0 ? 0 : COLUMNS - 1;
  }
  ((float *)buffers[5])[i] = x[id];
}

/* buffers: from, to */
static void copy_row(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                     int32_t *error) {
  (void)values, (void)scratch, (void)error;
  memcpy((float *)buffers[1] + COLUMNS * i, (const float *)buffers[0] + COLUMNS * i, 32);
}

static int32_t run_main(kiln_rt_run *run) {
  int64_t rows = run->symbols[0];
  float *state = run->inputs[2];
  for (int i = 0; i < 16; ++i)
    state[i] += 1;
  if (state[0] < 0)
    return kiln_rt_fail(run, 6, "expected state[0] >= 0");
  void *const compute[] = {run->inputs[0], run->inputs[1],  run->inputs[3],
                           run->weights,   run->outputs[0], run->outputs[1]};
  int32_t status = kiln_rt_launch(run, row, compute, rows, 0);
  if (status)
    return status;
  void *const to_arena[] = {run->outputs[0], run->arena};
  status = kiln_rt_launch(run, copy_row, to_arena, rows, 1);
  if (status)
    return status;
  const int64_t sizes[] = {rows, COLUMNS}, strides[] = {COLUMNS, 1};
  kiln_rt_copy(run->outputs[3], strides, run->arena, strides, sizes, 2, sizeof(float));
  return 0;
}

/* The first kernel moves x, an id, the scale, w, y and picked. */
static const char texts[] = "row\0copy_row\0node 'y' (m.py:3)\0node 't' (m.py:4)";
static const kiln_rt_profile_kernel profiled_kernels[] = {{0, 0, 6}, {4, 7, 2}};
static const kiln_rt_profile_step profiled_steps[] = {{0, 13}, {1, 31}};
static const int64_t costs[] = {-1, -2, -3, 8, 32, -2, -4, 0, -2, KILN_RT_UNKNOWN};

static int64_t eval_cost(const int64_t *values, int64_t expr) {
  return (expr == 0 ? 16 : expr == 1 ? 32 : expr == 2 ? 8 : 4) * values[0];
}

static const kiln_rt_profile profile = {profiled_steps, profiled_kernels, costs,
                                        texts,          eval_cost,        2};

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .profile = &profile,
    .num_inputs = 4,
    .num_outputs = 4,
    .num_constants = 2,
    .num_symbols = 1,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = info,
    .inputs = inputs,
    .outputs = outputs,
    .constants = constants,
    .symbols = symbols,
    .weights = &weights,
    .weights_bytes = sizeof weights,
    .scratch_bytes = SCRATCH,
    .bind = bind,
    .eval = eval,
    .sizes = sizes,
    .main = run_main,
    .num_expressions = 2,
    .expressions = expressions,
};

/*===-- The same as steps ---------------------------------------------------===*/

static int32_t run_row(kiln_rt_run *run, void *const *buffers) {
  return kiln_rt_launch(run, row, buffers, run->symbols[0], KILN_RT_NO_STEP);
}

static int32_t run_copy_row(kiln_rt_run *run, void *const *buffers) {
  return kiln_rt_launch(run, copy_row, buffers, run->symbols[0], KILN_RT_NO_STEP);
}

/* A C function that says no more than this. */
static int32_t run_failing(kiln_rt_run *run, void *const *buffers) {
  (void)run, (void)buffers;
  return 3;
}

static const kiln_rt_tensor row_tensors[] = {
    {"row", 2, 32, 2, 0, x_shape, NULL}, {"row", 0, 64, 1, 0, ids_shape, NULL},
    {"row", 2, 64, 0, 0, NULL, NULL},    {"row", 2, 32, 1, 0, w_shape, NULL},
    {"row", 2, 32, 2, 0, y_shape, NULL}, {"row", 2, 32, 1, 0, picked_shape, NULL}};
static const kiln_rt_tensor copy_tensors[] = {{"copy_row", 2, 32, 2, 0, y_shape, NULL},
                                              {"copy_row", 2, 32, 2, 0, y_shape, NULL}};
static const int64_t row_symbols[] = {0};
static const kiln_rt_step steps[] = {{"row", run_row, row_tensors, row_symbols, 6, 1},
                                     {"copy_row", run_copy_row, copy_tensors, row_symbols, 2, 1},
                                     {"failing", run_failing, NULL, NULL, 0, 0}};

const kiln_rt_steps kiln_steps = {steps, 3, 77};
