/*===- driver.c - A libcuda.so.1 for machines without a GPU -----------------===*
 *
 * The functions of runtime/cuda/driver.h, over the emulator. Everything happens at
 * once, whatever the stream. The environment says what kind of machine it is:
 *
 *   KILN_EMULATOR_DEVICES     how many GPUs there are (1)
 *   KILN_EMULATOR_CAPABILITY  their compute capability (90)
 *   KILN_EMULATOR_VERSION     the driver's version (13000)
 *   KILN_EMULATOR_MEMORY      bytes that can be allocated (no limit)
 *   KILN_EMULATOR_LOG         a file to which modules and launches are written
 *
 *===-----------------------------------------------------------------------===*/
#include "../../../../runtime/cuda/driver.h"
#include "emulator.h"

#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum {
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CU_MEMORYTYPE_DEVICE = 2
};

struct CUctx_st {
  int device;
  int retained;
};
struct CUmod_st {
  void *library;
  int file; /* open as long as the library: the loader knows libraries by their paths */
};
struct CUfunc_st {
  char name[128];
  void (*code)(void **arguments);
};
struct CUstream_st {
  CUcontext context;
};
struct CUevent_st {
  int recorded;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st contexts[8];
static __thread CUcontext stack[16];
static __thread int depth;
static char failure[512]; /* what the emulator said */

static long setting(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

static void record(const char *format, const char *name, unsigned a, unsigned b, size_t c) {
  const char *path = getenv("KILN_EMULATOR_LOG");
  FILE *file = path ? fopen(path, "a") : NULL;
  if (!file)
    return;
  fprintf(file, format, name, a, b, c);
  fclose(file);
}

/* Images find the emulator's functions among the global symbols. */
__attribute__((constructor)) static void publish(void) {
  Dl_info info;
  if (dladdr((void *)publish, &info))
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

/*===-- Devices and contexts ------------------------------------------------===*/

EXPORT CUresult cuInit(unsigned flags) {
  return flags                                 ? CUDA_ERROR_INVALID_VALUE
         : setting("KILN_EMULATOR_DEVICES", 1) ? CUDA_SUCCESS
                                               : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = (int)setting("KILN_EMULATOR_VERSION", 13000);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  *text = error == CUDA_SUCCESS                         ? "no error"
          : error == CUDA_ERROR_INVALID_VALUE           ? "invalid argument"
          : error == CUDA_ERROR_OUT_OF_MEMORY           ? "out of memory"
          : error == CUDA_ERROR_NO_DEVICE               ? "no CUDA-capable device is detected"
          : error == CUDA_ERROR_INVALID_IMAGE           ? "device kernel image is invalid"
          : error == CUDA_ERROR_INVALID_CONTEXT         ? "invalid device context"
          : error == CUDA_ERROR_NO_BINARY_FOR_GPU       ? "no kernel image is available"
          : error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION ? "unsupported PTX version"
          : error == CUDA_ERROR_ILLEGAL_ADDRESS         ? failure
                                                        : NULL;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = (int)setting("KILN_EMULATOR_DEVICES", 1);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
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
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  *pool = (CUmemoryPool)&contexts[device];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  return pool && value && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  pthread_mutex_lock(&lock);
  contexts[device].device = device;
  ++contexts[device].retained;
  *context = &contexts[device];
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  pthread_mutex_lock(&lock);
  int left = --contexts[device].retained;
  pthread_mutex_unlock(&lock);
  return left >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
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
static CUcontext current(void) { return depth ? stack[depth - 1] : NULL; }

/*===-- Memory --------------------------------------------------------------===*/

/* With room around it that nobody may touch. */
struct allocation {
  struct allocation *next;
  char *data;
  size_t bytes;
  int device;
  bool host;
};
static struct allocation *allocations;
static size_t allocated;

static struct allocation *find(uintptr_t address) {
  for (struct allocation *a = allocations; a; a = a->next)
    if (address >= (uintptr_t)a->data && address < (uintptr_t)a->data + a->bytes)
      return a;
  return NULL;
}

static CUresult allocate(size_t bytes, bool host, void **data) {
  if (!current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  size_t limit = (size_t)setting("KILN_EMULATOR_MEMORY", 0);
  struct allocation *made = NULL;
  if (!limit || host || bytes <= limit - (allocated < limit ? allocated : limit))
    made = malloc(sizeof *made);
  if (made && posix_memalign((void **)&made->data, 256, bytes)) {
    free(made);
    made = NULL;
  }
  if (made) {
    memset(made->data, EMULATOR_POISON, bytes);
    made->bytes = bytes;
    made->host = host;
    made->device = current()->device;
    made->next = allocations;
    allocations = made;
    allocated += host ? 0 : bytes;
    *data = made->data;
  }
  pthread_mutex_unlock(&lock);
  return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult release(uintptr_t address, bool host) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (!current())
    return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&lock);
  for (struct allocation **at = &allocations; *at; at = &(*at)->next)
    if ((uintptr_t)(*at)->data == address && (*at)->host == host) {
      struct allocation *dead = *at;
      *at = dead->next;
      allocated -= host ? 0 : dead->bytes;
      free(dead->data);
      free(dead);
      result = CUDA_SUCCESS;
      break;
    }
  pthread_mutex_unlock(&lock);
  return result;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  void *data;
  CUresult result = allocate(bytes, false, &data);
  if (result == CUDA_SUCCESS)
    *memory = (uintptr_t)data | EMULATOR_DEVICE_BIT;
  return result;
}
EXPORT CUresult cuMemAllocAsync(CUdeviceptr *memory, size_t bytes, CUstream stream) {
  (void)stream;
  return cuMemAlloc_v2(memory, bytes);
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr memory) {
  return release(memory & ~EMULATOR_DEVICE_BIT, false);
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  (void)stream;
  return cuMemFree_v2(memory);
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate(bytes, true, memory);
}
EXPORT CUresult cuMemFreeHost(void *memory) { return release((uintptr_t)memory, true); }

/* The host's address of `bytes` bytes of the GPU's memory, or NULL. */
static void *reach(CUdeviceptr memory, size_t bytes) {
  uintptr_t address = memory & ~EMULATOR_DEVICE_BIT;
  pthread_mutex_lock(&lock);
  struct allocation *in = find(address);
  bool inside = in && bytes <= in->bytes && address - (uintptr_t)in->data <= in->bytes - bytes &&
                (in->host || memory & EMULATOR_DEVICE_BIT);
  pthread_mutex_unlock(&lock);
  return inside ? (void *)address : NULL;
}

static CUresult copy(void *to, const void *from, size_t bytes) {
  if (!to || !from || !current())
    return CUDA_ERROR_INVALID_VALUE;
  memmove(to, from, bytes);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return copy(reach(to, bytes), from, bytes);
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream) {
  (void)stream;
  return cuMemcpyHtoD_v2(to, from, bytes);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  (void)stream;
  return copy(to, reach(from, bytes), bytes);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream) {
  (void)stream;
  return copy(reach(to, bytes), reach(from, bytes), bytes);
}
EXPORT CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
  pthread_mutex_lock(&lock);
  struct allocation *in = find(pointer & ~EMULATOR_DEVICE_BIT);
  CUresult result = in ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (in && attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
    *(unsigned *)value = in->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  else if (in && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
    *(int *)value = in->device;
  else
    result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_unlock(&lock);
  return result;
}

/*===-- Modules and launches ------------------------------------------------===*/

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  const Elf64_Ehdr *header = image;
  if (!current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    record("load %s\n", "PTX", 0, 0, 0);
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  record("load %s\n", header->e_machine == EM_X86_64 ? "emulator" : "cubin", 0, 0, 0);
  if (header->e_machine != EM_X86_64)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  int file = memfd_create("kiln-image", MFD_CLOEXEC);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || write(file, image, bytes) != (ssize_t)bytes)
    return CUDA_ERROR_INVALID_IMAGE;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fprintf(stderr, "emulator: %s\n", dlerror());
  *module = library ? malloc(sizeof **module) : NULL;
  if (!*module)
    return CUDA_ERROR_INVALID_IMAGE;
  **module = (struct CUmod_st){library, file};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleUnload(CUmodule module) {
  dlclose(module->library);
  close(module->file);
  free(module);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  /* Never freed: like a real one, it is the module's. */
  static struct CUfunc_st functions[4096];
  static int count;
  char symbol[160];
  snprintf(symbol, sizeof symbol, "%s_emulated", name);
  void *code = dlsym(module->library, symbol);
  if (!code)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  struct CUfunc_st *made = count < 4096 ? &functions[count++] : NULL;
  pthread_mutex_unlock(&lock);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  snprintf(made->name, sizeof made->name, "%s", name);
  *(void **)&made->code = code;
  *function = made;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  return function && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value >= 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                               unsigned blockX, unsigned blockY, unsigned blockZ,
                               unsigned sharedBytes, CUstream stream, void **parameters,
                               void **extra) {
  (void)stream;
  if (!current())
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!gridX || gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1 || extra)
    return CUDA_ERROR_INVALID_VALUE;
  record("launch %s grid %u block %u shared %zu\n", function->name, gridX, blockX, sharedBytes);
  pthread_mutex_lock(&lock);
  int failed = emulator_launch(function->name, function->code, parameters, gridX, blockX,
                               sharedBytes, failure, sizeof failure);
  pthread_mutex_unlock(&lock);
  return failed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

/*===-- Streams and events --------------------------------------------------===*/

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  (void)flags;
  *stream = malloc(sizeof **stream);
  (*stream)->context = current();
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  free(stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  *context = stream->context;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  (void)stream;
  return current() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  (void)stream;
  return event && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  (void)flags;
  *event = calloc(1, sizeof **event);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  free(event);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  (void)stream;
  event->recorded = 1;
  return CUDA_SUCCESS;
}
