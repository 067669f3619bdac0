/*===- odd.c - A hand-written program that goes wrong in ways that code generation would not -----===*
 *
 *   def forward(x: f32[s0]): return x + 1, x[:u0]
 *
 * What is odd depends on s0: see odd.h. The second output is [u0] with u0 elements, the first has the
 * stride s1, which is 1.
 *
 *===-----------------------------------------------------------------------===*/
#include "odd.h"
#include "../../runtime/ir_interface.h"

#include <stddef.h>
#include <string.h>

static const int64_t x_shape[] = {-1}, y_shape[] = {-2}, y_strides[] = {-3}, u_shape[] = {-4};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, x_shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, y_shape, y_strides},
                                         {"u", 2, 32, 1, KILN_RT_LATE, u_shape, NULL}};
static const kiln_rt_symbol symbols[] = {{"s0", INT64_MIN, ODD_BEYOND - 1},
                                         {"u0", INT64_MIN, INT64_MAX}};
static const char *const expressions[] = {"s0", "s0", "1", "u0"};
static const char *const failures[] = {"expected x >= 0"};

/* Constants that contradict themselves, and a fold that reads what is not there. */
static const int64_t two[] = {2}, four[] = {4};
static const int64_t fold_constants[] = {2, 3, 4};
static const float weights[4] = {1, 2, 3, 4};
static const kiln_rt_constant constants[] = {
    {"short", 2, 32, 1, 0, two, 0, 4, 0, 0},
    {"outside", 2, 32, 1, 0, two, 12, 8, 1, 0},
    {"folded", 2, 32, 1, 0, two, 0, 8, 2, 0},
    {"", 2, 32, 1, KILN_RT_UNPLACED, two, 0, 8, 3, 0},
    {"", 2, 32, 1, 0, two, 8, 8, 4, 0},
    {"empty", 2, 32, 1, 0, &(const int64_t){0}, 0, 0, 5, 0},
    {"whole", 2, 32, 1, 0, four, 0, 16, 6, 0},
};

static void nothing(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                    int32_t *error) {
  (void)buffers, (void)values, (void)i, (void)scratch, (void)error;
}

static const kiln_rt_fold folds[] = {{nothing, 1, 2, 1, fold_constants, NULL, 0, 0, 0}};

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  values[1] = 0;
  return values[0] == ODD_UNSOLVED ? 1 : values[0] == ODD_CONTRADICTED ? 100 : 0;
}

static int64_t eval(const int64_t *values, int64_t expr) {
  switch (expr) {
  case 1:
    return values[0] == ODD_TOO_LARGE ? INT64_MIN : values[0];
  case 2:
    return values[0] == ODD_TOO_WIDE ? INT64_MAX / 8 : 1;
  case 3:
    return values[1];
  default:
    return values[0];
  }
}

static int64_t sizes(int64_t *values) { return values[0] == ODD_NO_ARENA ? -1 : 64; }

static void add_one(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                    int32_t *error) {
  (void)scratch;
  ((float *)buffers[1])[i] = ((const float *)buffers[0])[i] + 1;
  if (values[0] == ODD_ERROR || values[0] == ODD_FAILURE)
    __atomic_store_n(error, KILN_RT_ERROR_FAILURE + (values[0] == ODD_ERROR), __ATOMIC_RELAXED);
}

static int32_t run_main(kiln_rt_run *run) {
  int64_t size = run->symbols[0];
  if (size == ODD_STATUS)
    return 3;
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  int32_t status = kiln_rt_begin_step(run);
  if (!status)
    status = kiln_rt_launch(run, add_one, buffers, size, KILN_RT_NO_STEP);
  if (!status)
    status = kiln_rt_end_step(run, 0, buffers);
  run->symbols[1] = size == ODD_LATE ? INT64_MAX : size;
  if (!status)
    status = kiln_rt_bind_output(run, 1);
  if (!status)
    memcpy(run->outputs[1], run->inputs[0], (size_t)size * sizeof(float));
  return status;
}

static const kiln_rt_profile_kernel profiled_kernels[] = {{0, 0, 2}};
static const kiln_rt_profile_step profiled_steps[] = {{0, 5}};
static const int64_t costs[] = {1, 4, 4};
static const kiln_rt_profile profile = {
    profiled_steps, profiled_kernels, costs, "call\0node", NULL, 1};

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .profile = &profile,
    .num_inputs = 1,
    .num_outputs = 2,
    .num_constants = 7,
    .num_symbols = 2,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .inputs = inputs,
    .outputs = outputs,
    .constants = constants,
    .symbols = symbols,
    .weights = weights,
    .weights_bytes = sizeof weights,
    .bind = bind,
    .eval = eval,
    .sizes = sizes,
    .main = run_main,
    .num_expressions = 4,
    .num_folds = 1,
    .num_failures = 1,
    .expressions = expressions,
    .folds = folds,
    .failures = failures,
};
