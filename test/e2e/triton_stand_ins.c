/*===- triton_stand_ins.c - What Triton kernels compute, for the emulator ---===*
 *
 * Built into images as those of --gpu-arch=emulator. Each block's first thread does
 * the work of all; NAME_parameters says how many parameters there are, each of 8
 * bytes, of which a kernel reads as many as Triton's has.
 *
 *===-----------------------------------------------------------------------===*/
#include <math.h>
#include <stdint.h>
#include <string.h>

int32_t kiln_emulator_block(void);
int32_t kiln_emulator_thread(void);
int32_t kiln_emulator_grid(int32_t dim);
void kiln_emulator_buffer(void *address, int64_t bytes);
void *kiln_emulator_access(void *pointer, int64_t bytes, int32_t writes);

/* Memory is reached as a kernel's is: each access is checked. */
static float load(const float *at) {
  return *(const float *)kiln_emulator_access((void *)(uintptr_t)at, sizeof *at, 0);
}
static void store(float *at, float value) {
  *(float *)kiln_emulator_access(at, sizeof *at, 1) = value;
}
static float *tensor(void *argument, int64_t elements) {
  float *data;
  memcpy(&data, argument, sizeof data);
  kiln_emulator_buffer(data, elements * (int64_t)sizeof *data);
  return data;
}
static int64_t integer(void *argument) {
  int32_t value;
  memcpy(&value, argument, sizeof value);
  return value;
}
static float number(void *argument) {
  float value;
  memcpy(&value, argument, sizeof value);
  return value;
}
static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

/* out[i] = x[i] + scale * y[i] for BLOCK elements of a block; x, y, out, n, scale, scratch, profile */
enum { ADD_BLOCK = 256 };
const int64_t add_kernel_parameters = 7;
void add_kernel_emulated(void **arguments) {
  int64_t n = integer(arguments[3]), begin = (int64_t)kiln_emulator_block() * ADD_BLOCK;
  float *x = tensor(arguments[0], n), *y = tensor(arguments[1], n), *out = tensor(arguments[2], n);
  void *scratch[2];
  memcpy(&scratch[0], arguments[5], sizeof *scratch);
  memcpy(&scratch[1], arguments[6], sizeof *scratch);
  if (kiln_emulator_thread() || scratch[0] || scratch[1])
    return;
  for (int64_t i = begin; i < min(begin + ADD_BLOCK, n); ++i)
    store(out + i, load(x + i) + number(arguments[4]) * load(y + i));
}

/* A row of a softmax for each block; x, out, row stride, columns */
const int64_t softmax_kernel_parameters = 6;
void softmax_kernel_emulated(void **arguments) {
  int64_t stride = integer(arguments[2]), columns = integer(arguments[3]);
  int64_t row = kiln_emulator_block(), rows = kiln_emulator_grid(0);
  float *x = tensor(arguments[0], (rows - 1) * stride + columns) + row * stride;
  float *out = tensor(arguments[1], rows * columns) + row * columns;
  if (kiln_emulator_thread())
    return;
  float most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < columns; ++i)
    most = fmaxf(most, load(x + i));
  for (int64_t i = 0; i < columns; ++i)
    sum += expf(load(x + i) - most);
  for (int64_t i = 0; i < columns; ++i)
    store(out + i, expf(load(x + i) - most) / sum);
}

/* A tile of a matrix product, of which another image has smaller ones; a, b, c, M, N, K, and the
 * strides that are not 1: sam, sbn, scm */
#ifndef ROWS
#define ROWS 64
#define COLUMNS 32
#endif
const int64_t mm_kernel_parameters = 11, mm_kernel_dims = 2;
void mm_kernel_emulated(void **arguments) {
  int64_t m = integer(arguments[3]), n = integer(arguments[4]), k = integer(arguments[5]);
  int64_t sam = integer(arguments[6]), sbn = integer(arguments[7]), scm = integer(arguments[8]);
  int64_t block = kiln_emulator_block(), across = kiln_emulator_grid(0);
  int64_t row = block % across * ROWS, column = block / across * COLUMNS;
  float *a = tensor(arguments[0], (m - 1) * sam + k), *b = tensor(arguments[1], (n - 1) * sbn + k);
  float *c = tensor(arguments[2], (m - 1) * scm + n);
  if (kiln_emulator_thread())
    return;
  for (int64_t i = row; i < min(row + ROWS, m); ++i)
    for (int64_t j = column; j < min(column + COLUMNS, n); ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += load(a + i * sam + l) * load(b + j * sbn + l);
      store(c + i * scm + j, sum);
    }
}

/* x[i] += by in place, for 128 elements of a block; x, n, by, flag */
enum { BUMP_BLOCK = 128 };
const int64_t bump_kernel_parameters = 6;
void bump_kernel_emulated(void **arguments) {
  int64_t n, begin = (int64_t)kiln_emulator_block() * BUMP_BLOCK;
  memcpy(&n, arguments[1], sizeof n); /* i64 */
  uint8_t flag = *(const uint8_t *)arguments[3];
  float *x = tensor(arguments[0], n);
  if (kiln_emulator_thread())
    return;
  for (int64_t i = begin; i < min(begin + BUMP_BLOCK, n); ++i)
    store(x + i, load(x + i) + (flag ? number(arguments[2]) : 0));
}
