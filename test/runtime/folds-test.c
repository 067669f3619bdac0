/* set_constant, where other constants were computed from the one that is replaced. */
#include "harness.h"

#include <pthread.h>

static kiln_model *create(const kiln_options *options) {
  kiln_model *model;
  CHECK_OK(kiln_model_create(options, &model));
  return model;
}

static kiln_model *create_quiet(int threads) {
  kiln_options options = quiet_options(threads);
  return create(&options);
}

static bool holds(const DLManagedTensorVersioned *output, const float *expected) {
  const DLTensor *t = &output->dl_tensor;
  return memcmp(t->data, expected, (size_t)t->shape[0] * sizeof(float)) == 0;
}

/* Whether a run gives these: flipped, picked, more. */
static bool gives(kiln_model *model, const float *flipped, const float *picked, const float *more) {
  DLManagedTensorVersioned *outputs[3] = {NULL, NULL, NULL};
  CHECK_OK(kiln_model_run(model, NULL, 0, outputs, 3, NULL));
  bool right = holds(outputs[0], flipped) && holds(outputs[1], picked) && holds(outputs[2], more);
  for (int i = 0; i < 3; ++i)
    outputs[i]->deleter(outputs[i]);
  return right;
}

#define ROW(...) ((const float[]){__VA_ARGS__})

static void replace_all(kiln_model *model) {
  CHECK(gives(model, ROW(8, 6, 4, 2), ROW(4, 1, 4), ROW(11, 21, 31, 41)));
  /* A product of two: the other one is kept. */
  CHECK_OK(set_floats(model, "scale", 0, 10, 0, 0, 0));
  CHECK(gives(model, ROW(40, 30, 20, 10), ROW(4, 1, 4), ROW(11, 21, 31, 41)));
  /* What two folds read. */
  CHECK_OK(set_floats(model, "table", 1, 5, 6, 7, 8));
  CHECK(gives(model, ROW(80, 70, 60, 50), ROW(8, 5, 8), ROW(11, 21, 31, 41)));
  CHECK_OK(set_ids(model, 1, 2, 3));
  CHECK(gives(model, ROW(80, 70, 60, 50), ROW(6, 7, 8), ROW(11, 21, 31, 41)));
  /* What is nowhere but in what was made of it, under both of its names. */
  CHECK_OK(set_floats(model, "w", 1, 0, 1, 2, 3));
  CHECK(gives(model, ROW(80, 70, 60, 50), ROW(6, 7, 8), ROW(1, 2, 3, 4)));
  float spread[] = {9, 0, 8, 0, 7, 0, 6, 0};
  tensor value;
  set_tensor(&value, spread, DTYPE_F32, 1, 4, 0);
  set_strides(&value, 2, 0);
  CHECK_OK(kiln_model_set_constant(model, "w_tied", &value.t));
  CHECK(gives(model, ROW(80, 70, 60, 50), ROW(6, 7, 8), ROW(10, 9, 8, 7)));
  CHECK_OK(set_floats(model, "unused", 1, 0, 1, 2, 3));
  CHECK(gives(model, ROW(80, 70, 60, 50), ROW(6, 7, 8), ROW(10, 9, 8, 7)));
}

static void test_replacement(void) {
  for (int threads = 1; threads <= 3; ++threads) {
    kiln_model *model = create_quiet(threads), *other = create_quiet(threads);
    replace_all(model);
    CHECK(gives(other, ROW(8, 6, 4, 2), ROW(4, 1, 4), ROW(11, 21, 31, 41)));
    kiln_model_destroy(model);
    kiln_model_destroy(other);
  }
}

static void test_bad_values(void) {
  kiln_model *model = create_quiet(2);
  CHECK_FAILS(set_ids(model, 0, 1, 4), KILN_INVALID_ARGUMENT, "index out of range");
  CHECK_FAILS(set_ids(model, -1, 1, 1), KILN_INVALID_ARGUMENT, "index out of range");
  CHECK_FAILS(set_floats(model, "", 1, 0, 0, 0, 0), KILN_INVALID_ARGUMENT, "no constant");
  CHECK_FAILS(set_floats(model, "w_tied", 0, 0, 0, 0, 0), KILN_SHAPE_MISMATCH,
              "constant \"w_tied\": expected float32 [4]");
  replace_all(model); /* nothing had changed */
  kiln_model_destroy(model);
}

/* An allocator that fails once, at the nth allocation from now. */
static int until_failure = -1;

static void *allocate(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  void *p;
  if (until_failure == 0 || bytes == 0)
    return NULL;
  until_failure -= until_failure > 0;
  return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void test_out_of_memory(void) {
  kiln_options options = quiet_options(1);
  options.alloc = allocate;
  options.dealloc = deallocate;
  kiln_model *model = create(&options);
  int32_t status = KILN_OUT_OF_MEMORY;
  int failures = 0;
  while (status != KILN_OK) {
    until_failure = failures++;
    status = set_floats(model, "table", 1, 5, 6, 7, 8);
    CHECK(status == KILN_OK || status == KILN_OUT_OF_MEMORY);
    until_failure = -1;
    CHECK(status == KILN_OK || gives(model, ROW(8, 6, 4, 2), ROW(4, 1, 4), ROW(11, 21, 31, 41)));
  }
  CHECK(failures > 4);
  CHECK(gives(model, ROW(16, 14, 12, 10), ROW(8, 5, 8), ROW(11, 21, 31, 41)));
  kiln_model_destroy(model);
}

static void serial_for(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg) {
  (void)ctx;
  for (int64_t i = n; i-- > 0;)
    body(arg, i);
}

static void test_parallel_for(void) {
  kiln_options options = quiet_options(0);
  options.parallel_for = serial_for;
  kiln_model *model = create(&options);
  replace_all(model);
  kiln_model_destroy(model);
}

enum { SETTERS = 4, TIMES = 200 };

static void *set_many(void *model) {
  for (int i = 1; i <= TIMES; ++i) {
    float x = (float)i;
    CHECK_OK(set_floats(model, "table", 1, x, x, x, x));
    CHECK_OK(set_floats(model, "scale", 0, x, x, x, x));
  }
  return NULL;
}

static void test_concurrent_replacement(void) {
  kiln_model *model = create_quiet(2);
  pthread_t setters[SETTERS];
  for (int i = 0; i < SETTERS; ++i)
    CHECK(pthread_create(&setters[i], NULL, set_many, model) == 0);
  for (int i = 0; i < SETTERS; ++i)
    pthread_join(setters[i], NULL);
  float square = (float)TIMES * TIMES, x = TIMES;
  CHECK(gives(model, ROW(square, square, square, square), ROW(x, x, x), ROW(11, 21, 31, 41)));
  kiln_model_destroy(model);
}

int main(void) {
  test_replacement();
  test_bad_values();
  test_out_of_memory();
  test_parallel_for();
  test_concurrent_replacement();
  puts("ok");
  return 0;
}
