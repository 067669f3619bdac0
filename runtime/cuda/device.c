/*===- device.c - A model's device ------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

int32_t kiln_cuda_enter(const struct kiln_device *device) {
  CUresult result = device->driver->cuCtxPushCurrent_v2(device->context);
  return result == CUDA_SUCCESS
             ? KILN_OK
             : kiln_cuda_fail(device->driver, result, "cannot make the GPU's context current");
}

void kiln_cuda_leave(const struct kiln_device *device) {
  CUcontext context;
  device->driver->cuCtxPopCurrent_v2(&context);
}

/*===-- Modules -------------------------------------------------------------===*/

/* Machine code of the same major version runs on later minor ones. Of several that
 * do, the last is for the nearest. A variant's of an architecture runs on no other. */
static const kiln_rt_image *find_image(const struct kiln_device *device,
                                       const kiln_rt_device_kernel *kernel, uint32_t kind) {
  const kiln_rt_image *best = NULL;
  for (uint32_t i = 0; i < kernel->num_images; ++i) {
    const kiln_rt_image *image = &kernel->images[i];
    bool fits = image->architecture <= device->architecture;
    if (kernel->geometry && image->architecture)
      fits = image->architecture == device->architecture;
    else if (kind == KILN_RT_CUBIN)
      fits = fits && image->architecture / 10 == device->architecture / 10;
    if (image->kind == kind && fits && (!best || image->architecture >= best->architecture))
      best = image;
  }
  return best;
}

bool kiln_cuda_has_code(const struct kiln_device *device, const kiln_rt_device_kernel *kernel) {
  bool found = false;
  for (uint32_t kind = KILN_RT_CUBIN; kind <= KILN_RT_EMULATOR; ++kind)
    found = found || find_image(device, kernel, kind);
  return found;
}

static void append_images(kiln_text *text, const kiln_rt_device_kernel *kernel) {
  for (uint32_t i = 0; i < kernel->num_images; ++i)
    kiln_append(text, "%s%s sm_%u", i ? ", " : "",
                kernel->images[i].kind == KILN_RT_PTX ? "PTX for" : "code for",
                kernel->images[i].architecture);
}

static int32_t fail_load(const struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                         CUresult result) {
  int version = 0;
  const char *reason = NULL;
  kiln_text text = kiln_begin_error();
  kiln_append(&text, "%s has compute capability %u.%u; the model has ", device->name,
              device->architecture / 10, device->architecture % 10);
  append_images(&text, kernel);
  if (result == CUDA_SUCCESS) {
    kiln_append(&text, ": compile it with --gpu-arch=sm_%u", device->architecture);
    return KILN_DEVICE_ERROR;
  }
  device->driver->cuDriverGetVersion(&version);
  device->driver->cuGetErrorString(result, &reason);
  kiln_append(&text, "; the driver, one of CUDA %d.%d, does not load it: %s (CUDA error %d)",
              version / 1000, version % 1000 / 10, reason ? reason : "unknown error", result);
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      result == CUDA_ERROR_INVALID_IMAGE)
    kiln_append(&text, "; a newer driver may");
  return result == CUDA_ERROR_OUT_OF_MEMORY ? KILN_OUT_OF_MEMORY : KILN_DEVICE_ERROR;
}

/* How many blocks of a variant run at the same time: one on each multiprocessor. Those of a cluster
 * need neighbours, of which some GPUs have an odd number. */
static CUresult find_max_blocks(const struct kiln_device *device,
                                const kiln_rt_device_kernel *kernel, CUfunction function,
                                int64_t *blocks) {
  *blocks = device->multiprocessors;
  if (kernel->workspace && *blocks > KILN_RT_WORKSPACE_BLOCKS)
    *blocks = KILN_RT_WORKSPACE_BLOCKS;
  if (kernel->cluster < 2)
    return CUDA_SUCCESS;
  int clusters = 0;
  CUlaunchConfig launch = {.gridDimX = kernel->cluster,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = kernel->threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = kernel->shared_bytes};
  CUresult result = device->driver->cuOccupancyMaxActiveClusters(&clusters, function, &launch);
  *blocks = (int64_t)clusters * kernel->cluster;
  return result == CUDA_SUCCESS && clusters < 1 ? CUDA_ERROR_INVALID_CLUSTER_SIZE : result;
}

