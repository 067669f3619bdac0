/* set_constant, where constants have no values before: in any order, with failures in between. */
#include "harness.h"

static void refuses(kiln_model *model, const char *name) {
  DLManagedTensorVersioned *outputs[3] = {NULL, NULL, NULL};
  CHECK_FAILS(kiln_model_run(model, NULL, 0, outputs, 3, NULL), KILN_INVALID_ARGUMENT, name);
}

static void gives(kiln_model *model, const float *flipped, const float *picked, const float *more) {
  DLManagedTensorVersioned *outputs[3] = {NULL, NULL, NULL};
  const float *expected[] = {flipped, picked, more};
  CHECK_OK(kiln_model_run(model, NULL, 0, outputs, 3, NULL));
  for (int i = 0; i < 3; ++i) {
    const DLTensor *t = &outputs[i]->dl_tensor;
    CHECK(memcmp(t->data, expected[i], (size_t)t->shape[0] * sizeof(float)) == 0);
    outputs[i]->deleter(outputs[i]);
  }
}

#define ROW(...) ((const float[]){__VA_ARGS__})

int main(void) {
  for (int threads = 1; threads <= 2; ++threads) {
    kiln_options options = quiet_options(threads);
    kiln_model *model, *other;
    CHECK_OK(kiln_model_create(&options, &model));
    CHECK_OK(kiln_model_create(&options, &other));
    refuses(model, "constant \"scale\" has no value");
    CHECK_OK(set_floats(model, "unused", 1, 0, 0, 0, 0));
    CHECK_OK(set_floats(model, "scale", 0, 2, 0, 0, 0));
    refuses(model, "constant \"table\" has no value");
    CHECK_FAILS(set_floats(model, "table[1:3]", 1, 1, 2, 3, 4), KILN_INVALID_ARGUMENT,
                "constant \"table\" has no value whose rows could be replaced");
    CHECK_OK(set_ids(model, 3, 0, 4)); /* nothing is picked yet */
    CHECK_FAILS(set_floats(model, "table", 1, 1, 2, 3, 4), KILN_INVALID_ARGUMENT,
                "index out of range");
    refuses(model, "constant \"table\" has no value");
    CHECK_OK(set_ids(model, 3, 0, 3));
    CHECK_OK(set_floats(model, "table", 1, 1, 2, 3, 4));
    refuses(model, "constant \"w\" has no value");
    CHECK_OK(set_floats(model, "w_tied", 1, 10, 20, 30, 40));
    gives(model, ROW(8, 6, 4, 2), ROW(4, 1, 4), ROW(11, 21, 31, 41));
    CHECK_OK(set_floats(model, "scale", 0, 10, 0, 0, 0));
    gives(model, ROW(40, 30, 20, 10), ROW(4, 1, 4), ROW(11, 21, 31, 41));
    refuses(other, "constant \"scale\" has no value");
    kiln_model_destroy(model);
    kiln_model_destroy(other);
  }
  puts("ok");
  return 0;
}
