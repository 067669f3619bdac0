/* Calls of main on a GPU beside plain launches: Triton kernels, libraries, kernels with maps and workspaces. And drivers that
 * answer what none should. */
#include "calls.h"
#include "replaced-driver.h"

#include <dlfcn.h>

static CUresult (*begin_capture)(CUstream stream, int mode);
static CUresult (*end_capture)(CUstream stream, CUgraph *graph);

enum { MOST = 400 };
static float x[MOST], y[MOST];
static const int64_t rows_symbol[] = {0};

static kiln_model *create(void) {
  kiln_options options = quiet_options(0);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

/* A host without memory for what is large. */
static size_t limit = 1 << 24;

static int32_t create_fails(int device) {
  kiln_options options = quiet_options(0);
  options.device_index = device;
  kiln_model *model;
  int32_t status = kiln_model_create(&options, &model);
  CHECK(status != KILN_OK && !model);
  return status;
}

static int32_t run_on(kiln_model *model, int32_t (*main)(kiln_rt_run *run), int64_t rows,
                      CUstream stream) {
  for (int i = 0; i < MOST; ++i)
    x[i] = (float)i, y[i] = -1;
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, rows, 0);
  set_tensor(&output, y, DTYPE_F32, 1, rows, 0);
  DLManagedTensorVersioned managed, *outputs[] = {&managed};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  calls_main = main;
  return kiln_model_run(model, inputs, 1, outputs, 1, stream);
}

static int32_t run(kiln_model *model, int32_t (*main)(kiln_rt_run *run), int64_t rows) {
  return run_on(model, main, rows, NULL);
}

/* The same with tensors on the GPU and a stream that is being captured. */
static int32_t run_captured(kiln_model *model, int32_t (*main)(kiln_rt_run *run)) {
  CUstream stream;
  CUdeviceptr memory;
  CUgraph graph;
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CUDA(cuda->cuMemAlloc_v2(&memory, 2 * sizeof x));
  tensor input, output;
  set_tensor(&input, (void *)(uintptr_t)memory, DTYPE_F32, 1, MOST, 0);
  set_tensor(&output, (void *)(uintptr_t)(memory + sizeof x), DTYPE_F32, 1, MOST, 0);
  input.t.device = output.t.device = (DLDevice){kDLCUDA, 0};
  DLManagedTensorVersioned managed, *outputs[] = {&managed};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  calls_main = main;
  CHECK_CUDA(begin_capture(stream, 0));
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 1, stream);
  CHECK_CUDA(end_capture(stream, &graph));
  if (graph)
    CHECK_CUDA(cuda->cuGraphDestroy(graph));
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
  CHECK_CUDA(cuda->cuMemFree_v2(memory));
  return status;
}

static CUresult fails_to_launch(CUfunction function, unsigned grid_x, unsigned grid_y,
                                unsigned grid_z, unsigned block_x, unsigned block_y,
                                unsigned block_z, unsigned shared, CUstream stream,
                                void **parameters, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
  (void)block_z, (void)shared, (void)stream, (void)parameters, (void)extra;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

/*===-- Triton kernels --------------------------------------------------------===*/

static kiln_rt_image future_image = {NULL, 0, 1000, KILN_RT_CUBIN};
static kiln_rt_image machine_code = {
    "\177ELF .......................................................", 64, 90, KILN_RT_CUBIN};
static kiln_rt_device_kernel scale = {
    .name = "scale", .images = &image, .num_images = 1, .threads = 64};
static kiln_rt_device_kernel scale_broken = {
    .name = "scale", .images = &machine_code, .num_images = 1, .threads = 64, .number = 1};
static const kiln_rt_device_kernel scale_future = {
    .name = "scale", .images = &future_image, .num_images = 1, .threads = 64, .number = 2};
static const kiln_rt_device_kernel scale_large = {.name = "scale",
                                                  .images = &image,
                                                  .num_images = 1,
                                                  .threads = 64,
                                                  .shared_bytes = 1 << 30,
                                                  .number = 3};

/* y, x, null; factor, offset, small, does, count. Then numbers that are checked and that the kernel does not read. */
static kiln_rt_triton_parameter parameters[] = {
    {KILN_RT_TRITON_BUFFER, 0, 0}, {KILN_RT_TRITON_BUFFER, 0, 1},   {KILN_RT_TRITON_NULL, 0, 0},
    {KILN_RT_TRITON_FLOAT, 32, 3}, {KILN_RT_TRITON_FLOAT, 64, 4},   {KILN_RT_TRITON_SIGNED, 8, 5},
    {KILN_RT_TRITON_SIGNED, 1, 6}, {KILN_RT_TRITON_UNSIGNED, 64, 7}};
static kiln_rt_triton_config configs[2];
static const int64_t updates[] = {1, 8};
static kiln_rt_triton launch_scale = {.where = "node 'scale' (model.py:1)",
                                      .configs = configs,
                                      .updates = updates,
                                      .num_configs = 1,
                                      .num_updates = 1,
                                      .first_update = 0};
/* Grid, factor, offset, small, does, count; bytes of the update. */
static int64_t numbers[9];

static void set_numbers(void) {
  static const double factor = 2, offset = 0.5;
  numbers[0] = (MOST + 63) / 64, numbers[1] = numbers[2] = 1;
  memcpy(&numbers[3], &factor, sizeof factor);
  memcpy(&numbers[4], &offset, sizeof offset);
  numbers[5] = -3, numbers[6] = 1, numbers[7] = MOST, numbers[8] = 4 * MOST;
}

static int32_t call_scale(kiln_rt_run *run) {
  void *const buffers[] = {run->outputs[0], run->inputs[0]};
  return kiln_rt_device_triton(run, &launch_scale, buffers, numbers);
}
static int32_t call_scale_unaligned(kiln_rt_run *run) {
  void *const buffers[] = {run->outputs[0], (char *)run->inputs[0] + 4};
  return kiln_rt_device_triton(run, &launch_scale, buffers, numbers);
}
/* The kernel writes where it reads. */
static int32_t call_scale_in_place(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->inputs[0]};
  int32_t status = kiln_rt_device_triton(run, &launch_scale, buffers, numbers);
  return status ? status : kiln_rt_device_copy(run, run->outputs[0], run->inputs[0], 4 * MOST);
}

