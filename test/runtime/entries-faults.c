/* Failing calls of the system: entries that run in turn over the memory and buffers of a session. */
#include "entries.h"
#include "faults.h"

enum { ADD, READ, COUNT };

void set_up(int argc, char **argv) {
  (void)argc, (void)argv;
  make_handles(quiet_options(1));
}

/* Adds `size` to the buffer; what a run that fails has added is none. */
static void add(kiln_session *session, int64_t size, float expected) {
  float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  tensor x;
  set_tensor(&x, ones, DTYPE_F32, 1, size, 0);
  const DLTensor *inputs[] = {&x.t};
  DLManagedTensorVersioned *output = NULL;
  STEP(kiln_session_run(session, ADD, inputs, 1, &output, 1, NULL));
  CHECK(*(const float *)output->dl_tensor.data == expected);
  output->deleter(output);
}

/* The last output is bound late, in memory of the caller's with other strides. */
static void read(kiln_session *session, float total, float doubled) {
  float late[6] = {0};
  tensor given;
  DLManagedTensorVersioned managed, *outputs[3] = {NULL, NULL, &managed};
  set_tensor(&given, late, DTYPE_F32, 1, 3, 0);
  set_strides(&given, 2, 0);
  set_managed(&managed, &given);
  STEP(kiln_session_run(session, READ, NULL, 0, outputs, 3, NULL));
  CHECK(*(const float *)outputs[0]->dl_tensor.data == total);
  CHECK(*(const float *)outputs[1]->dl_tensor.data == doubled);
  CHECK(late[0] == 1.5f * doubled && late[1] == 0);
  outputs[0]->deleter(outputs[0]);
  outputs[1]->deleter(outputs[1]);
}

static void run_model(kiln_model *model) {
  float a = 5, b = 3;
  tensor x, y;
  set_tensor(&x, &b, DTYPE_F32, 0, 0, 0);
  set_tensor(&y, &a, DTYPE_F32, 0, 0, 0);
  const DLTensor *inputs[] = {&x.t, &y.t};
  DLManagedTensorVersioned *output = NULL;
  STEP(kiln_model_run(model, inputs, 2, &output, 1, NULL));
  CHECK(*(const float *)output->dl_tensor.data == 2);
  output->deleter(output);
}

void scenario(void) {
  entries_set_model(true);
  kiln_options options = quiet_options(2);
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  kiln_session *session = NULL, *copy = NULL;
  STEP(kiln_session_create(model, &session));
  read(session, 1, 2);
  add(session, 5, 6);
  run_model(model);
  STEP(kiln_session_clone(session, &copy));
  STEP(kiln_session_reset(session));
  float scale[4] = {5, 6, 7, 8};
  tensor value;
  set_tensor(&value, scale, DTYPE_F32, 1, 4, 0);
  STEP(kiln_model_set_constant(model, "scale", &value.t));
  add(copy, 2, 8);
  read(session, 1, 10);
  uint32_t entry = COUNT;
  STEP(kiln_model_find_entry(model, "read", &entry));
  CHECK(entry == READ);
  STEP_VOID(kiln_session_destroy(session));
  STEP_VOID(kiln_model_destroy(model));
  STEP_VOID(kiln_session_destroy(copy));
}
