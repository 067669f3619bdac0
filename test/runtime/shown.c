/*===- shown.c - A hand-written program with debug printing -----------------===*
 *
 *   def forward(x: f32[s0, 2]):
 *     return x.t() + 1               # [2, s0], with strides [1, 2]
 *
 * The level that it is compiled with is the test's to choose.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

extern uint32_t shown_level;
extern const int64_t *shown_strides; /* of y, as the debug printing has them */

static const int64_t x_shape[] = {-1, 2}, y_shape[] = {2, -1}, y_strides[] = {1, 2};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 2, 0, x_shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 2, 0, y_shape, y_strides}};
static const kiln_rt_symbol symbols[] = {{"s0", 0, INT64_MAX}};
static const char *const expressions[] = {"s0"};

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  return 0;
}

static int64_t eval(const int64_t *values, int64_t expr) { return values[expr]; }

static void add_one(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                    int32_t *error) {
  (void)values, (void)scratch, (void)error;
  ((float *)buffers[1])[i] = ((const float *)buffers[0])[i] + 1;
}

static int32_t run_main(kiln_rt_run *run) {
  const kiln_rt_debug_tensor tensors[] = {
      {"x", "float32", NULL, x_shape, NULL, 2, 32, 2, 0},
      {"../y\"", "float32", "add", y_shape, shown_strides ? shown_strides : y_strides, 2, 32, 2, 1},
  };
  const kiln_rt_debug_step start = {"inputs", "the program", tensors, 1, 0, shown_level, 0};
  const kiln_rt_debug_step step = {"add_one", "node 'add' (m.py:3)", tensors, 1, 1, shown_level, 0};
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  int32_t status = kiln_rt_debug(run, &start, KILN_RT_DEBUG_INPUTS, run->inputs);
  if (!status)
    status = kiln_rt_debug(run, &step, KILN_RT_DEBUG_BEFORE, buffers);
  if (!status)
    status = kiln_rt_launch(run, add_one, buffers, 2 * run->symbols[0], KILN_RT_NO_STEP);
  return status ? status : kiln_rt_debug(run, &step, KILN_RT_DEBUG_AFTER, buffers);
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .num_symbols = 1,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"shown\"}",
    .inputs = inputs,
    .outputs = outputs,
    .symbols = symbols,
    .bind = bind,
    .eval = eval,
    .main = run_main,
    .num_expressions = 1,
    .expressions = expressions,
};