/* A number that does not fit its parameter. */
static void check_number(kiln_model *model, int at, uint16_t kind, uint16_t bits, int64_t number) {
  const kiln_rt_triton_parameter former = parameters[at];
  char text[128];
  set_numbers();
  parameters[at].kind = kind, parameters[at].bits = bits;
  numbers[parameters[at].index] = number;
  snprintf(text, sizeof text, "takes a number of %d bits, and is given %lld", bits,
           (long long)number);
  CHECK_FAILS(run(model, call_scale, MOST), KILN_UNSUPPORTED, text);
  parameters[at] = former;
  set_numbers();
}

static void test_triton_numbers(kiln_model *model) {
  check_number(model, 5, KILN_RT_TRITON_SIGNED, 8, 128);
  check_number(model, 5, KILN_RT_TRITON_SIGNED, 8, -129);
  check_number(model, 6, KILN_RT_TRITON_SIGNED, 1, 2);
  check_number(model, 6, KILN_RT_TRITON_UNSIGNED, 8, 256);
  check_number(model, 6, KILN_RT_TRITON_UNSIGNED, 16, -1);
  check_number(model, 7, KILN_RT_TRITON_UNSIGNED, 64, -1);
  const int64_t grids[][2] = {{0, -1}, {0, (int64_t)INT32_MAX + 1}, {1, 65536}, {2, 65536}};
  for (size_t i = 0; i < sizeof grids / sizeof *grids; ++i) {
    set_numbers();
    numbers[grids[i][0]] = grids[i][1];
    CHECK_FAILS(run(model, call_scale, MOST), KILN_UNSUPPORTED,
                "the Triton kernel scale would have");
  }
  /* Nothing to do. */
  for (int d = 0; d < 3; ++d) {
    set_numbers();
    numbers[d] = 0;
    CHECK_OK(run(model, call_scale, MOST));
    CHECK(y[7] == 7); /* the copy that it would have written to */
  }
  set_numbers();
  parameters[7].kind = KILN_RT_TRITON_SIGNED;
  CHECK_OK(run(model, call_scale, MOST));
  parameters[7].kind = KILN_RT_TRITON_UNSIGNED;
}

