/* Failing calls of the system: a file of weights, buffers that keep their value. */
#include "faults.h"

#include "weights-file.h"
#include <unistd.h>

enum { BLOB = 4064, TABLE = 1000 };

static char path[] = "/tmp/kiln-faults-XXXXXX";

void set_up(int argc, char **argv) {
  (void)argc, (void)argv;
  static char file[KILN_RT_WEIGHTS_ALIGN + BLOB];
  make_front(file, BLOB, 0xfeed);
  int handle = mkstemp(path);
  CHECK(handle >= 0 && write(handle, file, sizeof file) == (ssize_t)sizeof file);
  close(handle);
}

/* The file is the same whatever a run writes. */
__attribute__((destructor)) static void remove_file(void) { unlink(path); }

static void count_up(kiln_model *model, int64_t count, float sum) {
  DLManagedTensorVersioned *outputs[2] = {NULL, NULL};
  STEP(kiln_model_run(model, NULL, 0, outputs, 2, NULL));
  CHECK(*(const int64_t *)outputs[0]->dl_tensor.data == count);
  CHECK(*(const float *)outputs[1]->dl_tensor.data == sum);
  outputs[0]->deleter(outputs[0]);
  outputs[1]->deleter(outputs[1]);
}

void scenario(void) {
  kiln_options options = quiet_options(1);
  options.weights_path = path;
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  count_up(model, 1, 0);
  float two = 2;
  tensor value;
  set_tensor(&value, &two, DTYPE_F32, 1, TABLE, 0);
  set_strides(&value, 0, 0);
  STEP(kiln_model_set_constant(model, "table", &value.t));
  count_up(model, 2, 2 * TABLE);
  STEP_VOID(kiln_model_destroy(model));
}
