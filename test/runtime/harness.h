/*===- harness.h - Checks and tensors for the runtime's tests ---------------===*/
#ifndef KILN_TEST_RUNTIME_HARNESS_H
#define KILN_TEST_RUNTIME_HARNESS_H

#include "kiln-c/model.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* scripts/coverage counts what runs at the very end, too. */
int __llvm_profile_write_file(void) __attribute__((weak));
__attribute__((destructor(101))) static inline void write_counts(void) {
  if (__llvm_profile_write_file)
    __llvm_profile_write_file();
}

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: CHECK(%s) failed; last error: %s\n", __FILE__, __LINE__, #condition, \
              kiln_last_error());                                                                  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define CHECK_OK(call) CHECK((call) == KILN_OK)

/* The call must fail with this status, and a message that contains the text. */
#define CHECK_FAILS(call, status, text)                                                            \
  do {                                                                                             \
    int32_t got_ = (call);                                                                         \
    if (got_ != (status) || !strstr(kiln_last_error(), (text))) {                                  \
      fprintf(stderr, "%s:%d: expected status %d and \"%s\", got status %d and \"%s\"\n",          \
              __FILE__, __LINE__, (int)(status), (text), (int)got_, kiln_last_error());            \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static inline void quiet(void *ctx, int level, const char *message) {
  (void)ctx, (void)level, (void)message;
}

static inline kiln_options quiet_options(int threads) {
  kiln_options options = {0};
  options.struct_size = sizeof options;
  options.num_threads = threads;
  options.log = quiet;
  return options;
}

/* The memory of a host that has nothing of `*limit` bytes or more. */
static inline void *allocate_below(void *limit, size_t bytes, size_t align) {
  return bytes < *(const size_t *)limit ? aligned_alloc(align, (bytes + align - 1) / align * align)
                                        : NULL;
}
static inline void deallocate(void *limit, void *p, size_t bytes, size_t align) {
  (void)limit, (void)bytes, (void)align;
  free(p);
}
static inline kiln_options limited_options(size_t *limit) {
  kiln_options options = quiet_options(0);
  options.alloc = allocate_below, options.dealloc = deallocate, options.alloc_ctx = limit;
  return options;
}

/* Two handles of sessions, which the process keeps for the next ones. */
static inline void make_handles(kiln_options options) {
  kiln_model *model = NULL;
  kiln_session *sessions[2];
  CHECK_OK(kiln_model_create(&options, &model));
  for (int i = 0; i < 2; ++i)
    CHECK_OK(kiln_session_create(model, &sessions[i]));
  for (int i = 0; i < 2; ++i)
    kiln_session_destroy(sessions[i]);
  kiln_model_destroy(model);
}

/* A tensor with its sizes, for use as an argument. */
typedef struct {
  DLTensor t;
  int64_t shape[4], strides[4];
} tensor;

#define DTYPE_F32 ((DLDataType){kDLFloat, 32, 1})
#define DTYPE_F64 ((DLDataType){kDLFloat, 64, 1})
#define DTYPE_I64 ((DLDataType){kDLInt, 64, 1})

static inline void set_tensor(tensor *x, void *data, DLDataType dtype, int rank, int64_t a,
                              int64_t b) {
  memset(x, 0, sizeof *x);
  x->t.data = data;
  x->t.device.device_type = kDLCPU;
  x->t.ndim = rank;
  x->t.dtype = dtype;
  x->shape[0] = a;
  x->shape[1] = b;
  x->t.shape = x->shape;
}

static inline void set_strides(tensor *x, int64_t a, int64_t b) {
  x->strides[0] = a;
  x->strides[1] = b;
  x->t.strides = x->strides;
}

/* A constant of the models that given-test and folds-test run: a scalar or four numbers; three indices. */
static inline int32_t set_floats(kiln_model *model, const char *name, int rank, float a, float b,
                                 float c, float d) {
  float data[] = {a, b, c, d};
  tensor value;
  set_tensor(&value, data, DTYPE_F32, rank, 4, 0);
  return kiln_model_set_constant(model, name, &value.t);
}

static inline int32_t set_ids(kiln_model *model, int64_t a, int64_t b, int64_t c) {
  int64_t data[] = {a, b, c};
  tensor value;
  set_tensor(&value, data, DTYPE_I64, 1, 3, 0);
  return kiln_model_set_constant(model, "ids", &value.t);
}

/* Wraps a tensor as an output slot that the caller owns. */
static inline void set_managed(DLManagedTensorVersioned *managed, const tensor *x) {
  memset(managed, 0, sizeof *managed);
  managed->version.major = DLPACK_MAJOR_VERSION;
  managed->dl_tensor = x->t;
}

#endif /* KILN_TEST_RUNTIME_HARNESS_H */
