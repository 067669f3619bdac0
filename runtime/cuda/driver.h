/*===- driver.h - The part of CUDA's driver API that the runtime uses -------===*
 *
 * Declared here, since a machine that compiles models need not have CUDA's
 * headers; found with dlopen, since one that compiles them need not have a driver
 * either. Names, numbers and types are those of cuda.h.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUDA_DRIVER_H
#define KILN_RUNTIME_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;

/* A launch in a graph. */
typedef struct {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  void **kernelParams;
  void **extra;
  void *kern;
  CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

/* An attribute of a launch, of which one is used. */
typedef struct {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int programmaticStreamSerializationAllowed;
  } value;
} CUlaunchAttribute;

/* A launch that is asked about. */
typedef struct {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
} CUlaunchConfig;

/* A copy in a graph. */
typedef struct {
  size_t srcXInBytes, srcY, srcZ, srcLOD;
  unsigned srcMemoryType;
  const void *srcHost;
  CUdeviceptr srcDevice;
  void *srcArray, *reserved0;
  size_t srcPitch, srcHeight;
  size_t dstXInBytes, dstY, dstZ, dstLOD;
  unsigned dstMemoryType;
  void *dstHost;
  CUdeviceptr dstDevice;
  void *dstArray, *reserved1;
  size_t dstPitch, dstHeight;
  size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;

/* How a node of a graph comes after another. */
typedef struct {
  unsigned char from_port, to_port, type, reserved[5];
} CUgraphEdgeData;

/* Memory of one device that is given out in the order of streams. */
typedef struct {
  int allocType, handleTypes;
  struct {
    int type, id;
  } location;
  void *win32SecurityAttributes;
  unsigned char reserved[64];
} CUmemPoolProps;

/* The description of a tensor of which a kernel copies boxes. */
typedef struct {
  uint64_t opaque[16];
} __attribute__((aligned(64))) CUtensorMap;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_CLUSTER_SIZE = 912,

  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_STREAM_NON_BLOCKING = 1,
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
  CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1,
  CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1,
  CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0,
  CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1,
  CU_TENSOR_MAP_DATA_TYPE_UINT32 = 2,
  CU_TENSOR_MAP_INTERLEAVE_NONE = 0,
  CU_TENSOR_MAP_SWIZZLE_128B = 3,
  CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3,
  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0
};

