/* Outputs and memory whose sizes only data gives. */
#include "harness.h"
#include "late.h"

#include <pthread.h>
#include <stdatomic.h>

enum { OUTPUTS = 3 };

typedef struct {
  int64_t *data, size;
  tensor x;
  DLManagedTensorVersioned *outputs[OUTPUTS];
} arguments;

/* Every third of `size` elements is not positive. */
static void make_arguments(arguments *a, int64_t size) {
  memset(a, 0, sizeof *a);
  a->size = size;
  a->data = malloc((size_t)(size ? size : 1) * sizeof *a->data);
  for (int64_t i = 0; i < size; ++i)
    a->data[i] = i % 3 ? i : -i;
  set_tensor(&a->x, a->data, DTYPE_I64, 1, size, 0);
}

static int64_t num_positive(int64_t size) { return size - (size + 2) / 3; }

static void free_arguments(arguments *a) {
  for (int o = 0; o < OUTPUTS; ++o)
    if (a->outputs[o] && a->outputs[o]->deleter)
      a->outputs[o]->deleter(a->outputs[o]);
  free(a->data);
}

static int32_t run(kiln_model *model, arguments *a) {
  const DLTensor *inputs[] = {&a->x.t};
  return kiln_model_run(model, inputs, 1, a->outputs, OUTPUTS, NULL);
}

static int64_t element(const DLTensor *t, int64_t i, int64_t j) {
  const int64_t *data = (const int64_t *)((const char *)t->data + t->byte_offset);
  return data[t->ndim == 1 ? i * t->strides[0] : i * t->strides[0] + j * t->strides[1]];
}

static bool outputs_right(const arguments *a) {
  const DLTensor *y = &a->outputs[0]->dl_tensor, *pair = &a->outputs[2]->dl_tensor;
  int64_t count = num_positive(a->size), next = 0;
  if (y->shape[0] != count || pair->shape[0] != 2 || pair->shape[1] != count)
    return false;
  for (int64_t i = 0; i < a->size; ++i) {
    if (a->data[i] <= 0)
      continue;
    if (element(y, next, 0) != a->data[i] || element(pair, 0, next) != a->data[i] ||
        element(pair, 1, next) != -a->data[i])
      return false;
    ++next;
  }
  return next == count;
}

static kiln_model *create(int threads) {
  kiln_options options = quiet_options(threads);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

/* Empty, growing and shrinking, one model. */
static void test_sizes(int threads) {
  static const int64_t sizes[] = {0, 1, 2, 5, 1000, 70000, 999, 3, 0, 70001};
  kiln_model *model = create(threads);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    arguments a;
    make_arguments(&a, sizes[i]);
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    const DLTensor *pair = &a.outputs[2]->dl_tensor;
    CHECK(pair->strides[0] == 1 && pair->strides[1] == 2);
    free_arguments(&a);
  }
  kiln_model_destroy(model);
}

static void test_given_outputs(void) {
  enum { SIZE = 301, COUNT = 200 };
  kiln_model *model = create(2);
  arguments a;
  make_arguments(&a, SIZE);
  static int64_t y[2 * SIZE], pair[4 * COUNT];
  tensor yt, pt;
  DLManagedTensorVersioned ym, pm;
  set_tensor(&yt, y, DTYPE_I64, 1, COUNT, 0);
  set_tensor(&pt, pair, DTYPE_I64, 2, 2, COUNT);

  /* As recorded. */
  set_strides(&yt, 1, 0), set_strides(&pt, 1, 2);
  set_managed(&ym, &yt), set_managed(&pm, &pt);
  a.outputs[0] = &ym, a.outputs[2] = &pm;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && y[COUNT] == 0);

  /* Other strides, which need a copy: of a size that is known late as well. */
  memset(y, 0, sizeof y);
  set_strides(&yt, 2, 0), set_strides(&pt, COUNT, 1);
  set_managed(&ym, &yt), set_managed(&pm, &pt);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && y[1] == 0);

  /* Over the input, which is read until the end. */
  memcpy(y, a.data, SIZE * sizeof *y);
  a.x.t.data = y;
  set_strides(&yt, 1, 0);
  yt.t.data = y + 1;
  set_managed(&ym, &yt);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  a.x.t.data = a.data;
  yt.t.data = y;

  /* What can be told at entry is told there; a size when it is known. */
  pt.t.dtype = DTYPE_F64;
  set_managed(&pm, &pt);
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT,
              "output 2 \"pair\": expected int64 [2, u0], got float64 [2, 200]");
  pt.t.dtype = DTYPE_I64;
  pt.shape[0] = 3;
  set_managed(&pm, &pt);
  CHECK_FAILS(run(model, &a), KILN_SHAPE_MISMATCH,
              "output 2 \"pair\": expected int64 [2, u0], got int64 [3, 200]");
  pt.shape[0] = 2;
  set_managed(&pm, &pt);
  yt.shape[0] = COUNT - 1;
  set_managed(&ym, &yt);
  a.outputs[1]->deleter(a.outputs[1]);
  a.outputs[1] = NULL;
  CHECK_FAILS(run(model, &a), KILN_SHAPE_MISMATCH, "output 0 \"y\": expected int64 [");
  CHECK(!a.outputs[1]);

  /* The model goes on. */
  a.outputs[0] = a.outputs[2] = NULL;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
}

