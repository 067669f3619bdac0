/* The functions of test_custom_ops.py: what its operators compute, on a CPU or, through copies, on
 * a GPU. */
#include "host_tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t integer(const DLTensor *tensor) {
  if (tensor->device.device_type != kDLCPU || tensor->ndim != 0 || tensor->dtype.code != kDLInt ||
      tensor->dtype.bits != 64)
    abort();
  return *(const int64_t *)tensor->data;
}

static double number(const DLTensor *tensor) {
  if (tensor->device.device_type != kDLCPU || tensor->ndim != 0 || tensor->dtype.code != kDLFloat ||
      tensor->dtype.bits != 64)
    abort();
  return *(const double *)tensor->data;
}

#define ARGUMENTS                                                                                  \
  const DLTensor *const *inputs, size_t num_inputs, const DLTensor *const *outputs,                \
      size_t num_outputs, const kiln_custom_op_context *context

static int check(size_t num_inputs, size_t inputs, size_t num_outputs, size_t outputs,
                 const kiln_custom_op_context *context) {
  return num_inputs == inputs && num_outputs == outputs && context->struct_size >= sizeof *context;
}

/*===-- scale(Tensor x, float factor=1.5, SymInt power=1) -> Tensor ---------===*/

typedef struct {
  const float *x;
  float *y;
  int64_t columns, power;
  float factor;
} rows;

static void scale_row(void *arg, int64_t row) {
  const rows *all = arg;
  for (int64_t i = row * all->columns; i < (row + 1) * all->columns; ++i)
    all->y[i] = all->factor * powf(all->x[i], (float)all->power);
}

int32_t test_scale(ARGUMENTS) {
  if (!check(num_inputs, 3, num_outputs, 1, context))
    return KILN_INTERNAL;
  const DLTensor *x = inputs[0], *y = outputs[0];
  int64_t columns = x->ndim ? x->shape[x->ndim - 1] : 1;
  rows all = {begin(x, context), begin(y, context), columns, integer(inputs[2]),
              (float)number(inputs[1])};
  context->parallel_for(context->parallel_ctx, columns ? count(x) / columns : 0, scale_row, &all);
  finish(x, (void *)(uintptr_t)all.x, 0, context);
  finish(y, all.y, 1, context);
  return KILN_OK;
}

/*===-- shift(Tensor x, Scalar by) -> Tensor --------------------------------===*/

int32_t test_shift(ARGUMENTS) {
  if (!check(num_inputs, 2, num_outputs, 1, context))
    return KILN_INTERNAL;
  double by = number(inputs[1]);
  float *x = begin(inputs[0], context), *y = begin(outputs[0], context);
  for (int64_t i = 0; i < count(inputs[0]); ++i)
    y[i] = (float)(x[i] + by);
  finish(inputs[0], x, 0, context);
  finish(outputs[0], y, 1, context);
  return KILN_OK;
}

/*===-- arguments(…) -> Tensor ----------------------------------------------===*/

static double sum(const DLTensor *tensor, const kiln_custom_op_context *context) {
  float *data = begin(tensor, context);
  double total = 0;
  for (int64_t i = 0; i < count(tensor); ++i)
    total += data[i];
  finish(tensor, data, 0, context);
  return total;
}

static int is_text(const DLTensor *tensor, const char *text) {
  return tensor->ndim == 1 && tensor->dtype.code == kDLUInt && tensor->dtype.bits == 8 &&
         (size_t)tensor->shape[0] == strlen(text) && memcmp(tensor->data, text, strlen(text)) == 0;
}

/* Tensor x, Tensor? other, Tensor[] many, SymInt[] sizes, float factor, bool flag, str name,
 * ScalarType dtype, Scalar bias, float[]? floats, SymInt count, Device? device */
