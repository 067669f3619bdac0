/*===- launch.c - What main calls -------------------------------------------===*/
#include "cuda.h"

#include <string.h>

/* A failure of main whose message is set already. */
static int32_t note(kiln_context *context, int32_t status) {
  if (KILN_UNLIKELY(status != KILN_OK))
    context->failure = status;
  return status;
}

static int32_t check(kiln_context *context, CUresult result, const char *what) {
  if (KILN_LIKELY(result == CUDA_SUCCESS))
    return KILN_OK;
  return note(context, kiln_cuda_fail(kiln_cuda_device(context)->driver, result, what));
}

/*===-- Kernels -------------------------------------------------------------===*/

int32_t kiln_cuda_launch(kiln_context *context, const kiln_rt_device_kernel *kernel,
                         CUfunction function, uint32_t grid, void **parameters) {
  struct kiln_device *device = kiln_cuda_device(context);
  CUstream stream = kiln_cuda_context_of(context)->stream;
  CUresult result;
  kiln_cuda_wait_for_step(context, kernel->name, false);
  if (kiln_cuda_overlaps(device, kernel)) {
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = kernel->threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = kernel->shared_bytes,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    result = device->driver->cuLaunchKernelEx(&config, function, parameters, NULL);
  } else {
    result = device->driver->cuLaunchKernel(function, grid, 1, 1, kernel->threads, 1, 1,
                                            kernel->shared_bytes, stream, parameters, NULL);
  }
  int32_t status = check(context, result, kernel->name);
  return status != KILN_OK ? status
                           : note(context, kiln_cuda_wait_for_step(context, kernel->name, true));
}

/* `numbers[i]` is the kernel's i-th number. */
static int32_t launch(kiln_context *context, const kiln_rt_device_kernel *kernel,
                      void *const *buffers, const int64_t *const *numbers, int64_t grid,
                      int64_t step) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  struct kiln_device *device = kiln_cuda_device(context);
  if (grid == 0)
    return KILN_OK;
  CUfunction function;
  int32_t status = kiln_cuda_function(device, &kernel, &function);
  if (KILN_UNLIKELY(status != KILN_OK))
    return note(context, status);
  if (KILN_UNLIKELY(grid < 0 || grid > INT32_MAX))
    return note(context,
                kiln_fail(KILN_UNSUPPORTED,
                          "kernel %s would have %lld blocks for these sizes, more than a GPU runs",
                          kernel->name, (long long)grid));
  if (KILN_UNLIKELY((uint64_t)kernel->num_buffers + kernel->num_symbols + 2 + kernel->num_maps >
                        KILN_RT_MAX_PARAMETERS ||
                    kernel->num_maps > KILN_RT_MAX_MAPS))
    return note(context,
                kiln_fail(KILN_INTERNAL, "kernel %s has too many parameters", kernel->name));
  kiln_cuda_step made = {.kernel = kernel,
                         .function = function,
                         .kernel_grid = (uint32_t)grid,
                         .number = (int32_t)step};
  int64_t values[KILN_RT_MAX_PARAMETERS];
  if (kernel->geometry) {
    for (uint32_t i = 0; i < kernel->num_symbols; ++i)
      values[i] = *numbers[i];
    grid = kiln_cuda_variant_grid(device, kernel, values);
  }
  if (KILN_LIKELY(cuda->records)) {
    void *addresses[KILN_RT_MAX_PARAMETERS];
    if (kiln_cuda_has_workspace(kernel)) {
      memcpy(addresses, buffers, kernel->num_buffers * sizeof *buffers);
      addresses[kernel->num_buffers] = kiln_cuda_pointer(cuda->workspace);
      buffers = addresses;
    }
    made.grid = (uint32_t)grid;
    return note(context, kiln_cuda_record(context, made, buffers, kiln_cuda_num_addresses(kernel),
                                          numbers, kernel->num_symbols));
  }
  void *parameters[KILN_RT_MAX_PARAMETERS];
  uint32_t count = 0;
  for (uint32_t i = 0; i < kernel->num_buffers; ++i)
    parameters[count++] = (void *)&buffers[i];
  for (uint32_t i = 0; i < kernel->num_symbols; ++i)
    parameters[count++] = (void *)(uintptr_t)numbers[i];
  parameters[count] = &cuda->error;
  return kiln_cuda_launch(context, kernel, function, (uint32_t)grid, parameters);
}

int32_t kiln_rt_device_launch(struct kiln_rt_run *run, const kiln_rt_device_kernel *kernel,
                              void *const *buffers, int64_t grid, int64_t step) {
  const int64_t *numbers[KILN_RT_MAX_PARAMETERS];
  for (uint32_t i = 0; i < kernel->num_symbols && i < KILN_RT_MAX_PARAMETERS; ++i)
    numbers[i] = &run->symbols[kernel->symbols[i]];
  return launch(kiln_context_of(run), kernel, buffers, numbers, grid, step);
}

/*===-- Copies --------------------------------------------------------------===*/

