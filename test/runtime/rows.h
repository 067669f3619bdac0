/*===- rows.h - Arguments for the program of rows.c -------------------------===*/
#ifndef KILN_TEST_RUNTIME_ROWS_H
#define KILN_TEST_RUNTIME_ROWS_H

#include "harness.h"

enum { COLUMNS = 8, INPUTS = 4, OUTPUTS = 4 };

typedef struct {
  int64_t rows;
  float *x_data, state_data[16];
  int64_t *ids_data;
  double scale_data;
  tensor x, ids, state, scale;
  const DLTensor *inputs[INPUTS];
  DLManagedTensorVersioned *outputs[OUTPUTS];
} arguments;

static inline float x_value(int64_t row, int64_t column) {
  return (float)((row * 31 + column * 7) % 1000);
}

static inline float y_value(int64_t row, int64_t column) {
  return x_value(row, column) * 2 + (float)(column + 1);
}

static inline void make_arguments(arguments *a, int64_t rows) {
  memset(a, 0, sizeof *a);
  a->rows = rows;
  a->x_data = malloc((size_t)rows * COLUMNS * sizeof(float));
  a->ids_data = malloc((size_t)rows * sizeof(int64_t));
  a->scale_data = 2;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < COLUMNS; ++c)
      a->x_data[r * COLUMNS + c] = x_value(r, c);
    a->ids_data[r] = r % COLUMNS;
  }
  set_tensor(&a->x, a->x_data, DTYPE_F32, 2, rows, COLUMNS);
  set_tensor(&a->ids, a->ids_data, DTYPE_I64, 1, rows, 0);
  set_tensor(&a->state, a->state_data, DTYPE_F32, 2, 4, 4);
  set_tensor(&a->scale, &a->scale_data, DTYPE_F64, 0, 0, 0);
  a->inputs[0] = &a->x.t;
  a->inputs[1] = &a->ids.t;
  a->inputs[2] = &a->state.t;
  a->inputs[3] = &a->scale.t;
}

static inline void free_outputs(arguments *a) {
  for (int o = 0; o < OUTPUTS; ++o)
    if (a->outputs[o] && a->outputs[o]->deleter)
      a->outputs[o]->deleter(a->outputs[o]);
  memset(a->outputs, 0, sizeof a->outputs);
}

static inline void free_arguments(arguments *a) {
  free_outputs(a);
  free(a->x_data);
  free(a->ids_data);
}

static inline int32_t run(kiln_model *model, arguments *a) {
  return kiln_model_run(model, a->inputs, INPUTS, a->outputs, OUTPUTS, NULL);
}

static inline float element(const DLTensor *t, int64_t i, int64_t j) {
  const float *data = (const float *)((const char *)t->data + t->byte_offset);
  return data[t->ndim == 1 ? i * t->strides[0] : i * t->strides[0] + j * t->strides[1]];
}

/* Whether the outputs are right, wherever and however they are stored. */
static inline bool outputs_right(const arguments *a) {
  if (a->outputs[2])
    return false;
  for (int64_t r = 0; r < a->rows; ++r) {
    if (element(&a->outputs[1]->dl_tensor, r, 0) != x_value(r, r % COLUMNS))
      return false;
    for (int64_t c = 0; c < COLUMNS; ++c)
      if (element(&a->outputs[0]->dl_tensor, r, c) != y_value(r, c) ||
          element(&a->outputs[3]->dl_tensor, c, r) != y_value(r, c))
        return false;
  }
  return true;
}

#endif /* KILN_TEST_RUNTIME_ROWS_H */
