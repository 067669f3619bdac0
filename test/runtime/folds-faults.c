/* Failing calls of the system: constants that others are computed from. */
#include "faults.h"

void set_up(int argc, char **argv) { (void)argc, (void)argv; }

static void check_run(kiln_model *model, float flipped, float picked, float more) {
  DLManagedTensorVersioned *outputs[3] = {NULL, NULL, NULL};
  STEP(kiln_model_run(model, NULL, 0, outputs, 3, NULL));
  const float expected[] = {flipped, picked, more};
  for (int i = 0; i < 3; ++i) {
    CHECK(*(const float *)outputs[i]->dl_tensor.data == expected[i]);
    outputs[i]->deleter(outputs[i]);
  }
}

void scenario(void) {
  kiln_options options = quiet_options(2);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  check_run(model, 8, 4, 11);
  float data[] = {5, 0, 6, 0, 7, 0, 8, 0};
  tensor value;
  set_tensor(&value, data, DTYPE_F32, 1, 4, 0);
  set_strides(&value, 2, 0);
  STEP(kiln_model_set_constant(model, "table", &value.t));
  check_run(model, 16, 8, 11);
  STEP(kiln_model_set_constant(model, "w_tied", &value.t));
  check_run(model, 16, 8, 6);
  STEP_VOID(kiln_model_destroy(model));
}
