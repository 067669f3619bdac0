/* Several entries: found by name, run over the same buffers and weights, each with its own checks. */
#include "entries.h"
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ADD, READ, COUNT };

static kiln_model *create_model(int threads) {
  kiln_options options = quiet_options(threads);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static int32_t add(kiln_session *session, int64_t size, float *total) {
  float ones[16];
  for (int i = 0; i < 16; ++i)
    ones[i] = 1;
  tensor x;
  set_tensor(&x, ones, DTYPE_F32, 1, size, 0);
  const DLTensor *inputs[] = {&x.t};
  DLManagedTensorVersioned *output = NULL;
  int32_t status = kiln_session_run(session, ADD, inputs, 1, &output, 1, NULL);
  if (status == KILN_OK) {
    *total = *(float *)output->dl_tensor.data;
    output->deleter(output);
  }
  return status;
}

/* total, and the first numbers of the other two. */
static void read(kiln_session *session, float *total, float *doubled, float *late) {
  DLManagedTensorVersioned *outputs[3] = {NULL};
  CHECK_OK(kiln_session_run(session, READ, NULL, 0, outputs, 3, NULL));
  *total = *(float *)outputs[0]->dl_tensor.data;
  *doubled = *(float *)outputs[1]->dl_tensor.data;
  CHECK(outputs[2]->dl_tensor.shape[0] == 3);
  *late = *(float *)outputs[2]->dl_tensor.data;
  for (int i = 0; i < 3; ++i)
    outputs[i]->deleter(outputs[i]);
}

static float subtract(kiln_model *model, kiln_session *session, float a, float b) {
  tensor x, y;
  set_tensor(&x, &b, DTYPE_F32, 0, 0, 0);
  set_tensor(&y, &a, DTYPE_F32, 0, 0, 0);
  const DLTensor *inputs[] = {&x.t, &y.t};
  DLManagedTensorVersioned *output = NULL;
  CHECK_OK(session ? kiln_session_run(session, COUNT, inputs, 2, &output, 1, NULL)
                   : kiln_model_run(model, inputs, 2, &output, 1, NULL));
  float result = *(float *)output->dl_tensor.data;
  output->deleter(output);
  return result;
}

static void test_names(void) {
  kiln_model *model = create_model(1);
  static const char *const names[] = {"add", "read", "count"};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t entry = 99;
    CHECK_OK(kiln_model_find_entry(model, names[i], &entry));
    CHECK(entry == i);
  }
  uint32_t entry = 99;
  CHECK_FAILS(kiln_model_find_entry(model, "ad", &entry), KILN_INVALID_ARGUMENT,
              "the model has no entry named \"ad\": it has \"add\", \"read\", \"count\"");
  CHECK_FAILS(kiln_model_find_entry(model, NULL, &entry), KILN_INVALID_ARGUMENT, "expected a name");
  CHECK_FAILS(kiln_model_find_entry(model, "add", NULL), KILN_INVALID_ARGUMENT, "expected a place");
  CHECK_FAILS(kiln_model_find_entry(NULL, "add", &entry), KILN_INVALID_ARGUMENT,
              "expected a model");
  CHECK(entry == 99);
  CHECK_FAILS(kiln_model_run(model, NULL, 0, NULL, 0, NULL), KILN_INVALID_ARGUMENT,
              "no entry named \"forward\" or \"model\": it has \"add\", \"read\", \"count\"");
  kiln_model_destroy(model);

  entries_set_model(true);
  model = create_model(1);
  CHECK(subtract(model, NULL, 5, 3) == 2);
  kiln_model_destroy(model);
  entries_set_model(false);
}

/* The same context runs one after the other, each time with the other's arrays in its memory. */
static void test_runs(void) {
  kiln_model *model = create_model(2);
  kiln_session *session = NULL, *other = NULL;
  CHECK_OK(kiln_session_create(model, &session));
  CHECK_OK(kiln_session_create(model, &other));
  float total = 0, doubled = 0, late = 0;
  for (int i = 1; i <= 3; ++i) {
    CHECK_OK(add(session, 5, &total));
    CHECK(total == 1 + 5 * i);
    CHECK(subtract(NULL, session, 7, 4) == 3);
    read(session, &total, &doubled, &late);
    CHECK(total == 1 + 5 * i && doubled == 2 && late == 3);
  }
  read(other, &total, &doubled, &late);
  CHECK(total == 1);
  CHECK_OK(kiln_session_reset(session));
  read(session, &total, &doubled, &late);
  CHECK(total == 1);
  kiln_session_destroy(session);
  kiln_session_destroy(other);
  kiln_model_destroy(model);
}

static void test_checks(void) {
  kiln_model *model = create_model(1);
  kiln_session *session = NULL;
  CHECK_OK(kiln_session_create(model, &session));
  float total;
  CHECK_FAILS(add(session, 9, &total), KILN_SHAPE_MISMATCH, "expected n in [1, 8], got 9");
  CHECK_FAILS(add(session, 8, &total), KILN_ASSERTION_FAILED, "add fails");
  CHECK_FAILS(kiln_session_run(session, READ, NULL, 1, NULL, 3, NULL), KILN_INVALID_ARGUMENT,
              "expected 0 inputs, got 1");
  CHECK_FAILS(kiln_session_run(session, 3, NULL, 0, NULL, 0, NULL), KILN_INVALID_ARGUMENT,
              "expected an entry below 3, got 3");
  kiln_session_destroy(session);
  kiln_model_destroy(model);
}

