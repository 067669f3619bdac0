/* Failing calls of the system: a library that the model calls. argv[1] names it. */
#include "faults.h"

void set_up(int argc, char **argv) {
  CHECK(argc == 2);
  setenv("KILN_FAKE_LIBRARY", argv[1], 1);
  setenv("KILN_SPARE_LIBRARY", argv[1], 1);
}

void scenario(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  float x[4] = {1, 2, 3, 4};
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 1, 4, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  STEP(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  const float *y = outputs[0]->dl_tensor.data;
  CHECK(y[0] == 2 && y[1] == 144);
  outputs[0]->deleter(outputs[0]);
  STEP_VOID(kiln_model_destroy(model));
}
