/*===- driver.c - A libcuda.so.1 for machines without a GPU -----------------===*
 *
 * The functions of runtime/cuda/driver.h, over the emulator. The environment says what
 * kind of machine it is:
 *
 *   KILN_EMULATOR_DEVICES     how many GPUs there are (1)
 *   KILN_EMULATOR_CAPABILITY  their compute capability (90)
 *   KILN_EMULATOR_VERSION     the driver's version (13000)
 *   KILN_EMULATOR_MEMORY      bytes that can be allocated (no limit)
 *   KILN_EMULATOR_REFUSES     what is in the names of kernels that do not load
 *   KILN_EMULATOR_PINNED      bytes of the host's memory that can be pinned (no limit)
 *   KILN_EMULATOR_LOG         a file to which modules, launches, copies of the host's memory and
 *                             what the host waits for are written, and how
 *                             long accesses of shared memory take
 *
 *===-----------------------------------------------------------------------===*/
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st contexts[MAX_DEVICES];
static __thread CUcontext stack[16];
static __thread int depth;
char failure[512];

long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

int count_multiprocessors(void) { return (int)setting("KILN_EMULATOR_MULTIPROCESSORS", 3); }

static int num_devices(void) {
  long count = setting("KILN_EMULATOR_DEVICES", 1);
  return (int)(count < MAX_DEVICES ? count : MAX_DEVICES);
}

void record(const char *format, ...) {
  const char *path = getenv("KILN_EMULATOR_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file)
    return;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(file, format, arguments);
  va_end(arguments);
  fclose(file);
}

EXPORT void emulator_record(const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  record("%s", text);
}

void misuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "emulated driver: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  abort();
}

void *keep(size_t bytes) {
  static struct kept {
    struct kept *next;
    void *alignment;
  } *all;
  struct kept *made = calloc(1, sizeof *made + bytes);
  made->next = all;
  all = made;
  return made + 1;
}

/* Images find the emulator's functions among the global symbols. */
__attribute__((constructor)) static void publish(void) {
  Dl_info info;
  if (dladdr((void *)publish, &info))
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/*===-- The machine ---------------------------------------------------------===*/

EXPORT CUresult cuInit(unsigned flags) {
  return flags ? CUDA_ERROR_INVALID_VALUE : num_devices() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = (int)setting("KILN_EMULATOR_VERSION", 13000);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_SUCCESS                             ? "no error"
          : error == CUDA_ERROR_INVALID_VALUE               ? "invalid argument"
          : error == CUDA_ERROR_OUT_OF_MEMORY               ? "out of memory"
          : error == CUDA_ERROR_NO_DEVICE                   ? "no CUDA-capable device is detected"
          : error == CUDA_ERROR_INVALID_IMAGE               ? "device kernel image is invalid"
          : error == CUDA_ERROR_INVALID_CONTEXT             ? "invalid device context"
          : error == CUDA_ERROR_NO_BINARY_FOR_GPU           ? "no kernel image is available"
          : error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION     ? "unsupported PTX version"
          : error == CUDA_ERROR_INVALID_CLUSTER_SIZE        ? "invalid cluster size"
          : error == CUDA_ERROR_INVALID_HANDLE              ? "invalid resource handle"
          : error == CUDA_ERROR_NOT_FOUND                   ? "named symbol not found"
          : error == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED  ? "not permitted while capturing"
          : error == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED  ? "the capture has been invalidated"
          : error == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD ? "captured by another thread"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS             ? failure
                                                            : NULL;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = num_devices();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < num_devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  snprintf(name, (size_t)length, "emulated GPU %d", device);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  (void)device;
  int capability = (int)setting("KILN_EMULATOR_CAPABILITY", 90);
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    *value = capability / 10;
  else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    *value = capability % 10;
  else if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    *value = count_multiprocessors();
  else if (attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    *value = (int)setting("KILN_EMULATOR_SHARED", 227 << 10);
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

/*===-- Contexts ------------------------------------------------------------===*/

CUcontext current(void) { return depth ? stack[depth - 1] : NULL; }

CUresult enter(void) {
  pthread_mutex_lock(&lock);
  CUcontext context = current();
  return context ? context->error : CUDA_ERROR_INVALID_CONTEXT;
}

bool try_enter(void) { return pthread_mutex_trylock(&lock) == 0; }

CUresult leave(CUresult result) {
  pthread_mutex_unlock(&lock);
  return result;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  pthread_mutex_lock(&lock);
  if (device < 0 || device >= num_devices())
    misuse("a context of device %d, which is not there", device);
  contexts[device].device = device;
  ++contexts[device].retained;
  *context = &contexts[device];
  return leave(CUDA_SUCCESS);
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  pthread_mutex_lock(&lock);
  if (--contexts[device].retained < 0)
    misuse("the context of device %d is released more often than retained", device);
  return leave(CUDA_SUCCESS);
}
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  if (!context || !context->retained || depth == 16)
    return CUDA_ERROR_INVALID_CONTEXT;
  stack[depth++] = context;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  if (!depth)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack[--depth];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  *context = current();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize(void) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS) {
    record("wait for a context\n");
    drain_all(current());
    result = current()->error;
  }
  return leave(result);
}
