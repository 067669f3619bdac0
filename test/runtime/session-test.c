/* Sessions: buffers and memory of their own, runs at once, and handles that are not what they should be. */
#include "harness.h"
#include "tally.h"

#include <pthread.h>
#include <stdatomic.h>

static kiln_model *create_model(void) {
  kiln_options options = quiet_options(2);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static kiln_session *create(kiln_model *model) {
  kiln_session *session = NULL;
  CHECK_OK(kiln_session_create(model, &session));
  return session;
}

static kiln_session *copy_of(const kiln_session *from) {
  kiln_session *session = NULL;
  CHECK_OK(kiln_session_clone(from, &session));
  return session;
}

/* Runs the session, or the model's own (NULL). */
static int32_t run(kiln_model *model, kiln_session *session, float x, float *y) {
  tensor input;
  set_tensor(&input, &x, DTYPE_F32, 0, 0, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *output = NULL;
  int32_t status = session ? kiln_session_run(session, 0, inputs, 1, &output, 1, NULL)
                           : kiln_model_run(model, inputs, 1, &output, 1, NULL);
  if (status != KILN_OK)
    return status;
  const float *data = output->dl_tensor.data;
  *y = data[0];
  for (int i = 1; i < TALLY_SIZE; ++i)
    CHECK(data[i] == *y);
  output->deleter(output);
  return KILN_OK;
}

static float add(kiln_session *session, float x) {
  float y;
  CHECK_OK(run(NULL, session, x, &y));
  return y;
}

static float add_to_model(kiln_model *model, float x) {
  float y;
  CHECK_OK(run(model, NULL, x, &y));
  return y;
}

static void set(kiln_model *model, const char *name, float value) {
  tensor tensor;
  set_tensor(&tensor, &value, DTYPE_F32, 1, TALLY_SIZE, 0);
  set_strides(&tensor, 0, 0);
  CHECK_OK(kiln_model_set_constant(model, name, &tensor.t));
}

static void test_buffers(void) {
  kiln_model *model = create_model();
  kiln_session *a = create(model), *b = create(model);
  CHECK(add(a, 1) == 3 && add(a, 1) == 5 && add(b, 10) == 21);
  CHECK(add_to_model(model, 100) == 201);
  kiln_session *c = copy_of(a);
  CHECK(add(c, 1) == 7 && add(a, 2) == 9 && add(c, 1) == 9);
  CHECK_OK(kiln_session_reset(a));
  CHECK(add(a, 3) == 7 && add(b, 0) == 21);
  /* A parameter is everybody's. A buffer's value is for the model's own runs and later sessions. */
  set(model, "scale", 1);
  set(model, "total", 50);
  CHECK(add(a, 1) == 8 && add(b, 1) == 22 && add_to_model(model, 1) == 51);
  kiln_session *d = create(model), *e = copy_of(b);
  CHECK_OK(kiln_session_reset(c));
  CHECK(add(c, 1) == 51 && add(d, 2) == 52 && add(e, 0) == 22);
  for (kiln_session **s = (kiln_session *[]){a, b, c, d, e, NULL}; *s; ++s)
    kiln_session_destroy(*s);
  kiln_session_destroy(NULL);
  kiln_model_destroy(model);
  /* Before the model has run itself. */
  model = create_model();
  set(model, "total", 7);
  CHECK(add_to_model(model, 1) == 9);
  /* Rows of a buffer: all of them here. */
  set(model, "total[0:32768]", 20);
  a = create(model);
  CHECK(add_to_model(model, 1) == 22 && add(a, 2) == 24);
  kiln_model_destroy(model);
  kiln_session_destroy(a);
}

enum { THREADS = 4, RUNS = 40 };

static kiln_model *shared;

static void *run_many(void *session) {
  for (int i = 0; i < RUNS; ++i) {
    CHECK(add(session, 1) == 1 + 2 * (float)(i + 1));
    if (i % 10 == 9) {
      kiln_session *other = copy_of(session), *fresh = create(shared);
      CHECK(add(other, 1) == add(session, 1));
      CHECK(add(fresh, 1) == 3);
      kiln_session_destroy(other);
      CHECK_OK(kiln_session_reset(fresh));
      CHECK(add(fresh, 2) == 5);
      kiln_session_destroy(fresh);
      CHECK(add(session, -1) == 1 + 2 * (float)(i + 1));
    }
  }
  return NULL;
}

static void *run_model(void *model) {
  for (int i = 0; i < RUNS; ++i)
    add_to_model(model, 1);
  return NULL;
}

static void test_concurrency(void) {
  shared = create_model();
  pthread_t threads[2 * THREADS];
  kiln_session *sessions[THREADS];
  for (int t = 0; t < THREADS; ++t) {
    sessions[t] = create(shared);
    CHECK(pthread_create(&threads[t], NULL, run_many, sessions[t]) == 0);
    CHECK(pthread_create(&threads[THREADS + t], NULL, run_model, shared) == 0);
  }
  for (int t = 0; t < 2 * THREADS; ++t)
    pthread_join(threads[t], NULL);
  CHECK(add_to_model(shared, 0) == 1 + 2 * THREADS * RUNS);
  for (int t = 0; t < THREADS; ++t)
    kiln_session_destroy(sessions[t]);
  kiln_model_destroy(shared);
}

static _Atomic int stage;

static void pause_run(void) {
  stage = 1;
  while (stage != 2)
    ;
}

static void *run_paused(void *session) {
  CHECK(add(session, 1) == 3);
  return NULL;
}

static void test_busy(void) {
  kiln_model *model = create_model();
  kiln_session *session = create(model), *other;
  pthread_t thread;
  float y;
  tally_pause = pause_run;
  CHECK(pthread_create(&thread, NULL, run_paused, session) == 0);
  while (stage != 1)
    ;
  const char *text = "the session is in use on another thread";
  CHECK_FAILS(run(NULL, session, 1, &y), KILN_INVALID_ARGUMENT, text);
  CHECK_FAILS(kiln_session_reset(session), KILN_INVALID_ARGUMENT, text);
  CHECK_FAILS(kiln_session_clone(session, &other), KILN_INVALID_ARGUMENT, text);
  CHECK(!other);
  stage = 2;
  pthread_join(thread, NULL);
  tally_pause = NULL;
  CHECK(add(session, 1) == 5);
  kiln_session_destroy(session);
  kiln_model_destroy(model);
}

static void test_handles(void) {
  kiln_model *model = create_model();
  kiln_session *session = create(model), *gone = create(model), *none;
  uint32_t entry = 99;
  float y;
  CHECK_OK(kiln_model_find_entry(model, "model", &entry));
  CHECK(entry == 0);
  CHECK_FAILS(kiln_model_find_entry(model, "decode", &entry), KILN_INVALID_ARGUMENT,
              "no entry named \"decode\": it has \"model\"");
  CHECK_FAILS(kiln_model_find_entry(NULL, "model", &entry), KILN_INVALID_ARGUMENT, "a model");
  CHECK_FAILS(kiln_model_find_entry(model, NULL, &entry), KILN_INVALID_ARGUMENT, "a name");
  CHECK_FAILS(kiln_model_find_entry(model, "model", NULL), KILN_INVALID_ARGUMENT, "a place");
  DLManagedTensorVersioned *output = NULL;
  CHECK_FAILS(kiln_session_run(session, 1, NULL, 0, &output, 1, NULL), KILN_INVALID_ARGUMENT,
              "expected an entry below 1, got 1");
  CHECK_FAILS(kiln_session_run(session, 0, NULL, 0, &output, 1, NULL), KILN_INVALID_ARGUMENT,
              "expected 1 inputs, got 0");
  CHECK_FAILS(kiln_session_run(NULL, 0, NULL, 0, &output, 1, NULL), KILN_INVALID_ARGUMENT,
              "kiln_session_run: expected a session, got NULL");
  CHECK_FAILS(kiln_session_create(NULL, &none), KILN_INVALID_ARGUMENT, "expected a model");
  CHECK_FAILS(kiln_session_create(model, NULL), KILN_INVALID_ARGUMENT, "expected a place");
  CHECK_FAILS(kiln_session_clone(session, NULL), KILN_INVALID_ARGUMENT, "expected a place");
  CHECK_FAILS(kiln_session_clone(NULL, &none), KILN_INVALID_ARGUMENT, "expected a session");
  CHECK_FAILS(kiln_session_reset(NULL), KILN_INVALID_ARGUMENT, "expected a session");
  CHECK(add(session, 1) == 3); /* none of these has touched it */
  kiln_session_destroy(gone);
  kiln_session_destroy(gone);
  CHECK_FAILS(run(NULL, gone, 1, &y), KILN_INVALID_ARGUMENT, "the session has been destroyed");
  CHECK_FAILS(kiln_session_reset(gone), KILN_INVALID_ARGUMENT, "the session has been destroyed");
  CHECK_FAILS(kiln_session_clone(gone, &none), KILN_INVALID_ARGUMENT, "has been destroyed");
  _Alignas(64) char foreign[4096];
  memset(foreign, 1, sizeof foreign);
  CHECK_FAILS(run(NULL, (kiln_session *)foreign, 1, &y), KILN_INVALID_ARGUMENT,
              "is one of another shared object's model");
  kiln_session_destroy((kiln_session *)foreign);
  kiln_model_destroy(model);
  CHECK_FAILS(run(NULL, session, 1, &y), KILN_INVALID_ARGUMENT,
              "the session's model has been destroyed");
  kiln_session_destroy(session);
}

/* Bytes that the host's allocator has given, and the most that it gives. */
static int64_t in_use, limit = INT64_MAX;

static void *allocate(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  void *p = NULL;
  if (in_use + (int64_t)bytes > limit || posix_memalign(&p, align, bytes) != 0)
    return NULL;
  in_use += (int64_t)bytes;
  return p;
}

static void take_back(void *ctx, void *p, size_t bytes, size_t align) {
  (void)ctx, (void)align;
  in_use -= p ? (int64_t)bytes : 0;
  free(p);
}

/* A session costs its buffers and one arena; the model's own come with the model's first run. */
static void test_memory(void) {
  enum { SESSIONS = 20, EACH = 2 * 4 * TALLY_SIZE };
  kiln_options options = quiet_options(1);
  options.alloc = allocate;
  options.dealloc = take_back;
  kiln_model *model = NULL;
  kiln_session *sessions[SESSIONS];
  CHECK_OK(kiln_model_create(&options, &model));
  CHECK(in_use < EACH / 20);
  int64_t before = in_use;
  for (int s = 0; s < SESSIONS; ++s)
    CHECK(add(sessions[s] = create(model), 1) == 3);
  double each = (double)(in_use - before) / SESSIONS;
  CHECK(each >= EACH && each <= 1.02 * EACH);
  for (int s = 0; s < SESSIONS; s += 2)
    kiln_session_destroy(sessions[s]);
  CHECK(in_use - before == (int64_t)(each * SESSIONS / 2));
  /* At every place where memory may end. */
  int64_t now = in_use;
  kiln_session *session;
  for (limit = now; limit < now + 3 * EACH; limit += EACH / 16) {
    float y;
    if (kiln_session_clone(sessions[1], &session) == KILN_OK) {
      int32_t status = run(NULL, session, 1, &y);
      CHECK(status == KILN_OK ? y == 5 : status == KILN_OUT_OF_MEMORY);
      kiln_session_destroy(session);
    } else {
      CHECK(!session && strstr(kiln_last_error(), "out of memory"));
    }
    CHECK(in_use == now);
  }
  float y;
  limit = in_use + EACH / 4;
  CHECK_FAILS(run(model, NULL, 1, &y), KILN_OUT_OF_MEMORY, "out of memory");
  limit = INT64_MAX;
  CHECK(add_to_model(model, 1) == 3);
  kiln_model_destroy(model); /* with the other sessions */
  CHECK(in_use == 0);
  for (int s = 1; s < SESSIONS; s += 2)
    kiln_session_destroy(sessions[s]);
}

int main(void) {
  test_buffers();
  test_concurrency();
  test_busy();
  test_handles();
  test_memory();
  puts("ok");
  return 0;
}
