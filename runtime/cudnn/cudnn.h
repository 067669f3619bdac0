/*===- cudnn.h - What is used of cuDNN --------------------------------------===*
 *
 * Declarations of the C functions and numbers of cuDNN's backend (graph) API, of
 * version 9. The library is looked for when a model is created; nothing is linked
 * with it.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUDNN_CUDNN_H
#define KILN_RUNTIME_CUDNN_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Thousands are categories. */
typedef int cudnnStatus_t;
enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH = 1002,
  CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED = 1008,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH = 3007,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED = 4003,
  CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED = 4004,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
};

typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;

/* cudnnDataType_t */
enum {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_BOOLEAN = 11
};
/* cudnnConvolutionMode_t */
enum { CUDNN_CROSS_CORRELATION = 1 };
/* cudnnPointwiseMode_t */
enum {
  CUDNN_POINTWISE_ADD = 0,
  CUDNN_POINTWISE_MUL = 1,
  CUDNN_POINTWISE_RELU_FWD = 100,
  CUDNN_POINTWISE_CMP_GE = 303,
  CUDNN_POINTWISE_GEN_INDEX = 501,
  CUDNN_POINTWISE_BINARY_SELECT = 601
};
/* cudnnBackendHeurMode_t */
enum { CUDNN_HEUR_MODE_FALLBACK = 2, CUDNN_HEUR_MODE_A = 3 };
/* cudnnBackendNumericalNote_t */
enum {
  CUDNN_NUMERICAL_NOTE_TENSOR_CORE = 0,
  CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS = 1,
  CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION = 2,
  CUDNN_NUMERICAL_NOTE_FFT = 3,
  CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC = 4,
  CUDNN_NUMERICAL_NOTE_WINOGRAD = 5,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 = 6,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 = 7,
  CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13 = 8
};

/* cudnnBackendDescriptorType_t */
enum {
  CUDNN_BACKEND_POINTWISE_DESCRIPTOR = 0,
  CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR = 1,
  CUDNN_BACKEND_ENGINE_DESCRIPTOR = 2,
  CUDNN_BACKEND_ENGINECFG_DESCRIPTOR = 3,
  CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR = 4,
  CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR = 5,
  CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR = 10,
  CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR = 13,
  CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR = 15,
  CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR = 16,
  CUDNN_BACKEND_TENSOR_DESCRIPTOR = 17,
  CUDNN_BACKEND_MATMUL_DESCRIPTOR = 18,
  CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR = 19,
  CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR = 45 /* of 9.21 and newer */
};

/* cudnnBackendAttributeType_t */
enum {
  CUDNN_TYPE_HANDLE = 0,
  CUDNN_TYPE_DATA_TYPE = 1,
  CUDNN_TYPE_BOOLEAN = 2, /* bool */
  CUDNN_TYPE_INT64 = 3,
  CUDNN_TYPE_FLOAT = 4,
  CUDNN_TYPE_VOID_PTR = 6,
  CUDNN_TYPE_CONVOLUTION_MODE = 7,
  CUDNN_TYPE_HEUR_MODE = 8,
  CUDNN_TYPE_NUMERICAL_NOTE = 11,
  CUDNN_TYPE_POINTWISE_MODE = 14,
  CUDNN_TYPE_BACKEND_DESCRIPTOR = 15
};

