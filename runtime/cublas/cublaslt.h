/*===- cublaslt.h - What is used of cuBLASLt --------------------------------===*
 *
 * Declarations of cuBLASLt's C functions, types and numbers, of version 12 and newer.
 * The library is looked for when a model is created; nothing is linked with it.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUBLAS_CUBLASLT_H
#define KILN_RUNTIME_CUBLAS_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int cublasStatus_t;
enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};

enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_COMPUTE_32F = 68 };
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDesc *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreference *cublasLtMatmulPreference_t;

/* Attributes, each of the type that stands behind it. */
enum {
  CUBLASLT_MATMUL_DESC_TRANSA = 3,      /* int32_t */
  CUBLASLT_MATMUL_DESC_TRANSB = 4,      /* int32_t */
  CUBLASLT_MATMUL_DESC_EPILOGUE = 7,    /* uint32_t */
  CUBLASLT_MATMUL_DESC_BIAS_POINTER = 8 /* const void * */
};
enum {
  CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5,         /* int32_t */
  CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 /* int64_t, elements */
};
enum {
  CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,  /* uint64_t */
  CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5 /* uint32_t; B, C and D come next */
};
enum {
  CUBLASLT_EPILOGUE_DEFAULT = 1,
  CUBLASLT_EPILOGUE_RELU = 2,
  CUBLASLT_EPILOGUE_BIAS = 4,
  CUBLASLT_EPILOGUE_GELU = 32
}; /* the form with tanh; with a bias the sum of both */

typedef struct {
  uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
} cublasLtMatmulHeuristicResult_t;

/* F(result, name, parameters) */
#define KILN_CUBLASLT_FUNCTIONS(F)                                                                 \
  F(size_t, cublasLtGetVersion, (void))                                                            \
  F(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle))                                   \
  F(cublasStatus_t, cublasLtMatmulDescCreate,                                                      \
    (cublasLtMatmulDesc_t * made, int compute, int scale_type))                                    \
  F(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t description))                 \
  F(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                \
    (cublasLtMatmulDesc_t description, int attribute, const void *value, size_t bytes))            \
  F(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                    \
    (cublasLtMatrixLayout_t * made, int type, uint64_t rows, uint64_t columns, int64_t ld))        \
  F(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                  \
  F(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                              \
    (cublasLtMatrixLayout_t layout, int attribute, const void *value, size_t bytes))               \
  F(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * made))           \
  F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))      \
  F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                          \
    (cublasLtMatmulPreference_t preference, int attribute, const void *value, size_t bytes))       \
  F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,          \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                 \
     cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t *results,  \
     int *found))                                                                                  \
  F(cublasStatus_t, cublasLtMatmul,                                                                \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha, const void *a,  \
     cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,              \
     const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,                    \
     cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,      \
     size_t workspace_bytes, void *stream))

#ifdef __cplusplus
}
#endif

#endif /* KILN_RUNTIME_CUBLAS_CUBLASLT_H */
