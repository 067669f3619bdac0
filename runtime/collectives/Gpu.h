// A GPU, and what is used of the driver that the model has loaded.
#ifndef KILN_RUNTIME_COLLECTIVES_GPU_H
#define KILN_RUNTIME_COLLECTIVES_GPU_H

#include "ExternFailure.h"

namespace kiln::collectives {

using externs::Failure;

struct Driver {
  int (*cuDeviceGet)(int *device, int ordinal);
  int (*cuDevicePrimaryCtxRetain)(void **context, int device);
  int (*cuCtxPushCurrent_v2)(void *context);
  int (*cuCtxPopCurrent_v2)(void **context);
  int (*cuThreadExchangeStreamCaptureMode)(int *mode);
  int (*cuMemAlloc_v2)(uint64_t *memory, size_t bytes);
  int (*cuMemFree_v2)(uint64_t memory);
  int (*cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t bytes, void *stream);
  int (*cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t bytes, void *stream);
  int (*cuStreamSynchronize)(void *stream);
  int (*cuEventCreate)(void **event, unsigned flags);
  int (*cuEventDestroy_v2)(void *event);
  int (*cuEventRecord)(void *event, void *stream);
  int (*cuEventQuery)(void *event);

  /// Throws a Failure.
  static const Driver &get();
  static void check(int result, const char *what);
};

/// Makes the primary context of a GPU current. Some thread may be recording a graph meanwhile, into
/// which nothing goes that happens here.
class Entered {
public:
  /// Throws a Failure.
  explicit Entered(int ordinal);
  ~Entered();
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

private:
  int mode;
};

} // namespace kiln::collectives

#endif // KILN_RUNTIME_COLLECTIVES_GPU_H
