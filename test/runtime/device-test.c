/* All that main may call on a GPU, with tensors wherever they are and however they lie. argv[1] names
 * the driver that plays a GPU, argv[2] the kernels' image. */
#include "../../runtime/cuda/driver.h"
#include "device.h"
#include "harness.h"

#include <ftw.h>
#include <unistd.h>

static const kiln_cuda_driver *cuda;
static int steps;

static void note(void *ctx, const kiln_profile_event *event) {
  (void)ctx;
  steps += event->kind == KILN_PROFILE_STEP;
}

#define CHECK_CUDA(call) CHECK((call) == CUDA_SUCCESS)

enum { MOST = 4 * DEVICE_ROWS };

static float value(int64_t row, int64_t column) { return (float)(row * 10 + column); }

/* Memory of the host's or the GPU's, in which a tensor lies. */
typedef struct {
  bool on_device;
  CUdeviceptr memory;
  float host[MOST];
  tensor t;
} place;

static void make(place *p, bool on_device, int64_t offset, int rank, int64_t a, int64_t b,
                 int64_t stride_a, int64_t stride_b) {
  memset(p, 0, sizeof *p);
  p->on_device = on_device;
  set_tensor(&p->t, p->host + offset, DTYPE_F32, rank, a, b);
  set_strides(&p->t, stride_a, stride_b);
  if (!on_device)
    return;
  CHECK_CUDA(cuda->cuMemAlloc_v2(&p->memory, sizeof p->host));
  p->t.t.data = (void *)(uintptr_t)(p->memory + 4 * (CUdeviceptr)offset);
  p->t.t.device = (DLDevice){kDLCUDA, 0};
}

static void put(place *p) {
  if (p->on_device) {
    CHECK_CUDA(cuda->cuMemcpyHtoDAsync_v2(p->memory, p->host, sizeof p->host, NULL));
    CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
  }
}

static void get(place *p) {
  if (p->on_device) {
    CHECK_CUDA(cuda->cuMemcpyDtoHAsync_v2(p->host, p->memory, sizeof p->host, NULL));
    CHECK_CUDA(cuda->cuStreamSynchronize(NULL));
  }
}

static void drop(place *p) {
  if (p->on_device)
    CHECK_CUDA(cuda->cuMemFree_v2(p->memory));
}

/* How x, y and u lie. NULL slots: y and u are the model's. */
typedef struct {
  bool device, slots;
  int64_t offset, x_strides[2], y_strides[2], u_stride;
} layout;

static int32_t run(kiln_model *model, int64_t rows, const layout *how) {
  place x, y, u;
  DLManagedTensorVersioned ym, um, *outputs[3] = {NULL, NULL, NULL};
  make(&x, how->device, how->offset, 2, rows, 2, how->x_strides[0], how->x_strides[1]);
  make(&y, how->device, how->offset, 2, 2, rows, how->y_strides[0], how->y_strides[1]);
  make(&u, how->device, how->offset, 1, rows, 0, how->u_stride, 0);
  float *from = x.host + how->offset;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < 2; ++c)
      from[r * how->x_strides[0] + c * how->x_strides[1]] = value(r, c);
  put(&x);
  set_managed(&ym, &y.t);
  set_managed(&um, &u.t);
  if (how->slots)
    outputs[0] = &ym, outputs[2] = &um;
  const DLTensor *inputs[] = {&x.t.t};
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 3, NULL);
  CHECK_CUDA(cuda->cuCtxSynchronize());
  if (status == KILN_OK) {
    CHECK(outputs[0] && !outputs[1] && outputs[2]);
    if (!how->slots && !how->device) {
      for (int64_t r = 0; r < rows; ++r)
        CHECK(((float *)outputs[0]->dl_tensor.data)[2 * r + 1] == value(r, 1) + 1);
    }
    get(&x), get(&y), get(&u);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < 2; ++c) {
        CHECK(from[r * how->x_strides[0] + c * how->x_strides[1]] == value(r, c) + 1);
        if (how->slots)
          CHECK(y.host[how->offset + c * how->y_strides[0] + r * how->y_strides[1]] ==
                value(r, c) + 1);
      }
    for (int64_t i = 0; i < rows && how->slots; ++i)
      CHECK(u.host[how->offset + i * how->u_stride] == value(i / 2, i % 2) + 3);
  }
  for (int o = 0; o < 3 && !how->slots; ++o)
    if (outputs[o])
      outputs[o]->deleter(outputs[o]);
  drop(&x), drop(&y), drop(&u);
  return status;
}

