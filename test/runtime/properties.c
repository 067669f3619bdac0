/*===- properties.c - A program that computes with strides and integers -----===*
 *
 *   def forward(x: f32[s0, 4], n: int):       # strides [s1, 1], n = 2*s2
 *     return torch.tensor([s0, s1, s2])
 *
 * with 4 <= s1 <= 1000 and 0 <= s2 <= 50.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t x_shape[] = {-1, 4}, x_strides[] = {-2, 1}, n_value[] = {-4}, y_shape[] = {3};
static const kiln_rt_tensor inputs[] = {
    {"x", 2, 32, 2, KILN_RT_STRIDED, x_shape, x_strides},
    {"n", 0, 64, 0, KILN_RT_VALUE, NULL, n_value},
};
static const kiln_rt_tensor outputs[] = {{"y", 0, 64, 1, 0, y_shape, NULL}};
static const kiln_rt_symbol symbols[] = {{"s0", 0, INT64_MAX}, {"s1", 4, 1000}, {"s2", 0, 50}};
static const char *const expressions[] = {"s0", "s1", "s2", "2*s2"};

static int32_t bind(const int64_t *const *properties, int64_t *values) {
  values[0] = properties[0][0];
  values[1] = properties[0][2];
  values[2] = properties[1][0] / 2; /* rounding is found out afterwards */
  return 0;
}

static int64_t eval(const int64_t *values, int64_t expr) {
  return expr == 3 ? 2 * values[2] : values[expr];
}

static int32_t run_main(kiln_rt_run *run) {
  for (int i = 0; i < 3; ++i)
    ((int64_t *)run->outputs[0])[i] = run->symbols[i];
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 2,
    .num_outputs = 1,
    .num_symbols = 3,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"properties\"}",
    .inputs = inputs,
    .outputs = outputs,
    .symbols = symbols,
    .bind = bind,
    .eval = eval,
    .main = run_main,
    .num_expressions = 4,
    .expressions = expressions,
};
