/* The checks at entry: every wrong argument gives its status and its message. */
#include "rows.h"

#include <stddef.h>

static kiln_model *model;

static void test_options(void) {
  kiln_model *m = (kiln_model *)1;
  kiln_options o = quiet_options(1);
  CHECK_FAILS(kiln_model_create(&o, NULL), KILN_INVALID_ARGUMENT, "got NULL");
  o.num_threads = -1;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT,
              "expected num_threads in [0, 1024], got -1");
  CHECK(!m);
  o.num_threads = 1025;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT, "got 1025");
  o = quiet_options(1);
  o.reserved = 3;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT, "reserved to be 0, got 3");
  o = quiet_options(1);
  o.collective_timeout = -1;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT,
              "expected collective_timeout not to be negative, got -1");
  o = quiet_options(1);
  o.struct_size = 0;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT, "struct_size");
  o = quiet_options(1);
  o.alloc = (void *(*)(void *, size_t, size_t))(uintptr_t)1;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT, "got alloc alone");
  o.alloc = NULL;
  o.dealloc = (void (*)(void *, void *, size_t, size_t))(uintptr_t)1;
  CHECK_FAILS(kiln_model_create(&o, &m), KILN_INVALID_ARGUMENT, "got dealloc alone");

  /* An older host's struct ends early, in or between fields; a newer one's has
   * fields that are unknown here. What lies past `struct_size` is not read. */
  for (uint32_t size = sizeof o.struct_size; size <= sizeof o; ++size) {
    char *memory = malloc(size);
    memset(memory, 0, size);
    memcpy(memory, &size, sizeof size);
    CHECK_OK(kiln_model_create((const kiln_options *)(void *)memory, &m));
    kiln_model_destroy(m);
    free(memory);
  }
  struct {
    kiln_options known;
    char unknown[100];
  } newer;
  memset(&newer, 0xff, sizeof newer);
  newer.known = quiet_options(1);
  newer.known.struct_size = sizeof newer;
  CHECK_OK(kiln_model_create(&newer.known, &m));
  kiln_model_destroy(m);
  CHECK_OK(kiln_model_create(NULL, &m));
  kiln_model_destroy(m);
}

static char logged[256];
static int log_level;

static void log_to_buffer(void *ctx, int level, const char *message) {
  CHECK(ctx == &log_level);
  log_level = level;
  snprintf(logged, sizeof logged, "%s", message);
}

static void test_log(void) {
  kiln_options o = quiet_options(1);
  o.log = log_to_buffer;
  o.log_ctx = &log_level;
  kiln_model *m;
  CHECK_OK(kiln_model_create(&o, &m));
  log_level = -1;
  CHECK_FAILS(kiln_model_run(m, NULL, 1, NULL, 4, NULL), KILN_INVALID_ARGUMENT,
              "expected 4 inputs, got 1");
  CHECK(log_level == 0 && strcmp(logged, kiln_last_error()) == 0);
  kiln_model_destroy(m);
}

static void test_counts(void) {
  arguments a;
  make_arguments(&a, 3);
  CHECK_FAILS(kiln_model_run(NULL, a.inputs, 4, a.outputs, 4, NULL), KILN_INVALID_ARGUMENT,
              "expected a model, got NULL");
  CHECK_FAILS(kiln_model_run(model, a.inputs, 3, a.outputs, 4, NULL), KILN_INVALID_ARGUMENT,
              "expected 4 inputs, got 3");
  CHECK_FAILS(kiln_model_run(model, a.inputs, 4, a.outputs, 5, NULL), KILN_INVALID_ARGUMENT,
              "expected 4 outputs, got 5");
  CHECK_FAILS(kiln_model_run(model, NULL, 4, a.outputs, 4, NULL), KILN_INVALID_ARGUMENT,
              "expected an array of 4 inputs, got NULL");
  CHECK_FAILS(kiln_model_run(model, a.inputs, 4, NULL, 4, NULL), KILN_INVALID_ARGUMENT,
              "expected an array of 4 outputs, got NULL");
  free_arguments(&a);
}

/* Runs with one thing about the arguments wrong. */
#define WRONG_INPUT(change, status, text)                                                          \
  do {                                                                                             \
    arguments a;                                                                                   \
    make_arguments(&a, 3);                                                                         \
    change;                                                                                        \
    CHECK_FAILS(run(model, &a), status, text);                                                     \
    CHECK(a.state_data[0] == 0 && !a.outputs[0] && !a.outputs[1] && !a.outputs[3]);                \
    free_arguments(&a);                                                                            \
  } while (0)