static void test_failures(void) {
  kiln_model *model = create(1);
  arguments a;
  make_arguments(&a, 90000);
  CHECK_FAILS(run(model, &a), KILN_ASSERTION_FAILED, "too many of them: u0 = 60000, s0 = 90000");
  CHECK(!a.outputs[0] && !a.outputs[1] && !a.outputs[2]);
  free_arguments(&a);

  make_arguments(&a, 10);
  a.data[0] = LATE_CHECK_FAILS;
  CHECK_FAILS(run(model, &a), KILN_ASSERTION_FAILED, "the first is wrong");
  CHECK(!strchr(kiln_last_error(), '='));
  a.data[0] = LATE_OVERFLOWS;
  CHECK_FAILS(run(model, &a), KILN_OUT_OF_MEMORY, "overflows for what the data says");
  a.data[0] = LATE_TOO_LARGE;
  CHECK_FAILS(run(model, &a), KILN_OUT_OF_MEMORY, "36028797018963968 bytes");
  a.data[0] = 0;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
}

/*===-- Allocations ---------------------------------------------------------===*/

static atomic_int num_allocations;

static void *count_alloc(void *ctx, size_t bytes, size_t align) {
  (void)ctx;
  atomic_fetch_add(&num_allocations, 1);
  void *p = NULL;
  return posix_memalign(&p, align, bytes) ? NULL : p;
}

static void count_dealloc(void *ctx, void *p, size_t bytes, size_t align) {
  (void)ctx, (void)bytes, (void)align;
  free(p);
}

/* Once warm, a run allocates its outputs alone; so does one that needs less. */
static void test_allocations(void) {
  kiln_options options = quiet_options(1);
  options.alloc = count_alloc;
  options.dealloc = count_dealloc;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  static const int64_t sizes[] = {5000, 5000, 100, 4999};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    arguments a;
    make_arguments(&a, sizes[i]);
    int before = num_allocations;
    CHECK_OK(run(model, &a));
    CHECK(i == 0 || num_allocations == before + OUTPUTS);
    CHECK(outputs_right(&a));
    free_arguments(&a);
  }
  kiln_model_destroy(model);
}

/*===-- Threads -------------------------------------------------------------===*/

static void *run_many(void *model) {
  for (int64_t size = 1; size < 3000; size += 97) {
    arguments a;
    make_arguments(&a, size % 2 ? size : 3000 - size);
    CHECK_OK(run(model, &a));
    CHECK(outputs_right(&a));
    free_arguments(&a);
  }
  return NULL;
}

static void test_threads(void) {
  kiln_model *model = create(2);
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    CHECK(pthread_create(&threads[i], NULL, run_many, model) == 0);
  for (int i = 0; i < 3; ++i)
    pthread_join(threads[i], NULL);
  kiln_model_destroy(model);
}

int main(void) {
  test_sizes(1);
  test_sizes(2);
  test_given_outputs();
  test_failures();
  test_allocations();
  test_threads();
  return 0;
}
