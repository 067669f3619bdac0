/* A program without inputs: the sums of the bytes of each half of its weights. */
#include "../../runtime/ir_interface.h"

#include <stddef.h>

enum { BYTES = 20000 };

static const int64_t shape[] = {2};
static const kiln_rt_tensor outputs[] = {{"sums", 0, 64, 1, 0, shape, NULL}};

/* buffers: weights, sums */
static void half(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                 int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  const char *weights = (const char *)buffers[0] + i * (BYTES / 2);
  int64_t sum = 0;
  for (int b = 0; b < BYTES / 2; ++b)
    sum += weights[b];
  ((int64_t *)buffers[1])[i] = sum;
}

static int32_t run_main(kiln_rt_run *run) {
  void *const buffers[] = {run->weights, run->outputs[0]};
  return kiln_rt_launch(run, half, buffers, 2, KILN_RT_NO_STEP);
}

#ifndef EXTERNAL
extern const char kiln_weights[] __attribute__((visibility("hidden")));
#endif

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_outputs = 1,
    .info = "{\"name\": \"sums\"}",
    .outputs = outputs,
#ifdef EXTERNAL
    .flags = KILN_RT_EXTERNAL_WEIGHTS,
    .weights_hash = 0x1234,
#else
    .weights = kiln_weights,
#endif
    .weights_bytes = BYTES,
    .main = run_main,
};