static void test_layouts(kiln_model *model) {
  for (int device = 0; device < 2; ++device)
    for (int64_t offset = 0; offset < 2; ++offset)
      for (int64_t rows = 10; rows <= DEVICE_ROWS; rows += DEVICE_ROWS - 10) {
        const layout cases[] = {{device, false, offset, {2, 1}, {1, 2}, 1},
                                {device, true, offset, {2, 1}, {1, 2}, 1},
                                {device, true, offset, {1, DEVICE_ROWS}, {DEVICE_ROWS, 1}, 2}};
        for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
          CHECK_OK(run(model, rows, &cases[i]));
      }
}

static void test_failures(kiln_model *model) {
  const layout plain = {false, false, 0, {2, 1}, {1, 2}, 1};
  CHECK_FAILS(run(model, DEVICE_WIDE_GRID, &plain), KILN_UNSUPPORTED,
              "kernel bump would have -1 blocks");
  CHECK_FAILS(run(model, DEVICE_PARAMETERS, &plain), KILN_INTERNAL, "too many parameters");
  CHECK_FAILS(run(model, DEVICE_OVERFLOWS, &plain), KILN_OUT_OF_MEMORY,
              "overflows for what the data");
  CHECK_FAILS(run(model, DEVICE_CUSTOM_FAILS, &plain), KILN_INVALID_ARGUMENT,
              "node 'touch': touch");
  CHECK_FAILS(run(model, DEVICE_HOST_FAILS, &plain), KILN_INVALID_ARGUMENT, "node 'add': add");
  CHECK_FAILS(run(model, DEVICE_NO_ARENA, &plain), KILN_OUT_OF_MEMORY,
              "overflows for these inputs");
  float x[20] = {0};
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 2, 10, 2);
  set_tensor(&output, x, DTYPE_F32, 1, 9, 0);
  DLManagedTensorVersioned managed, *outputs[3] = {NULL, &managed, NULL};
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 3, NULL), KILN_INVALID_ARGUMENT,
              "output 1 \"nothing\": is None, so expected NULL, got a tensor");
  float u[9];
  output.t.data = u;
  set_managed(&managed, &output);
  outputs[1] = NULL, outputs[2] = &managed;
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 3, NULL), KILN_SHAPE_MISMATCH,
              "output 2 \"u\": expected float32 [u0] = [10], got float32 [9]");
  CHECK_OK(run(model, 10, &plain));
}

static char folder[] = "/tmp/kiln-device-test-XXXXXX";

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status, (void)kind, (void)at;
  return remove(path);
}

static void test_debug(kiln_model *model) {
  const layout plain = {true, true, 0, {2, 1}, {1, 2}, 1};
  CHECK(mkdtemp(folder));
  setenv("KILN_DEBUG_DIR", folder, 1);
  device_level = 1;
  CHECK_OK(run(model, 10, &plain));
  device_level = 0;
  char path[128], line[1024];
  snprintf(path, sizeof path, "%s/run0/index.jsonl", folder);
  FILE *file = fopen(path, "r");
  CHECK(file && fgets(line, sizeof line, file) && strstr(line, "node \\\"\\u000a\\\" (m.py:3)"));
  fclose(file);
  nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv) {
  CHECK(argc >= 3);
  setenv("KILN_CUDA_DRIVER", argv[1], 1);
  FILE *file = fopen(argv[2], "rb");
  static char image[1 << 20];
  CHECK(file);
  size_t bytes = fread(image, 1, sizeof image - 1, file);
  fclose(file);
  use_image(image, bytes);
  CHECK_OK(kiln_cuda_load(&cuda));
  CUcontext context;
  CHECK_CUDA(cuda->cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CUDA(cuda->cuCtxPushCurrent_v2(context));
  for (int profiled = 0; profiled < 2; ++profiled) {
    kiln_options options = quiet_options(0);
    options.profile = profiled ? note : NULL;
    kiln_model *model = NULL;
    CHECK_OK(kiln_model_create(&options, &model));
    test_layouts(model);
    test_failures(model);
    CHECK((steps > 0) == profiled);
    if (!profiled)
      test_debug(model);
    kiln_model_destroy(model);
  }
  puts("device-test: passed");
  return 0;
}
