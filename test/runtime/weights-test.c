/* External weights: good and bad files, buffers that keep their value, set_constant. */
#include "harness.h"

#include "../../runtime/ir_interface.h"
#include <pthread.h>
#include <unistd.h>

enum { BLOB = 4064, COUNT_AT_START = 10 };

static char path[] = "/tmp/kiln-weights-test-XXXXXX";

static void write_file(const char *magic, uint64_t bytes, uint64_t hash, size_t file_bytes) {
  static char file[KILN_RT_WEIGHTS_OFFSET + BLOB + 100];
  memset(file, 0, sizeof file);
  kiln_rt_weights_header header = {{0}, bytes, hash};
  memcpy(header.magic, magic, sizeof header.magic);
  memcpy(file, &header, sizeof header);
  int64_t count = COUNT_AT_START;
  memcpy(file + KILN_RT_WEIGHTS_OFFSET, &count, sizeof count);
  float one = 1;
  for (int i = 0; i < 1000; ++i)
    memcpy(file + KILN_RT_WEIGHTS_OFFSET + 64 + 4 * i, &one, sizeof one);
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(file, 1, file_bytes, f) == file_bytes && fclose(f) == 0);
}

static int32_t create(const char *weights, kiln_model **model) {
  kiln_options options = quiet_options(2);
  options.weights_path = weights;
  return kiln_model_create(&options, model);
}

static void test_bad_files(void) {
  const size_t whole = KILN_RT_WEIGHTS_OFFSET + BLOB;
  kiln_model *m;
  CHECK_FAILS(create("/nonexistent/weights", &m), KILN_INVALID_ARGUMENT,
              "/nonexistent/weights: cannot open the model's weights: No such file");
  CHECK_FAILS(create("/tmp", &m), KILN_INVALID_ARGUMENT, "/tmp: not a weights file");
  CHECK_FAILS(create(NULL, &m), KILN_INVALID_ARGUMENT, "give weights_path");
  write_file("KILNWTS1", BLOB, 0xfeed, 0);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "not a weights file");
  write_file("KILNWTS1", BLOB, 0xfeed, 20);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "not a weights file");
  write_file("KILNWTS2", BLOB, 0xfeed, whole);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "not a weights file");
  write_file("KILNWTS1", BLOB, 0xfeee, whole);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT,
              "expected 4064 bytes with hash 000000000000feed, got 4064 bytes with hash "
              "000000000000feee");
  write_file("KILNWTS1", BLOB + 1, 0xfeed, whole);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "weights of another model");
  write_file("KILNWTS1", BLOB, 0xfeed, whole - 1);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "expected 8160 bytes, got 8159 (a trunc");
  write_file("KILNWTS1", BLOB, 0xfeed, whole + 1);
  CHECK_FAILS(create(path, &m), KILN_INVALID_ARGUMENT, "wrong file size");
  CHECK(!m);
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
  int file = mkstemp(path);
  CHECK(file >= 0);
  close(file);
  test_bad_files();
  write_file("KILNWTS1", BLOB, 0xfeed, KILN_RT_WEIGHTS_OFFSET + BLOB);
  test_state();
  test_exclusive_runs();
  unlink(path);
  puts("ok");
  return 0;
}