static void test_inputs(void) {
  WRONG_INPUT(a.inputs[1] = NULL, KILN_INVALID_ARGUMENT,
              "input 1 \"ids\": expected a tensor, got NULL");
  WRONG_INPUT(a.x.t.device.device_type = kDLCUDA; a.x.t.device.device_id = 1, KILN_INVALID_ARGUMENT,
                                                  "input 0 \"x\": expected device cpu, got cuda:1");
  WRONG_INPUT(a.ids.t.dtype = DTYPE_F32, KILN_INVALID_ARGUMENT,
              "input 1 \"ids\": expected int64 [s0], got float32 [3]");
  WRONG_INPUT(a.x.t.dtype.lanes = 4, KILN_INVALID_ARGUMENT, "got float32x4 [3, 8]");
  WRONG_INPUT(a.x.t.dtype.lanes = 0, KILN_INVALID_ARGUMENT, "got float32x0");
  WRONG_INPUT(a.x.t.dtype = ((DLDataType){kDLBfloat, 16, 1}), KILN_INVALID_ARGUMENT,
              "got bfloat16 [3, 8]");
  WRONG_INPUT(a.x.t.dtype = ((DLDataType){kDLBool, 8, 1}), KILN_INVALID_ARGUMENT, "got bool [3");
  WRONG_INPUT(a.x.t.dtype = ((DLDataType){kDLComplex, 64, 1}), KILN_INVALID_ARGUMENT,
              "got complex64 [");
  WRONG_INPUT(a.x.t.dtype = ((DLDataType){kDLFloat8_e4m3fn, 8, 1}), KILN_INVALID_ARGUMENT,
              "got float8_e4m3fn [");
  WRONG_INPUT(a.x.t.dtype = ((DLDataType){200, 3, 1}), KILN_INVALID_ARGUMENT,
              "got dtype(code 200, bits 3)");
  WRONG_INPUT(a.x.t.ndim = 1, KILN_SHAPE_MISMATCH, "expected float32 [s0, 8], got float32 [3]");
  WRONG_INPUT(a.x.t.ndim = -1, KILN_INVALID_ARGUMENT, "ndim -1");
  WRONG_INPUT(a.x.t.ndim = INT32_MAX, KILN_SHAPE_MISMATCH, "with 2147483647 dimensions");
  WRONG_INPUT(a.x.t.shape = NULL, KILN_INVALID_ARGUMENT, "ndim 2 and shape NULL");
  WRONG_INPUT(a.scale.t.ndim = 1, KILN_SHAPE_MISMATCH, "expected float64 [], got float64 [0]");
  WRONG_INPUT(a.x.shape[1] = 9, KILN_SHAPE_MISMATCH,
              "input 0 \"x\": expected float32 [s0, 8], got float32 [3, 9]");
  WRONG_INPUT(a.x.shape[0] = -3, KILN_SHAPE_MISMATCH, "got float32 [-3, 8]");
  WRONG_INPUT(a.ids.shape[0] = 4, KILN_SHAPE_MISMATCH,
              "input 1 \"ids\": expected int64 [s0] = [3], got int64 [4]: "
              "dimension 0 is s0 = 3, got 4");
  WRONG_INPUT(a.x.shape[0] = a.ids.shape[0] = 0, KILN_SHAPE_MISMATCH,
              "input 0 \"x\": expected float32 [s0, 8], got float32 [0, 8]: expected s0 in [1, "
              "100000], got 0");
  WRONG_INPUT(a.x.shape[0] = a.ids.shape[0] = 100001, KILN_SHAPE_MISMATCH,
              "expected s0 in [1, 100000], got 100001");
  WRONG_INPUT(a.x.shape[0] = INT64_MAX / 16, KILN_INVALID_ARGUMENT, "its size overflows");
  WRONG_INPUT(set_strides(&a.x, 8, -1), KILN_INVALID_ARGUMENT,
              "input 0 \"x\": expected strides of at least 0, got strides [8, -1]");
  WRONG_INPUT(set_strides(&a.x, INT64_MAX, 1), KILN_INVALID_ARGUMENT,
              "its strides overflow: got shape [3, 8], strides [9223372036854775807, 1]");
  WRONG_INPUT(set_strides(&a.x, (int64_t)1 << 55, 1), KILN_INVALID_ARGUMENT, "overflow");
  WRONG_INPUT(a.x.t.data = NULL, KILN_INVALID_ARGUMENT,
              "input 0 \"x\": expected 96 bytes of data, got a NULL data pointer");
  WRONG_INPUT(a.x.t.data = (char *)a.x.t.data + 2, KILN_INVALID_ARGUMENT,
              "input 0 \"x\": expected data aligned to 4 bytes, got address 0x");
  WRONG_INPUT(a.ids.t.byte_offset = 4, KILN_INVALID_ARGUMENT, "aligned to 8 bytes");
  WRONG_INPUT(a.x.t.byte_offset = UINT64_MAX - 3, KILN_INVALID_ARGUMENT, "past the end of memory");
  WRONG_INPUT(a.x.t.data = (void *)(uintptr_t)(UINT64_MAX - 63), KILN_INVALID_ARGUMENT,
              "past the end of memory");

  /* A mutated input must own its memory. */
  WRONG_INPUT(set_strides(&a.state, 0, 1), KILN_INVALID_ARGUMENT,
              "input 2 \"state\": expected strides under which no elements share memory");
  WRONG_INPUT(set_strides(&a.state, 3, 1), KILN_INVALID_ARGUMENT, "share memory");
  WRONG_INPUT(a.x.t.data = a.state_data, KILN_INVALID_ARGUMENT,
              "input 2 \"state\": expected memory of its own, since the model writes to this "
              "input, but it overlaps input 0 \"x\"");
}

