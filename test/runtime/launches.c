/* A program that adds 1 to 8 numbers, then launches as many empty kernels of as
 * many tasks as its second input says: what remains is the runtime's own time. */
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t x_shape[] = {8}, plan_shape[] = {2};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 1, 0, x_shape, NULL},
                                        {"plan", 0, 64, 1, 0, plan_shape, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, x_shape, NULL}};

static void nothing(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                    int32_t *error) {
  (void)buffers, (void)symbols, (void)i, (void)scratch, (void)error;
}

static int32_t run_main(kiln_rt_run *run) {
  const float *x = run->inputs[0];
  const int64_t *plan = run->inputs[1];
  float *y = run->outputs[0];
  for (int i = 0; i < 8; ++i)
    y[i] = x[i] + 1;
  for (int64_t k = 0; k < plan[0]; ++k) {
    int32_t status = kiln_rt_launch(run, nothing, NULL, plan[1], k);
    if (status)
      return status;
  }
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 2,
    .num_outputs = 1,
    .info = "{\"name\": \"launches\"}",
    .inputs = inputs,
    .outputs = outputs,
    .main = run_main,
};