/* A weight is one for all entries; the fold that fails is of the second. */
static void test_constants(void) {
  kiln_model *model = create_model(1);
  kiln_session *session = NULL;
  CHECK_OK(kiln_session_create(model, &session));
  float total, doubled, late;
  CHECK_OK(set_floats(model, "scale", 1, 5, 6, 7, 8));
  read(session, &total, &doubled, &late);
  CHECK(doubled == 10 && late == 15);
  CHECK_FAILS(set_floats(model, "scale", 1, -1, 0, 0, 0), KILN_ASSERTION_FAILED,
              "scale is below 0");
  read(session, &total, &doubled, &late);
  CHECK(doubled == 10 && late == 15);
  kiln_session_destroy(session);
  kiln_model_destroy(model);
}

static void *run_many(void *arg) {
  kiln_session *session = NULL;
  float total = 0, doubled, late;
  CHECK_OK(kiln_session_create(arg, &session));
  for (int i = 1; i <= 200; ++i) {
    CHECK_OK(add(session, 2, &total));
    CHECK(subtract(NULL, session, 2, 1) == 1);
    read(session, &total, &doubled, &late);
    CHECK(total == 1 + 2 * i);
  }
  kiln_session_destroy(session);
  return NULL;
}

static void test_threads(void) {
  kiln_model *model = create_model(2);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    CHECK(pthread_create(&threads[i], NULL, run_many, model) == 0);
  for (int i = 0; i < 4; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  kiln_model_destroy(model);
}

/* Calls of all kinds, right and wrong, of one session and its model from several threads. */
static kiln_session *shared;

static void *call_anything(void *arg) {
  kiln_model *model = arg;
  static atomic_uint threads;
  uint32_t random = 2654435761u * (1 + atomic_fetch_add(&threads, 1));
  for (int i = 0; i < 400; ++i) {
    random = random * 1664525 + 1013904223;
    uint32_t kind = random >> 28, entry = random >> 8 & 3;
    kiln_session *copy = NULL;
    float total;
    int32_t status = KILN_OK;
    if (kind < 6) { /* 8 fails, 9 and more are too many */
      status = add(shared, random >> 16 & 15, &total);
      CHECK(status != KILN_OK || total >= 1);
    } else if (kind < 8) {
      DLManagedTensorVersioned *outputs[3] = {NULL};
      status = kiln_session_run(shared, entry == 3 ? UINT32_MAX : entry, NULL, 0, outputs, 3, NULL);
      for (int o = 0; o < 3; ++o) {
        CHECK((status == KILN_OK) == (outputs[o] != NULL));
        if (outputs[o])
          outputs[o]->deleter(outputs[o]);
      }
    } else if (kind < 10) {
      status = kiln_session_clone(shared, &copy);
      CHECK((status == KILN_OK) == (copy != NULL));
      if (copy)
        CHECK(subtract(NULL, copy, 3, 1) == 2);
      kiln_session_destroy(copy);
    } else if (kind < 11) {
      status = kiln_session_reset(shared);
    } else if (kind < 12) {
      status = set_floats(model, "scale", 1, 2, entry == 3 ? -1.0f : 1.0f, 4, 5);
    } else if (kind < 13) {
      status = kiln_model_run(model, NULL, 0, NULL, 0, NULL);
      CHECK(status == KILN_INVALID_ARGUMENT);
    } else {
      static const char *const names[] = {"add", "", "count ", "read"};
      uint32_t found = 99;
      status = kiln_model_find_entry(model, names[entry], &found);
      CHECK(status == KILN_OK ? found < 3 : found == 99);
    }
    CHECK(status == KILN_OK || status == KILN_INVALID_ARGUMENT || status == KILN_SHAPE_MISMATCH ||
          status == KILN_ASSERTION_FAILED);
  }
  return NULL;
}

static void test_anything(void) {
  kiln_model *model = create_model(2);
  CHECK_OK(kiln_session_create(model, &shared));
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    CHECK(pthread_create(&threads[i], NULL, call_anything, model) == 0);
  for (int i = 0; i < 3; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  float total, doubled, late;
  CHECK_OK(set_floats(model, "scale", 1, 4, 4, 4, 4));
  CHECK_OK(kiln_session_reset(shared));
  read(shared, &total, &doubled, &late);
  CHECK(total == 1 && doubled == 8 && late == 12);
  /* Its handle can still be told of what is gone. */
  kiln_model_destroy(model);
  CHECK_FAILS(add(shared, 2, &total), KILN_INVALID_ARGUMENT, "model has been destroyed");
  kiln_session_destroy(shared);
  CHECK_FAILS(add(shared, 2, &total), KILN_INVALID_ARGUMENT, "has been destroyed");
  kiln_session_destroy(shared);
}

int main(void) {
  test_names();
  test_runs();
  test_checks();
  test_constants();
  test_threads();
  test_anything();
  return 0;
}
