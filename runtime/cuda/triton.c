/*===- triton.c - Launches of Triton kernels --------------------------------===*
 *
 * The kernel comes behind what main has put on the run's stream, and nothing waits for
 * it. Generated code refers to kiln_rt_device_triton, and nothing else in the runtime
 * does.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <string.h>

/* The value of a parameter, of which the driver takes the first bytes. */
typedef union {
  void *pointer;
  int64_t integer;
  double f64;
  float f32;
} kiln_triton_value;

/* The first configuration that the GPU has code and room for, loaded. A driver that is too old for
 * machine code may still take the PTX that comes later. */
static int32_t choose(struct kiln_device *device, const kiln_rt_triton *launch,
                      const kiln_rt_triton_config **config, CUfunction *function) {
  int32_t status = KILN_OK;
  uint32_t needed = 0;
  for (uint32_t i = 0; i < launch->num_configs; ++i) {
    const kiln_rt_device_kernel *kernel = launch->configs[i].kernel;
    if (!kiln_cuda_has_code(device, kernel))
      continue;
    *config = &launch->configs[i];
    if (kernel->shared_bytes > (uint32_t)device->shared_bytes) {
      needed = kernel->shared_bytes;
      continue;
    }
    status = kiln_cuda_function(device, &kernel, function);
    if (KILN_LIKELY(status == KILN_OK))
      return KILN_OK;
  }
  if (status != KILN_OK)
    return status;
  if (needed)
    return kiln_fail(KILN_DEVICE_ERROR,
                     "%s: the Triton kernel %s needs %u bytes of shared memory, a block of %s has "
                     "%d at most",
                     launch->where, (*config)->kernel->name, needed, device->name,
                     device->shared_bytes);
  return kiln_fail(KILN_DEVICE_ERROR,
                   "%s: the model has no code of the Triton kernel %s for %s, of compute "
                   "capability %u.%u: pack it with --gpu-arch=sm_%u",
                   launch->where, launch->configs[0].kernel->name, device->name,
                   device->architecture / 10, device->architecture % 10, device->architecture);
}

/* The kernel writes to copies, unless they are in the place of what they are copies of. */
static int32_t copy_updates(kiln_rt_run *run, const kiln_rt_triton *launch, void *const *buffers,
                            const int64_t *numbers) {
  int32_t status = KILN_OK;
  for (uint32_t i = 0; i < launch->num_updates && status == KILN_OK; ++i) {
    const void *from = buffers[launch->updates[2 * i]];
    void *to = buffers[launch->first_update + i];
    if (from != to)
      status = kiln_rt_device_copy(run, to, from, numbers[launch->updates[2 * i + 1]]);
  }
  return status;
}

static bool fits(int64_t number, const kiln_rt_triton_parameter *parameter) {
  if (parameter->bits == 64)
    return parameter->kind == KILN_RT_TRITON_SIGNED || number >= 0;
  if (parameter->kind == KILN_RT_TRITON_UNSIGNED || parameter->bits == 1)
    return number >= 0 && number < (int64_t)1 << parameter->bits;
  int64_t end = (int64_t)1 << (parameter->bits - 1);
  return number >= -end && number < end;
}

static int32_t read_parameter(const kiln_rt_triton *launch, const kiln_rt_triton_config *config,
                              const kiln_rt_triton_parameter *parameter, void *const *buffers,
                              const int64_t *numbers, kiln_triton_value *value) {
  value->integer = 0;
  switch (parameter->kind) {
  case KILN_RT_TRITON_NULL:
    return KILN_OK;
  case KILN_RT_TRITON_BUFFER:
    value->pointer = buffers[parameter->index];
    if (KILN_UNLIKELY((uintptr_t)value->pointer % config->alignment))
      return kiln_fail(KILN_UNSUPPORTED,
                       "%s: the Triton kernel %s has been compiled for tensors at multiples of %u "
                       "bytes, and is given one at another address",
                       launch->where, config->kernel->name, config->alignment);
    return KILN_OK;
  case KILN_RT_TRITON_FLOAT:
    memcpy(&value->f64, &numbers[parameter->index], sizeof value->f64);
    if (parameter->bits == 32)
      value->f32 = (float)value->f64;
    return KILN_OK;
  default:
    value->integer = numbers[parameter->index];
    if (KILN_LIKELY(fits(value->integer, parameter)))
      return KILN_OK;
    return kiln_fail(
        KILN_UNSUPPORTED, "%s: the Triton kernel %s takes a number of %u bits, and is given %lld",
        launch->where, config->kernel->name, parameter->bits, (long long)value->integer);
  }
}

/* Sizes of the grid, of which CUDA takes 2^31 - 1, 65535 and 65535. */
static int32_t read_grid(const kiln_rt_triton *launch, const kiln_rt_triton_config *config,
                         const int64_t *numbers, uint32_t *grid) {
  for (int i = 0; i < 3; ++i) {
    int64_t blocks = numbers[config->grid[i]];
    if (KILN_UNLIKELY(blocks < 0 || blocks > (i ? UINT16_MAX : INT32_MAX)))
      return kiln_fail(KILN_UNSUPPORTED,
                       "%s: the Triton kernel %s would have %lld blocks in %c for these sizes",
                       launch->where, config->kernel->name, (long long)blocks, "xyz"[i]);
    grid[i] = (uint32_t)blocks;
  }
  return KILN_OK;
}

static int32_t start(kiln_context *context, const kiln_rt_triton *launch, void *const *buffers,
                     const int64_t *numbers) {
  struct kiln_device *device = kiln_cuda_device(context);
  const kiln_rt_triton_config *config;
  CUfunction function;
  uint32_t grid[3];
  kiln_triton_value values[KILN_RT_MAX_TRITON_PARAMETERS];
  void *parameters[KILN_RT_MAX_TRITON_PARAMETERS];
  int32_t status = choose(device, launch, &config, &function);
  if (status == KILN_OK)
    status = read_grid(launch, config, numbers, grid);
  for (uint32_t i = 0; status == KILN_OK && i < config->num_parameters; ++i) {
    parameters[i] = &values[i];
    status = read_parameter(launch, config, &config->parameters[i], buffers, numbers, &values[i]);
  }
  if (status == KILN_OK)
    status = kiln_cuda_flush(context);
  if (status != KILN_OK || !grid[0] || !grid[1] || !grid[2])
    return status;
  const kiln_rt_device_kernel *kernel = config->kernel;
  CUresult result = device->driver->cuLaunchKernel(
      function, grid[0], grid[1], grid[2], kernel->threads, 1, 1, kernel->shared_bytes,
      kiln_cuda_context_of(context)->stream, parameters, NULL);
  return result == CUDA_SUCCESS ? KILN_OK : kiln_cuda_fail(device->driver, result, kernel->name);
}

int32_t kiln_rt_device_triton(kiln_rt_run *run, const kiln_rt_triton *launch, void *const *buffers,
                              const int64_t *numbers) {
  kiln_context *context = kiln_context_of(run);
  int32_t status = copy_updates(run, launch, buffers, numbers);
  if (status == KILN_OK)
    status = start(context, launch, buffers, numbers);
  if (KILN_UNLIKELY(status != KILN_OK))
    context->failure = status;
  return status;
}
