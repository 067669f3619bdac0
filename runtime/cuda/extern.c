/*===- extern.c - Libraries that main calls ---------------------------------===*
 *
 * Some libraries put what they do on the run's stream. Others compute in the host's
 * memory, and so do the runtime's own functions: what they read is copied there, and
 * what they have written back. The run waits for that.
 * Generated code refers to the kiln_rt_ functions, and nothing else in the runtime does.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

/* The bytes that a tensor of the call spans. `numbers` are its sizes and strides. */
static bool get_extent(const kiln_extern_tensor *tensor, const int64_t *numbers, uint64_t *bytes) {
  for (int i = 0; i < 2 * tensor->rank; ++i)
    if (numbers[i] < 0)
      return false;
  return kiln_extent(numbers, numbers + tensor->rank, tensor->rank, kiln_item_size(tensor->bits),
                     bytes);
}

typedef struct {
  const kiln_extern_call *call;
  void *const *buffers; /* the GPU's */
  const int64_t *numbers;
  void **copies; /* the host's */
  uint64_t *bytes;
} extern_copies;

/* Places all tensors, one after the other. */
static bool place(const extern_copies *copies, uint64_t *total) {
  const int64_t *numbers = copies->numbers;
  uint32_t count = copies->call->num_operands + copies->call->num_results;
  *total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const kiln_extern_tensor *tensor = &copies->call->tensors[i];
    if (!get_extent(tensor, numbers, &copies->bytes[i]))
      return false;
    numbers += 2 * tensor->rank;
    copies->copies[i] = (void *)(uintptr_t)*total;
    *total += (copies->bytes[i] + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
    if (*total > KILN_MAX_BYTES)
      return false;
  }
  return true;
}

static CUresult copy(kiln_context *context, const extern_copies *copies, bool to_host) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  uint32_t count = copies->call->num_operands + copies->call->num_results;
  CUresult result = CUDA_SUCCESS;
  /* Results, too, on the way there: they may have gaps, or be updated. */
  for (uint32_t i = to_host ? 0 : copies->call->num_operands; i < count && result == CUDA_SUCCESS;
       ++i) {
    CUdeviceptr device = kiln_cuda_address(copies->buffers[i]);
    if (copies->bytes[i])
      result =
          to_host
              ? driver->cuMemcpyDtoHAsync_v2(copies->copies[i], device, copies->bytes[i], stream)
              : driver->cuMemcpyHtoDAsync_v2(device, copies->copies[i], copies->bytes[i], stream);
  }
  /* The memory is the next call's. */
  CUresult last = driver->cuStreamSynchronize(stream);
  return result == CUDA_SUCCESS ? last : result;
}

typedef int32_t host_call(struct kiln_rt_run *run, void *const *copies, const int64_t *numbers,
                          const void *arg);

static int32_t call_on_copies(struct kiln_rt_run *run, const kiln_extern_call *call,
                              void *const *buffers, const int64_t *numbers, host_call *function,
                              const void *arg) {
  kiln_context *context = kiln_context_of(run);
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  uint32_t count = call->num_operands + call->num_results;
  void *copied[count + 1];
  uint64_t bytes[count + 1], total;
  extern_copies copies = {call, buffers, numbers, copied, bytes};
  int32_t status = kiln_cuda_flush(context);
  if (status == KILN_OK && kiln_cuda_context_of(context)->is_captured)
    status = kiln_fail(KILN_UNSUPPORTED,
                       "%s: %s: the stream is being captured, and this operator "
                       "is called on copies in the host's memory",
                       call->where, call->callee);
  if (status == KILN_OK &&
      (!place(&copies, &total) || kiln_cuda_reserve_staging(context, total) != KILN_OK))
    status = kiln_fail(KILN_OUT_OF_MEMORY, "%s: %s: out of memory for copies of its tensors",
                       call->where, call->callee);
  if (status == KILN_OK) {
    for (uint32_t i = 0; i < count; ++i)
      copied[i] = (char *)context->staging.data + (uintptr_t)copied[i];
    CUresult result = copy(context, &copies, /*to_host=*/true);
    if (result != CUDA_SUCCESS)
      status = kiln_cuda_fail(driver, result, "cannot copy from the GPU");
  }
  if (status == KILN_OK)
    status = function(run, copied, numbers, arg);
  if (status == KILN_OK) {
    CUresult result = copy(context, &copies, /*to_host=*/false);
    if (result != CUDA_SUCCESS)
      status = kiln_cuda_fail(driver, result, "cannot copy to the GPU");
  }
  if (status != KILN_OK)
    context->failure = status;
  return status;
}

static int32_t call_library(struct kiln_rt_run *run, void *const *copies, const int64_t *numbers,
                            const void *arg) {
  return kiln_rt_extern(run, *(const uint32_t *)arg, copies, numbers);
}

static int32_t call_on_device(struct kiln_rt_run *run, uint32_t index, void *const *buffers,
                              const int64_t *numbers) {
  kiln_context *context = kiln_context_of(run);
  const kiln_cuda_context *device = kiln_cuda_context_of(context);
  const kiln_extern_call *call = &context->program->externs->calls[index];
  const kiln_opened_externs *opened = &context->model->externs[context->entry];
  const kiln_extern_device where = {device->stream, kiln_cuda_device(context)->ordinal,
                                    device->is_captured};
  int32_t status = kiln_cuda_flush(context);
  if (status == KILN_OK) {
    char message[1024];
    message[0] = 0;
    status = opened->libraries[call->library]->run_on_device(opened->calls[index], &where, buffers,
                                                             numbers, message, sizeof message);
    if (status != KILN_OK)
      status = kiln_fail(status, "%s: %s: %s", call->where, call->callee, message);
  }
  if (status != KILN_OK)
    context->failure = status;
  return status;
}

int32_t kiln_rt_device_extern(struct kiln_rt_run *run, uint32_t index, void *const *buffers,
                              const int64_t *numbers) {
  const kiln_context *context = kiln_context_of(run);
  const kiln_extern_call *call = &context->program->externs->calls[index];
  if (context->model->externs[context->entry].libraries[call->library]->run_on_device)
    return call_on_device(run, index, buffers, numbers);
  return call_on_copies(run, call, buffers, numbers, call_library, &index);
}

typedef struct {
  const kiln_extern_call *call;
  kiln_custom_op_fn function;
} host_function;

static int32_t call_function(struct kiln_rt_run *run, void *const *copies, const int64_t *numbers,
                             const void *arg) {
  const host_function *made = arg;
  return kiln_rt_custom(run, made->call, made->function, copies, numbers);
}

int32_t kiln_rt_device_custom_on_host(kiln_rt_run *run, const kiln_extern_call *call,
                                      kiln_custom_op_fn function, void *const *buffers,
                                      const int64_t *numbers) {
  return call_on_copies(run, call, buffers, numbers, call_function,
                        &(host_function){call, function});
}