static void test_triton(void) {
  kiln_model *model = create();
  configs[0] = (kiln_rt_triton_config){.kernel = &scale,
                                       .parameters = parameters,
                                       .num_parameters = 8,
                                       .alignment = 16,
                                       .grid = {0, 1, 2}};
  configs[1] = configs[0];
  set_numbers();
  CHECK_OK(run(model, call_scale, MOST));
  for (int i = 0; i < MOST; ++i)
    CHECK(y[i] == (float)(2 * i) - 2.5f);
  CHECK_OK(run(model, call_scale_in_place, MOST));
  CHECK(y[10] == 17.5f);
  test_triton_numbers(model);
  CHECK_FAILS(run(model, call_scale_unaligned, MOST), KILN_UNSUPPORTED, "at multiples of 16 bytes");

  /* The first that the GPU has code and room for. */
  launch_scale.num_configs = 2;
  configs[0].kernel = &scale_future;
  CHECK_OK(run(model, call_scale, MOST));
  configs[0].kernel = &scale_broken;
  CHECK_OK(run(model, call_scale, MOST));
  configs[0].kernel = &scale_large;
  CHECK_OK(run(model, call_scale, MOST));
  launch_scale.num_configs = 1;
  CHECK_FAILS(run(model, call_scale, MOST), KILN_DEVICE_ERROR,
              "bytes of shared memory, a block of");
  configs[0].kernel = &scale_future;
  CHECK_FAILS(run(model, call_scale, MOST), KILN_DEVICE_ERROR, "pack it with --gpu-arch=sm_90");
  configs[0].kernel = &scale_broken;
  CHECK_FAILS(run(model, call_scale, MOST), KILN_DEVICE_ERROR, "a newer driver may");
  configs[0].kernel = &scale;

  cuda->cuLaunchKernel = fails_to_launch;
  CHECK_FAILS(run(model, call_scale, MOST), KILN_OUT_OF_MEMORY, "scale");
  *cuda = real;
  CHECK_OK(run(model, call_scale, MOST));
  kiln_model_destroy(model);
}

/*===-- Libraries -------------------------------------------------------------===*/

static int64_t extern_numbers[] = {MOST, 1, MOST, 1, 42};

static int32_t call_library(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  return kiln_rt_device_extern(run, 0, buffers, extern_numbers);
}

static void test_library_on_copies(void) {
  kiln_model *model = create();
  CHECK_OK(run(model, call_library, MOST));
  CHECK(y[1] == 43 && y[MOST - 1] == MOST + 41);
  setenv("FAKE", "run", 1);
  CHECK_FAILS(run(model, call_library, MOST), KILN_INVALID_ARGUMENT,
              "node 'add' (model.py:3): fake.add.default: xxx");
  setenv("FAKE", "", 1);
  CHECK_FAILS(run_captured(model, call_library), KILN_UNSUPPORTED,
              "called on copies in the host's memory");
  const int64_t sizes[][2] = {
      {0, -1}, {1, -1}, {0, INT64_MAX / 2}, {0, INT64_MAX / 64}, {0, (int64_t)1 << 54}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    int64_t former = extern_numbers[sizes[i][0]];
    extern_numbers[sizes[i][0]] = sizes[i][1];
    CHECK_FAILS(run(model, call_library, MOST), KILN_OUT_OF_MEMORY,
                "out of memory for copies of its tensors");
    extern_numbers[sizes[i][0]] = former;
  }
  kiln_model_destroy(model);
  kiln_options options = limited_options(&limit);
  CHECK_OK(kiln_model_create(&options, &model));
  extern_numbers[0] = extern_numbers[2] = (int64_t)1 << 30;
  CHECK_FAILS(run(model, call_library, MOST), KILN_OUT_OF_MEMORY,
              "out of memory for copies of its tensors");
  /* None at all. */
  extern_numbers[0] = extern_numbers[2] = 0;
  CHECK_OK(run(model, call_library, MOST));
  extern_numbers[0] = extern_numbers[2] = MOST;
  kiln_model_destroy(model);
}

static CUresult fails_to_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  (void)to, (void)from, (void)bytes, (void)stream;
  return CUDA_ERROR_INVALID_VALUE;
}

static int32_t call_behind_failure(kiln_rt_run *run) {
  int32_t status = kiln_rt_device_copy(run, run->outputs[0], run->inputs[0], 4);
  return status ? status : call_library(run);
}

static void test_library_on_device(void) {
  setenv("FAKE", "device", 1);
  kiln_model *model = create();
  CHECK_OK(run(model, call_library, MOST));
  CHECK(y[0] == 0 && y[MOST - 1] == MOST - 1); /* it has copied */
  setenv("FAKE", "device run", 1);
  CHECK_FAILS(run(model, call_library, MOST), KILN_INVALID_ARGUMENT,
              "fake.add.default: not on device 0");
  setenv("FAKE", "device check", 1);
  CHECK_FAILS(run(model, call_library, MOST), KILN_DEVICE_ERROR, "fake.add.default: given up");
  setenv("FAKE", "device", 1);
  cuda->cuMemcpyDtoDAsync_v2 = fails_to_copy;
  CHECK_FAILS(run(model, call_behind_failure, MOST), KILN_DEVICE_ERROR, "invalid argument");
  *cuda = real;
  CHECK_OK(run_captured(model, call_library));
  kiln_model_destroy(model);
  setenv("FAKE", "", 1);
  model = create();
  cuda->cuMemcpyDtoDAsync_v2 = fails_to_copy;
  CHECK_FAILS(run(model, call_behind_failure, MOST), KILN_DEVICE_ERROR, "invalid argument");
  *cuda = real;
  kiln_model_destroy(model);
}

