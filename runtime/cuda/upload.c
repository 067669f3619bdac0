/*===- upload.c - Weights to the GPU ----------------------------------------===*
 *
 * Weights are read from their file page by page as they are touched. Two pinned
 * buffers take turns: while one is filled, which reads the file, the other is copied
 * to the GPU.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <string.h>
#include <sys/mman.h>

#ifndef CHUNK_BYTES /* tests have fewer weights */
#define CHUNK_BYTES ((size_t)8 << 20)
#endif
#define SMALL_BYTES ((size_t)64 << 10) /* not worth the buffers */

typedef struct {
  CUstream stream;
  char *chunks[2];
  CUevent copied[2];
} stager;

static void close_stager(const kiln_cuda_driver *driver, stager *stager) {
  for (int i = 0; i < 2; ++i) {
    if (stager->copied[i])
      driver->cuEventDestroy_v2(stager->copied[i]);
    if (stager->chunks[i])
      driver->cuMemFreeHost(stager->chunks[i]);
  }
  if (stager->stream)
    driver->cuStreamDestroy_v2(stager->stream);
}

static CUresult open_stager(const kiln_cuda_driver *driver, size_t bytes, stager *stager) {
  CUresult result = driver->cuStreamCreate(&stager->stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS)
    stager->stream = NULL; /* a failure may have written anything */
  for (int i = 0; i < 2 && result == CUDA_SUCCESS; ++i) {
    result =
        driver->cuMemHostAlloc((void **)&stager->chunks[i],
                               bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES, CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_SUCCESS) {
      stager->chunks[i] = NULL;
      break;
    }
    result = driver->cuEventCreate(&stager->copied[i], CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS)
      stager->copied[i] = NULL;
  }
  return result;
}

/* Has the file read ahead. A hint: may fail. */
static void read_ahead(const char *from, size_t bytes) {
  uintptr_t begin = (uintptr_t)from & ~(uintptr_t)4095;
  madvise((void *)begin, (uintptr_t)from + bytes - begin, MADV_WILLNEED);
}

static CUresult copy_chunks(const kiln_cuda_driver *driver, const stager *stager, CUdeviceptr to,
                            const char *from, size_t bytes) {
  CUresult result = CUDA_SUCCESS;
  int turn = 0;
  for (size_t at = 0; at < bytes && result == CUDA_SUCCESS; turn ^= 1) {
    size_t count = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
    size_t next = bytes - at - count < CHUNK_BYTES ? bytes - at - count : CHUNK_BYTES;
    if (next)
      read_ahead(from + at + count, next);
    if (at >= 2 * CHUNK_BYTES)
      result = driver->cuEventSynchronize(stager->copied[turn]);
    if (result != CUDA_SUCCESS)
      break;
    memcpy(stager->chunks[turn], from + at, count);
    result = driver->cuMemcpyHtoDAsync_v2(to + at, stager->chunks[turn], count, stager->stream);
    if (result == CUDA_SUCCESS)
      result = driver->cuEventRecord(stager->copied[turn], stager->stream);
    at += count;
  }
  /* The buffers are in use until then, whatever has failed. */
  CUresult last = driver->cuStreamSynchronize(stager->stream);
  return result == CUDA_SUCCESS ? last : result;
}

int32_t kiln_cuda_upload(const struct kiln_device *device, CUdeviceptr to, const char *from,
                         size_t bytes) {
  const kiln_cuda_driver *driver = device->driver;
  stager stager = {0};
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes > SMALL_BYTES) {
    result = open_stager(driver, bytes, &stager);
    if (result == CUDA_SUCCESS)
      result = copy_chunks(driver, &stager, to, from, bytes);
    close_stager(driver, &stager);
  }
  /* A machine may have no pinned memory to give. This copy may still be under way when the call
   * returns, and streams that do not wait for the default one are to see it as well. */
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    result = driver->cuMemcpyHtoD_v2(to, from, bytes);
    if (result == CUDA_SUCCESS)
      result = driver->cuStreamSynchronize(NULL);
  }
  return result == CUDA_SUCCESS ? KILN_OK
                                : kiln_cuda_fail(driver, result, "cannot copy weights to the GPU");
}
