/* Failing calls of the system: outputs and memory whose sizes only data gives. */
#include "faults.h"

enum { SIZE = 60000, COUNT = SIZE / 2 };

static int64_t x[SIZE], pair[2 * COUNT];

void set_up(int argc, char **argv) {
  (void)argc, (void)argv;
  for (int64_t i = 0; i < SIZE; ++i)
    x[i] = i % 2 ? i : -i;
}

/* The last output is given with strides that are not the recorded ones, so that it is copied. */
void scenario(void) {
  kiln_options options = quiet_options(2);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  tensor input, output;
  DLManagedTensorVersioned managed, *outputs[3] = {NULL, NULL, &managed};
  set_tensor(&input, x, DTYPE_I64, 1, SIZE, 0);
  set_tensor(&output, pair, DTYPE_I64, 2, 2, COUNT);
  set_strides(&output, COUNT, 1);
  set_managed(&managed, &output);
  memset(pair, 0, sizeof pair);
  const DLTensor *inputs[] = {&input.t};
  STEP(kiln_model_run(model, inputs, 1, outputs, 3, NULL));
  const int64_t *y = outputs[0]->dl_tensor.data;
  for (int64_t i = 0; i < COUNT; ++i)
    CHECK(y[i] == 2 * i + 1 && pair[i] == y[i] && pair[COUNT + i] == -y[i]);
  outputs[0]->deleter(outputs[0]);
  outputs[1]->deleter(outputs[1]);
  STEP_VOID(kiln_model_destroy(model));
}
