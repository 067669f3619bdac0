/* Failing calls of the system: constants that the host gives, and others that are computed from them. */
#include "faults.h"

void set_up(int argc, char **argv) { (void)argc, (void)argv; }

void scenario(void) {
  kiln_options options = quiet_options(2);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  STEP(set_floats(model, "unused", 1, 0, 0, 0, 0));
  STEP(set_floats(model, "scale", 0, 2, 0, 0, 0));
  STEP(set_ids(model, 3, 0, 3));
  STEP(set_floats(model, "table", 1, 1, 2, 3, 4));
  STEP(set_floats(model, "w_tied", 1, 10, 20, 30, 40));
  DLManagedTensorVersioned *outputs[3] = {NULL, NULL, NULL};
  STEP(kiln_model_run(model, NULL, 0, outputs, 3, NULL));
  const float expected[] = {8, 4, 11};
  for (int i = 0; i < 3; ++i) {
    CHECK(*(const float *)outputs[i]->dl_tensor.data == expected[i]);
    outputs[i]->deleter(outputs[i]);
  }
  STEP_VOID(kiln_model_destroy(model));
}
