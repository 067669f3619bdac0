/* Failing calls of the system and of a GPU's driver: all that a program may call. The arguments are those
 * of gpu-faults.c. */
#include "../../runtime/cuda/driver.h"
#include "device.h"
#include "faults.h"

#include <dlfcn.h>
#include <ftw.h>

static const kiln_cuda_driver *cuda;
static CUcontext context;
static char folder[] = "/tmp/kiln-faults-XXXXXX";

static int32_t load(void) { return kiln_cuda_load(&cuda); }

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

void set_up(int argc, char **argv) {
  CHECK(argc == 4);
  setenv("FAULT_DRIVER", argv[2], 1);
  setenv("KILN_CUDA_DRIVER", argv[1], 1);
  void *library = dlopen(argv[1], RTLD_NOW);
  CHECK(library);
  faults_driver = dlsym(library, "fault_driver");
  CHECK(faults_driver);
  FILE *file = fopen(argv[3], "rb");
  static char image[1 << 20];
  CHECK(file);
  size_t bytes = fread(image, 1, sizeof image - 1, file);
  fclose(file);
  use_image(image, bytes);
  CHECK(mkdtemp(folder) && atexit(remove_folder) == 0);
  setenv("KILN_DEBUG_DIR", folder, 1);
  faults_each(load);
  CHECK(cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
}

static void note(void *ctx, const kiln_profile_event *event) { (void)ctx, (void)event; }

/* A run writes to its input, so that one that fails may have done so; the results are checked by the
 * tensor that this one took. */
static int32_t run(kiln_model *model, DLTensor *x, float *host, DLManagedTensorVersioned *y) {
  enum { SIZE = 4 * DEVICE_ROWS };
  for (int i = 0; i < SIZE; ++i)
    host[i] = (float)i;
  if (x->device.device_type == kDLCUDA) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)x->data;
    faults_end();
    CHECK(cuda->cuMemcpyHtoDAsync_v2(to, host, 4 * SIZE, NULL) == CUDA_SUCCESS);
    CHECK(cuda->cuStreamSynchronize(NULL) == CUDA_SUCCESS);
    faults_begin();
  }
  const DLTensor *inputs[] = {x};
  DLManagedTensorVersioned *outputs[] = {y, NULL, NULL};
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 3, NULL);
  if (!y && outputs[0])
    outputs[0]->deleter(outputs[0]);
  if (outputs[2])
    outputs[2]->deleter(outputs[2]);
  return status;
}

static void use(const kiln_options *options, uint32_t level) {
  static float host[4 * DEVICE_ROWS], result[4 * DEVICE_ROWS];
  CUcontext popped;
  CUdeviceptr memory;
  device_level = level;
  CHECK(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
  CHECK(cuda->cuMemAlloc_v2(&memory, sizeof host) == CUDA_SUCCESS);
  kiln_model *model = NULL;
  STEP(kiln_model_create(options, &model));

  /* The host's memory, with gaps. */
  tensor x, y;
  DLManagedTensorVersioned managed;
  set_tensor(&x, host, DTYPE_F32, 2, DEVICE_ROWS, 2);
  set_strides(&x, 1, DEVICE_ROWS);
  set_tensor(&y, result, DTYPE_F32, 2, 2, DEVICE_ROWS);
  set_strides(&y, DEVICE_ROWS, 1);
  set_managed(&managed, &y);
  STEP(run(model, &x.t, host, &managed));
  for (int i = 0; i < 2 * DEVICE_ROWS; ++i)
    CHECK(result[i] == (float)(i + 1) && host[i] == (float)(i + 1));

  /* On the GPU. */
  x.t.data = (void *)(uintptr_t)memory;
  x.t.device = (DLDevice){kDLCUDA, 0};
  for (int i = 0; i < 2; ++i)
    STEP(run(model, &x.t, host, NULL));
  STEP_VOID(kiln_model_destroy(model));
  CHECK(cuda->cuMemFree_v2(memory) == CUDA_SUCCESS);
  CHECK(cuda->cuCtxPopCurrent_v2(&popped) == CUDA_SUCCESS);
}

void scenario(void) {
  kiln_options options = quiet_options(0);
  use(&options, 0);
  use(&options, 1);
  options.profile = note;
  use(&options, 0);
  remove_folder();
}
