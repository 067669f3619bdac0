/* Failing calls of the system: rows of constants, with strides, and with more made of them. */
#include "faults.h"
#include "layouts.h"

void set_up(int argc, char **argv) { (void)argc, (void)argv; }

static void check(kiln_model *model, float panels, float twice) {
  DLManagedTensorVersioned *outputs[1] = {NULL};
  STEP(kiln_model_run(model, NULL, 0, outputs, 1, NULL));
  const layouts *all = outputs[0]->dl_tensor.data;
  CHECK(all->in_panels[1] == panels && all->transposed[1] == panels && all->twice[1] == twice);
  outputs[0]->deleter(outputs[0]);
}

void scenario(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  check(model, 0, 4);
  float data[] = {5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0};
  tensor value;
  set_tensor(&value, data, DTYPE_F32, 2, 2, 3);
  set_strides(&value, 6, 2);
  STEP(kiln_model_set_constant(model, "panels[1:3]", &value.t));
  check(model, 5, 4);
  set_tensor(&value, data, DTYPE_F32, 1, 1, 0);
  STEP(kiln_model_set_constant(model, "doubled[1:2]", &value.t));
  check(model, 5, 10);
  STEP_VOID(kiln_model_destroy(model));
}
