/* Results of runs: strides, caller's outputs, mutation, allocators, constants. */
#include "rows.h"

#include <math.h>
#include <stdatomic.h>

static kiln_model *create(int threads) {
  kiln_options options = quiet_options(threads);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static void test_identity(void) {
  CHECK(kiln_abi_version() == KILN_ABI_VERSION);
  CHECK(strncmp(kiln_model_info(), "{\"name\": \"rows\"", 15) == 0);
  CHECK(strcmp(kiln_last_error(), "") == 0);
  kiln_model_destroy(NULL);
}

static void test_allocated_outputs(int threads, int64_t rows) {
  kiln_model *model = create(threads);
  arguments a;
  make_arguments(&a, rows);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  CHECK(a.state_data[0] == 1 && a.state_data[15] == 1);
  const DLManagedTensorVersioned *y = a.outputs[0], *t = a.outputs[3];
  CHECK(y->version.major == 1 && y->flags == 0 && y->dl_tensor.byte_offset == 0);
  CHECK(y->dl_tensor.ndim == 2 && y->dl_tensor.shape[0] == rows && y->dl_tensor.shape[1] == 8);
  CHECK(y->dl_tensor.strides[0] == 8 && y->dl_tensor.strides[1] == 1);
  CHECK((uintptr_t)y->dl_tensor.data % 64 == 0);
  CHECK(t->dl_tensor.shape[0] == 8 && t->dl_tensor.shape[1] == rows);
  CHECK(t->dl_tensor.strides[0] == 1 && t->dl_tensor.strides[1] == 8);
  kiln_model_destroy(model); /* outputs outlive the model */
  CHECK(outputs_right(&a));
  free_arguments(&a);
}

/* What a caller has deleted of a large output is written again by the next run, as long as it is
 * not far too large. */
static void test_kept_outputs(void) {
  enum { ROWS = 10000 };
  kiln_model *model = create(2);
  arguments a, b;
  make_arguments(&a, ROWS);
  make_arguments(&b, ROWS);
  CHECK_OK(run(model, &a));
  const void *first = a.outputs[0]->dl_tensor.data;
  free_outputs(&a);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && a.outputs[0]->dl_tensor.data == first);
  CHECK_OK(run(model, &b));
  CHECK(outputs_right(&a) && outputs_right(&b) && b.outputs[0]->dl_tensor.data != first);

  /* Of two the later one is kept. */
  const void *second = b.outputs[0]->dl_tensor.data;
  free_outputs(&a);
  free_outputs(&b);
  a.rows = a.x.shape[0] = a.ids.shape[0] = ROWS - 1;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && a.outputs[0]->dl_tensor.data == second);

  /* A run that fails gives back what it has taken. */
  free_outputs(&a);
  a.ids_data[7] = COLUMNS;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
  a.ids_data[7] = 7;
  CHECK_OK(run(model, &a));
  CHECK(a.outputs[0]->dl_tensor.data == second);

  /* Much smaller, then as large as at first again. */
  free_outputs(&a);
  a.rows = a.x.shape[0] = a.ids.shape[0] = ROWS / 3;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_outputs(&a);
  CHECK_OK(run(model, &b));
  CHECK(outputs_right(&b));

  /* One is kept and one with the caller when the model goes. */
  CHECK_OK(run(model, &a));
  free_outputs(&a);
  kiln_model_destroy(model);
  CHECK(outputs_right(&b));
  free_arguments(&a);
  free_arguments(&b);
}

