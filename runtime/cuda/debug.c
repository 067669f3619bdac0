/*===- debug.c - Debug printing of tensors on the GPU -----------------------===*
 *
 * Generated code refers to kiln_rt_device_debug, and nothing else in the runtime does.
 *
 *===-----------------------------------------------------------------------===*/
#include "../debug_internal.h"
#include "cuda.h"

static int32_t wait_for_launches(kiln_rt_run *run, const kiln_rt_debug_step *step) {
  kiln_context *context = kiln_context_of(run);
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  int32_t status = kiln_cuda_flush(context);
  if (status != KILN_OK)
    return status;
  if (kiln_cuda_context_of(context)->is_captured)
    return kiln_fail(KILN_UNSUPPORTED,
                     "stream: is being captured, but the model prints or saves the tensors of its "
                     "kernels (--debug-print), for which a run has to wait");
  CUresult result = driver->cuStreamSynchronize(kiln_cuda_context_of(context)->stream);
  return result == CUDA_SUCCESS ? KILN_OK : kiln_cuda_fail(driver, result, step->kernel);
}

int32_t kiln_rt_device_debug(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                             void *const *buffers) {
  static const kiln_debug_memory memory = {wait_for_launches, kiln_rt_device_read};
  return kiln_debug_show(run, step, time, buffers, &memory);
}
