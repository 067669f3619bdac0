/* Programs that contradict themselves: a status and a message, whatever they do. And what a host says of
 * its memory that has AddressSanitizer. */
#include "harness.h"
#include "odd.h"

static const void *poisoned;

/* As the sanitizer's own: the first byte of the region that is poisoned. */
void *__asan_region_is_poisoned(void *begin, size_t bytes);
#if !defined(__SANITIZE_ADDRESS__) && !__has_feature(address_sanitizer)
void *__asan_region_is_poisoned(void *begin, size_t bytes) {
  const char *at = poisoned, *from = begin;
  return at >= from && at < from + bytes ? (void *)(uintptr_t)at : NULL;
}
enum { ASKS = 1 };
#else
enum { ASKS = 0 };
#endif

static int events;
static void note(void *ctx, const kiln_profile_event *event) {
  (void)ctx;
  events += event->kind == KILN_PROFILE_STEP && strcmp(event->name, "call") == 0;
}

static float x[64];

static int32_t run(kiln_model *model, int64_t size) {
  tensor input;
  set_tensor(&input, x, DTYPE_F32, 1, size, 0);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[2] = {NULL, NULL};
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 2, NULL);
  CHECK((status == KILN_OK) == (outputs[0] != NULL) && !outputs[0] == !outputs[1]);
  for (int o = 0; o < 2 && outputs[o]; ++o) {
    for (int64_t i = 0; i < size; ++i)
      CHECK(((float *)outputs[o]->dl_tensor.data)[i] == x[i] + (float)(o == 0));
    outputs[o]->deleter(outputs[o]);
    outputs[o]->deleter(NULL);
  }
  return status;
}

static int32_t set(kiln_model *model, const char *name, int64_t size) {
  tensor value;
  set_tensor(&value, x, DTYPE_F32, 1, size, 0);
  return kiln_model_set_constant(model, name, &value.t);
}

static void test_runs(kiln_model *model) {
  static const struct {
    int64_t size;
    int32_t status;
    const char *message;
  } cases[] = {
      {ODD_UNSOLVED, KILN_SHAPE_MISMATCH, "input 0 \"x\": expected float32 [s0], got float32 [2]"},
      {ODD_CONTRADICTED, KILN_INTERNAL, "the sizes of the inputs contradict each other"},
      {ODD_TOO_LARGE, KILN_SHAPE_MISMATCH, "output 0 \"y\": its size overflows"},
      {ODD_TOO_WIDE, KILN_SHAPE_MISMATCH, "output 0 \"y\": its size overflows"},
      {ODD_NO_ARENA, KILN_OUT_OF_MEMORY, "the memory of this run overflows"},
      {ODD_STATUS, 3, "the model failed with status 3"},
      {ODD_ERROR, KILN_INTERNAL, "a kernel reported an unknown error"},
      {ODD_FAILURE, KILN_ASSERTION_FAILED, "expected x >= 0"},
      {ODD_LATE, KILN_SHAPE_MISMATCH, "output 1 \"u\": its size overflows"},
      {ODD_BEYOND, KILN_SHAPE_MISMATCH, "expected s0 in [-inf, 11], got 12"},
  };
  CHECK_OK(run(model, ODD_FINE));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    CHECK_FAILS(run(model, cases[i].size), cases[i].status, cases[i].message);
  events = 0;
  CHECK_OK(run(model, ODD_CALL));
}

/* The caller's outputs are placed by the same sizes. */
static void test_given(kiln_model *model) {
  float y[64];
  for (int64_t size = ODD_TOO_LARGE; size <= ODD_TOO_WIDE; ++size) {
    tensor input, output;
    DLManagedTensorVersioned managed, *outputs[2] = {&managed, NULL};
    set_tensor(&input, x, DTYPE_F32, 1, size, 0);
    set_tensor(&output, y, DTYPE_F32, 1, size, 0);
    set_managed(&managed, &output);
    const DLTensor *inputs[] = {&input.t};
    CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 2, NULL), KILN_SHAPE_MISMATCH,
                "output 0 \"y\": ");
  }
}

static void test_devices(kiln_model *model) {
  tensor input;
  DLManagedTensorVersioned *outputs[2] = {NULL, NULL};
  set_tensor(&input, x, DTYPE_F32, 1, 1, 0);
  const DLTensor *inputs[] = {&input.t};
  input.t.device = (DLDevice){(DLDeviceType)77, 3};
  CHECK_FAILS(kiln_model_run(model, inputs, 1, outputs, 2, NULL), KILN_INVALID_ARGUMENT,
              "device type 77:3");
}

static void test_constants(kiln_model *model) {
  CHECK_FAILS(set(model, "short", 2), KILN_INTERNAL, "the model contradicts itself");
  CHECK_FAILS(set(model, "outside", 2), KILN_INTERNAL, "lies outside the model's weights");
  CHECK_FAILS(set(model, "folded", 2), KILN_INTERNAL, "a fold reads what is not in the weights");
  CHECK_OK(set(model, "empty", 0));
  CHECK_OK(set(model, "whole", 4));
  CHECK_OK(set(model, "whole", 4));
}

static void test_freed_memory(kiln_model *model) {
  if (!ASKS)
    return;
  poisoned = &x[2];
  CHECK_OK(run(model, ODD_FINE));
  CHECK_FAILS(run(model, ODD_CALL), KILN_INVALID_ARGUMENT,
              "byte 8 of its 40 is freed or was never allocated (AddressSanitizer)");
  poisoned = NULL;
  CHECK_OK(run(model, ODD_CALL));
}

int main(void) {
  for (int i = 0; i < 64; ++i)
    x[i] = (float)i;
  for (int threads = 1; threads <= 2; ++threads) {
    kiln_options options = quiet_options(threads);
    options.profile = threads == 2 ? note : NULL;
    kiln_model *model = NULL;
    CHECK_OK(kiln_model_create(&options, &model));
    CHECK(strcmp(kiln_model_info(), "{}") == 0);
    test_runs(model);
    CHECK(events == (threads == 2));
    test_given(model);
    test_devices(model);
    test_constants(model);
    test_freed_memory(model);
    kiln_model_destroy(model);
  }
  puts("odd-test: passed");
  return 0;
}