/*===-- Maps and workspaces ---------------------------------------------------===*/

/* The variant's geometry: blocks; offset, size; offset, sizes, stride. */
static int64_t geometry[] = {2, 0, MOST, 0, 8, 2, 8};
static void get_geometry(const int64_t *symbols, int64_t *values) {
  (void)symbols;
  memcpy(values, geometry, sizeof geometry);
}
static const kiln_rt_tensor_map maps[] = {{0, 4, 1, {32}}, {1, 2, 2, {64, 1}}};
static kiln_rt_device_kernel boxed = {.name = "boxed",
                                      .images = &image,
                                      .symbols = rows_symbol,
                                      .num_images = 1,
                                      .num_buffers = 2,
                                      .num_symbols = 1,
                                      .threads = 64,
                                      .number = 4,
                                      .geometry = get_geometry,
                                      .maps = maps,
                                      .num_maps = 2,
                                      .cluster = 1,
                                      .workspace = 64};
static kiln_rt_device_kernel bump = {.name = "bump",
                                     .images = &image,
                                     .symbols = rows_symbol,
                                     .num_images = 1,
                                     .num_buffers = 2,
                                     .num_symbols = 1,
                                     .threads = 64,
                                     .number = 4,
                                     .variant = &boxed,
                                     .cluster = 1};

/* Adds 6: enough steps for a graph. */
static int32_t call_boxed(kiln_rt_run *run) {
  void *const first[] = {run->inputs[0], run->outputs[0]};
  void *const others[] = {run->outputs[0], run->outputs[0]};
  int32_t status = kiln_rt_device_launch(run, &bump, first, (MOST + 63) / 64, KILN_RT_NO_STEP);
  for (int i = 0; i < 5 && !status; ++i)
    status = kiln_rt_device_launch(run, &bump, others, (MOST + 63) / 64, KILN_RT_NO_STEP);
  return status;
}

static void check_boxed(kiln_model *model) {
  for (int i = 0; i < 4; ++i) {
    CHECK_OK(run(model, call_boxed, MOST));
    CHECK(y[0] == 6 && y[MOST - 1] == MOST + 5);
  }
}

static void test_boxed(void) {
  kiln_model *model = create();
  check_boxed(model);
  geometry[4] = 0; /* the second map's tensor is empty */
  check_boxed(model);
  geometry[4] = 8;
  geometry[0] = 100; /* more blocks than run at a time */
  check_boxed(model);
  kiln_model_destroy(model);
  /* More of them than have a place in the workspace. */
  setenv("KILN_EMULATOR_MULTIPROCESSORS", "1100", 1);
  model = create();
  geometry[0] = KILN_RT_WORKSPACE_BLOCKS + 1;
  CHECK_OK(run(model, call_boxed, MOST));
  geometry[0] = 2;
  kiln_model_destroy(model);
  /* No cluster has room. */
  setenv("KILN_EMULATOR_MULTIPROCESSORS", "1", 1);
  boxed.cluster = 2;
  boxed.name = "bump_pairs";
  model = create();
  check_boxed(model);
  kiln_model_destroy(model);
  boxed.cluster = 1;
  boxed.name = "boxed";
  unsetenv("KILN_EMULATOR_MULTIPROCESSORS");
  /* Variants are not wanted, or for other GPUs; the workspace is not there then. */
  setenv("KILN_CUDA_VARIANTS", "0", 1);
  model = create();
  check_boxed(model);
  kiln_model_destroy(model);
  setenv("KILN_CUDA_VARIANTS", "1", 1);
  setenv("KILN_EMULATOR_CAPABILITY", "80", 1);
  setenv("KILN_CUDA_OVERLAP", "1", 1);
  model = create();
  check_boxed(model);
  kiln_model_destroy(model);
  unsetenv("KILN_CUDA_VARIANTS");
  unsetenv("KILN_EMULATOR_CAPABILITY");
  for (int i = 0; i < 3; ++i) {
    setenv("KILN_CUDA_OVERLAP", i ? "1" : "0", 1);
    if (i == 1)
      cuda->cuLaunchKernelEx = NULL;
    if (i == 2)
      cuda->cuGraphAddDependencies_v2 = NULL;
    model = create();
    check_boxed(model);
    kiln_model_destroy(model);
    *cuda = real;
  }
  unsetenv("KILN_CUDA_OVERLAP");
}

