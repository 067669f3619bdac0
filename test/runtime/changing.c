/*===- changing.c - A program that a test changes ------------------------------------===*
 *
 *   def forward(x: f32[s0], z: f32[s0], n: int, c: c64[2]):   # n is 2 * s0
 *     return f32[s0]
 *
 * z has the stride s0; main and everything else are the test's to change.
 *
 *===-----------------------------------------------------------------------===*/
#include "changing.h"

#include <stddef.h>
#include <string.h>

static const int64_t shape[] = {-1}, strides[] = {-1}, value[] = {-2}, two[] = {2}, none[] = {0};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, shape, NULL},
                                        {"z", 2, 32, 1, KILN_RT_STRIDED, shape, strides},
                                        {"n", 0, 64, 0, KILN_RT_VALUE, NULL, value},
                                        {"c", 5, 64, 1, 0, two, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL}};
static const float weights[] = {1, 2, 3, 4};
static const kiln_rt_constant constants[] = {
    {"w", 2, 32, 1, 0, two, 0, 8, 0, 0},
    {"nothing", 2, 32, 1, 0, none, 8, 0, 1, 0},
    {"unplaced", 2, 32, 1, KILN_RT_UNPLACED, two, 99, 8, 2, 0}};
static const kiln_rt_symbol symbols[] = {{"s0", 0, 100}};
static const char *const expressions[] = {"s0", "2*s0"};

kiln_rt_tensor changing_inputs[4], changing_outputs[1];
kiln_rt_constant changing_constants[3];
kiln_rt_symbol changing_symbols[1];
int32_t (*changing_main)(kiln_rt_run *run);

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  return 0;
}
static int64_t eval(const int64_t *values, int64_t expr) { return (expr + 1) * values[0]; }
static int32_t run_main(kiln_rt_run *run) { return changing_main ? changing_main(run) : 0; }

static const kiln_rt_program original = {
    .abi = KILN_RT_ABI,
    .num_inputs = 4,
    .num_outputs = 1,
    .num_constants = 3,
    .num_symbols = 1,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"changing\"}",
    .inputs = changing_inputs,
    .outputs = changing_outputs,
    .constants = changing_constants,
    .symbols = changing_symbols,
    .weights = weights,
    .weights_bytes = sizeof weights,
    .bind = bind,
    .eval = eval,
    .main = run_main,
    .num_expressions = 2,
    .expressions = expressions,
};
kiln_rt_program changing;

void restore(void) {
  memcpy(changing_inputs, inputs, sizeof inputs);
  memcpy(changing_outputs, outputs, sizeof outputs);
  memcpy(changing_constants, constants, sizeof constants);
  memcpy(changing_symbols, symbols, sizeof symbols);
  changing_main = NULL;
  changing = original;
}