static void test_strided_inputs(void) {
  enum { ROWS = 37 };
  kiln_model *model = create(2);
  arguments a;
  make_arguments(&a, ROWS);
  /* x as the transpose of a padded buffer, ids every second element at a byte
   * offset, state as columns of a wider matrix. */
  static float x[COLUMNS * 50];
  static int64_t ids[3 * ROWS];
  static float state[4 * 10];
  for (int r = 0; r < ROWS; ++r) {
    for (int c = 0; c < COLUMNS; ++c)
      x[c * 50 + r] = x_value(r, c);
    ids[1 + 2 * r] = r % COLUMNS;
  }
  a.x.t.data = x;
  set_strides(&a.x, 1, 50);
  a.ids.t.data = ids;
  a.ids.t.byte_offset = 8;
  set_strides(&a.ids, 2, 0);
  a.state.t.data = state;
  set_strides(&a.state, 10, 2);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  for (int i = 0; i < 40; ++i)
    CHECK(state[i] == (i % 10 % 2 == 0 && i % 10 < 8 ? 1 : 0));

  /* Elements that share memory may be read. */
  free_outputs(&a);
  set_strides(&a.ids, 0, 0);
  CHECK_OK(run(model, &a));
  CHECK(element(&a.outputs[1]->dl_tensor, 5, 0) == x_value(5, 0));

  /* Strides of sizes of 1 mean nothing. */
  free_outputs(&a);
  a.rows = a.x.shape[0] = a.ids.shape[0] = 1;
  set_strides(&a.x, 12345, 50);
  a.ids.t.strides = NULL;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
}

static void test_given_outputs(void) {
  enum { ROWS = 100 };
  kiln_model *model = create(2);
  arguments a;
  make_arguments(&a, ROWS);
  static float y[ROWS * COLUMNS * 2], picked[ROWS + 1], t[ROWS * COLUMNS];
  tensor yt, pt, tt;
  DLManagedTensorVersioned ym, pm, tm;
  set_tensor(&yt, y, DTYPE_F32, 2, ROWS, COLUMNS);
  set_tensor(&pt, picked, DTYPE_F32, 1, ROWS, 0);
  set_strides(&pt, 1, 0);
  pt.t.byte_offset = 4;
  set_tensor(&tt, t, DTYPE_F32, 2, COLUMNS, ROWS);

  /* Two that fit as they are, and one that needs a copy (contiguous where the
   * program has it transposed). */
  set_strides(&yt, COLUMNS, 1);
  set_strides(&tt, ROWS, 1);
  set_managed(&ym, &yt), set_managed(&pm, &pt), set_managed(&tm, &tt);
  a.outputs[0] = &ym, a.outputs[1] = &pm, a.outputs[3] = &tm;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && picked[0] == 0 && y[ROWS * COLUMNS] == 0);
  CHECK(a.outputs[0] == &ym && a.outputs[3] == &tm);

  /* Any strides, and a mix with NULL slots. */
  memset(y, 0, sizeof y);
  set_strides(&yt, 1, 2 * ROWS);
  set_managed(&ym, &yt);
  a.outputs[1] = NULL;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  a.outputs[1]->deleter(a.outputs[1]);
  a.outputs[1] = &pm;

  /* NULL strides mean contiguous. */
  yt.t.strides = NULL;
  set_managed(&ym, &yt);
  CHECK_OK(run(model, &a));
  for (int r = 0; r < ROWS; ++r)
    for (int c = 0; c < COLUMNS; ++c)
      CHECK(y[r * COLUMNS + c] == y_value(r, c));

  /* An output over an input: the whole input is read before. Shifted, so that
   * writing a row destroys the next one. */
  memmove(y, a.x_data, ROWS * COLUMNS * sizeof *y);
  a.x.t.data = y;
  yt.t.data = y + 3;
  set_strides(&yt, COLUMNS, 1);
  set_managed(&ym, &yt);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));

  memset(a.outputs, 0, sizeof a.outputs);
  free_arguments(&a);
  kiln_model_destroy(model);
}

