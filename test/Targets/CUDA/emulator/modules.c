/*===- modules.c - Modules and their functions ------------------------------===*/
#include "driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUresult load(CUmodule *module, const void *image) {
  const Elf64_Ehdr *header = image;
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) {
    record("load PTX\n");
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  record("load %s\n", header->e_machine == EM_X86_64 ? "emulator" : "cubin");
  if (header->e_machine != EM_X86_64)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  int file = memfd_create("kiln-image", MFD_CLOEXEC);
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || write(file, image, bytes) != (ssize_t)bytes)
    return CUDA_ERROR_INVALID_IMAGE;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "emulator: %s\n", dlerror());
    close(file);
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *module = keep(sizeof **module);
  **module = (struct CUmod_st){library, file, current(), false};
  return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS)
    result = load(module, image);
  return leave(result);
}
EXPORT CUresult cuModuleUnload(CUmodule module) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    if (module->is_unloaded)
      misuse("a module is unloaded twice");
    if (module->context != current())
      misuse("a module is unloaded in another context");
    if (is_awaited(NULL, 0, module))
      misuse("a module is unloaded whose kernels are still to run");
    dlclose(module->library);
    close(module->file);
    module->is_unloaded = true;
  }
  return leave(result);
}
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  char symbol[160];
  CUresult result = enter();
  if (result != CUDA_SUCCESS)
    return leave(result);
  if (module->is_unloaded)
    misuse("a function of a module that is unloaded");
  snprintf(symbol, sizeof symbol, "%s_emulated", name);
  void *code = dlsym(module->library, symbol);
  snprintf(symbol, sizeof symbol, "%s_parameters", name);
  const int64_t *parameters = dlsym(module->library, symbol);
  snprintf(symbol, sizeof symbol, "%s_maps", name);
  const int64_t *maps = dlsym(module->library, symbol);
  snprintf(symbol, sizeof symbol, "%s_cluster", name);
  const int64_t *cluster = dlsym(module->library, symbol);
  snprintf(symbol, sizeof symbol, "%s_dims", name);
  const int64_t *dims = dlsym(module->library, symbol);
  const char *refused =
      getenv("KILN_EMULATOR_REFUSES"); /* what is in the names of kernels that do not load */
  if (!code || !parameters || *parameters > MAX_PARAMETERS || (refused && strstr(name, refused)))
    return leave(CUDA_ERROR_NOT_FOUND);
  CUfunction made = keep(sizeof *made);
  snprintf(made->name, sizeof made->name, "%s", name);
  *(void **)&made->code = code;
  made->num_parameters = (unsigned)*parameters;
  made->num_maps = maps ? (unsigned)*maps : 0;
  made->cluster = cluster ? (unsigned)*cluster : 1;
  made->dims = dims ? (unsigned)*dims : 1;
  made->shared_bytes = 48 << 10;
  made->module = module;
  *function = made;
  return leave(CUDA_SUCCESS);
}
CUresult check_launch(const struct CUfunc_st *function, const CUlaunchConfig *launch) {
  if (!launch->gridDimX || launch->gridDimX % function->cluster ||
      launch->sharedMemBytes > function->shared_bytes || !launch->gridDimY || !launch->gridDimZ ||
      (function->dims < 2 && launch->gridDimY != 1) ||
      (function->dims < 3 && launch->gridDimZ != 1) || !launch->blockDimX ||
      launch->blockDimY != 1 || launch->blockDimZ != 1)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                                 value < 0 || value > 227 << 10))
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS)
    function->shared_bytes = (size_t)value;
  return leave(result);
}

/* Of the blocks that a GPU has room for; each takes a whole multiprocessor. */
EXPORT CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
                                             const CUlaunchConfig *launch) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = launch->numAttrs ? CUDA_ERROR_INVALID_VALUE : check_launch(function, launch);
  if (result == CUDA_SUCCESS)
    *count = count_multiprocessors() / (int)function->cluster;
  return leave(result);
}
