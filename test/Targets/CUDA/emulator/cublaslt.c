/*===- cublaslt.c - A libcublasLt.so for machines without a GPU --------------===*
 *
 * The calls that libkiln_cublas.so makes, on the emulator's memory and streams, with
 * plain loops. Algorithms differ in nothing but the time that they take: the last of
 * those that the heuristic names is the fastest.
 *
 * A caller that breaks a rule which the library does not check ends the process here:
 * descriptions that are used when they are gone, algorithms for other sizes than those
 * that they were named for, addresses that are less aligned than was said, a workspace
 * that is too small.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../../../runtime/cublas/cublaslt.h"
#include "emulator.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { NUM_ALGORITHMS = 3, WORKSPACE = 4096, MILLISECONDS = 10000 };

struct cublasLtContext {
  int is_made;
};
struct cublasLtMatmulDesc {
  int32_t transa, transb;
  uint32_t epilogue;
  uint64_t bias;
  int is_destroyed;
};
struct cublasLtMatrixLayout {
  int type;
  int64_t rows, columns, ld;
  int32_t batch;
  int64_t offset;
  int is_destroyed;
};
struct cublasLtMatmulPreference {
  uint64_t workspace;
  uint32_t alignments[4];
  int is_destroyed;
};

__attribute__((noreturn)) static void misuse(const char *what) {
  fprintf(stderr, "cuBLASLt of the emulator: %s\n", what);
  abort();
}

/* The driver is the one that the model has loaded. */
static void *find(const char *name) {
  const char *driver = getenv("KILN_CUDA_DRIVER");
  void *handle = dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *function = handle ? dlsym(handle, name) : NULL;
  if (!function)
    misuse("there is no emulator");
  return function;
}

static long setting(const char *name, long otherwise) {
  const char *value = getenv(name);
  return value ? atol(value) : otherwise;
}

EXPORT size_t cublasLtGetVersion(void) { return (size_t)setting("KILN_EMULATOR_CUBLASLT", 130000); }

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  static struct cublasLtContext one = {1};
  *handle = &one;
  return CUBLAS_STATUS_SUCCESS;
}

/*===-- Descriptions --------------------------------------------------------===*/

#define MAKE(value)                                                                                \
  *made = malloc(sizeof **made);                                                                   \
  **made = value;                                                                                  \
  return CUBLAS_STATUS_SUCCESS

/* Memory is kept, to tell who uses it still. */
#define DESTROY(thing)                                                                             \
  if (thing->is_destroyed)                                                                         \
    misuse("something is destroyed twice");                                                        \
  thing->is_destroyed = 1;                                                                         \
  return CUBLAS_STATUS_SUCCESS

