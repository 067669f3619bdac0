/* External weights: good and bad files, buffers that keep their value, set_constant. */
#include "harness.h"

#include "weights-file.h"
#include <pthread.h>
#include <unistd.h>

enum { BLOB = 4064, COUNT_AT_START = 10 };

static char path[] = "/tmp/kiln-weights-test-XXXXXX";

static char file[KILN_RT_WEIGHTS_ALIGN + BLOB + 100];
enum { WHOLE = KILN_RT_WEIGHTS_ALIGN + BLOB };

/* A good file. */
static void make_file(uint64_t hash) {
  memset(file, 0, sizeof file);
  make_front(file, BLOB, hash);
  int64_t count = COUNT_AT_START;
  memcpy(file + KILN_RT_WEIGHTS_ALIGN, &count, sizeof count);
  float one = 1;
  for (int i = 0; i < 1000; ++i)
    memcpy(file + KILN_RT_WEIGHTS_ALIGN + 64 + 4 * i, &one, sizeof one);
}

static void write_file(size_t bytes) {
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(file, 1, bytes, f) == bytes && fclose(f) == 0);
}

static int32_t create(const char *weights, kiln_model **model) {
  kiln_options options = quiet_options(2);
  options.weights_path = weights;
  return kiln_model_create(&options, model);
}

static void test_bad_files(void) {
  kiln_model *m;
  CHECK_FAILS(create("/nonexistent/weights", &m), KILN_INVALID_ARGUMENT,
              "/nonexistent/weights: cannot open the model's weights: No such file");
  CHECK(!strstr(kiln_last_error(), "give weights_path"));
  CHECK_FAILS(create("/tmp", &m), KILN_INVALID_ARGUMENT, "/tmp: not a weights file");
  CHECK_FAILS(create(NULL, &m), KILN_INVALID_ARGUMENT, "give weights_path");
  make_file(0xfeed);
  for (size_t bytes = 0; bytes < 64; ++bytes) {
    write_file(bytes);
    CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT,
                bytes < 55 ? "not a weights file" : "wrong file size");
  }
  write_file(WHOLE - 1);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "expected 8160 bytes, got 8159 (a trunc");
  write_file(WHOLE + 1);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "wrong file size");
  make_file(0xfeee);
  write_file(WHOLE);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT,
              "the weights of another model: expected hash 000000000000feed, got 000000000000feee");
  CHECK(!m);
}

/* The front with one byte that is another, and headers of other lengths. */
static void test_bad_headers(void) {
  kiln_model *m;
  for (int i = 0; i < 55; ++i) {
    make_file(0xfeed);
    for (int bit = 0; bit < 8; ++bit) {
      file[i] ^= (char)(1 << bit);
      write_file(WHOLE);
      CHECK(create(path, &m) == KILN_INVALID_ARGUMENT && !m);
      file[i] ^= (char)(1 << bit);
    }
  }
  static const uint64_t lengths[] = {0, 40, 46, 47, 4087, 4089, 8184, UINT64_MAX - 7, UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
    for (int k = 0; k < 8; ++k)
      file[k] = (char)(lengths[i] >> 8 * k);
    write_file(WHOLE);
    CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT,
                lengths[i] == 8184 ? "wrong file size" : "not a weights file");
  }
  make_file(0xfeed);
  write_file(WHOLE);
}

static int64_t count_up(kiln_model *model, float expected_sum) {
  DLManagedTensorVersioned *outputs[2] = {NULL, NULL};
  CHECK_OK(kiln_model_run(model, NULL, 0, outputs, 2, NULL));
  int64_t count = *(const int64_t *)outputs[0]->dl_tensor.data;
  CHECK(outputs[0]->dl_tensor.ndim == 0);
  CHECK(*(const float *)outputs[1]->dl_tensor.data == expected_sum);
  outputs[0]->deleter(outputs[0]);
  outputs[1]->deleter(outputs[1]);
  return count;
}

static void test_state(void) {
  kiln_model *a, *b;
  CHECK_OK(create(path, &a));
  CHECK_OK(create(path, &b));
  CHECK(count_up(a, 1000) == COUNT_AT_START + 1);
  CHECK(count_up(a, 1000) == COUNT_AT_START + 2);
  CHECK(count_up(b, 1000) == COUNT_AT_START + 1); /* each model has its own */
  int64_t count = -5;
  tensor value;
  set_tensor(&value, &count, DTYPE_I64, 0, 0, 0);
  CHECK_OK(kiln_model_set_constant(a, "count", &value.t));
  CHECK(count_up(a, 1000) == -4);
  float two = 2;
  set_tensor(&value, &two, DTYPE_F32, 1, 1000, 0);
  set_strides(&value, 0, 0);
  CHECK_OK(kiln_model_set_constant(a, "table", &value.t));
  CHECK(count_up(a, 2000) == -3 && count_up(b, 1000) == COUNT_AT_START + 2);
  kiln_model_destroy(a);
  kiln_model_destroy(b);
  CHECK_OK(create(path, &a)); /* the file is as it was */
  CHECK(count_up(a, 1000) == COUNT_AT_START + 1);
  kiln_model_destroy(a);
}

enum { RUNNERS = 4, RUNS = 500 };

static void *count_many(void *model) {
  for (int i = 0; i < RUNS; ++i)
    count_up(model, 1000);
  return NULL;
}

static void test_exclusive_runs(void) {
  kiln_model *model;
  CHECK_OK(create(path, &model));
  pthread_t runners[RUNNERS];
  for (int r = 0; r < RUNNERS; ++r)
    CHECK(pthread_create(&runners[r], NULL, count_many, model) == 0);
  for (int r = 0; r < RUNNERS; ++r)
    pthread_join(runners[r], NULL);
  CHECK(count_up(model, 1000) == COUNT_AT_START + RUNNERS * RUNS + 1);
  kiln_model_destroy(model);
}

int main(void) {
  int handle = mkstemp(path);
  CHECK(handle >= 0);
  close(handle);
  test_bad_files();
  test_bad_headers();
  test_state();
  test_exclusive_runs();
  unlink(path);
  puts("ok");
  return 0;
}