#define WRONG_OUTPUT(change, status, text)                                                         \
  do {                                                                                             \
    arguments a;                                                                                   \
    make_arguments(&a, 3);                                                                         \
    float y_data[40] = {0}, picked_data[3] = {0};                                                  \
    tensor y, picked;                                                                              \
    set_tensor(&y, y_data, DTYPE_F32, 2, 3, 8);                                                    \
    set_tensor(&picked, picked_data, DTYPE_F32, 1, 3, 0);                                          \
    DLManagedTensorVersioned ym, pm;                                                               \
    set_managed(&ym, &y), set_managed(&pm, &picked);                                               \
    a.outputs[0] = &ym, a.outputs[1] = &pm;                                                        \
    change;                                                                                        \
    CHECK_FAILS(run(model, &a), status, text);                                                     \
    CHECK(a.state_data[0] == 0 && y_data[0] == 0 && !a.outputs[3]);                                \
    memset(a.outputs, 0, sizeof a.outputs);                                                        \
    free_arguments(&a);                                                                            \
  } while (0)

static void test_outputs(void) {
  WRONG_OUTPUT(ym.version.major = 2, KILN_INVALID_ARGUMENT,
               "output 0 \"y\": expected a tensor of DLPack version 1, got version 2");
  WRONG_OUTPUT(ym.flags = DLPACK_FLAG_BITMASK_READ_ONLY, KILN_INVALID_ARGUMENT,
               "output 0 \"y\": expected a writable tensor");
  WRONG_OUTPUT(ym.dl_tensor.device.device_type = kDLROCM, KILN_INVALID_ARGUMENT,
               "output 0 \"y\": expected device cpu, got rocm:0");
  WRONG_OUTPUT(ym.dl_tensor.dtype = DTYPE_F64, KILN_INVALID_ARGUMENT,
               "output 0 \"y\": expected float32 [s0, 8] = [3, 8], got float64 [3, 8]");
  WRONG_OUTPUT(y.shape[0] = 2, KILN_SHAPE_MISMATCH,
               "output 0 \"y\": expected float32 [s0, 8] = [3, 8], got float32 [2, 8]: "
               "dimension 0 is s0 = 3, got 2");
  WRONG_OUTPUT(ym.dl_tensor.data = NULL, KILN_INVALID_ARGUMENT, "got a NULL data pointer");
  WRONG_OUTPUT(set_strides(&y, 0, 1);
               set_managed(&ym, &y), KILN_INVALID_ARGUMENT,
               "output 0 \"y\": expected strides under which no elements share memory");
  WRONG_OUTPUT(pm.dl_tensor.data = y_data + 21, KILN_INVALID_ARGUMENT,
               "output 1 \"picked\": expected memory of its own, but it overlaps output 0 \"y\"");
  WRONG_OUTPUT(a.outputs[2] = &pm, KILN_INVALID_ARGUMENT,
               "output 2 \"nothing\": is None, so expected NULL, got a tensor");
}

static int draw(int n) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)(state >> 33) % n;
}