/* cudnnBackendAttributeName_t, each of the type that stands behind it. */
enum {
  CUDNN_ATTR_POINTWISE_MODE = 0,                            /* POINTWISE_MODE */
  CUDNN_ATTR_POINTWISE_MATH_PREC = 1,                       /* DATA_TYPE */
  CUDNN_ATTR_POINTWISE_AXIS = 9,                            /* INT64 */
  CUDNN_ATTR_CONVOLUTION_COMP_TYPE = 100,                   /* DATA_TYPE */
  CUDNN_ATTR_CONVOLUTION_CONV_MODE = 101,                   /* CONVOLUTION_MODE */
  CUDNN_ATTR_CONVOLUTION_DILATIONS = 102,                   /* INT64 */
  CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES = 103,              /* INT64 */
  CUDNN_ATTR_CONVOLUTION_POST_PADDINGS = 104,               /* INT64 */
  CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS = 105,                /* INT64 */
  CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS = 106,                /* INT64 */
  CUDNN_ATTR_ENGINEHEUR_MODE = 200,                         /* HEUR_MODE */
  CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH = 201,              /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_ENGINEHEUR_RESULTS = 202,                      /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_ENGINECFG_ENGINE = 300,                        /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_EXECUTION_PLAN_HANDLE = 400,                   /* HANDLE */
  CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG = 401,            /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE = 402,           /* INT64 */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA = 700,     /* FLOAT */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA = 701,      /* FLOAT */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC = 702, /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W = 703,         /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X = 704,         /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y = 705,         /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR = 750,       /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_POINTWISE_XDESC = 751,               /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_POINTWISE_BDESC = 752,               /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_POINTWISE_YDESC = 753,               /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_POINTWISE_TDESC = 758,               /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATIONGRAPH_HANDLE = 800,                   /* HANDLE */
  CUDNN_ATTR_OPERATIONGRAPH_OPS = 801,                      /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT = 900,                   /* INT64 */
  CUDNN_ATTR_TENSOR_DATA_TYPE = 901,                        /* DATA_TYPE */
  CUDNN_ATTR_TENSOR_DIMENSIONS = 902,                       /* INT64 */
  CUDNN_ATTR_TENSOR_STRIDES = 903,                          /* INT64 */
  CUDNN_ATTR_TENSOR_UNIQUE_ID = 906,                        /* INT64 */
  CUDNN_ATTR_TENSOR_IS_VIRTUAL = 907,                       /* BOOLEAN */
  CUDNN_ATTR_TENSOR_IS_BY_VALUE = 908,                      /* BOOLEAN */
  CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS = 1000,                /* INT64 */
  CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS = 1001,             /* VOID_PTR */
  CUDNN_ATTR_VARIANT_PACK_WORKSPACE = 1003,                 /* VOID_PTR */
  CUDNN_ATTR_ENGINE_NUMERICAL_NOTE = 1303,                  /* NUMERICAL_NOTE */
  CUDNN_ATTR_MATMUL_COMP_TYPE = 1500,                       /* DATA_TYPE */
  CUDNN_ATTR_OPERATION_MATMUL_ADESC = 1520,                 /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_MATMUL_BDESC = 1521,                 /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_MATMUL_CDESC = 1522,                 /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_MATMUL_DESC = 1523,                  /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_SOFTMAX_XDESC = 3100,                /* BACKEND_DESCRIPTOR */
  CUDNN_ATTR_OPERATION_SOFTMAX_YDESC = 3101                 /* BACKEND_DESCRIPTOR */
};

/* F(result, name, parameters) */
#define KILN_CUDNN_FUNCTIONS(F)                                                                    \
  F(size_t, cudnnGetVersion, (void))                                                               \
  F(const char *, cudnnGetErrorString, (cudnnStatus_t status))                                     \
  F(void, cudnnGetLastErrorString, (char *message, size_t size))                                   \
  F(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle))                                          \
  F(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, void *stream))                           \
  F(cudnnStatus_t, cudnnBackendCreateDescriptor, (int kind, cudnnBackendDescriptor_t *made))       \
  F(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t descriptor))           \
  F(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t descriptor))                    \
  F(cudnnStatus_t, cudnnBackendSetAttribute,                                                       \
    (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count,                       \
     const void *elements))                                                                        \
  F(cudnnStatus_t, cudnnBackendGetAttribute,                                                       \
    (cudnnBackendDescriptor_t descriptor, int name, int type, int64_t wanted, int64_t *count,      \
     void *elements))                                                                              \
  F(cudnnStatus_t, cudnnBackendExecute,                                                            \
    (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t variants))

#ifdef __cplusplus
}
#endif

#endif /* KILN_RUNTIME_CUDNN_CUDNN_H */
