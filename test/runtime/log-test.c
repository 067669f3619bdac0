/* The log of what is loaded and launched, and models whose driver is not there. */
#include "calls.h"
#include "replaced-driver.h"

#include <unistd.h>

enum { ROWS = 100 };

static float x[ROWS], y[ROWS];
static char path[] = "/tmp/kiln-log-XXXXXX";
static kiln_rt_image machine_code = {
    "\177ELF .......................................................", 64, 90, KILN_RT_CUBIN};
static const int64_t symbols[] = {0};
static void count_blocks(const int64_t *values, int64_t *numbers) {
  numbers[0] = (values[0] + 63) / 64;
}
static const kiln_rt_device_kernel variant = {.name = "bump_fast",
                                              .images = &machine_code,
                                              .symbols = symbols,
                                              .num_images = 1,
                                              .num_buffers = 2,
                                              .num_symbols = 1,
                                              .threads = 64,
                                              .geometry = count_blocks,
                                              .cluster = 1};
static kiln_rt_device_kernel bump = {.name = "bump",
                                     .images = &image,
                                     .symbols = symbols,
                                     .num_images = 1,
                                     .num_buffers = 2,
                                     .num_symbols = 1,
                                     .threads = 64,
                                     .variant = &variant,
                                     .cluster = 1};

static int32_t call_bump(kiln_rt_run *run) {
  void *const buffers[] = {run->inputs[0], run->outputs[0]};
  return kiln_rt_device_launch(run, &bump, buffers, 2, KILN_RT_NO_STEP);
}

static int32_t create(kiln_model **model) {
  kiln_options options = quiet_options(0);
  return kiln_model_create(&options, model);
}

static int32_t run(kiln_model *model) {
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, ROWS, 0);
  set_tensor(&output, y, DTYPE_F32, 1, ROWS, 0);
  DLManagedTensorVersioned managed, *outputs[] = {&managed};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  calls_main = call_bump;
  return kiln_model_run(model, inputs, 1, outputs, 1, NULL);
}

/* The log is this, and is empty then. */
static void check_log(const char *expected) {
  char log[4096];
  FILE *file = fopen(path, "r");
  CHECK(file);
  log[fread(log, 1, sizeof log - 1, file)] = 0;
  fclose(file);
  if (strcmp(log, expected) != 0) {
    fprintf(stderr, "expected\n%sgot\n%s", expected, log);
    exit(1);
  }
  CHECK(truncate(path, 0) == 0);
}

static void check_run(const char *expected) {
  kiln_model *model;
  CHECK_OK(create(&model));
  CHECK_OK(run(model));
  CHECK_OK(run(model));
  CHECK(y[0] == 1 && y[ROWS - 1] == ROWS);
  kiln_model_destroy(model);
  check_log(expected);
}

#define BUMP "{\"loaded\": \"bump\", \"variant\": false, \"kind\": \"emulator\", \"arch\": 0}\n"

static CUresult gives_odd_text(CUresult error, const char **text) {
  (void)error;
  *text = "not\nwith \"a\\b\"";
  return CUDA_SUCCESS;
}

static void test_loads(void) {
  cuda->cuGetErrorString = gives_odd_text;
  check_run("{\"not_loaded\": \"bump_fast\", \"variant\": true, \"reason\": \"emulated GPU 0 has "
            "compute capability 9.0; the model has code for sm_90; the driver, one of CUDA 13.0, "
            "does not load it: not with  a b  (CUDA error 209); a newer driver may\"}\n" BUMP);
  *cuda = real;
  bump.variant = NULL;
  check_run(BUMP);
}

/* Every step is waited for; a kernel that fails is found at its own. */
static CUresult cannot_wait(CUstream stream) {
  (void)stream;
  return CUDA_ERROR_INVALID_VALUE;
}

static void test_steps(void) {
  setenv("KILN_CUDA_SYNC", "1", 1);
  check_run(BUMP "{\"begins\": \"bump\"}\n{\"ends\": \"bump\"}\n"
                 "{\"begins\": \"bump\"}\n{\"ends\": \"bump\"}\n");
  kiln_model *model;
  CHECK_OK(create(&model));
  cuda->cuStreamSynchronize = cannot_wait;
  CHECK_FAILS(run(model), KILN_DEVICE_ERROR, "bump: invalid argument");
  *cuda = real;
  kiln_model_destroy(model);
  check_log(BUMP "{\"begins\": \"bump\"}\n{\"ends\": \"bump\", \"failed\": true}\n");
  /* Without a file nothing is written. */
  setenv("KILN_CUDA_LOG", "", 1);
  check_run("");
  setenv("KILN_CUDA_SYNC", "0", 1);
  check_run("");
}

/* The kinds of code, of which the driver that plays a GPU loads none but its own. */
static CUresult load_anything(CUmodule *module, const void *data) {
  (void)data;
  *module = (CUmodule)(uintptr_t)x;
  return CUDA_SUCCESS;
}
static CUresult find_anything(CUfunction *function, CUmodule module, const char *name) {
  (void)module, (void)name;
  *function = (CUfunction)(uintptr_t)x;
  return CUDA_SUCCESS;
}
static CUresult launch_nothing(CUfunction function, unsigned grid_x, unsigned grid_y,
                               unsigned grid_z, unsigned block_x, unsigned block_y,
                               unsigned block_z, unsigned shared, CUstream stream,
                               void **parameters, void **extra) {
  (void)function, (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y;
  (void)block_z, (void)shared, (void)stream, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}
static CUresult launch_nothing_that_overlaps(const CUlaunchConfig *launch, CUfunction function,
                                             void **parameters, void **extra) {
  (void)launch, (void)function, (void)parameters, (void)extra;
  return CUDA_SUCCESS;
}
static CUresult unload_nothing(CUmodule module) {
  (void)module;
  return CUDA_SUCCESS;
}

static void test_kinds(void) {
  static const char *const expected[] = {
      "{\"loaded\": \"bump\", \"variant\": false, \"kind\": \"cubin\", \"arch\": 90}\n",
      "{\"loaded\": \"bump\", \"variant\": false, \"kind\": \"ptx\", \"arch\": 80}\n"};
  cuda->cuModuleLoadData = load_anything;
  cuda->cuModuleGetFunction = find_anything;
  cuda->cuLaunchKernel = launch_nothing;
  cuda->cuLaunchKernelEx = launch_nothing_that_overlaps;
  cuda->cuModuleUnload = unload_nothing;
  const kiln_rt_image kept = image;
  for (int i = 0; i < 2; ++i) {
    image = i ? (kiln_rt_image){".version 8.0", 13, 80, KILN_RT_PTX} : machine_code;
    kiln_model *model;
    CHECK_OK(create(&model));
    CHECK_OK(run(model));
    kiln_model_destroy(model);
    check_log(expected[i]);
  }
  image = kept;
  *cuda = real;
}

static void test_no_driver(void) {
  kiln_model *model;
  setenv("KILN_CUDA_DRIVER", "/nowhere/libcuda.so", 1);
  CHECK_FAILS(create(&model), KILN_DEVICE_ERROR, "/nowhere/libcuda.so");
}

int main(int argc, char **argv) {
  setenv("FAKE", "", 1);
  test_no_driver();
  for (int i = 0; i < ROWS; ++i)
    x[i] = (float)i;
  int file = mkstemp(path);
  CHECK(file >= 0 && close(file) == 0);
  setenv("KILN_CUDA_LOG", path, 1);
  load_driver(argc, argv);
  test_loads();
  test_kinds();
  test_steps();
  CHECK(unlink(path) == 0);
  puts("log-test: passed");
  return 0;
}
