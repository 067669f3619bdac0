/* Steps that another host runs on a GPU, one by one. */
#include "calls.h"
#include "replaced-driver.h"

#include <math.h>

enum { ROWS = 100 };

static const int64_t symbols[] = {0};
static const kiln_rt_device_kernel bump = {.name = "bump",
                                           .images = &image,
                                           .symbols = symbols,
                                           .num_images = 1,
                                           .num_buffers = 2,
                                           .num_symbols = 1,
                                           .threads = 64,
                                           .cluster = 1};

static int32_t launch(kiln_rt_run *run, void *const *buffers) {
  return kiln_rt_device_launch(run, &bump, buffers, 2, KILN_RT_NO_STEP);
}
static int32_t launch_and_fail(kiln_rt_run *run, void *const *buffers) {
  int32_t status = launch(run, buffers);
  return status ? status : kiln_rt_fail(run, KILN_ASSERTION_FAILED, "so it is");
}

static CUdeviceptr memory;
static tensor tensors[2];

static int32_t run(kiln_model *model, int32_t (*step)(kiln_rt_run *run, void *const *buffers)) {
  const DLTensor *given[] = {&tensors[0].t, &tensors[1].t};
  int64_t rows = ROWS;
  calls_step = step;
  return kiln_steps_run(model, kiln_steps_find("step"), given, 2, &rows, 1);
}

static void put(float first) {
  float x[ROWS];
  for (int i = 0; i < ROWS; ++i)
    x[i] = i ? (float)i : first;
  CHECK_CUDA(cuda->cuMemcpyHtoDAsync_v2(memory, x, sizeof x, NULL));
  CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
}

static float get(int i) {
  float y[ROWS];
  CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(y, memory + sizeof y, sizeof y, NULL));
  CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
  return y[i];
}

/*===-- Calls of the driver that fail -------------------------------------------===*/

static CUresult has_no_memory(CUdeviceptr *address, size_t bytes) {
  (void)address, (void)bytes;
  return CUDA_ERROR_OUT_OF_MEMORY;
}
static CUresult cannot_set(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  (void)to, (void)value, (void)count, (void)stream;
  return CUDA_ERROR_INVALID_VALUE;
}
static CUresult cannot_wait(CUstream stream) {
  (void)stream;
  return CUDA_ERROR_INVALID_VALUE;
}
static CUresult cannot_enter(CUcontext context) {
  (void)context;
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult has_no_host_memory(void **to, size_t bytes, unsigned flags) {
  (void)to, (void)bytes, (void)flags;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Another step is run while one runs, by a host whose memory is used up. */
static size_t limit = SIZE_MAX;
static kiln_model *other;
static int32_t launch_within(kiln_rt_run *step, void *const *buffers) {
  limit = 0;
  CHECK_FAILS(run(other, launch), KILN_OUT_OF_MEMORY, "out of memory for a run");
  CHECK_FAILS(kiln_steps_wait(other), KILN_OUT_OF_MEMORY, "out of memory for a run");
  limit = SIZE_MAX;
  return launch(step, buffers);
}

static void test_memory(void) {
  kiln_options options = limited_options(&limit);
  CHECK_OK(kiln_model_create(&options, &other));
  put(4);
  CHECK_OK(run(other, launch_within));
  CHECK_OK(kiln_steps_wait(other));
  CHECK(get(0) == 5);
  kiln_model_destroy(other);
}

static void test_failures(void) {
  kiln_options options = quiet_options(0);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  CHECK_OK(kiln_steps_wait(model)); /* for nothing */
  cuda->cuMemHostAlloc = has_no_host_memory;
  CHECK_FAILS(run(model, launch), KILN_OUT_OF_MEMORY, "out of memory for a run");
  *cuda = real;
  cuda->cuMemAlloc_v2 = has_no_memory;
  CHECK_FAILS(run(model, launch), KILN_OUT_OF_MEMORY,
              "no memory on the GPU for sums that blocks share");
  *cuda = real;
  cuda->cuMemsetD32Async = cannot_set;
  CHECK_FAILS(run(model, launch), KILN_DEVICE_ERROR, "cannot prepare a kernel's memory");
  *cuda = real;
  cuda->cuCtxPushCurrent_v2 = cannot_enter;
  CHECK_FAILS(run(model, launch), KILN_DEVICE_ERROR, "context current");
  CHECK_FAILS(kiln_steps_wait(model), KILN_DEVICE_ERROR, "context current");
  *cuda = real;
  CHECK_OK(run(model, launch));
  cuda->cuStreamSynchronize = cannot_wait;
  CHECK_FAILS(kiln_steps_wait(model), KILN_DEVICE_ERROR, "a kernel failed on the GPU");
  *cuda = real;
  CHECK_OK(kiln_steps_wait(model));
  kiln_model_destroy(model);
  CHECK_FAILS(kiln_steps_wait(NULL), KILN_INVALID_ARGUMENT, "expected a model");
}

static void test_steps(void) {
  kiln_options options = quiet_options(0);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  for (int i = 0; i < 3; ++i) {
    put((float)i);
    CHECK_OK(run(model, launch));
    CHECK_OK(kiln_steps_wait(model));
    CHECK(get(0) == (float)i + 1 && get(ROWS - 1) == ROWS);
  }
  put(NAN);
  CHECK_OK(run(model, launch)); /* which nobody has waited for */
  CHECK_FAILS(kiln_steps_wait(model), KILN_INVALID_ARGUMENT, "out of range");
  put(0);
  CHECK_FAILS(run(model, launch_and_fail), KILN_ASSERTION_FAILED, "so it is");
  CHECK_OK(run(model, launch));
  CHECK_OK(kiln_steps_wait(model));

  tensors[1].t.device = (DLDevice){kDLCUDA, 1};
  CHECK_FAILS(run(model, launch), KILN_INVALID_ARGUMENT,
              "buffer 1 \"step\": expected device cuda:0, got cuda:1");
  tensors[1].t.device = (DLDevice){kDLCPU, 0};
  CHECK_FAILS(run(model, launch), KILN_INVALID_ARGUMENT, "expected device cuda:0, got cpu");
  tensors[1].t.device = (DLDevice){kDLCUDA, 0};
  CHECK_OK(run(model, launch));
  kiln_model_destroy(model);
}

int main(int argc, char **argv) {
  load_driver(argc, argv);
  CHECK_CUDA(cuda->cuMemAlloc_v2(&memory, 2 * ROWS * sizeof(float)));
  for (int i = 0; i < 2; ++i) {
    set_tensor(&tensors[i], (void *)(uintptr_t)(memory + (CUdeviceptr)i * ROWS * sizeof(float)),
               DTYPE_F32, 1, ROWS, 0);
    tensors[i].t.device = (DLDevice){kDLCUDA, 0};
  }
  test_steps();
  test_failures();
  test_memory();
  CHECK_CUDA(cuda->cuMemFree_v2(memory));
  puts("device-steps-test: passed");
  return 0;
}