static void test_failures_while_running(void) {
  kiln_model *model = create(2);
  arguments a;
  make_arguments(&a, 1000);
  a.ids_data[999] = 8;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
  CHECK(!a.outputs[0] && !a.outputs[1] && !a.outputs[3]);
  a.ids_data[999] = INT64_MIN;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
  a.ids_data[999] = 999 % 8;
  a.state_data[0] = -5;
  CHECK_FAILS(run(model, &a), KILN_ASSERTION_FAILED, "expected state[0] >= 0");
  CHECK(!a.outputs[0]);
  a.state_data[0] = 0;
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
}

typedef struct {
  _Atomic int calls, live;
  _Atomic int64_t bytes;
  int fail_at; /* the call that fails; -1: none */
  int misalign_at;
} heap;

static void *heap_alloc(void *ctx, size_t bytes, size_t align) {
  heap *h = ctx;
  int call = h->calls++;
  if (call == h->fail_at || align < 64 || (align & (align - 1)))
    return NULL;
  char *p = aligned_alloc(align, (bytes + 2 * align - 1) / align * align);
  h->live++;
  h->bytes += (int64_t)bytes;
  return call == h->misalign_at ? p + 4 : p;
}

static void heap_dealloc(void *ctx, void *p, size_t bytes, size_t align) {
  heap *h = ctx;
  if (!p)
    return;
  h->live--;
  h->bytes -= (int64_t)bytes;
  free((void *)((uintptr_t)p / align * align));
}

static void test_allocator(void) {
  heap h = {.fail_at = -1, .misalign_at = -1};
  kiln_options options = quiet_options(3);
  options.alloc = heap_alloc;
  options.dealloc = heap_dealloc;
  options.alloc_ctx = &h;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  arguments a;
  make_arguments(&a, 1000);
  set_strides(&a.x, 0, 1);
  for (int i = 0; i < 3; ++i) {
    int before = h.calls;
    CHECK_OK(run(model, &a));
    if (i)
      CHECK(h.calls - before == 3); /* the outputs alone */
    free_outputs(&a);
  }
  a.rows = a.x.shape[0] = a.ids.shape[0] = 10; /* less memory: none is allocated */
  int before = h.calls;
  CHECK_OK(run(model, &a));
  CHECK(h.calls - before == 3);
  kiln_model_destroy(model);
  CHECK(h.live == 3);
  free_arguments(&a);
  CHECK(h.live == 0 && h.bytes == 0);

  /* Every allocation that fails is an error and leaks nothing. */
  for (int misaligned = 0; misaligned < 2; ++misaligned)
    for (int at = 0, done = 0; !done; ++at) {
      heap failing = {.fail_at = misaligned ? -1 : at, .misalign_at = misaligned ? at : -1};
      options.alloc_ctx = &failing;
      int32_t status = kiln_model_create(&options, &model);
      make_arguments(&a, 1000);
      set_strides(&a.x, 0, 1);
      if (status == KILN_OK) {
        status = run(model, &a);
        done = status == KILN_OK;
        if (!done)
          CHECK_OK(run(model, &a)); /* and the next run succeeds */
      }
      CHECK(done || status == KILN_OUT_OF_MEMORY);
      free_arguments(&a);
      kiln_model_destroy(model);
      CHECK(failing.live == 0 && failing.bytes == 0);
      CHECK(at < 20);
    }
}

static _Atomic int host_calls;

static void serial_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  ++*(_Atomic int *)ctx;
  for (int64_t i = n - 1; i >= 0; --i)
    body(arg, i);
  body(arg, -1); /* a wrong host: must be harmless */
  body(arg, n);
}

static void test_parallel_for(void) {
  kiln_options options = quiet_options(0);
  options.parallel_for = serial_for;
  options.parallel_ctx = &host_calls;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  arguments a;
  make_arguments(&a, 333);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a) && host_calls == 2);
  a.ids_data[7] = 100;
  free_outputs(&a);
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "index out of range");
  free_arguments(&a);
  kiln_model_destroy(model);
}