#define SET(number, field)                                                                         \
  if (attribute == (number) && bytes == sizeof(field)) {                                           \
    memcpy(&(field), value, bytes);                                                                \
    return CUBLAS_STATUS_SUCCESS;                                                                  \
  }

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, int compute,
                                               int scale_type) {
  if (compute != CUBLAS_COMPUTE_32F || scale_type != CUDA_R_32F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  MAKE(((struct cublasLtMatmulDesc){.epilogue = CUBLASLT_EPILOGUE_DEFAULT}));
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) { DESTROY(d); }
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, int attribute,
                                                     const void *value, size_t bytes) {
  SET(CUBLASLT_MATMUL_DESC_TRANSA, d->transa)
  SET(CUBLASLT_MATMUL_DESC_TRANSB, d->transb)
  SET(CUBLASLT_MATMUL_DESC_EPILOGUE, d->epilogue)
  SET(CUBLASLT_MATMUL_DESC_BIAS_POINTER, d->bias)
  return CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, int type,
                                                 uint64_t rows, uint64_t columns, int64_t ld) {
  if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!rows || !columns || ld < (int64_t)rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  MAKE(((struct cublasLtMatrixLayout){type, (int64_t)rows, (int64_t)columns, ld, 1, 0, 0}));
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) { DESTROY(l); }
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, int attribute,
                                                       const void *value, size_t bytes) {
  SET(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, l->batch)
  SET(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, l->offset)
  return CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  MAKE(((struct cublasLtMatmulPreference){0, {256, 256, 256, 256}, 0}));
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) { DESTROY(p); }
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                           int attribute, const void *value,
                                                           size_t bytes) {
  SET(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, p->workspace)
  for (int i = 0; i < 4; ++i) {
    SET(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i, p->alignments[i])
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

/*===-- Products ------------------------------------------------------------===*/

struct product {
  struct cublasLtMatmulDesc description;
  struct cublasLtMatrixLayout a_layout, b_layout, c_layout, d_layout;
  uint64_t a, b, c, d, workspace;
  float alpha, beta;
  uint64_t algorithm;
};

static int64_t columns_of_op(const struct cublasLtMatrixLayout *l, int32_t trans) {
  return trans == CUBLAS_OP_N ? l->columns : l->rows;
}
static int64_t rows_of_op(const struct cublasLtMatrixLayout *l, int32_t trans) {
  return trans == CUBLAS_OP_N ? l->rows : l->columns;
}

static cublasStatus_t check(const struct product *p) {
  const struct cublasLtMatrixLayout *a = &p->a_layout, *b = &p->b_layout, *c = &p->c_layout,
                                    *d = &p->d_layout;
  if (p->description.is_destroyed || a->is_destroyed || b->is_destroyed || c->is_destroyed ||
      d->is_destroyed)
    misuse("a description is used that has been destroyed");
  int64_t k = columns_of_op(a, p->description.transa);
  if (a->type != b->type || a->type != c->type || a->type != d->type || a->batch != d->batch ||
      b->batch != d->batch || c->batch != d->batch ||
      rows_of_op(a, p->description.transa) != d->rows ||
      columns_of_op(b, p->description.transb) != d->columns || c->rows != d->rows ||
      c->columns != d->columns || k != rows_of_op(b, p->description.transb))
    return CUBLAS_STATUS_INVALID_VALUE;
  uint32_t function = p->description.epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_BIAS;
  int has_bias = (p->description.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (has_bias != (p->description.bias != 0) ||
      (function > CUBLASLT_EPILOGUE_RELU && function != CUBLASLT_EPILOGUE_GELU) ||
      p->description.epilogue == 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

/* A number for all that an algorithm is named for. */
static uint64_t hash(const struct product *p, const uint32_t *alignments) {
  uint64_t values[] = {(uint64_t)p->d_layout.rows,
                       (uint64_t)p->d_layout.columns,
                       (uint64_t)columns_of_op(&p->a_layout, p->description.transa),
                       (uint64_t)p->d_layout.batch,
                       (uint64_t)p->d_layout.type,
                       p->description.epilogue,
                       (uint64_t)p->description.transa};
  uint64_t sum = 1469598103934665603u;
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i)
    sum = (sum ^ values[i]) * 1099511628211u;
  for (int i = 0; i < 4; ++i)
    sum = (sum ^ alignments[i]) * 1099511628211u;
  return sum;
}

static float load(const void *memory, int type, int64_t i) {
  if (type == CUDA_R_32F)
    return ((const float *)memory)[i];
  if (type == CUDA_R_16F)
    return (float)((const _Float16 *)memory)[i];
  uint32_t bits = (uint32_t)((const uint16_t *)memory)[i] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void store(void *memory, int type, int64_t i, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (type == CUDA_R_32F)
    ((float *)memory)[i] = value;
  else if (type == CUDA_R_16F)
    ((_Float16 *)memory)[i] = (_Float16)value;
  else if (value != value)
    ((uint16_t *)memory)[i] = 0x7fc0;
  else
    ((uint16_t *)memory)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void *get(uint64_t memory, const struct cublasLtMatrixLayout *l) {
  static void *(*reach)(uint64_t, size_t, const char *);
  reach = reach ? reach : (void *(*)(uint64_t, size_t, const char *))find("emulator_reach");
  int64_t count = (l->batch - 1) * l->offset + (l->columns - 1) * l->ld + l->rows;
  return reach(memory, (size_t)count * (l->type == CUDA_R_32F ? 4 : 2), "a product");
}

static float finish(float value, uint32_t epilogue) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU)
    return value > 0 ? value : 0;
  if (epilogue & CUBLASLT_EPILOGUE_GELU)
    return 0.5F * value * (1 + tanhf(0.7978845608F * (value + 0.044715F * value * value * value)));
  return value;
}

/* In order of the stream, with the emulator's lock held. */
static void multiply(const void *arguments) {
  const struct product *p = arguments;
  const struct cublasLtMatrixLayout *al = &p->a_layout, *bl = &p->b_layout, *cl = &p->c_layout,
                                    *dl = &p->d_layout;
  const struct cublasLtMatrixLayout vector = {dl->type, dl->rows, 1, dl->rows, 1, 0, 0},
                                    bytes = {CUDA_R_32F, WORKSPACE / 4, 1, WORKSPACE / 4, 1, 0, 0};
  const void *a = get(p->a, al), *b = get(p->b, bl);
  const void *c = p->beta != 0 ? get(p->c, cl) : NULL;
  const void *bias = p->description.bias ? get(p->description.bias, &vector) : NULL;
  void *d = get(p->d, dl);
  if (p->workspace)
    memset(get(p->workspace, &bytes), 0xee, WORKSPACE);
  int64_t k = columns_of_op(al, p->description.transa);
  for (int64_t z = 0; z < dl->batch; ++z)
    for (int64_t j = 0; j < dl->columns; ++j)
      for (int64_t i = 0; i < dl->rows; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          int64_t left = p->description.transa ? i * al->ld + l : l * al->ld + i;
          int64_t right = p->description.transb ? l * bl->ld + j : j * bl->ld + l;
          sum += (double)load(a, al->type, z * al->offset + left) *
                 (double)load(b, bl->type, z * bl->offset + right);
        }
        float value = p->alpha * (float)sum;
        if (c)
          value += p->beta * load(c, cl->type, z * cl->offset + j * cl->ld + i);
        if (bias)
          value += load(bias, dl->type, i);
        store(d, dl->type, z * dl->offset + j * dl->ld + i, finish(value, p->description.epilogue));
      }
  void (*skip)(double) = (void (*)(double))find("emulator_skip");
  skip(MILLISECONDS * (double)(NUM_ALGORITHMS - 1 - p->algorithm));
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results,
    int *count) {
  struct product p = {
      .description = *description, .a_layout = *a, .b_layout = *b, .c_layout = *c, .d_layout = *d};
  *count = 0;
  if (!handle || preference->is_destroyed)
    misuse("there is no handle, or no preference");
  cublasStatus_t status = check(&p);
  if (status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (p.d_layout.rows == setting("KILN_EMULATOR_CUBLASLT_WITHOUT", -1))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  while (*count < wanted && *count < NUM_ALGORITHMS) {
    cublasLtMatmulHeuristicResult_t *result = &results[*count];
    memset(result, 0, sizeof *result);
    result->algo.data[0] = (uint64_t)*count;
    result->algo.data[1] = hash(&p, preference->alignments);
    memcpy(&result->algo.data[2], preference->alignments, sizeof preference->alignments);
    result->workspaceSize = preference->workspace >= WORKSPACE ? WORKSPACE : 0;
    ++*count;
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                     const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                     cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                                     size_t workspace_bytes, void *stream) {
  struct product p = {*description,
                      *a_layout,
                      *b_layout,
                      *c_layout,
                      *d_layout,
                      (uintptr_t)a,
                      (uintptr_t)b,
                      (uintptr_t)c,
                      (uintptr_t)d,
                      workspace_bytes >= WORKSPACE ? (uintptr_t)workspace : 0,
                      *(const float *)alpha,
                      *(const float *)beta,
                      algorithm->data[0]};
  cublasStatus_t status = check(&p);
  if (!handle || status != CUBLAS_STATUS_SUCCESS)
    return CUBLAS_STATUS_INVALID_VALUE;
  uint32_t alignments[4];
  memcpy(alignments, &algorithm->data[2], sizeof alignments);
  if (algorithm->data[1] != hash(&p, alignments))
    misuse("an algorithm is used for what it was not named for");
  if (p.a % alignments[0] || p.b % alignments[1] || p.c % alignments[2] || p.d % alignments[3])
    misuse("a matrix is less aligned than was said");
  if (p.workspace % 256)
    misuse("the workspace is not aligned");
  void (*record)(const char *, ...) = (void (*)(const char *, ...))find("emulator_record");
  record("cublasLtMatmul %d x %d x %d batch %d epilogue %u beta %d algorithm %d\n",
         (int)p.d_layout.columns, (int)p.d_layout.rows,
         (int)columns_of_op(&p.a_layout, p.description.transa), (int)p.d_layout.batch,
         p.description.epilogue, (int)p.beta, (int)p.algorithm);
  int (*call)(void *, void (*)(const void *), const void *, size_t) =
      (int (*)(void *, void (*)(const void *), const void *, size_t))find("emulator_call");
  return call(stream, multiply, &p, sizeof p) ? CUBLAS_STATUS_EXECUTION_FAILED
                                              : CUBLAS_STATUS_SUCCESS;
}
