/* Strides and integers from which symbols are read: the values, and what is refused. */
#include "harness.h"

static kiln_model *model;
static float data[4096];
static int64_t result[3];

/* x is [rows, 4] with these strides (0, 0: none are given). */
static int32_t run(int64_t rows, int64_t outer, int64_t inner, int64_t n) {
  tensor x, number, y;
  set_tensor(&x, data, DTYPE_F32, 2, rows, 4);
  int64_t strides[] = {outer, inner};
  x.t.strides = outer || inner ? strides : NULL;
  set_tensor(&number, &n, DTYPE_I64, 0, 0, 0);
  set_tensor(&y, result, DTYPE_I64, 1, 3, 0);
  const DLTensor *inputs[] = {&x.t, &number.t};
  DLManagedTensorVersioned *outputs[1] = {NULL};
  int32_t status = kiln_model_run(model, inputs, 2, outputs, 1, NULL);
  if (status == KILN_OK) {
    memcpy(result, outputs[0]->dl_tensor.data, sizeof result);
    outputs[0]->deleter(outputs[0]);
  }
  return status;
}

static bool result_is(int64_t s0, int64_t s1, int64_t s2) {
  return result[0] == s0 && result[1] == s1 && result[2] == s2;
}

int main(void) {
  kiln_options options = quiet_options(1);
  CHECK_OK(kiln_model_create(&options, &model));
  CHECK_OK(run(5, 7, 1, 6));
  CHECK(result_is(5, 7, 3));
  CHECK_OK(run(3, 0, 0, 100)); /* contiguous */
  CHECK(result_is(3, 4, 50));
  CHECK_OK(run(1, 9, 1, 0));
  CHECK(result_is(1, 9, 0));
  CHECK_OK(run(0, 10, 1, 2));
  CHECK(result_is(0, 10, 1));
  CHECK_OK(run(0, 20, 2, 6)); /* no elements, which no stride places */
  CHECK(result_is(0, 20, 3));
  CHECK_FAILS(run(5, 20, 2, 6), KILN_SHAPE_MISMATCH,
              "input 0 \"x\": expected strides [s1, 1] = [20, 1], got [20, 2]");
  CHECK_FAILS(run(5, 3, 1, 6), KILN_SHAPE_MISMATCH, "expected s1 in [4, 1000], got 3");
  CHECK_FAILS(run(2, 1001, 1, 6), KILN_SHAPE_MISMATCH, "input 0 \"x\": ");
  CHECK_FAILS(run(5, 7, 1, 7), KILN_INVALID_ARGUMENT,
              "input 1 \"n\": expected the value [2*s2] = [6], got [7]");
  CHECK_FAILS(run(5, 7, 1, -8), KILN_SHAPE_MISMATCH, "expected s2 in [0, 50], got -4");
  CHECK_FAILS(run(5, 7, 1, INT64_MIN), KILN_SHAPE_MISMATCH, "input 1 \"n\": ");
  kiln_model_destroy(model);
  return 0;
}
