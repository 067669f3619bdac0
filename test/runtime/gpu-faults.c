/* Failing calls of the system and of a GPU's driver. argv[1] is fault-driver.c's, argv[2] the one
 * behind it, argv[3] the kernels' image. */
#include "../../runtime/cuda/driver.h"
#include "faults.h"
#include "gpu-files.h"

#include <dlfcn.h>
#include <unistd.h>

enum { COUNT = 300 };

static const kiln_cuda_driver *cuda;
static CUcontext context;
static char path[] = "/tmp/kiln-faults-XXXXXX";

static void remove_weights(void) { unlink(path); }

static int32_t load(void) { return kiln_cuda_load(&cuda); }

/* What a run that repeats the one before it asks of the driver: whose context is current, whether
 * the stream is captured, memory, the graph's launch, and to give the memory back. The driver that
 * plays the GPU gives memory elsewhere each time, so that each step's addresses are set as well. */
static void check_warm_calls(kiln_options options) {
  CHECK(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  CUstream stream;
  CHECK(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CUdeviceptr memory[2];
  tensor tensors[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cuda->cuMemAlloc_v2(&memory[i], COUNT * sizeof(float)) == CUDA_SUCCESS);
    set_tensor(&tensors[i], (void *)(uintptr_t)memory[i], DTYPE_F32, 1, COUNT, 0);
    tensors[i].t.device = (DLDevice){kDLCUDA, 0};
  }
  float x[COUNT] = {0};
  CHECK(cuda->cuMemcpyHtoDAsync_v2(memory[0], x, sizeof x, stream) == CUDA_SUCCESS);
  DLManagedTensorVersioned output;
  set_managed(&output, &tensors[1]);
  const DLTensor *inputs[] = {&tensors[0].t};
  DLManagedTensorVersioned *outputs[] = {&output};
  for (int i = 0; i < 4; ++i) {
    faults_driver->arm(-1, false, FAULT_DRIVER_BROKEN);
    faults_driver->count(true);
    CHECK_OK(kiln_model_run(model, inputs, 1, outputs, 1, stream));
    faults_driver->count(false);
  }
  CHECK(faults_driver->calls() == 5 + STEPS);
  CHECK(cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS);
  kiln_model_destroy(model);
  for (int i = 0; i < 2; ++i)
    CHECK(cuda->cuMemFree_v2(memory[i]) == CUDA_SUCCESS);
  CHECK(cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  CUcontext popped;
  CHECK(cuda->cuCtxPopCurrent_v2(&popped) == CUDA_SUCCESS);
}

void set_up(int argc, char **argv) {
  CHECK(argc == 4);
  setenv("FAULT_DRIVER", argv[2], 1);
  setenv("KILN_CUDA_DRIVER", argv[1], 1);
  void *library = dlopen(argv[1], RTLD_NOW);
  CHECK(library);
  faults_driver = dlsym(library, "fault_driver");
  CHECK(faults_driver);
  int handle = mkstemp(path);
  CHECK(handle >= 0 && close(handle) == 0);
  write_weights(path);
  CHECK(atexit(remove_weights) == 0);
  static void *image; /* a global, so that it is no leak */
  size_t bytes;
  image = read_file(argv[3], &bytes);
  use_image(image, bytes);
  faults_each(load);
  CHECK(cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  kiln_options options = quiet_options(0);
  options.weights_path = path;
  check_warm_calls(options);
  make_handles(options);
}

static bool is_right(const float *y, int64_t step) {
  for (int64_t i = 0; i < COUNT; ++i)
    if (y[i] != (float)(i * step) + 4 + weight(STRIDE * i))
      return false;
  return true;
}

/* Tensors of the host, with gaps and without. */
static void run_on_host(kiln_model *model, float *x, int64_t step) {
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 1, COUNT, 0);
  set_strides(&input, step, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  STEP(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  CHECK(is_right(outputs[0]->dl_tensor.data, step));
  outputs[0]->deleter(outputs[0]);
}

static void run_on_device(kiln_model *model, const float *x, CUstream stream) {
  CUdeviceptr memory;
  CHECK(cuda->cuMemAlloc_v2(&memory, COUNT * sizeof *x) == CUDA_SUCCESS);
  CHECK(cuda->cuMemcpyHtoD_v2(memory, x, COUNT * sizeof *x) == CUDA_SUCCESS);
  CHECK(cuda->cuStreamSynchronize(NULL) == CUDA_SUCCESS);
  tensor input;
  set_tensor(&input, (void *)(uintptr_t)memory, DTYPE_F32, 1, COUNT, 0);
  input.t.device = (DLDevice){kDLCUDA, 0};
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  STEP(kiln_model_run(model, inputs, 1, outputs, 1, stream));
  float y[COUNT];
  CUdeviceptr from = (CUdeviceptr)(uintptr_t)outputs[0]->dl_tensor.data;
  CHECK(cuda->cuMemcpyDtoHAsync_v2(y, from, sizeof y, stream) == CUDA_SUCCESS);
  CHECK(cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(is_right(y, 1));
  STEP_VOID(outputs[0]->deleter(outputs[0]));
  CHECK(cuda->cuMemFree_v2(memory) == CUDA_SUCCESS);
}

void scenario(void) {
  kiln_options options = quiet_options(0);
  options.weights_path = path;
  CUcontext popped;
  CHECK(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
  float x[2 * COUNT];
  for (int i = 0; i < 2 * COUNT; ++i)
    x[i] = (float)i;
  kiln_model *model = NULL;
  STEP(kiln_model_create(&options, &model));
  run_on_host(model, x, 2);
  for (int i = 0; i < 3; ++i) /* by itself, as a graph that is made, and as one that is there */
    run_on_device(model, x, NULL);
  CUstream stream;
  CHECK(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  run_on_device(model, x, stream);
  CHECK(cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  tensor weights;
  float w = 0;
  set_tensor(&weights, &w, DTYPE_F32, 1, WEIGHTS, 0);
  set_strides(&weights, 0, 0);
  STEP(kiln_model_set_constant(model, "weights", &weights.t));
  STEP_VOID(kiln_model_destroy(model));
  use_state(true);
  kiln_session *session = NULL, *clone = NULL;
  STEP(kiln_model_create(&options, &model));
  STEP(kiln_session_create(model, &session));
  STEP(kiln_session_clone(session, &clone));
  STEP(kiln_session_reset(session));
  STEP_VOID(kiln_session_destroy(clone));
  STEP_VOID(kiln_model_destroy(model));
  STEP_VOID(kiln_session_destroy(session));
  use_state(false);
  CHECK(cuda->cuCtxPopCurrent_v2(&popped) == CUDA_SUCCESS);
}
