/* The file of external weights: any bytes, for the program of test/runtime/counter.c. It is refused, or has all the bytes that the
 * program reads. */
#include "harness.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  int file = memfd_create("weights", MFD_CLOEXEC);
  CHECK(file >= 0 && write(file, data, size) == (ssize_t)size);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  kiln_options options = quiet_options(1);
  options.weights_path = path;
  kiln_model *model;
  int32_t status = kiln_model_create(&options, &model);
  CHECK(status == KILN_OK || (*kiln_last_error() && !model));
  if (status == KILN_OK) {
    DLManagedTensorVersioned *outputs[2] = {NULL, NULL};
    CHECK_OK(kiln_model_run(model, NULL, 0, outputs, 2, NULL));
    for (int i = 0; i < 2; ++i)
      outputs[i]->deleter(outputs[i]);
    kiln_model_destroy(model);
  }
  close(file);
  return 0;
}