/* Of several variants the first is launched that the GPU runs. */
static int num_boxed_found;
static CUresult counts_boxed_found(CUfunction *function, CUmodule module, const char *name) {
  num_boxed_found += strcmp(name, "boxed") == 0;
  return real.cuModuleGetFunction(function, module, name);
}
static void test_several_variants(void) {
  kiln_rt_device_kernel future = boxed;
  future.name = "future";
  future.images = &future_image;
  future.variant = &boxed;
  bump.variant = &future;
  cuda->cuModuleGetFunction = counts_boxed_found;
  kiln_model *model = create();
  check_boxed(model);
  CHECK(num_boxed_found == 1);
  kiln_model_destroy(model);
  bump.variant = &boxed;
  *cuda = real;
}

/* A kernel, which is no variant, whose blocks have memory in common: more than variants have. */
static const kiln_rt_device_kernel together = {.name = "together",
                                               .images = &image,
                                               .symbols = rows_symbol,
                                               .num_images = 1,
                                               .num_buffers = 2,
                                               .num_symbols = 1,
                                               .threads = 64,
                                               .number = 7,
                                               .cluster = 1,
                                               .shared_workspace = 1024};
static int32_t call_together(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  return kiln_rt_device_launch(run, &together, buffers, (MOST + 63) / 64, KILN_RT_NO_STEP);
}
static void test_shared_workspace(void) {
  for (int i = 0; i < 2; ++i) {
    setenv("KILN_CUDA_VARIANTS", i ? "0" : "1", 1);
    kiln_model *model = create();
    CHECK_OK(run(model, call_together, MOST));
    CHECK(y[0] == 1 && y[MOST - 1] == MOST);
    kiln_model_destroy(model);
  }
  unsetenv("KILN_CUDA_VARIANTS");
}

static int num_cleared;
static CUresult counts_cleared(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  ++num_cleared;
  return real.cuMemsetD32Async(to, value, count, stream);
}
static CUresult does_not_clear(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  (void)to, (void)value, (void)count, (void)stream;
  return CUDA_ERROR_OUT_OF_MEMORY;
}
static int32_t call_failing_boxed(kiln_rt_run *run) {
  return call_boxed(run) == KILN_OK ? KILN_ASSERTION_FAILED : KILN_INTERNAL;
}

/* A workspace stays for the next run on its stream; other streams' runs have their own, and so has
 * what a caller captures. What a failed run leaves is not used again. */
