/* Tensors that C functions of the tests are given, in the host's memory: on a GPU copies. */
#ifndef KILN_TEST_E2E_HOST_TENSORS_H
#define KILN_TEST_E2E_HOST_TENSORS_H

#include "kiln-c/custom_op.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef int (*copy_fn)(unsigned long long, unsigned long long, size_t, void *);
typedef int (*wait_fn)(void *);

static void *find(const char *name) {
  const char *driver = getenv("KILN_CUDA_DRIVER");
  return dlsym(dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW), name);
}

static int64_t count(const DLTensor *tensor) {
  int64_t elements = 1;
  for (int d = 0; d < tensor->ndim; ++d)
    elements *= tensor->shape[d];
  for (int64_t d = tensor->ndim - 1, stride = 1; d >= 0; stride *= tensor->shape[d--])
    if (tensor->strides[d] != stride)
      abort();
  return elements;
}

static size_t bytes(const DLTensor *tensor) {
  return (size_t)count(tensor) * tensor->dtype.bits / 8;
}

/* A tensor's elements; on a GPU a copy of them, to be given back with `finish`. */
static void *begin(const DLTensor *tensor, const kiln_custom_op_context *context) {
  if (tensor->device.device_type == kDLCPU)
    return tensor->data;
  void *data = malloc(bytes(tensor) + 1);
  if (bytes(tensor) &&
      ((copy_fn)find("cuMemcpyDtoHAsync_v2"))((uintptr_t)data, (uintptr_t)tensor->data,
                                              bytes(tensor), context->stream))
    abort();
  if (((wait_fn)find("cuStreamSynchronize"))(context->stream))
    abort();
  return data;
}

static void finish(const DLTensor *tensor, void *data, int written,
                   const kiln_custom_op_context *context) {
  if (tensor->device.device_type == kDLCPU)
    return;
  if (written && bytes(tensor)) {
    if (((copy_fn)find("cuMemcpyHtoDAsync_v2"))((uintptr_t)tensor->data, (uintptr_t)data,
                                                bytes(tensor), context->stream))
      abort();
    if (((wait_fn)find("cuStreamSynchronize"))(context->stream))
      abort();
  }
  free(data);
}

#endif /* KILN_TEST_E2E_HOST_TENSORS_H */