int32_t kiln_cuda_copy_strided(kiln_context *context, CUdeviceptr to, const int64_t *to_strides,
                               CUdeviceptr from, const int64_t *from_strides, const int64_t *sizes,
                               int rank, size_t item) {
  /* Dims of one element go, neighbours that advance as one merge. */
  int64_t size[KILN_MAX_RANK], to_step[KILN_MAX_RANK], from_step[KILN_MAX_RANK], count = 1;
  int dims = 0;
  for (int d = 0; d < rank; ++d) {
    count *= sizes[d];
    if (sizes[d] == 1)
      continue;
    bool merges = dims > 0 && to_step[dims - 1] == to_strides[d] * sizes[d] &&
                  from_step[dims - 1] == from_strides[d] * sizes[d];
    if (merges)
      --dims;
    size[dims] = merges ? size[dims] * sizes[d] : sizes[d];
    to_step[dims] = to_strides[d];
    from_step[dims] = from_strides[d];
    ++dims;
  }
  if (count == 0)
    return KILN_OK;
  if (dims > KILN_RT_COPY_RANK) {
    /* Further dims than the kernel has are launched one after the other. */
    int32_t status = KILN_OK;
    for (int64_t i = 0; i < size[0] && status == KILN_OK; ++i)
      status = kiln_cuda_copy_strided(context, to + (CUdeviceptr)(i * to_step[0]) * item,
                                      to_step + 1, from + (CUdeviceptr)(i * from_step[0]) * item,
                                      from_step + 1, size + 1, dims - 1, item);
    return status;
  }
  /* Count, item, sizes, strides. */
  int64_t numbers[KILN_RT_COPY_NUMBERS];
  numbers[0] = count;
  numbers[1] = (int64_t)item;
  for (int d = 0; d < KILN_RT_COPY_RANK; ++d) {
    numbers[2 + d] = d < dims ? size[d] : 1;
    numbers[2 + KILN_RT_COPY_RANK + d] = d < dims ? to_step[d] : 0;
    numbers[2 + 2 * KILN_RT_COPY_RANK + d] = d < dims ? from_step[d] : 0;
  }
  const kiln_rt_device_kernel *kernel = kiln_program.device->copy;
  const int64_t *pointers[KILN_RT_COPY_NUMBERS];
  for (int i = 0; i < KILN_RT_COPY_NUMBERS; ++i)
    pointers[i] = &numbers[i];
  void *buffers[] = {kiln_cuda_pointer(to), kiln_cuda_pointer(from)};
  return launch(context, kernel, buffers, pointers, (count + kernel->threads - 1) / kernel->threads,
                KILN_RT_NO_STEP);
}

int32_t kiln_rt_device_copy_strided(struct kiln_rt_run *run, void *to, const int64_t *to_strides,
                                    const void *from, const int64_t *from_strides,
                                    const int64_t *sizes, int64_t rank, int64_t item) {
  kiln_context *context = kiln_context_of(run);
  return note(context, kiln_cuda_copy_strided(context, kiln_cuda_address(to), to_strides,
                                              kiln_cuda_address(from), from_strides, sizes,
                                              (int)rank, (size_t)item));
}

int32_t kiln_cuda_copy(kiln_context *context, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return check(context,
               kiln_cuda_device(context)->driver->cuMemcpyDtoDAsync_v2(
                   to, from, bytes, kiln_cuda_context_of(context)->stream),
               "cannot copy on the GPU");
}

int32_t kiln_rt_device_copy(struct kiln_rt_run *run, void *to, const void *from, int64_t bytes) {
  if (bytes <= 0)
    return KILN_OK;
  kiln_context *context = kiln_context_of(run);
  void *const addresses[] = {to, (void *)(uintptr_t)from};
  const int64_t *numbers[] = {&bytes};
  kiln_cuda_step copy = {.number = KILN_RT_NO_STEP};
  return note(context, kiln_cuda_record(context, copy, addresses, 2, numbers, 1));
}

/*===-- What depends on data ------------------------------------------------===*/

int32_t kiln_rt_device_read(struct kiln_rt_run *run, void *to, const void *from, int64_t bytes) {
  kiln_context *context = kiln_context_of(run);
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  int32_t status = kiln_cuda_flush(context);
  if (KILN_UNLIKELY(status != KILN_OK))
    return note(context, status);
  if (KILN_UNLIKELY(kiln_cuda_context_of(context)->is_captured))
    return note(context,
                kiln_fail(KILN_UNSUPPORTED,
                          "stream: is being captured, but this program's sizes or branches "
                          "depend on data, for which a run has to wait"));
  CUresult result =
      driver->cuMemcpyDtoHAsync_v2(to, kiln_cuda_address(from), (size_t)bytes, stream);
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamSynchronize(stream);
  return check(context, result, "cannot read from the GPU");
}

int32_t kiln_rt_device_reserve(struct kiln_rt_run *run, int64_t segment, int64_t bytes) {
  kiln_context *context = kiln_context_of(run);
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  if (KILN_UNLIKELY(bytes < 0 || (uint64_t)bytes > KILN_MAX_BYTES))
    return note(context, kiln_fail(KILN_OUT_OF_MEMORY,
                                   "the memory of this run overflows for what the data says"));
  if (cuda->segments[segment] || bytes == 0)
    return KILN_OK;
  CUresult result = kiln_cuda_allocate(kiln_cuda_device(context), &cuda->segments[segment],
                                       (size_t)bytes, cuda->stream);
  context->segments[segment] = kiln_cuda_pointer(cuda->segments[segment]);
  return check(context, result, "no memory on the GPU for intermediate results");
}

int32_t kiln_rt_device_bind_output(struct kiln_rt_run *run, int64_t index) {
  kiln_context *context = kiln_context_of(run);
  return note(context, kiln_cuda_bind_output(context, (uint32_t)index));
}
