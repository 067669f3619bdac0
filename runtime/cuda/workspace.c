/*===- workspace.c - What blocks leave to each other ------------------------===*
 *
 * A run's kernels have one workspace, one after the other. Its flags are zero when a kernel
 * begins, and again when it has ended. So the next run on the same stream can have it as it
 * is: nothing is allocated, set to zero and given back. A run on another stream, which may
 * be under way at the same time, has one in its own memory.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

uint64_t kiln_cuda_count_workspace(const struct kiln_device *device) {
  uint64_t bytes = 0, blocks = (uint64_t)device->multiprocessors;
  if (blocks > KILN_RT_WORKSPACE_BLOCKS)
    blocks = KILN_RT_WORKSPACE_BLOCKS;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i) {
    const kiln_rt_device *entry = kiln_entry(i)->device;
    if (device->runs_variants && entry->workspace * blocks > bytes)
      bytes = entry->workspace * blocks;
    if (entry->shared_workspace > bytes)
      bytes = entry->shared_workspace;
  }
  if (!bytes)
    return 0;
  return (KILN_RT_WORKSPACE_FLAGS + bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
}

int32_t kiln_cuda_clear_workspace(kiln_context *context, CUdeviceptr workspace,
                                  const char *failure) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUresult result = driver->cuMemsetD32Async(workspace, 0, KILN_RT_WORKSPACE_FLAGS / 4,
                                             kiln_cuda_context_of(context)->stream);
  return result == CUDA_SUCCESS ? KILN_OK : kiln_cuda_fail(driver, result, failure);
}

/* A number that no other stream of the process has or gets; its address may be another one's later.
 * 0: there is none. */
static uint64_t identify(const kiln_cuda_driver *driver, CUstream stream) {
  unsigned long long number;
  if (driver->cuStreamGetId && driver->cuStreamGetId(stream, &number) == CUDA_SUCCESS)
    return number + 1;
  return stream ? 0 : UINT64_MAX;
}

bool kiln_cuda_keep_workspace(kiln_context *context, uint64_t bytes) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  const struct kiln_device *device = kiln_cuda_device(context);
  uint64_t stream = cuda->is_captured ? 0 : identify(device->driver, cuda->stream);
  if (!stream)
    return false;
  if (!cuda->kept_workspace) {
    if (kiln_cuda_allocate(device, &cuda->kept_workspace, bytes, cuda->stream) != CUDA_SUCCESS)
      return false;
    if (kiln_cuda_clear_workspace(context, cuda->kept_workspace, "cannot prepare a run's memory") !=
        KILN_OK) {
      kiln_cuda_drop_workspace(context);
      return false;
    }
    cuda->workspace_stream = stream;
  }
  if (cuda->workspace_stream != stream)
    return false;
  cuda->workspace = cuda->kept_workspace;
  return true;
}

void kiln_cuda_drop_workspace(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  if (cuda->kept_workspace)
    kiln_cuda_device(context)->driver->cuMemFree_v2(cuda->kept_workspace);
  cuda->kept_workspace = 0;
}