int32_t test_arguments(ARGUMENTS) {
  const DLTensor *const *next = inputs;
  const DLTensor *x = *next++, *other = *next++, *y = outputs[0];
  double total = 0;
  for (int64_t many = integer(*next++); many > 0; --many)
    total += sum(*next++, context);
  const DLTensor *sizes = *next++;
  for (int64_t i = 0; i < sizes->shape[0]; ++i)
    total += (double)((const int64_t *)sizes->data)[i];
  double factor = number(*next++);
  const DLTensor *flag = *next++;
  if (flag->dtype.code != kDLBool || flag->dtype.bits != 8)
    return KILN_INTERNAL;
  int negative = *(const uint8_t *)flag->data;
  if (!is_text(*next++, "a name") || integer(*next++) != 256 * kDLFloat + 64)
    return KILN_INTERNAL;
  const DLTensor *bias = *next++;
  if (bias->dtype.code == kDLComplex)
    total += ((const double *)bias->data)[1];
  else
    total += bias->dtype.code == kDLFloat ? number(bias) : (double)integer(bias);
  const DLTensor *floats = *next++;
  for (int64_t i = 0; floats && i < floats->shape[0]; ++i)
    total += (double)i * ((const double *)floats->data)[i];
  total += (double)integer(*next++);
  const DLTensor *device = *next++;
  if (device && !is_text(device, "cpu"))
    return KILN_INTERNAL;
  if ((size_t)(next - inputs) != num_inputs || num_outputs != 1)
    return KILN_INTERNAL;
  float *from = begin(x, context), *more = other ? begin(other, context) : NULL,
        *to = begin(y, context);
  for (int64_t i = 0; i < count(x); ++i) {
    float value = (float)(from[i] * factor + total) + (more ? more[i] : 0);
    to[i] = negative ? -value : value;
  }
  finish(x, from, 0, context);
  if (other)
    finish(other, more, 0, context);
  finish(y, to, 1, context);
  return KILN_OK;
}

/*===-- several(Tensor x) -> (Tensor, Tensor[], Tensor) ---------------------===*/

int32_t test_several(ARGUMENTS) {
  if (!check(num_inputs, 1, num_outputs, 4, context))
    return KILN_INTERNAL;
  int64_t m = inputs[0]->shape[0], n = inputs[0]->shape[1];
  float *x = begin(inputs[0], context), *sums = begin(outputs[0], context),
        *more = begin(outputs[1], context), *twice = begin(outputs[2], context);
  uint8_t *positive = begin(outputs[3], context);
  for (int64_t j = 0; j < n; ++j)
    sums[j] = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float value = x[i * n + j];
      sums[j] += value;
      more[i * n + j] = value + 1;
      twice[j * m + i] = 2 * value;
      positive[i * n + j] = value > 0;
    }
  finish(inputs[0], x, 0, context);
  finish(outputs[0], sums, 1, context);
  finish(outputs[1], more, 1, context);
  finish(outputs[2], twice, 1, context);
  finish(outputs[3], positive, 1, context);
  return KILN_OK;
}

/*===-- add_(Tensor(a!) x, Tensor y) -> (), total(Tensor(a!) state, Tensor x) -> Tensor */

static void add(const DLTensor *x, const DLTensor *y, const kiln_custom_op_context *context) {
  float *to = begin(x, context), *from = begin(y, context);
  for (int64_t i = 0; i < count(x); ++i)
    to[i] += from[i];
  finish(x, to, 1, context);
  finish(y, from, 0, context);
}

int32_t test_add(ARGUMENTS) {
  if (!check(num_inputs, 2, num_outputs, 0, context))
    return KILN_INTERNAL;
  (void)outputs;
  add(inputs[0], inputs[1], context);
  return KILN_OK;
}

int32_t test_total(ARGUMENTS) {
  if (!check(num_inputs, 2, num_outputs, 1, context))
    return KILN_INTERNAL;
  add(inputs[0], inputs[1], context);
  float *result = begin(outputs[0], context);
  result[0] = (float)sum(inputs[0], context);
  finish(outputs[0], result, 1, context);
  return KILN_OK;
}

/*===-- positive(Tensor x) -> Tensor ----------------------------------------===*/

int32_t test_positive(ARGUMENTS) {
  if (!check(num_inputs, 1, num_outputs, 1, context))
    return KILN_INTERNAL;
  double total = sum(inputs[0], context);
  if (total < -1000)
    return 99; /* no status */
  if (total < 0) {
    snprintf(context->message, context->message_size, "the sum is %g, which is negative", total);
    return KILN_INVALID_ARGUMENT;
  }
  float *x = begin(inputs[0], context), *y = begin(outputs[0], context);
  memcpy(y, x, bytes(inputs[0]));
  finish(inputs[0], x, 0, context);
  finish(outputs[0], y, 1, context);
  return KILN_OK;
}
