/*===- step.c - Steps that another host runs on a GPU -----------------------===*
 *
 * A library of steps has no main: its host launches kernels one by one, on CUDA's
 * default stream and on tensors that are on the GPU, and waits when it wants to.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

static int32_t check(const kiln_context *context, CUresult result, const char *what) {
  return result == CUDA_SUCCESS ? KILN_OK
                                : kiln_cuda_fail(kiln_cuda_device(context)->driver, result, what);
}

static int32_t check_places(const kiln_context *context, const kiln_rt_step *step,
                            const DLTensor *const *tensors) {
  int ordinal = kiln_cuda_device(context)->ordinal;
  for (uint32_t i = 0; i < step->num_tensors; ++i) {
    DLDevice place = tensors[i]->device;
    if (place.device_type == kDLCUDA && place.device_id == ordinal)
      continue;
    kiln_text text = kiln_begin_error();
    kiln_append(&text, "buffer %u \"%s\": expected device cuda:%d, got ", i, step->name, ordinal);
    kiln_append_device(&text, place);
    return KILN_INVALID_ARGUMENT;
  }
  return KILN_OK;
}

/* The workspace stays for the next step: its flags are zero again when a kernel has ended. */
static int32_t reserve_workspace(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  uint64_t bytes = kiln_cuda_count_workspace(kiln_cuda_device(context));
  if (cuda->memory || !bytes)
    return KILN_OK;
  CUresult result = driver->cuMemAlloc_v2(&cuda->memory, bytes);
  if (result != CUDA_SUCCESS) {
    cuda->memory = 0;
    return check(context, result, "no memory on the GPU for sums that blocks share");
  }
  cuda->workspace = cuda->memory;
  return kiln_cuda_clear_workspace(context, cuda->workspace, "cannot prepare a kernel's memory");
}

/* A failure that has a message, which the step's status does not replace. */
static int32_t note(kiln_context *context, int32_t status) {
  if (status != KILN_OK)
    context->failure = status;
  return status;
}

static int32_t launch(kiln_context *context, const kiln_rt_step *step, void *const *buffers) {
  int32_t status = kiln_cuda_make_context(context);
  if (status != KILN_OK)
    return note(context, status);
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  cuda->stream = NULL;
  cuda->is_captured = false;
  status = reserve_workspace(context);
  if (status != KILN_OK)
    return note(context, status);
  context->run.weights = kiln_cuda_weights(context->model);
  cuda->records = true;
  status = step->run(&context->run, buffers);
  cuda->records = false;
  if (status == KILN_OK)
    return note(context, kiln_cuda_flush(context));
  kiln_cuda_discard(context);
  return status;
}

int32_t kiln_cuda_run_step(kiln_context *context, const kiln_rt_step *step,
                           const DLTensor *const *tensors, void *const *buffers) {
  int32_t status = check_places(context, step, tensors);
  if (status == KILN_OK)
    status = kiln_cuda_enter(kiln_cuda_device(context));
  if (status != KILN_OK)
    return note(context, status);
  status = launch(context, step, buffers);
  kiln_cuda_leave(kiln_cuda_device(context));
  return status;
}

int32_t kiln_cuda_wait_steps(kiln_context *context) {
  int32_t status = kiln_cuda_enter(kiln_cuda_device(context));
  if (status != KILN_OK)
    return status;
  status = check(context, kiln_cuda_device(context)->driver->cuStreamSynchronize(NULL),
                 "a kernel failed on the GPU");
  if (status == KILN_OK && context->device)
    status = kiln_cuda_kernel_failure(context);
  kiln_cuda_leave(kiln_cuda_device(context));
  return status;
}
