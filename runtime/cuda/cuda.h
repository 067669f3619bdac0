/*===- cuda.h - Inside the runtime for CUDA ---------------------------------===*
 *
 *   driver.c   finding the driver      device.c   one model's device: modules, weights
 *   launch.c   what main calls         run.c      one run
 *
 * Each call of the C ABI makes the device's primary context current for as long
 * as it lasts, which is what CUDA's own runtime and PyTorch use too.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUDA_CUDA_H
#define KILN_RUNTIME_CUDA_CUDA_H

#include "../runtime.h"
#include "driver.h"

/* What runs read and write is copied to places of this alignment if it has less. */
#define KILN_CUDA_ALIGNMENT 16

/* A model's device: kiln_model.device. */
struct kiln_device {
  const kiln_cuda_driver *driver;
  CUdevice device;
  int ordinal;
  unsigned architecture;
  CUcontext context;
  char name[96];
  CUdeviceptr weights;
  CUevent state_event; /* the last run of a model whose buffers change, on whatever stream */
  kiln_mutex loading;  /* of modules */
  /* By number, loaded when they are first launched. */
  struct {
    CUmodule module;
    _Atomic(CUfunction) function;
  } kernels[];
};

/* What a context of runs has besides: kiln_context.device. */
typedef struct {
  CUstream stream;
  CUdeviceptr memory;     /* arena and copies of this run, 0: none */
  int32_t *error;         /* the host's and the device's; kiln_rt_run.error */
  bool outputs_on_device; /* those in NULL slots */
  bool waits;             /* some tensor is in the host's memory */
  CUdeviceptr segments[]; /* then the copies of outputs that are bound late */
} kiln_cuda_context;

static inline struct kiln_device *kiln_cuda_device(const kiln_context *context) {
  return context->model->device;
}

static inline kiln_cuda_context *kiln_cuda_context_of(kiln_context *context) {
  return context->device;
}

static inline CUdeviceptr kiln_cuda_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }
static inline void *kiln_cuda_pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

/*===-- device.c ------------------------------------------------------------===*/

int32_t kiln_cuda_enter(const struct kiln_device *device);
void kiln_cuda_leave(const struct kiln_device *device);

/* The function of a kernel, whose module is loaded if need be. */
int32_t kiln_cuda_function(struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                           CUfunction *function);

/*===-- launch.c ------------------------------------------------------------===*/

int32_t kiln_cuda_copy_strided(kiln_context *context, CUdeviceptr to, const int64_t *to_strides,
                               CUdeviceptr from, const int64_t *from_strides, const int64_t *sizes,
                               int rank, size_t item);

/*===-- run.c ---------------------------------------------------------------===*/

int32_t kiln_cuda_run(kiln_model *model, const DLTensor *const *inputs,
                      DLManagedTensorVersioned **outputs, void *stream);
int32_t kiln_cuda_bind_output(kiln_context *context, uint32_t index);
void kiln_cuda_free_context(kiln_context *context);

#endif /* KILN_RUNTIME_CUDA_CUDA_H */