/* The module's function, made ready to be launched. */
static CUresult open_function(struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                              CUmodule module, CUfunction *function) {
  const kiln_cuda_driver *driver = device->driver;
  CUresult result = driver->cuModuleGetFunction(function, module, kernel->name);
  /* More than this a kernel has to ask for. */
  if (result == CUDA_SUCCESS && kernel->shared_bytes > 48 << 10)
    result = driver->cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)kernel->shared_bytes);
  if (result == CUDA_SUCCESS)
    result = find_max_blocks(device, kernel, *function,
                             &kiln_cuda_loaded_of(device, kernel)->max_blocks);
  return result;
}

/* Before 12.6 the compiler in drivers crashes on the PTX of some variants. */
static bool may_compile(const struct kiln_device *device, const kiln_rt_device_kernel *kernel) {
  int version = 0;
  device->driver->cuDriverGetVersion(&version);
  return !kernel->geometry || version >= 12060;
}

static int32_t load_kernel(struct kiln_device *device, const kiln_rt_device_kernel *kernel) {
  const kiln_cuda_driver *driver = device->driver;
  CUmodule module = NULL;
  CUfunction function;
  CUresult result = CUDA_SUCCESS, opened = CUDA_SUCCESS;
  const kiln_rt_image *loaded = NULL;
  /* Some thread may be recording a graph, into which this does not go. */
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  /* A driver older than the cubin may still compile the PTX. */
  for (uint32_t kind = KILN_RT_CUBIN; kind <= KILN_RT_EMULATOR && !module; ++kind) {
    const kiln_rt_image *image = find_image(device, kernel, kind);
    if (!image || (kind == KILN_RT_PTX && !may_compile(device, kernel)))
      continue;
    CUresult failed = driver->cuModuleLoadData(&module, image->data);
    if (failed != CUDA_SUCCESS) {
      module = NULL;
      result = result == CUDA_SUCCESS ? failed : result;
    } else {
      loaded = image;
    }
    /* Code for older GPUs does not. */
    kiln_cuda_loaded_of(device, kernel)->waits =
        kind == KILN_RT_EMULATOR || image->architecture >= 90;
  }
  if (module)
    opened = open_function(device, kernel, module, &function);
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (!module)
    return fail_load(device, kernel, result);
  if (opened != CUDA_SUCCESS) {
    driver->cuModuleUnload(module);
    return kiln_cuda_fail(driver, opened, kernel->name);
  }
  kiln_cuda_log_load(device, kernel, loaded, NULL);
  kiln_cuda_loaded *made = kiln_cuda_loaded_of(device, kernel);
  made->module = module;
  made->function = function;
  made->kernel = kernel;
  atomic_store_explicit(&device->kernels[kernel->number].launched, made, memory_order_release);
  return KILN_OK;
}

/* An older driver may take neither a variant's machine code nor its PTX, and a part of a GPU may have
 * no room for one of its clusters. */
static int32_t load_best(struct kiln_device *device, const kiln_rt_device_kernel *kernel) {
  device->kernels[kernel->number].kernel = kernel;
  const kiln_rt_device_kernel *variant = device->runs_variants ? kernel->variant : NULL;
  while (variant && !kiln_cuda_has_code(device, variant))
    variant = variant->variant;
  if (variant) {
    if (load_kernel(device, variant) == KILN_OK)
      return KILN_OK;
    kiln_cuda_log_load(device, variant, NULL, kiln_last_error());
  }
  int32_t status = load_kernel(device, kernel);
  if (status != KILN_OK)
    kiln_cuda_log_load(device, kernel, NULL, kiln_last_error());
  return status;
}

