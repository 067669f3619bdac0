/*===- custom.c - Custom operators, with tensors on the GPU -----------------===*
 *
 * What the C function puts on the run's stream comes behind what main has put there,
 * and nothing waits for it. Generated code refers to kiln_rt_device_custom, and
 * nothing else in the runtime does.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

static int32_t start(kiln_rt_run *run) { return kiln_cuda_flush(kiln_context_of(run)); }

int32_t kiln_rt_device_custom(kiln_rt_run *run, const kiln_extern_call *call,
                              kiln_custom_op_fn function, void *const *buffers,
                              const int64_t *numbers) {
  kiln_context *context = kiln_context_of(run);
  const kiln_custom_memory memory = {{kDLCUDA, kiln_cuda_device(context)->ordinal},
                                     kiln_cuda_context_of(context)->stream,
                                     kiln_rt_device_copy_strided,
                                     kiln_rt_device_read,
                                     start};
  int32_t status = kiln_call_custom(run, call, function, buffers, numbers, &memory);
  if (KILN_UNLIKELY(status != KILN_OK))
    context->failure = status;
  return status;
}
