/*===- driver.c - Finding CUDA's driver -------------------------------------===*/
#include "driver.h"
#include "../runtime.h"

#include <dlfcn.h>
#include <stdlib.h>

static kiln_cuda_driver table;
static _Atomic bool is_loaded;
static kiln_mutex loading;

/* The loader's library, or the file that the variable names (for tests and machines whose driver
 * is in no usual place). The handle is kept: a driver must not be unloaded. */
static void *open_driver(const char **tried) {
  const char *given = getenv("KILN_CUDA_DRIVER");
  *tried = given && *given ? given : "libcuda.so.1";
  return dlopen(*tried, RTLD_NOW | RTLD_LOCAL);
}

static int32_t find_functions(void *library) {
  int version = 0;
#define KILN_CUDA_FIND(name, parameters)                                                           \
  *(void **)&table.name = dlsym(library, #name);                                                   \
  missing = missing ? missing : table.name ? NULL : #name;
  const char *missing = NULL;
  KILN_CUDA_FUNCTIONS(KILN_CUDA_FIND)
#undef KILN_CUDA_FIND
#define KILN_CUDA_FIND(name, parameters) *(void **)&table.name = dlsym(library, #name);
  KILN_CUDA_NEWER_FUNCTIONS(KILN_CUDA_FIND)
#undef KILN_CUDA_FIND
  if (!missing)
    return KILN_OK;
  if (table.cuDriverGetVersion && table.cuDriverGetVersion(&version) == CUDA_SUCCESS)
    return kiln_fail(KILN_DEVICE_ERROR,
                     "the NVIDIA driver is too old: it is one of CUDA %d.%d and has no %s; a "
                     "driver of CUDA 12.0 or newer is needed",
                     version / 1000, version % 1000 / 10, missing);
  return kiln_fail(KILN_DEVICE_ERROR, "the NVIDIA driver has no function %s", missing);
}

static int32_t load(void) {
  const char *tried;
  void *library = open_driver(&tried);
  if (!library) {
    const char *reason = dlerror();
    return kiln_fail(KILN_DEVICE_ERROR,
                     "no NVIDIA driver: this model runs on a GPU and cannot load %s (%s); install "
                     "the driver, or compile the model for CPUs",
                     tried, reason ? reason : "no reason given");
  }
  int32_t status = find_functions(library);
  if (status != KILN_OK)
    return status;
  CUresult result = table.cuInit(0);
  return result == CUDA_SUCCESS ? KILN_OK
                                : kiln_cuda_fail(&table, result, "cannot start the NVIDIA driver");
}

int32_t kiln_cuda_load(const kiln_cuda_driver **driver) {
  int32_t status = KILN_OK;
  if (!atomic_load_explicit(&is_loaded, memory_order_acquire)) {
    kiln_lock(&loading);
    if (!atomic_load_explicit(&is_loaded, memory_order_relaxed))
      status = load();
    if (status == KILN_OK)
      atomic_store_explicit(&is_loaded, true, memory_order_release);
    kiln_unlock(&loading);
  }
  *driver = &table;
  return status;
}

int32_t kiln_cuda_fail(const kiln_cuda_driver *driver, CUresult result, const char *what) {
  const char *reason = NULL;
  if (driver->cuGetErrorString(result, &reason) != CUDA_SUCCESS || !reason)
    reason = "unknown error";
  return kiln_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? KILN_OUT_OF_MEMORY : KILN_DEVICE_ERROR,
                   "%s: %s (CUDA error %d)", what, reason, result);
}
