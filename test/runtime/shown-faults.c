/* Failing calls of the system: tensors of kernels that are saved, and shown. */
#include "faults.h"

#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

const int64_t *shown_strides;
uint32_t shown_level;

static char folder[] = "/tmp/kiln-faults-XXXXXX";
static int nowhere, messages;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

void set_up(int argc, char **argv) {
  (void)argc, (void)argv;
  CHECK(mkdtemp(folder));
  CHECK(atexit(remove_folder) == 0);
  setenv("KILN_DEBUG_DIR", folder, 1);
  nowhere = open("/dev/null", O_WRONLY);
  messages = dup(STDERR_FILENO);
  CHECK(nowhere >= 0 && messages >= 0);
}

static void use(uint32_t level) {
  shown_level = level;
  kiln_options options = quiet_options(1);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  float x[6] = {1, 2, 3, 4, 5, 6};
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 2, 3, 2);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  CHECK(dup2(nowhere, STDERR_FILENO) == STDERR_FILENO);
  STEP(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  CHECK(dup2(messages, STDERR_FILENO) == STDERR_FILENO);
  for (int i = 0; i < 6; ++i)
    CHECK(((const float *)outputs[0]->dl_tensor.data)[i] == x[i] + 1);
  outputs[0]->deleter(outputs[0]);
  STEP_VOID(kiln_model_destroy(model));
}

void scenario(void) {
  for (uint32_t level = 1; level <= 3; ++level)
    use(level);
  remove_folder();
}