int32_t kiln_cuda_function(struct kiln_device *device, const kiln_rt_device_kernel **kernel,
                           CUfunction *function) {
  _Atomic(const kiln_cuda_loaded *) *slot = &device->kernels[(*kernel)->number].launched;
  int32_t status = KILN_OK;
  const kiln_cuda_loaded *launched = atomic_load_explicit(slot, memory_order_acquire);
  if (KILN_UNLIKELY(!launched)) {
    kiln_lock(&device->loading);
    if (!atomic_load_explicit(slot, memory_order_relaxed))
      status = load_best(device, *kernel);
    launched = atomic_load_explicit(slot, memory_order_relaxed);
    kiln_unlock(&device->loading);
  }
  if (KILN_UNLIKELY(status != KILN_OK))
    return status;
  *kernel = launched->kernel;
  *function = launched->function;
  return KILN_OK;
}

/* The variant's module stays: graphs and launches that are under way have it. */
int32_t kiln_cuda_replace_variant(struct kiln_device *device, const kiln_rt_device_kernel **kernel,
                                  CUfunction *function, const char *reason) {
  uint32_t number = (*kernel)->number;
  const kiln_cuda_loaded *loaded = &device->kernels[number].loaded;
  int32_t status = KILN_OK;
  kiln_lock(&device->loading);
  if (!loaded->module) {
    kiln_cuda_log_load(device, *kernel, NULL, reason);
    status = load_kernel(device, device->kernels[number].kernel);
  }
  kiln_unlock(&device->loading);
  *kernel = loaded->kernel;
  *function = loaded->function;
  return status;
}

/*===-- Weights -------------------------------------------------------------===*/

static int32_t upload(kiln_model *model, uint64_t offset, uint64_t bytes) {
  const struct kiln_device *device = model->device;
  const struct kiln_device_state *own = model->own.device_state;
  bool is_state = offset < model->weights.state_bytes;
  if (is_state && !own)
    return KILN_OK;
  CUdeviceptr base = is_state ? own->memory : kiln_cuda_address(kiln_cuda_weights(model));
  int32_t status = kiln_cuda_enter(device);
  if (status != KILN_OK)
    return status;
  status = kiln_cuda_upload(device, base + offset, kiln_weights_at(&model->weights, offset), bytes);
  kiln_cuda_leave(device);
  return status;
}

static int32_t place_weights(kiln_model *model) {
  struct kiln_device *device = model->device;
  uint64_t state = model->weights.state_bytes, first = kiln_cuda_first_weight(model);
  size_t bytes = (size_t)(kiln_weights_bytes() - first);
  if (kiln_weights_bytes() == state)
    return KILN_OK;
  CUresult result = device->driver->cuMemAlloc_v2(&device->weights, bytes);
  if (result != CUDA_SUCCESS) {
    device->weights = 0;
    char what[96];
    kiln_text text = {what, sizeof what, 0};
    kiln_append(&text, "cannot put %zu bytes of weights on the GPU", bytes);
    return kiln_cuda_fail(device->driver, result, what);
  }
  return upload(model, state, kiln_weights_bytes() - state);
}

/*===-- Opening and closing -------------------------------------------------===*/

/* For all entries: each one's kernels are numbered behind those of the entry in front of it. */
static uint32_t num_kernels(void) {
  return kiln_entry(kiln_num_entries() - 1)->device->num_kernels;
}

static void close_device(kiln_model *model) {
  struct kiln_device *device = model->device;
  if (!device)
    return;
  const kiln_cuda_driver *driver = device->driver;
  if (device->context) {
    if (kiln_cuda_enter(device) == KILN_OK) {
      driver->cuCtxSynchronize(); /* runs that nobody has waited for */
      for (uint32_t i = 0; i < num_kernels(); ++i) {
        if (device->kernels[i].loaded.module)
          driver->cuModuleUnload(device->kernels[i].loaded.module);
        if (device->kernels[i].variant.module)
          driver->cuModuleUnload(device->kernels[i].variant.module);
      }
      if (device->weights)
        driver->cuMemFree_v2(device->weights);
      kiln_cuda_leave(device);
    }
    if (device->pool)
      kiln_cuda_release_pool(device->pool);
    driver->cuDevicePrimaryCtxRelease_v2(device->device);
  }
  kiln_cuda_close_log(device);
  free(device);
  model->device = NULL;
}

