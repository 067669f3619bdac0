/*===- emulator-calls.h - The driver's calls that its tests make --------------===*/
#ifndef KILN_TEST_CUDA_EMULATOR_CALLS_H
#define KILN_TEST_CUDA_EMULATOR_CALLS_H

#include "emulator/machine.h"

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr memory);
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *memory, size_t bytes, CUmemoryPool pool,
                                 CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags);
CUresult cuMemFreeHost(void *memory);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream stream, void **parameters, void **extra);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                 size_t numAfter, const CUDA_KERNEL_NODE_PARAMS *parameters);
CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
                                      const CUlaunchConfig *launch);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
CUresult cuCtxSynchronize(void);
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank, void *address,
                                const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                                const uint32_t *steps, int interleave, int swizzle, int l2Promotion,
                                int fill);

/* 64 bytes; the device is the current one then. */
static inline CUdeviceptr allocate_on(int device) {
  CUcontext context;
  CUdeviceptr memory = 0;
  cuDevicePrimaryCtxRetain(&context, device);
  cuCtxPushCurrent_v2(context);
  cuMemAlloc_v2(&memory, 64);
  return memory;
}

#endif /* KILN_TEST_CUDA_EMULATOR_CALLS_H */