static void test_workspace(void) {
  CUstream stream;
  kiln_model *model = create();
  cuda->cuMemsetD32Async = counts_cleared;
  num_cleared = 0;
  check_boxed(model);
  CHECK(num_cleared == 1);
  CHECK_CUDA(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_OK(run_on(model, call_boxed, MOST, stream));
  CHECK_OK(run_on(model, call_boxed, MOST, stream));
  CHECK(num_cleared == 3 && y[0] == 6);
  CHECK_OK(run_captured(model, call_boxed));
  CHECK(num_cleared == 4);
  check_boxed(model);
  CHECK(num_cleared == 4);
  CHECK(run(model, call_failing_boxed, MOST) != KILN_OK);
  check_boxed(model);
  CHECK(num_cleared == 5);
  kiln_model_destroy(model);
  /* A driver that does not say which stream one is; but the default one is always the same. */
  cuda->cuStreamGetId = NULL;
  model = create();
  num_cleared = 0;
  CHECK_OK(run_on(model, call_boxed, MOST, stream));
  CHECK_OK(run_on(model, call_boxed, MOST, stream));
  CHECK(num_cleared == 2);
  check_boxed(model);
  CHECK(num_cleared == 3);
  cuda->cuMemsetD32Async = does_not_clear;
  CHECK_FAILS(run_on(model, call_boxed, MOST, stream), KILN_OUT_OF_MEMORY,
              "cannot prepare a run's memory");
  kiln_model_destroy(model);
  model = create();
  CHECK_FAILS(run(model, call_boxed, MOST), KILN_OUT_OF_MEMORY, "cannot prepare a run's memory");
  kiln_model_destroy(model);
  *cuda = real;
  CHECK_CUDA(cuda->cuStreamDestroy_v2(stream));
}

static bool is_lost, is_pool_destroyed;
static CUresult loses_context_once(CUcontext context) {
  bool lost = is_lost;
  is_lost = false;
  return lost ? CUDA_ERROR_INVALID_VALUE : real.cuCtxPushCurrent_v2(context);
}
static CUresult notes_pool_destroyed(CUmemoryPool pool) {
  is_pool_destroyed = true;
  return real.cuMemPoolDestroy(pool);
}
/* A pool is kept in which a workspace is that could not be given back: a driver may crash otherwise. */
static void test_lost_workspace(void) {
  for (int i = 0; i < 2; ++i) {
    kiln_model *model = create();
    CHECK_OK(run(model, call_boxed, MOST));
    cuda->cuCtxPushCurrent_v2 = loses_context_once;
    cuda->cuMemPoolDestroy = notes_pool_destroyed;
    is_lost = i == 1;
    is_pool_destroyed = false;
    kiln_model_destroy(model);
    CHECK(is_pool_destroyed == (i == 0));
    *cuda = real;
  }
}

static int num_maps_asked;
static CUresult refuses_maps(CUtensorMap *map, int type, uint32_t rank, void *address,
                             const uint64_t *sizes, const uint64_t *strides, const uint32_t *box,
                             const uint32_t *steps, int interleave, int swizzle, int l2Promotion,
                             int fill) {
  (void)map, (void)type, (void)rank, (void)address, (void)sizes, (void)strides, (void)box,
      (void)steps, (void)interleave, (void)swizzle, (void)l2Promotion, (void)fill;
  ++num_maps_asked;
  return CUDA_ERROR_INVALID_VALUE;
}

/* Where the driver makes no tensor map, or a number is too large for one, in the first run or when
 * there are graphs already, the kernel runs that the variant is one of, and does from then on. */
static void test_maps_refused(void) {
  static const kiln_rt_image none = {NULL, 0, 1000, KILN_RT_CUBIN};
  for (int i = 0; i < 8; ++i) {
    setenv("KILN_CUDA_GRAPHS", i & 1 ? "1" : "0", 1);
    kiln_model *model = create();
    if (i & 2)
      check_boxed(model);
    if (i & 4)
      geometry[2] = -1;
    else
      cuda->cuTensorMapEncodeTiled = refuses_maps;
    num_maps_asked = 0;
    check_boxed(model);
    CHECK((num_maps_asked != 0) == !(i & 4));
    /* A driver that makes them again is not asked. */
    geometry[2] = MOST;
    cuda->cuTensorMapEncodeTiled = refuses_maps;
    num_maps_asked = 0;
    check_boxed(model);
    CHECK(num_maps_asked == 0);
    *cuda = real;
    kiln_model_destroy(model);
  }
  unsetenv("KILN_CUDA_GRAPHS");
  /* The kernel is no code for this GPU. */
  bump.images = &none;
  kiln_model *model = create();
  check_boxed(model);
  cuda->cuTensorMapEncodeTiled = refuses_maps;
  CHECK_FAILS(run(model, call_boxed, MOST), KILN_DEVICE_ERROR, "the model has code for sm_1000");
  *cuda = real;
  check_boxed(model);
  kiln_model_destroy(model);
  bump.images = &image;
}

/*===-- Code that does not load -------------------------------------------------===*/

static kiln_rt_image images[4];
static kiln_rt_device_kernel chosen = {.name = "bump",
                                       .images = images,
                                       .symbols = rows_symbol,
                                       .num_buffers = 2,
                                       .num_symbols = 1,
                                       .threads = 64,
                                       .number = 5,
                                       .cluster = 1};
static const char ptx[64] = ".version 8.0";

static int32_t call_chosen(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  return kiln_rt_device_launch(run, &chosen, buffers, (MOST + 63) / 64, KILN_RT_NO_STEP);
}

static CUresult load_result;
static CUresult fails_to_load(CUmodule *module, const void *data) {
  (void)module, (void)data;
  return load_result;
}
static CUresult gives_no_text(CUresult error, const char **text) {
  (void)error;
  *text = NULL;
  return CUDA_SUCCESS;
}

static void check_loading(int count, int32_t status, const char *text) {
  chosen.num_images = (uint32_t)count;
  kiln_model *model = create();
  if (status == KILN_OK) {
    CHECK_OK(run(model, call_chosen, MOST));
    CHECK(y[5] == 6);
  } else {
    CHECK_FAILS(run(model, call_chosen, MOST), status, text);
  }
  kiln_model_destroy(model);
}

static void test_images(void) {
  images[0] = (kiln_rt_image){machine_code.data, 64, 100, KILN_RT_CUBIN};
  images[1] = (kiln_rt_image){machine_code.data, 64, 89, KILN_RT_CUBIN};
  images[2] = (kiln_rt_image){ptx, sizeof ptx, 100, KILN_RT_PTX};
  check_loading(3, KILN_DEVICE_ERROR,
                "has compute capability 9.0; the model has code for sm_100, code for sm_89, PTX "
                "for sm_100: compile it with "
                "--gpu-arch=sm_90");
  /* The newest of several that fit; what the driver does not load is passed over. */
  images[0] = (kiln_rt_image){ptx, sizeof ptx, 80, KILN_RT_PTX};
  images[1] = (kiln_rt_image){machine_code.data, 64, 90, KILN_RT_CUBIN};
  images[2] = (kiln_rt_image){ptx, sizeof ptx, 75, KILN_RT_PTX};
  check_loading(
      3, KILN_DEVICE_ERROR,
      "does not load it: no kernel image is available (CUDA error 209); a newer driver may");
  check_loading(1, KILN_DEVICE_ERROR,
                "unsupported PTX version (CUDA error 222); a newer driver may");
  images[3] = image;
  check_loading(4, KILN_OK, NULL);
  cuda->cuModuleLoadData = fails_to_load;
  load_result = CUDA_ERROR_INVALID_IMAGE;
  check_loading(4, KILN_DEVICE_ERROR, "; a newer driver may");
  load_result = CUDA_ERROR_OUT_OF_MEMORY;
  check_loading(4, KILN_OUT_OF_MEMORY, "out of memory (CUDA error 2)");
  cuda->cuGetErrorString = gives_no_text;
  load_result = 999;
  check_loading(4, KILN_DEVICE_ERROR, "unknown error (CUDA error 999)");
  *cuda = real;
}

/*===-- Drivers that answer what none should ----------------------------------===*/

static int device_count;
static CUresult gives_count(int *count) {
  *count = device_count;
  return CUDA_SUCCESS;
}

static int wrong_attribute, wrong_value;
static CUresult gives_attribute(int *value, int attribute, CUdevice device) {
  CUresult result = real.cuDeviceGetAttribute(value, attribute, device);
  if (attribute == wrong_attribute)
    *value = wrong_value;
  return result;
}

static CUresult has_no_pool(CUmemoryPool *pool, const CUmemPoolProps *properties) {
  (void)pool, (void)properties;
  return CUDA_ERROR_INVALID_VALUE;
}

static void test_answers(void) {
  cuda->cuDeviceGetCount = gives_count;
  for (device_count = -1; device_count < 1; ++device_count) {
    CHECK(create_fails(0) == KILN_DEVICE_ERROR &&
          strstr(kiln_last_error(), "no GPU to run the model on"));
  }
  *cuda = real;
  for (int device = -1; device < 2; device += 2)
    CHECK(create_fails(device) == KILN_INVALID_ARGUMENT &&
          strstr(kiln_last_error(), "expected device_index in [0, 1)"));
  const int wrong[][2] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0},
                          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1000},
                          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, -1},
                          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 10},
                          {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0},
                          {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, (1 << 20) + 1}};
  cuda->cuDeviceGetAttribute = gives_attribute;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    wrong_attribute = wrong[i][0], wrong_value = wrong[i][1];
    CHECK(create_fails(0) == KILN_DEVICE_ERROR &&
          strstr(kiln_last_error(), "multiprocessors, which cannot be"));
  }
  wrong_attribute = CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, wrong_value = -1;
  kiln_model *model = create();
  configs[0].kernel = &scale_large;
  CHECK_FAILS(run(model, call_scale, MOST), KILN_DEVICE_ERROR, "has 0 at most");
  configs[0].kernel = &scale;
  kiln_model_destroy(model);
  *cuda = real;
  cuda->cuMemPoolCreate = has_no_pool;
  CHECK(create_fails(0) == KILN_DEVICE_ERROR &&
        strstr(kiln_last_error(), "the GPU has no memory pool"));
  *cuda = real;
}