/* A switch of the environment, which is on by default. */
static bool is_off(const char *name) {
  const char *value = getenv(name);
  return value && strcmp(value, "0") == 0;
}

static int32_t choose_device(struct kiln_device *device) {
  const kiln_cuda_driver *driver = device->driver;
  int count = 0, major = 0, minor = 0;
  CUresult result = driver->cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && count <= 0)
    result = CUDA_ERROR_NO_DEVICE;
  if (result != CUDA_SUCCESS)
    return kiln_cuda_fail(driver, result, "no GPU to run the model on");
  if (device->ordinal < 0 || device->ordinal >= count)
    return kiln_fail(KILN_INVALID_ARGUMENT, "options: expected device_index in [0, %d), got %d",
                     count, device->ordinal);
  result = driver->cuDeviceGet(&device->device, device->ordinal);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetName(device->name, sizeof device->name, device->device);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                          device->device);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                          device->device);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetAttribute(&device->multiprocessors,
                                          CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device->device);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetAttribute(&device->shared_bytes,
                                          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                                          device->device);
  if (result != CUDA_SUCCESS)
    return kiln_cuda_fail(driver, result, "cannot ask the GPU what it is");
  device->name[sizeof device->name - 1] = 0;
  if (major < 1 || major > 999 || minor < 0 || minor > 9 || device->multiprocessors < 1 ||
      device->multiprocessors > 1 << 20)
    return kiln_fail(KILN_DEVICE_ERROR,
                     "the NVIDIA driver says that %s has compute capability %d.%d and %d "
                     "multiprocessors, which cannot be",
                     device->name, major, minor, device->multiprocessors);
  device->architecture = (unsigned)(10 * major + minor);
  if (device->shared_bytes < 0)
    device->shared_bytes = 0;
  device->runs_variants =
      (device->architecture == 90 || device->architecture == 100) && !is_off("KILN_CUDA_VARIANTS");
  device->overlaps = device->architecture >= 90 && !is_off("KILN_CUDA_OVERLAP") &&
                     driver->cuLaunchKernelEx && driver->cuGraphAddDependencies_v2;
  return KILN_OK;
}

static int32_t open_context(struct kiln_device *device) {
  const kiln_cuda_driver *driver = device->driver;
  CUresult result = driver->cuDevicePrimaryCtxRetain(&device->context, device->device);
  if (result == CUDA_SUCCESS)
    return KILN_OK;
  device->context = NULL;
  return kiln_cuda_fail(driver, result, "cannot make a context on the GPU");
}

static int32_t open_device(kiln_model *model) {
  const kiln_cuda_driver *driver;
  int32_t status = kiln_cuda_load(&driver);
  if (status != KILN_OK)
    return status;
  struct kiln_device *device =
      calloc(1, sizeof *device + num_kernels() * sizeof device->kernels[0]);
  if (!device)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  kiln_cuda_open_log(device);
  device->makes_graphs = !device->synchronizes && !is_off("KILN_CUDA_GRAPHS");
  device->driver = driver;
  device->ordinal = model->options.device_index;
  model->device = device;
  status = choose_device(device);
  if (status == KILN_OK)
    status = open_context(device);
  if (status == KILN_OK)
    status = kiln_cuda_enter(device);
  if (status != KILN_OK)
    return status; /* kiln_model_destroy closes it */
  status = kiln_cuda_open_pool(device);
  if (status == KILN_OK)
    status = place_weights(model);
  kiln_cuda_leave(device);
  return status;
}

const kiln_device_functions kiln_cuda_functions = {.open = open_device,
                                                   .close = close_device,
                                                   .run = kiln_cuda_run,
                                                   .upload = upload,
                                                   .fill = kiln_cuda_fill,
                                                   .free_state = kiln_cuda_free_state,
                                                   .free_context = kiln_cuda_free_context,
                                                   .settle = kiln_cuda_settle,
                                                   .run_step = kiln_cuda_run_step,
                                                   .wait_steps = kiln_cuda_wait_steps};
