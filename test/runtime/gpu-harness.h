/*===- gpu-harness.h - Models and arguments for tests of the program in gpu.c ---===*
 *
 * The driver that plays the GPUs ends the process where it is used wrongly.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_TEST_RUNTIME_GPU_HARNESS_H
#define KILN_TEST_RUNTIME_GPU_HARNESS_H

#include "../../runtime/cuda/driver.h"
#include "gpu-files.h"

#include <dlfcn.h>
#include <unistd.h>

static const kiln_cuda_driver *cuda;
static size_t (*memory_in_use)(bool host);
static CUcontext contexts[2];
static char weights_path[64], log_path[64];

#define CHECK_CUDA(call) CHECK((call) == CUDA_SUCCESS)

/*===-- Models --------------------------------------------------------------===*/

/* How often the driver has written this, since the last time that anything was asked. */
static inline int count_log(const char *text) {
  size_t bytes;
  int count = 0;
  char *log = read_file(log_path, &bytes);
  for (char *at = log; (at = strstr(at, text)); ++at)
    ++count;
  free(log);
  return count;
}
static inline void clear_log(void) { fclose(fopen(log_path, "w")); }

static inline kiln_model *create(int device) {
  kiln_options options = quiet_options(0);
  options.weights_path = weights_path;
  options.device_index = device;
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

/*===-- Runs ----------------------------------------------------------------===*/

/* Tensors of one run in the memory of a GPU, whose context is current. */
typedef struct {
  int64_t count;
  int device;
  CUdeviceptr x, y;
  tensor input, output;
  DLManagedTensorVersioned managed;
  const DLTensor *inputs[1];
  DLManagedTensorVersioned *outputs[1];
} arguments;

static inline float x_value(int64_t i, int seed) { return (float)(i * 3 + seed); }

static inline void set_input(arguments *a, int seed, CUstream stream) {
  float *x = malloc(4 * (size_t)a->count);
  for (int64_t i = 0; i < a->count; ++i)
    x[i] = x_value(i, seed);
  CHECK_CUDA(cuda->cuMemcpyHtoDAsync_v2(a->x, x, 4 * (size_t)a->count, stream));
  free(x);
}

static inline void make_arguments(arguments *a, int64_t count, int device) {
  memset(a, 0, sizeof *a);
  a->count = count;
  a->device = device;
  CHECK_CUDA(cuda->cuMemAlloc_v2(&a->x, 4 * (size_t)count));
  CHECK_CUDA(cuda->cuMemAlloc_v2(&a->y, 4 * (size_t)count));
  set_tensor(&a->input, (void *)(uintptr_t)a->x, DTYPE_F32, 1, count, 0);
  set_tensor(&a->output, (void *)(uintptr_t)a->y, DTYPE_F32, 1, count, 0);
  a->input.t.device = a->output.t.device = (DLDevice){kDLCUDA, device};
  set_managed(&a->managed, &a->output);
  a->inputs[0] = &a->input.t;
  a->outputs[0] = &a->managed;
}

static inline void free_arguments(arguments *a) {
  CHECK_CUDA(cuda->cuMemFree_v2(a->x));
  CHECK_CUDA(cuda->cuMemFree_v2(a->y));
}

static inline int32_t run(kiln_model *model, arguments *a, CUstream stream) {
  return kiln_model_run(model, a->inputs, 1, a->outputs, 1, stream);
}

static inline bool is_right(const arguments *a, int seed, CUstream stream) {
  float *y = malloc(4 * (size_t)a->count);
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(y, a->y, 4 * (size_t)a->count, stream));
  bool right = true;
  for (int64_t i = 0; i < a->count; ++i)
    right &= y[i] == x_value(i, seed) + 4 + weight(STRIDE * i);
  free(y);
  return right;
}

static inline void run_and_check(kiln_model *model, arguments *a, int seed, CUstream stream) {
  set_input(a, seed, stream);
  CHECK_OK(run(model, a, stream));
  CHECK(is_right(a, seed, stream));
}

/*===-- Tests ---------------------------------------------------------------===*/

/* Two GPUs, played by the driver that argv[1] names (test/Targets/CUDA/emulator), with the kernels'
 * image argv[2]. Returns the driver. */
static inline void *open_gpu(int argc, char **argv, void **image, size_t *bytes) {
  CHECK(argc >= 3);
  snprintf(weights_path, sizeof weights_path, "gpu-test-%d.weights", (int)getpid());
  snprintf(log_path, sizeof log_path, "gpu-test-%d.log", (int)getpid());
  setenv("KILN_CUDA_DRIVER", argv[1], 1);
  setenv("KILN_EMULATOR_DEVICES", "2", 1);
  setenv("KILN_EMULATOR_LOG", log_path, 1);
  *image = read_file(argv[2], bytes);
  use_image(*image, *bytes);
  write_weights(weights_path);
  CHECK_OK(kiln_cuda_load(&cuda));
  void *driver = dlopen(argv[1], RTLD_NOW);
  *(void **)&memory_in_use = dlsym(driver, "emulator_memory_in_use");
  for (int device = 0; device < 2; ++device)
    CHECK_CUDA(cuda->cuDevicePrimaryCtxRetain(&contexts[device], device));
  return driver;
}

static inline void close_gpu(void *image) {
  CHECK(memory_in_use(false) == 0 && memory_in_use(true) == 0);
  unlink(weights_path);
  unlink(log_path);
  free(image);
}

#endif /* KILN_TEST_RUNTIME_GPU_HARNESS_H */