/*===-- Failures that the program has texts for, and empty tensors -------------===*/

static const kiln_rt_device_kernel failing = {
    .name = "failing", .images = &image, .num_images = 1, .threads = 64, .number = 6, .cluster = 1};

static int32_t call_failing(kiln_rt_run *run) {
  return kiln_rt_device_launch(run, &failing, NULL, 1, KILN_RT_NO_STEP);
}
int32_t kiln_rt_device_debug(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                             void *const *buffers);
static int32_t call_debug(kiln_rt_run *run) {
  static const int64_t shape[] = {4};
  static const kiln_rt_debug_tensor shown[] = {{"x", "float32", NULL, shape, NULL, 2, 32, 1, 0}};
  const kiln_rt_debug_step step = {"bump", "node 'bump'", shown, 1, 0, 2, 0};
  return kiln_rt_device_debug(run, &step, KILN_RT_DEBUG_INPUTS, run->inputs);
}
static int32_t call_nothing(kiln_rt_run *run) { return run ? 0 : 1; }

static void test_failures(void) {
  kiln_model *model = create();
  CHECK_FAILS(run(model, call_failing, MOST), KILN_ASSERTION_FAILED,
              "it was asserted that this is not done");
  CHECK_OK(run(model, call_nothing, 0));
  CHECK_FAILS(run_captured(model, call_debug), KILN_UNSUPPORTED,
              "prints or saves the tensors of its kernels");
  kiln_model_destroy(model);
}

