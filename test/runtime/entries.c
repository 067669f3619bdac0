/*===- entries.c - A model of several programs over one set of weights ------===*
 *
 *   total: f32[], a buffer of all entries; scale: f32[4], a parameter; 2 * scale is folded,
 *   which fails where scale is negative
 *
 *   def add(x: f32[n], n <= 8):      def read():
 *     self.total += x.sum()            return self.total, 2 * self.scale, n * self.scale (late)
 *     return self.total
 *
 *   def count(x: f32[], y: f32[]):   # `model` if entries_has_model is set
 *     return y - x
 *
 *===-----------------------------------------------------------------------===*/
#include "entries.h"
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t open_shape[] = {-1}, shape[] = {4};
static const kiln_rt_tensor add_inputs[] = {{"x", 2, 32, 1, 0, open_shape, NULL}};
static const kiln_rt_tensor add_outputs[] = {{"total", 2, 32, 0, 0, NULL, NULL}};
static const kiln_rt_tensor read_outputs[] = {{"total", 2, 32, 0, 0, NULL, NULL},
                                              {"doubled", 2, 32, 1, 0, shape, NULL},
                                              {"late", 2, 32, 1, KILN_RT_LATE, open_shape, NULL}};
static const kiln_rt_tensor count_inputs[] = {{"x", 2, 32, 0, 0, NULL, NULL},
                                              {"y", 2, 32, 0, 0, NULL, NULL}};
static const kiln_rt_tensor count_outputs[] = {{"difference", 2, 32, 0, 0, NULL, NULL}};
static const kiln_rt_constant constants[] = {
    {"total", 2, 32, 0, KILN_RT_MUTABLE_BUFFER, NULL, 0, 4, 0, 0},
    {"scale", 2, 32, 1, 0, shape, 64, 16, 1, 0},
    {"", 2, 32, 1, 0, shape, 128, 16, 2, 0},
};
static const float weights[64] = {1, [16] = 1, 2, 3, 4, [32] = 2, 4, 6, 8};

static const kiln_rt_symbol add_symbols[] = {{"n", 1, 8}};
static const kiln_rt_symbol read_symbols[] = {{"u", INT64_MIN, INT64_MAX}};
static const char *const add_expressions[] = {"n"}, *const read_expressions[] = {"u"};
static const char *const add_failures[] = {"add fails"}, *const read_failures[] = {
                                                             "scale is below 0"};

static int32_t bind_add(const int64_t *const *shapes, int64_t *symbols) {
  symbols[0] = shapes[0][0];
  return 0;
}

static int32_t bind_nothing(const int64_t *const *shapes, int64_t *symbols) {
  (void)shapes, (void)symbols;
  return 0;
}

static int64_t eval(const int64_t *symbols, int64_t expr) {
  (void)expr;
  return symbols[0];
}

static int64_t size_add(int64_t *symbols) { return 4 * symbols[0]; }

static void fold(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                 int32_t *error) {
  (void)symbols, (void)scratch, (void)i;
  const float *scale = buffers[0];
  float *doubled = buffers[1];
  for (int k = 0; k < 4; ++k) {
    if (scale[k] < 0)
      *error = KILN_RT_ERROR_FAILURE;
    doubled[k] = 2 * scale[k];
  }
}
static const int64_t cells[] = {1, 2};
static const kiln_rt_fold folds[] = {{.kernel = fold,
                                      .grid = 1,
                                      .num_operands = 1,
                                      .num_results = 1,
                                      .constants = cells,
                                      .entry = 1}};

/* The scratch is larger than read's. */
static void sum(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                int32_t *error) {
  (void)i;
  const float *x = buffers[0];
  float *partial = scratch, *total = buffers[1];
  if (symbols[0] == 8)
    *error = KILN_RT_ERROR_FAILURE;
  for (int64_t k = 0; k < symbols[0]; ++k)
    partial[k] = x[k];
  for (int64_t k = 0; k < symbols[0]; ++k)
    *total += partial[k];
}

static int32_t run_add(kiln_rt_run *run) {
  float *copy = run->arena;
  const float *x = run->inputs[0];
  for (int64_t k = 0; k < run->symbols[0]; ++k)
    copy[k] = x[k];
  void *const buffers[] = {copy, run->state};
  int32_t status = kiln_rt_launch(run, sum, buffers, 1, KILN_RT_NO_STEP);
  *(float *)run->outputs[0] = *(float *)run->state;
  return status;
}

/* Like compiled code, it reads weights while kiln_model_set_constant may write them: then it may see
 * old and new values mixed. */
__attribute__((no_sanitize("thread"))) static int32_t run_read(kiln_rt_run *run) {
  *(float *)run->outputs[0] = *(float *)run->state;
  for (int k = 0; k < 4; ++k)
    ((float *)run->outputs[1])[k] = ((const float *)run->weights)[32 + k];
  run->symbols[0] = 3;
  int32_t status = kiln_rt_reserve(run, 0, 12);
  if (status == KILN_OK)
    status = kiln_rt_bind_output(run, 2);
  for (int k = 0; k < 3 && status == KILN_OK; ++k) {
    ((float *)run->segments[0])[k] = 3 * ((const float *)run->weights)[16 + k];
    ((float *)run->outputs[2])[k] = ((float *)run->segments[0])[k];
  }
  return status;
}

static int32_t run_count(kiln_rt_run *run) {
  *(float *)run->outputs[0] = *(float *)run->inputs[1] - *(float *)run->inputs[0];
  return 0;
}

static const kiln_rt_program read_program = {.abi = KILN_RT_ABI,
                                             .num_outputs = 3,
                                             .num_symbols = 1,
                                             .flags = KILN_RT_HAS_EXPRESSIONS,
                                             .entry = "read",
                                             .outputs = read_outputs,
                                             .symbols = read_symbols,
                                             .bind = bind_nothing,
                                             .eval = eval,
                                             .main = run_read,
                                             .num_expressions = 1,
                                             .expressions = read_expressions,
                                             .num_segments = 1,
                                             .num_failures = 1,
                                             .failures = read_failures};
#define COUNT(name)                                                                                \
  {.abi = KILN_RT_ABI,                                                                             \
   .num_inputs = 2,                                                                                \
   .num_outputs = 1,                                                                               \
   .entry = name,                                                                                  \
   .inputs = count_inputs,                                                                         \
   .outputs = count_outputs,                                                                       \
   .main = run_count}
static const kiln_rt_program count_program = COUNT("count"), model_program = COUNT("model");

static const kiln_rt_program *others[] = {&read_program, &count_program};

void entries_set_model(bool has_model) { others[1] = has_model ? &model_program : &count_program; }

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .num_constants = 3,
    .num_symbols = 1,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"entries\"}",
    .entry = "add",
    .inputs = add_inputs,
    .outputs = add_outputs,
    .constants = constants,
    .symbols = add_symbols,
    .weights = weights,
    .weights_bytes = sizeof weights,
    .scratch_bytes = 32,
    .bind = bind_add,
    .eval = eval,
    .sizes = size_add,
    .main = run_add,
    .num_expressions = 1,
    .expressions = add_expressions,
    .num_folds = 1,
    .folds = folds,
    .num_failures = 1,
    .failures = add_failures,
    .others = others,
    .num_others = 2,
};
