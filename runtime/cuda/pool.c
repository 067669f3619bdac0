/*===- pool.c - Memory of runs and outputs ----------------------------------===*
 *
 * A model has a stream-ordered pool of its own. Memory that a run gives back stays there
 * for the next one: the device's own pool is the whole process's, and how much stays in
 * that is not for a model to say.
 *
 * The pool is the model's and that of each output in it. The last of them destroys it
 * when everything in it has been given back: drivers are documented to keep a pool that is
 * destroyed sooner until then, but one of CUDA 13.0 crashes in a later call.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>

struct kiln_cuda_pool {
  const kiln_cuda_driver *driver;
  CUdevice device; /* whose primary context the pool keeps */
  CUcontext context;
  CUmemoryPool memory;
  _Atomic size_t users;
  _Atomic bool is_kept; /* something in it cannot be given back */
};

int32_t kiln_cuda_open_pool(struct kiln_device *device) {
  const kiln_cuda_driver *driver = device->driver;
  kiln_cuda_pool *pool = calloc(1, sizeof *pool);
  if (!pool)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->device}};
  uint64_t keep = UINT64_MAX;
  CUresult result = driver->cuMemPoolCreate(&pool->memory, &properties);
  bool is_made = result == CUDA_SUCCESS;
  if (is_made)
    result = driver->cuMemPoolSetAttribute(pool->memory, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
  if (result == CUDA_SUCCESS)
    result = driver->cuDevicePrimaryCtxRetain(&pool->context, device->device);
  if (result != CUDA_SUCCESS) {
    if (is_made)
      driver->cuMemPoolDestroy(pool->memory);
    free(pool);
    return kiln_cuda_fail(driver, result, "the GPU has no memory pool");
  }
  pool->driver = driver;
  pool->device = device->device;
  atomic_init(&pool->users, 1);
  device->pool = pool;
  return KILN_OK;
}

kiln_cuda_pool *kiln_cuda_share_pool(kiln_cuda_pool *pool) {
  atomic_fetch_add_explicit(&pool->users, 1, memory_order_relaxed);
  return pool;
}

/* Makes the pool's context current. Some thread may be recording a graph, into which what is done
 * then does not go. `*mode` is for leave. */
static bool enter(const kiln_cuda_pool *pool, int *mode) {
  if (pool->driver->cuCtxPushCurrent_v2(pool->context) != CUDA_SUCCESS)
    return false;
  *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  pool->driver->cuThreadExchangeStreamCaptureMode(mode);
  return true;
}

static void leave(const kiln_cuda_pool *pool, int mode) {
  CUcontext context;
  pool->driver->cuThreadExchangeStreamCaptureMode(&mode);
  pool->driver->cuCtxPopCurrent_v2(&context);
}

/* Everything in it has been freed, which streams may not have come to yet. */
static void destroy(kiln_cuda_pool *pool) {
  const kiln_cuda_driver *driver = pool->driver;
  int mode;
  if (enter(pool, &mode)) {
    driver->cuCtxSynchronize(); /* after an error of it nothing runs any more */
    if (!atomic_load_explicit(&pool->is_kept, memory_order_relaxed))
      driver->cuMemPoolDestroy(pool->memory);
    leave(pool, mode);
  }
  driver->cuDevicePrimaryCtxRelease_v2(pool->device);
  free(pool);
}

void kiln_cuda_lose_memory(kiln_cuda_pool *pool) {
  atomic_store_explicit(&pool->is_kept, true, memory_order_relaxed);
}

void kiln_cuda_release_pool(kiln_cuda_pool *pool) {
  if (atomic_fetch_sub_explicit(&pool->users, 1, memory_order_acq_rel) == 1)
    destroy(pool);
}

CUresult kiln_cuda_allocate(const struct kiln_device *device, CUdeviceptr *memory, size_t bytes,
                            CUstream stream) {
  CUresult result =
      device->driver->cuMemAllocFromPoolAsync(memory, bytes, device->pool->memory, stream);
  if (result != CUDA_SUCCESS)
    *memory = 0;
  return result;
}

/* The stream that CUDA's default one is, whichever thread asks. */
static bool is_legacy(CUstream stream) { return (uintptr_t)stream <= 1; }

/* Memory of a pool is not waited for when it is freed. The default stream is always there to give
 * it back on; another one may be destroyed by now, so that all that uses the memory has to end. */
void kiln_cuda_free_output(kiln_cuda_pool *pool, CUdeviceptr memory, CUstream stream) {
  const kiln_cuda_driver *driver = pool->driver;
  int mode;
  if (!enter(pool, &mode)) {
    kiln_cuda_lose_memory(pool);
    return;
  }
  if (!is_legacy(stream) || driver->cuMemFreeAsync(memory, stream) != CUDA_SUCCESS) {
    driver->cuCtxSynchronize(); /* after an error of it nothing runs any more */
    driver->cuMemFree_v2(memory);
  }
  leave(pool, mode);
}