/*===-- Memory ----------------------------------------------------------------===*/

/* Runs with these tensors, of which only x's first element is there. */
static int32_t run_huge(kiln_model *model, int64_t rows, int64_t x_stride, bool gives_output) {
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, rows, 0);
  set_strides(&input, x_stride, 0);
  set_tensor(&output, y, DTYPE_F32, 1, rows, 0);
  DLManagedTensorVersioned managed, *outputs[] = {gives_output ? &managed : NULL};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  calls_main = call_nothing;
  return kiln_model_run(model, inputs, 1, outputs, 1, NULL);
}

static int32_t call_without_memory(kiln_rt_run *run) {
  limit = 0;
  return call_nothing(run);
}

static kiln_model *within;
static int32_t call_within(kiln_rt_run *outer) {
  limit = 0;
  CHECK_FAILS(run(within, call_nothing, MOST), KILN_OUT_OF_MEMORY, "out of memory for a run");
  limit = 1 << 24;
  return call_nothing(outer);
}

static void test_memory(void) {
  const int64_t most = (int64_t)1 << 54; /* of which the bytes are the most there may be */
  kiln_options options = limited_options(&limit);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  CHECK_FAILS(run_huge(model, 2 * most, 0, false), KILN_INVALID_ARGUMENT, "its size overflows");
  /* Nor is there memory for a workspace that stays: the run has one of its own. */
  setenv("KILN_EMULATOR_MEMORY", "1", 1);
  CHECK_FAILS(run_huge(model, most, 0, true), KILN_OUT_OF_MEMORY,
              "the memory of this run overflows for these inputs");
  unsetenv("KILN_EMULATOR_MEMORY");
  calls_factor = -1;
  CHECK_FAILS(run_huge(model, MOST, 1, false), KILN_SHAPE_MISMATCH,
              "output 0 \"y\": dimension 0 would have the size -400 for these inputs");
  calls_factor = 1;

  /* The result is gathered on its way to the host. */
  static float apart[2 * MOST];
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, MOST, 0);
  set_tensor(&output, apart, DTYPE_F32, 1, MOST, 0);
  set_strides(&output, 2, 0);
  DLManagedTensorVersioned managed, *outputs[] = {&managed};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  calls_main = call_without_memory;
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 1, NULL), KILN_OUT_OF_MEMORY,
              "out of memory for 1600 bytes of copies");
  limit = 1 << 24;
  within = model;
  CHECK_OK(run(model, call_within, MOST));
  kiln_model_destroy(model);
}

/* An input whose value is read belongs to the host, and outputs may be deleted that are not there. */
static void test_places(void) {
  kiln_model *model = create();
  CUdeviceptr memory;
  CHECK_CUDA(cuda->cuMemAlloc_v2(&memory, sizeof x));
  tensor input;
  set_tensor(&input, (void *)(uintptr_t)memory, DTYPE_F32, 1, MOST, 0);
  input.t.device = (DLDevice){kDLCUDA, 0};
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {NULL};
  calls_main = call_nothing;
  CHECK_OK(kiln_model_run(model, inputs, 1, outputs, 1, NULL));
  outputs[0]->deleter(NULL);
  outputs[0]->deleter(outputs[0]);
  outputs[0] = NULL;
  calls_input.flags = KILN_RT_VALUE;
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 1, NULL), KILN_INVALID_ARGUMENT,
              "input 0 \"x\": expected an integer in the host's memory");
  calls_input.flags = 0;
  CHECK_CUDA(cuda->cuMemFree_v2(memory));
  kiln_model_destroy(model);
}

int main(int argc, char **argv) {
  load_driver(argc, argv);
  setenv("FAKE", "", 1);
  void *library = dlopen(argv[1], RTLD_NOW);
  *(void **)&begin_capture = dlsym(library, "cuStreamBeginCapture_v2");
  *(void **)&end_capture = dlsym(library, "cuStreamEndCapture");
  CHECK(begin_capture && end_capture);
  test_triton();
  test_library_on_copies();
  test_library_on_device();
  test_boxed();
  test_several_variants();
  test_workspace();
  test_shared_workspace();
  test_lost_workspace();
  test_maps_refused();
  test_images();
  test_answers();
  test_failures();
  test_memory();
  test_places();
  puts("calls-test: passed");
  return 0;
}
