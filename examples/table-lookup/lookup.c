/* my_lookup(codes, table, scale) = table[codes] * scale; lookup.mlir declares it.
 *
 *   cc -O3 -fPIC -I ../../include -c lookup.c */
#include "kiln-c/custom_op.h"

struct rows {
  const uint8_t *codes;
  const float *table;
  float *to;
  int64_t columns;
};

static void decode_row(void *arg, int64_t row) {
  const struct rows *rows = arg;
  const uint8_t *codes = rows->codes + row * rows->columns;
  float *to = rows->to + row * rows->columns;
  for (int64_t i = 0; i < rows->columns; ++i)
    to[i] = rows->table[codes[i]];
}

int32_t my_lookup(const DLTensor *const *inputs, size_t num_inputs, const DLTensor *const *outputs,
                  size_t num_outputs, const kiln_custom_op_context *context) {
  (void)num_inputs, (void)num_outputs;
  const float *table = inputs[1]->data;
  float scale = *(const float *)inputs[2]->data;
  float *scaled = outputs[1]->data; /* the workspace comes behind the results */
  for (int i = 0; i < 256; ++i)
    scaled[i] = table[i] * scale;
  struct rows rows = {inputs[0]->data, scaled, outputs[0]->data, inputs[0]->shape[1]};
  context->parallel_for(context->parallel_ctx, inputs[0]->shape[0], decode_row, &rows);
  return KILN_OK;
}
KILN_SIGNATURE(my_lookup, "(ui8[n, m], f32[256], f32[]) -> f32[n, m]");
