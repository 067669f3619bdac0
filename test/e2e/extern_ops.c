/* C functions that test_extern.py declares, on a CPU or, through copies, on a GPU. */
#include "host_tensors.h"

#include <string.h>

/* y = x * k, in a workspace of as many bytes as x has. */
int32_t extern_scale(const DLTensor *const *inputs, size_t num_inputs,
                     const DLTensor *const *outputs, size_t num_outputs,
                     const kiln_custom_op_context *context) {
  int64_t n = count(inputs[0]);
  if (num_inputs != 2 || num_outputs != 2 || outputs[1]->ndim != 1 ||
      outputs[1]->dtype.code != kDLUInt || outputs[1]->shape[0] != 4 * n)
    return KILN_INVALID_ARGUMENT;
  float *x = begin(inputs[0], context), *y = begin(outputs[0], context),
        *work = begin(outputs[1], context), k = (float)*(const int64_t *)inputs[1]->data;
  for (int64_t i = 0; i < n; ++i)
    work[i] = k * x[i];
  if (n)
    memcpy(y, work, sizeof(float) * (size_t)n);
  finish(inputs[0], x, 0, context);
  finish(outputs[0], y, 1, context);
  finish(outputs[1], work, 1, context);
  return KILN_OK;
}
KILN_SIGNATURE(extern_scale, "(f32[size]) -> f32[size]");

/* x += y, in place. */
int32_t extern_add(const DLTensor *const *inputs, size_t num_inputs, const DLTensor *const *outputs,
                   size_t num_outputs, const kiln_custom_op_context *context) {
  (void)outputs;
  if (num_inputs != 2 || num_outputs != 0)
    return KILN_INVALID_ARGUMENT;
  float *x = begin(inputs[0], context), *y = begin(inputs[1], context);
  for (int64_t i = 0, n = count(inputs[0]); i < n; ++i)
    x[i] += y[i];
  finish(inputs[0], x, 1, context);
  finish(inputs[1], y, 0, context);
  return KILN_OK;
}

/* cos(sin(x)) and sin(x), of small x. */
int32_t extern_wave(const DLTensor *const *inputs, size_t num_inputs,
                    const DLTensor *const *outputs, size_t num_outputs,
                    const kiln_custom_op_context *context) {
  if (num_inputs != 1 || num_outputs != 2)
    return KILN_INVALID_ARGUMENT;
  float *x = begin(inputs[0], context), *cosine = begin(outputs[0], context),
        *sine = begin(outputs[1], context);
  for (int64_t i = 0, n = count(inputs[0]); i < n; ++i) {
    double s = 0, c = 0, term = x[i];
    for (int k = 1; k < 40; k += 2) {
      s += term;
      term *= -(double)x[i] * x[i] / ((k + 1) * (k + 2));
    }
    term = 1;
    for (int k = 0; k < 40; k += 2) {
      c += term;
      term *= -s * s / ((k + 1) * (k + 2));
    }
    cosine[i] = (float)c;
    sine[i] = (float)s;
  }
  finish(inputs[0], x, 0, context);
  finish(outputs[0], cosine, 1, context);
  finish(outputs[1], sine, 1, context);
  return KILN_OK;
}

const int extern_data = 1;
