/* The emulator's driver, whose functions tests replace and put back, and the image of the kernels that they launch. */
#ifndef KILN_TEST_RUNTIME_REPLACED_DRIVER_H
#define KILN_TEST_RUNTIME_REPLACED_DRIVER_H

#include "../../runtime/cuda/driver.h"
#include "../../runtime/runtime.h"
#include "harness.h"

#define CHECK_CUDA(call) CHECK((call) == CUDA_SUCCESS)

static kiln_cuda_driver *cuda; /* what the runtime calls */
static kiln_cuda_driver real;
static kiln_rt_image image = {NULL, 0, 0, KILN_RT_EMULATOR};

/* argv[1] of a test names the driver, argv[2] the kernels' image, argv[3] the library of external calls. Makes the first
 * device's context current. */
static inline void load_driver(int argc, char **argv) {
  CHECK(argc == 4);
  setenv("KILN_CUDA_DRIVER", argv[1], 1);
  setenv("KILN_FAKE_LIBRARY", argv[3], 1);
  static char data[1 << 20];
  FILE *file = fopen(argv[2], "rb");
  CHECK(file);
  image.bytes = fread(data, 1, sizeof data - 1, file);
  image.data = data;
  fclose(file);
  const kiln_cuda_driver *table;
  CHECK_OK(kiln_cuda_load(&table));
  cuda = (kiln_cuda_driver *)(uintptr_t)table;
  real = *table;
  CUcontext context;
  CHECK_CUDA(cuda->cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(context));
}

#endif /* KILN_TEST_RUNTIME_REPLACED_DRIVER_H */