/* Random wrong tensors: no crash, and no access that the sanitizers object to.
 * What passes the checks must be true, so strides are small or absurd, in the
 * middle of a large buffer. */
static void test_random(void) {
  static float buffer[1 << 16];
  static const int64_t sizes[] = {0,  1,         2,         3,      4,  7,         8,
                                  -1, INT64_MAX, INT64_MIN, 100000, 64, INT32_MAX, 1LL << 40};
  static const int64_t strides[] = {0, 1, 2, 3, 8, 64, -1, INT64_MAX, INT64_MIN};
  enum { SIZES = sizeof sizes / sizeof *sizes, STRIDES = sizeof strides / sizeof *strides };
  int passed = 0;
  for (int round = 0; round < 100000; ++round) {
    arguments a;
    make_arguments(&a, 3);
    tensor *inputs[] = {&a.x, &a.ids, &a.state, &a.scale};
    int64_t long_shape[70], long_strides[70];
    for (int changes = 1 + draw(2); changes > 0; --changes) {
      tensor *t = inputs[draw(4)];
      int64_t first = strides[draw(STRIDES)], second = strides[draw(STRIDES)];
      int d = draw(2);
      switch (draw(7)) {
      case 0:
        t->shape[d] = sizes[draw(SIZES)];
        break;
      case 1:
        t->t.data = buffer + 1024;
        set_strides(t, first, second);
        break;
      case 2:
        t->t.byte_offset = (uint64_t)strides[STRIDES - 1 - draw(3)];
        break;
      case 3:
        t->t.dtype.code = (uint8_t)draw(20);
        t->t.dtype.bits = (uint8_t)draw(130);
        break;
      case 4:
        t->t.ndim = draw(70);
        for (d = 0; d < 70; ++d) {
          long_shape[d] = sizes[draw(SIZES)];
          long_strides[d] = strides[draw(STRIDES)];
        }
        t->t.data = buffer + 1024;
        t->t.shape = long_shape;
        t->t.strides = long_strides;
        break;
      case 5:
        t->t.data = NULL;
        break;
      default:
        a.ids_data[draw(3)] = sizes[draw(SIZES)];
      }
    }
    if (a.x.t.shape[0] != 3 && a.x.t.shape[0] == a.ids.t.shape[0])
      a.ids.t.shape[0] = 3;
    int32_t status = run(model, &a);
    CHECK(status >= KILN_OK && status <= KILN_SHAPE_MISMATCH);
    CHECK((status == KILN_OK) == (a.outputs[0] != NULL));
    passed += status == KILN_OK;
    free_arguments(&a);
  }
  CHECK(passed > 1000 && passed < 99000);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER
#endif
#endif

/* A sanitizer in the host tells of tensors that it has freed, and of those that are larger than their memory. */
static void test_poisoned(void) {
#ifdef HAS_ADDRESS_SANITIZER
  arguments a;
  make_arguments(&a, 3);
  a.x.shape[0] = a.ids.shape[0] = 4;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT,
              "input 0 \"x\": byte 96 of its 128 is freed or was never allocated");
  a.x.shape[0] = a.ids.shape[0] = 3;
  CHECK_OK(run(model, &a));
  DLManagedTensorVersioned own;
  tensor y;
  float *data = malloc(3 * COLUMNS * sizeof(float));
  set_tensor(&y, data, DTYPE_F32, 2, 3, COLUMNS);
  set_managed(&own, &y);
  free_outputs(&a);
  a.outputs[0] = &own;
  CHECK_OK(run(model, &a));
  free(data);
  a.outputs[1]->deleter(a.outputs[1]);
  a.outputs[3]->deleter(a.outputs[3]);
  a.outputs[1] = a.outputs[3] = NULL;
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "output 0 \"y\": byte 0 of its 96 is freed");
  a.outputs[0] = NULL;
  free(a.x_data);
  CHECK_FAILS(run(model, &a), KILN_INVALID_ARGUMENT, "input 0 \"x\": byte 0 of its 96 is freed");
  a.x_data = NULL;
  free_arguments(&a);
#endif
}

int main(void) {
  test_options();
  test_log();
  kiln_options options = quiet_options(1);
  CHECK_OK(kiln_model_create(&options, &model));
  test_counts();
  test_inputs();
  test_outputs();
  test_random();
  test_poisoned();
  arguments a;
  make_arguments(&a, 3);
  CHECK_OK(run(model, &a));
  CHECK(outputs_right(&a));
  free_arguments(&a);
  kiln_model_destroy(model);
  puts("ok");
  return 0;
}
