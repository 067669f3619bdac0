/*===- counter.c - A program with external weights that it writes to --------===*
 *
 *   def forward(self):
 *     self.count += 1                        # an int64 buffer
 *     return self.count, self.table.sum()    # table: f32[1000], a parameter
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/ir_interface.h"

#include <stddef.h>

static const int64_t table_shape[] = {1000};
static const kiln_rt_tensor outputs[] = {{"count", 0, 64, 0, KILN_RT_SCALAR, NULL, NULL},
                                         {"sum", 2, 32, 0, 0, NULL, NULL}};
static const kiln_rt_constant constants[] = {
    {"count", 0, 64, 0, KILN_RT_MUTABLE_BUFFER, NULL, 0, 8, 0, 0},
    {"table", 2, 32, 1, 0, table_shape, 64, 4000, 1, 0},
};

static int32_t run_main(kiln_rt_run *run) {
  int64_t *count = run->state;
  *(int64_t *)run->outputs[0] = ++*count;
  const float *table = (const float *)run->weights + 16;
  float sum = 0;
  for (int i = 0; i < 1000; ++i)
    sum += table[i];
  *(float *)run->outputs[1] = sum;
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_outputs = 2,
    .num_constants = 2,
    .flags = KILN_RT_EXTERNAL_WEIGHTS,
    .info = "{\"name\": \"counter\"}",
    .outputs = outputs,
    .constants = constants,
    .weights_bytes = 4064,
    .weights_hash = 0xfeed,
    .main = run_main,
};