/* name, parameters */
#define KILN_CUDA_FUNCTIONS(F)                                                                     \
  F(cuInit, (unsigned flags))                                                                      \
  F(cuDriverGetVersion, (int *version))                                                            \
  F(cuGetErrorString, (CUresult error, const char **text))                                         \
  F(cuDeviceGetCount, (int *count))                                                                \
  F(cuDeviceGet, (CUdevice * device, int ordinal))                                                 \
  F(cuDeviceGetName, (char *name, int length, CUdevice device))                                    \
  F(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                            \
  F(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *properties))                      \
  F(cuMemPoolDestroy, (CUmemoryPool pool))                                                         \
  F(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))                        \
  F(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                              \
  F(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                               \
  F(cuCtxPushCurrent_v2, (CUcontext context))                                                      \
  F(cuCtxPopCurrent_v2, (CUcontext * context))                                                     \
  F(cuCtxGetCurrent, (CUcontext * context))                                                        \
  F(cuModuleLoadData, (CUmodule * module, const void *image))                                      \
  F(cuModuleUnload, (CUmodule module))                                                             \
  F(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name))               \
  F(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                           \
  F(cuLaunchKernel, (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,          \
                     unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,      \
                     CUstream stream, void **parameters, void **extra))                            \
  F(cuOccupancyMaxActiveClusters, (int *count, CUfunction function, const CUlaunchConfig *launch)) \
  F(cuTensorMapEncodeTiled,                                                                        \
    (CUtensorMap * map, int type, uint32_t rank, void *address, const uint64_t *sizes,             \
     const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,          \
     int swizzle, int l2Promotion, int fill))                                                      \
  F(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                                           \
  F(cuMemFree_v2, (CUdeviceptr memory))                                                            \
  F(cuMemAllocFromPoolAsync,                                                                       \
    (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream))                      \
  F(cuMemFreeAsync, (CUdeviceptr memory, CUstream stream))                                         \
  F(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                 \
  F(cuMemFreeHost, (void *memory))                                                                 \
  F(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))                             \
  F(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))       \
  F(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))             \
  F(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))       \
  F(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))             \
  F(cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr pointer))                      \
  F(cuStreamGetCtx, (CUstream stream, CUcontext * context))                                        \
  F(cuStreamSynchronize, (CUstream stream))                                                        \
  F(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                           \
  F(cuEventCreate, (CUevent * event, unsigned flags))                                              \
  F(cuEventDestroy_v2, (CUevent event))                                                            \
  F(cuEventRecord, (CUevent event, CUstream stream))                                               \
  F(cuEventSynchronize, (CUevent event))                                                           \
  F(cuEventElapsedTime, (float *milliseconds, CUevent begin, CUevent end))                         \
  F(cuCtxSynchronize, (void))                                                                      \
  F(cuStreamCreate, (CUstream * stream, unsigned flags))                                           \
  F(cuStreamDestroy_v2, (CUstream stream))                                                         \
  F(cuStreamIsCapturing, (CUstream stream, int *status))                                           \
  F(cuThreadExchangeStreamCaptureMode, (int *mode))                                                \
  F(cuGraphCreate, (CUgraph * graph, unsigned flags))                                              \
  F(cuGraphDestroy, (CUgraph graph))                                                               \
  F(cuGraphAddKernelNode_v2, (CUgraphNode * node, CUgraph graph, const CUgraphNode *after,         \
                              size_t numAfter, const CUDA_KERNEL_NODE_PARAMS *parameters))         \
  F(cuGraphAddMemcpyNode, (CUgraphNode * node, CUgraph graph, const CUgraphNode *after,            \
                           size_t numAfter, const CUDA_MEMCPY3D *copy, CUcontext context))         \
  F(cuGraphInstantiateWithFlags, (CUgraphExec * made, CUgraph graph, unsigned long long flags))    \
  F(cuGraphExecKernelNodeSetParams_v2,                                                             \
    (CUgraphExec made, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters))               \
  F(cuGraphExecMemcpyNodeSetParams,                                                                \
    (CUgraphExec made, CUgraphNode node, const CUDA_MEMCPY3D *copy, CUcontext context))            \
  F(cuGraphLaunch, (CUgraphExec made, CUstream stream))                                            \
  F(cuGraphExecDestroy, (CUgraphExec made))

/* Functions of CUDA 12.3; NULL in an older driver. */
#define KILN_CUDA_NEWER_FUNCTIONS(F)                                                               \
  F(cuLaunchKernelEx,                                                                              \
    (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))          \
  F(cuStreamGetId, (CUstream stream, unsigned long long *id))                                      \
  F(cuGraphAddDependencies_v2, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,     \
                                const CUgraphEdgeData *edges, size_t count))

/* The first driver that has all but these: CUDA 12.0. */
typedef struct {
#define KILN_CUDA_FIELD(name, parameters) CUresult(*name) parameters; /* NOLINT */
  KILN_CUDA_FUNCTIONS(KILN_CUDA_FIELD)
  KILN_CUDA_NEWER_FUNCTIONS(KILN_CUDA_FIELD)
#undef KILN_CUDA_FIELD
} kiln_cuda_driver;

/* Finds the driver the first time; a failure sets the error message and may be tried again. */
int32_t kiln_cuda_load(const kiln_cuda_driver **driver);

/* Sets the error message "WHAT: CUDA's reason" and returns the status for it. */
int32_t kiln_cuda_fail(const kiln_cuda_driver *driver, CUresult result, const char *what);

#endif /* KILN_RUNTIME_CUDA_DRIVER_H */
