/* Failing calls of the system: sessions that are made, run, copied and reset. */
#include "faults.h"
#include "tally.h"

static kiln_model *first;

static int32_t make_handle(void) {
  kiln_session *session;
  int32_t status = kiln_session_create(first, &session);
  kiln_session_destroy(session);
  return status;
}

void set_up(int argc, char **argv) {
  (void)argc, (void)argv;
  kiln_options options = quiet_options(1);
  CHECK_OK(kiln_model_create(&options, &first));
  faults_each(make_handle);
  kiln_model_destroy(first);
  make_handles(options);
}

static void add(kiln_session *session, float x, float y) {
  tensor input;
  set_tensor(&input, &x, DTYPE_F32, 0, 0, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *output = NULL;
  STEP(kiln_session_run(session, 0, inputs, 1, &output, 1, NULL));
  CHECK(*(const float *)output->dl_tensor.data == y);
  output->deleter(output);
}

void scenario(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model = NULL;
  kiln_session *session = NULL, *clone = NULL;
  STEP(kiln_model_create(&options, &model));
  STEP(kiln_session_create(model, &session));
  add(session, 1, 3);
  STEP(kiln_session_clone(session, &clone));
  STEP(kiln_session_reset(session));
  add(session, 1, 3);
  add(clone, 1, 5);
  float ten = 10;
  tensor value;
  set_tensor(&value, &ten, DTYPE_F32, 1, TALLY_SIZE, 0);
  set_strides(&value, 0, 0);
  STEP(kiln_model_set_constant(model, "total", &value.t));
  STEP(kiln_session_reset(session));
  add(session, 1, 12);
  STEP_VOID(kiln_session_destroy(clone));
  STEP_VOID(kiln_model_destroy(model));
  STEP_VOID(kiln_session_destroy(session));
}