/* The model is run once more while it runs, by a host whose memory is used up. */
static kiln_model *nested;
static size_t limit = SIZE_MAX;
static void nested_for(void *ctx, int64_t n, void (*body)(void *, int64_t), void *arg) {
  arguments a;
  make_arguments(&a, 5);
  limit = 0;
  CHECK_FAILS(run(nested, &a), KILN_OUT_OF_MEMORY, "out of memory for a run");
  limit = SIZE_MAX;
  free_arguments(&a);
  serial_for(ctx, n, body, arg);
}

static void test_run_without_memory(void) {
  kiln_options options = limited_options(&limit);
  int calls = 0;
  options.parallel_for = nested_for, options.parallel_ctx = &calls;
  CHECK_OK(kiln_model_create(&options, &nested));
  arguments a;
  make_arguments(&a, 333);
  CHECK_OK(run(nested, &a));
  CHECK(outputs_right(&a) && calls == 2);
  free_arguments(&a);
  kiln_model_destroy(nested);
}

static void test_set_constant(void) {
  kiln_model *model = create(1), *other = create(1);
  arguments a;
  make_arguments(&a, 4);
  float w[16] = {0};
  for (int i = 0; i < 8; ++i)
    w[2 * i] = 100;
  tensor value;
  set_tensor(&value, w, DTYPE_F32, 1, 8, 0);
  set_strides(&value, 2, 0);
  CHECK_OK(kiln_model_set_constant(model, "w", &value.t));
  CHECK_OK(run(model, &a));
  CHECK(element(&a.outputs[0]->dl_tensor, 1, 1) == x_value(1, 1) * 2 + 100);
  free_outputs(&a);
  CHECK_OK(run(other, &a));
  CHECK(outputs_right(&a));
  free_outputs(&a);
  w[0] = 7;
  CHECK_OK(kiln_model_set_constant(model, "w", &value.t));
  CHECK_OK(run(model, &a));
  CHECK(element(&a.outputs[0]->dl_tensor, 0, 0) == x_value(0, 0) * 2 + 7);

  CHECK_FAILS(kiln_model_set_constant(model, "v", &value.t), KILN_INVALID_ARGUMENT,
              "no constant named \"v\"");
  CHECK_FAILS(kiln_model_set_constant(model, "", &value.t), KILN_INVALID_ARGUMENT, "no constant");
  CHECK_OK(kiln_model_set_constant(model, "unused", &value.t));
  CHECK_FAILS(kiln_model_set_constant(NULL, "w", &value.t), KILN_INVALID_ARGUMENT, "model");
  CHECK_FAILS(kiln_model_set_constant(model, NULL, &value.t), KILN_INVALID_ARGUMENT, "name");
  CHECK_FAILS(kiln_model_set_constant(model, "w", NULL), KILN_INVALID_ARGUMENT,
              "constant \"w\": expected a tensor, got NULL");
  value.shape[0] = 7;
  CHECK_FAILS(kiln_model_set_constant(model, "w", &value.t), KILN_SHAPE_MISMATCH,
              "constant \"w\": expected float32 [8], got float32 [7]");
  value.shape[0] = 8;
  value.t.dtype = DTYPE_F64;
  CHECK_FAILS(kiln_model_set_constant(model, "w", &value.t), KILN_INVALID_ARGUMENT,
              "constant \"w\": expected float32 [8], got float64 [8]");
  free_arguments(&a);
  kiln_model_destroy(model);
  kiln_model_destroy(other);
}

int main(void) {
  test_identity();
  for (int threads = 0; threads <= 5; ++threads) {
    test_allocated_outputs(threads, 1);
    test_allocated_outputs(threads, 2);
    test_allocated_outputs(threads, 3000);
  }
  test_kept_outputs();
  test_strided_inputs();
  test_given_outputs();
  test_failures_while_running();
  test_allocator();
  test_parallel_for();
  test_run_without_memory();
  test_set_constant();
  puts("ok");
  return 0;
}
