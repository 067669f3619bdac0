/*===- late.c - A hand-written program with sizes that data gives -----------===*
 *
 *   def forward(x: i64[s0]):
 *     y = x[x > 0]                   # i64[u0]
 *     assert y.numel() <= 50000
 *     return y, x.sum(), torch.stack([y, -y]).t().contiguous().t()
 *
 * The last output is [2, u0] with strides [1, 2]. A task computes CHUNK elements
 * of y; y goes through memory that is reserved once u0 is known. The first
 * element of x can ask for failures.
 *
 *===-----------------------------------------------------------------------===*/
#include "late.h"

#include "../../runtime/ir_interface.h"

#include <stddef.h>
#include <string.h>

enum { CHUNK = 100 };

static const int64_t x_shape[] = {-1}, y_shape[] = {-2};
static const int64_t pair_shape[] = {2, -2}, pair_strides[] = {1, 2};

static const kiln_rt_tensor inputs[] = {{"x", 0, 64, 1, 0, x_shape, NULL}};
static const kiln_rt_tensor outputs[] = {
    {"y", 0, 64, 1, KILN_RT_LATE, y_shape, NULL},
    {"sum", 0, 64, 0, 0, NULL, NULL},
    {"pair", 0, 64, 2, KILN_RT_LATE, pair_shape, pair_strides},
};
static const kiln_rt_symbol symbols[] = {{"s0", 0, INT64_MAX}, {"u0", INT64_MIN, INT64_MAX}};
static const char *const expressions[] = {"s0", "u0"};

static int32_t bind(const int64_t *const *shapes, int64_t *values) {
  values[0] = shapes[0][0];
  values[1] = 0;
  return 0;
}

static int64_t eval(const int64_t *values, int64_t expr) { return values[expr]; }

/* buffers: y, pair */
static void pair_chunk(void *const *buffers, const int64_t *values, int64_t i, void *scratch,
                       int32_t *error) {
  (void)scratch, (void)error;
  const int64_t *y = buffers[0];
  int64_t *pair = buffers[1];
  for (int64_t j = CHUNK * i; j < CHUNK * (i + 1) && j < values[1]; ++j) {
    pair[2 * j] = y[j];
    pair[2 * j + 1] = -y[j];
  }
}

static int32_t run_main(kiln_rt_run *run) {
  const int64_t *x = run->inputs[0];
  int64_t size = run->symbols[0], count = 0, sum = 0, first = size ? x[0] : 0;
  for (int64_t i = 0; i < size; ++i) {
    count += x[i] > 0;
    sum += x[i];
  }
  run->symbols[1] = count;
  static const int64_t mentioned[] = {1, 0};
  if (count > LATE_MOST)
    return kiln_rt_assert_failed(run, "too many of them", mentioned, 2);
  if (first == LATE_CHECK_FAILS)
    return kiln_rt_assert_failed(run, "the first is wrong", NULL, 0);
  int32_t status = kiln_rt_reserve(run, 0, 8 * count);
  if (status)
    return status;
  int64_t *y = run->segments[0], next = 0;
  for (int64_t i = 0; i < size; ++i)
    if (x[i] > 0)
      y[next++] = x[i];
  if (first == LATE_OVERFLOWS || first == LATE_TOO_LARGE)
    return kiln_rt_reserve(run, 1, first == LATE_OVERFLOWS ? -1 : (int64_t)1 << 55);
  if ((status = kiln_rt_bind_output(run, 2)))
    return status;
  void *const buffers[] = {run->segments[0], run->outputs[2]};
  if ((status =
           kiln_rt_launch(run, pair_chunk, buffers, (count + CHUNK - 1) / CHUNK, KILN_RT_NO_STEP)))
    return status;
  if ((status = kiln_rt_bind_output(run, 0)))
    return status;
  if (count)
    memcpy(run->outputs[0], y, (size_t)count * 8);
  *(int64_t *)run->outputs[1] = sum;
  return 0;
}

__attribute__((visibility("hidden"))) const kiln_rt_program kiln_program = {
    .abi = KILN_RT_ABI,
    .num_inputs = 1,
    .num_outputs = 3,
    .num_symbols = 2,
    .flags = KILN_RT_HAS_EXPRESSIONS,
    .info = "{\"name\": \"late\"}",
    .inputs = inputs,
    .outputs = outputs,
    .symbols = symbols,
    .bind = bind,
    .eval = eval,
    .main = run_main,
    .num_expressions = 2,
    .num_segments = 2,
    .expressions = expressions,
};
