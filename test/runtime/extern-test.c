/* Libraries that a model calls: finding them, and their errors. */
#include "harness.h"

#include <unistd.h>

static int32_t create(int threads, kiln_model **model) {
  kiln_options options = quiet_options(threads);
  return kiln_model_create(&options, model);
}

static void *communicator(void *ctx, const char *group, int64_t size) {
  return strcmp(group, "group") == 0 && size == 2 ? ctx : NULL;
}

static int32_t run_times(kiln_model *model, float times, float *y) {
  float x[4] = {times, 2, 3, 4};
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, 4, 0);
  set_tensor(&output, y, DTYPE_F32, 1, 4, 0);
  DLManagedTensorVersioned managed, *outputs[1] = {&managed};
  set_managed(&managed, &output);
  const DLTensor *inputs[1] = {&input.t};
  return kiln_model_run(model, inputs, 1, outputs, 1, NULL);
}

static int32_t run(kiln_model *model, float *y) { return run_times(model, 0, y); }

extern char externs_text[]; /* what the model calls libkiln_spare.so with */

/* Processes that run one program call each library alike: in this order, with these texts. */
static void test_program(void) {
  kiln_model *m;
  setenv("FAKE", "program", 1);
  char first[1024];
  CHECK_FAILS(create(1, &m), KILN_INVALID_ARGUMENT, "spare.nothing.default: call 0 of ");
  snprintf(first, sizeof first, "%s", kiln_last_error());
  externs_text[0] = 'n';
  CHECK_FAILS(create(1, &m), KILN_INVALID_ARGUMENT, "spare.nothing.default: call 0 of ");
  CHECK(strcmp(kiln_last_error(), first) != 0);
  externs_text[0] = 't';
  CHECK_FAILS(create(1, &m), KILN_INVALID_ARGUMENT, first);
  setenv("FAKE", "", 1);
}

int main(int argc, char **argv) {
  CHECK(argc == 2);
  kiln_model *m;
  float y[4];

  /* Neither beside this program nor where the loader looks. */
  unsetenv("KILN_FAKE_LIBRARY");
  CHECK_FAILS(create(1, &m), KILN_UNSUPPORTED,
              "cannot load libkiln_fake.so, which runs fake.add.default for this model: "
              "libkiln_fake.so: cannot open shared object file");
  CHECK(!m);
  setenv("KILN_FAKE_LIBRARY", "/nowhere/fake.so", 1);
  CHECK_FAILS(create(1, &m), KILN_UNSUPPORTED, "/nowhere/fake.so: cannot open");

  setenv("KILN_FAKE_LIBRARY", argv[1], 1);
  setenv("KILN_SPARE_LIBRARY", argv[1], 1);
  setenv("FAKE", "version", 1);
  CHECK_FAILS(create(1, &m), KILN_UNSUPPORTED, "libkiln_fake.so is of another version of Kiln");
  setenv("FAKE", "prepare", 1);
  CHECK_FAILS(create(1, &m), KILN_UNSUPPORTED,
              "node 'nothing' (model.py:4): fake.nothing.default: there is no such operator");
  setenv("FAKE", "connect", 1);
  CHECK_FAILS(create(1, &m), KILN_INVALID_ARGUMENT, "not told");
  kiln_options options = quiet_options(1);
  options.communicator = communicator;
  options.communicator_ctx = y;
  options.collective_timeout = 1234;
  CHECK_FAILS(kiln_model_create(&options, &m), KILN_INVALID_ARGUMENT, ": told");
  test_program();

  CHECK_OK(create(0, &m));
  CHECK_OK(run(m, y));
  CHECK(y[0] == 42 && y[3] == 46);
  setenv("FAKE", "run", 1);
  CHECK_FAILS(run(m, y), KILN_INVALID_ARGUMENT, "node 'add' (model.py:3): fake.add.default: xxx");
  setenv("FAKE", "", 1);
  CHECK_OK(run(m, y));

  /* Results that say how large they are: fetched, or left behind by a run that fails. */
  CHECK_OK(run_times(m, 3, y));
  CHECK(y[0] == 2 && y[2] == 2 && y[3] == 46);
  CHECK_FAILS(run_times(m, 5, y), KILN_ASSERTION_FAILED, "too many");
  CHECK_OK(run_times(m, 1, y));
  CHECK(y[0] == 2 && y[1] == 44);
  kiln_model_destroy(m);

  /* The library may use as many threads as the model. */
  CHECK_OK(create(2, &m));
  CHECK_OK(run(m, y));
  CHECK(y[0] == 242);
  kiln_model_destroy(m);
  return 0;
}
