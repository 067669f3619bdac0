/*===- tally.c - A program with a buffer that it writes to, and an arena ----===*
 *
 *   def forward(x: f32[]):            # total: f32[SIZE], a buffer; scale: f32[SIZE], a parameter
 *     self.total += x * self.scale    # the product is in the arena
 *     return self.total.clone()
 *
 *===-----------------------------------------------------------------------===*/
#include "tally.h"

#include <stddef.h>

static const int64_t shape[] = {TALLY_SIZE};
static const kiln_rt_tensor inputs[] = {{"x", 2, 32, 0, 0, NULL, NULL}};
static const kiln_rt_tensor outputs[] = {{"y", 2, 32, 1, 0, shape, NULL}};
static const kiln_rt_constant constants[] = {
    {"total", 2, 32, 1, KILN_RT_MUTABLE_BUFFER, shape, 0, 4 * TALLY_SIZE, 0, 0},
    {"scale", 2, 32, 1, 0, shape, 4 * TALLY_SIZE, 4 * TALLY_SIZE, 1, 0},
};
/* total begins with ones, scale is all twos. */
static float weights[2 * TALLY_SIZE];
void (*tally_pause)(void);

__attribute__((constructor)) static void set_weights(void) {
  for (int i = 0; i < 2 * TALLY_SIZE; ++i)
    weights[i] = i < TALLY_SIZE ? 1 : 2;
}

static void multiply(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                     int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  const float *x = buffers[0], *scale = buffers[1];
  float *product = buffers[2];
  for (int64_t k = i * TALLY_SIZE / 4; k < (i + 1) * TALLY_SIZE / 4; ++k)
    product[k] = *x * scale[k];
}

static void add(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                int32_t *error) {
  (void)symbols, (void)scratch, (void)error;
  const float *product = buffers[0];
  float *total = buffers[1], *y = buffers[2];
  for (int64_t k = i * TALLY_SIZE / 4; k < (i + 1) * TALLY_SIZE / 4; ++k)
    y[k] = total[k] += product[k];
}

static int64_t sizes(int64_t *values) {
  (void)values;
  return 4 * TALLY_SIZE;
}

static int32_t run_main(kiln_rt_run *run) {
  void *const product[] = {run->inputs[0], (float *)run->weights + TALLY_SIZE, run->arena};
  void *const sum[] = {run->arena, run->state, run->outputs[0]};
  int32_t status = kiln_rt_launch(run, multiply, product, 4, 0);
  if (tally_pause)
    tally_pause();
  return status ? status : kiln_rt_launch(run, add, sum, 4, 1);
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 1,
    .num_constants = 2,
    .info = "{\"name\": \"tally\"}",
    .entry = "model",
    .inputs = inputs,
    .outputs = outputs,
    .constants = constants,
    .weights = weights,
    .weights_bytes = sizeof weights,
    .sizes = sizes,
    .main = run_main,
};
