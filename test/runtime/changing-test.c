/* Programs that say something odd, one thing at a time, and what is then wrong with a host's arguments. */
#include "changing.h"
#include "harness.h"

enum { ROWS = 10, MOST = 128 };

static float x[MOST], z[MOST * MOST], c[6];
static int64_t n;

static kiln_model *create(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model = NULL;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static tensor tensors[4];
static void set_arguments(int64_t rows) {
  n = 2 * rows;
  set_tensor(&tensors[0], x, DTYPE_F32, 1, rows, 0);
  set_tensor(&tensors[1], z, DTYPE_F32, 1, rows, 0);
  set_strides(&tensors[1], rows, 0);
  set_tensor(&tensors[2], &n, DTYPE_I64, 0, 0, 0);
  set_tensor(&tensors[3], c, (DLDataType){kDLComplex, 64, 1}, 1, 2, 0);
}

/* With a model of its own, since a model may keep what the program said. */
static int32_t run(void) {
  kiln_model *model = create();
  const DLTensor *inputs[] = {&tensors[0].t, &tensors[1].t, &tensors[2].t, &tensors[3].t};
  DLManagedTensorVersioned *outputs[1] = {NULL};
  int32_t status =
      kiln_model_run(model, inputs, changing.num_inputs, outputs, changing.num_outputs, NULL);
  if (outputs[0])
    outputs[0]->deleter(outputs[0]);
  char message[1024]; /* which destroying the model does not change */
  snprintf(message, sizeof message, "%s", kiln_last_error());
  kiln_model_destroy(model);
  CHECK(strcmp(message, kiln_last_error()) == 0);
  return status;
}

/* The original, and arguments that suit it. */
static void start(int64_t rows) {
  restore();
  set_arguments(rows);
}

#define CHECK_UNFIT(change)                                                                        \
  do {                                                                                             \
    restore();                                                                                     \
    change;                                                                                        \
    kiln_model *model_;                                                                            \
    kiln_options options_ = quiet_options(1);                                                      \
    CHECK_FAILS(kiln_model_create(&options_, &model_), KILN_INTERNAL,                              \
                "the model does not fit its runtime");                                             \
  } while (0)

static void test_unfit(void) {
  CHECK_UNFIT(changing.abi = KILN_RT_ABI + 1);
  CHECK_UNFIT(changing.main = NULL);
  CHECK_UNFIT(changing.bind = NULL);
  CHECK_UNFIT(changing.scratch_bytes = UINT64_MAX / 4);
  CHECK_UNFIT(changing.weights_bytes = UINT64_MAX);
  CHECK_UNFIT(changing.later_bytes = (uint64_t)1 << 56);
  CHECK_UNFIT(changing_inputs[3].rank = 65);
  CHECK_UNFIT(changing_outputs[0].rank = 65);
  CHECK_UNFIT(changing_constants[2].rank = 65);
  restore();
  changing_constants[0].flags = KILN_RT_MUTABLE_BUFFER;
  changing_constants[0].offset = (uint64_t)1 << 40;
  kiln_model *model;
  kiln_options options = quiet_options(1);
  CHECK_FAILS(kiln_model_create(&options, &model), KILN_INTERNAL,
              "a buffer lies outside the model's weights");
}

static void test_texts(void) {
  start(ROWS);
  CHECK_OK(run());
  tensors[0].t.dtype = DTYPE_F64;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT,
              "input 0 \"x\": expected float32 [s0], got float64 [10]");
  changing.flags = 0;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, "expected float32 [?], got");
  changing.flags = KILN_RT_HAS_EXPRESSIONS;
  changing.num_expressions = 0;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, "expected float32 [?], got");
  changing_inputs[0].name = NULL;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, "input 0 \"\": ");

  /* Sizes that differ, with and without their expressions. */
  start(ROWS);
  tensors[1].shape[0] = ROWS - 1;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, ": dimension 0 is s0 = 10, got 9");
  changing.num_expressions = 0;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected float32 [?] = [10], got float32 [9]");
  changing.flags = 0;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected float32 [?] = [10], got float32 [9]");

  start(ROWS);
  static const struct {
    int type;
    const char *text;
  } devices[] = {
      {5, "got device type 5:0"}, {100, "got device type 100:0"}, {kDLCUDA, "got cuda:0"}};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; ++i) {
    tensors[0].t.device.device_type = (DLDeviceType)devices[i].type;
    CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, devices[i].text);
  }
}

static void test_properties(void) {
  start(ROWS);
  n = 21;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT,
              "input 2 \"n\": expected the value [2*s0] = [20], got [21]");
  start(ROWS);
  set_strides(&tensors[1], 9, 0);
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected strides [s0] = [10], got [9]");
  changing_inputs[1].strides = (const int64_t[]){7};
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected strides [7], got [9]");
  /* The stride of one row is of no matter. */
  start(1);
  set_strides(&tensors[1], 9, 0);
  CHECK_OK(run());
  /* A complex number is aligned as its parts. */
  start(ROWS);
  tensors[3].t.data = (char *)c + 4;
  CHECK_OK(run());
  tensors[3].t.data = (char *)c + 2;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, "expected data aligned to 4 bytes");
  /* Strides of something without dims. */
  start(ROWS);
  changing_inputs[1].rank = 0;
  tensors[1].t.ndim = 0;
  CHECK_OK(run());
}

static void test_ranges(void) {
  start(ROWS);
  changing_symbols[0] = (kiln_rt_symbol){"s0", 11, INT64_MAX};
  CHECK_FAILS(
      run(), KILN_SHAPE_MISMATCH,
      "input 0 \"x\": expected float32 [s0], got float32 [10]: expected s0 in [11, inf], got 10");
  changing_symbols[0] = (kiln_rt_symbol){"s0", INT64_MIN, 9};
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected s0 in [-inf, 9], got 10");
  changing.flags = 0; /* nothing says which input has it */
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected s0 in [-inf, 9], got 10");
  CHECK(!strstr(kiln_last_error(), "input"));

  /* The symbol as a part of other words, and as one of its own. */
  start(ROWS);
  changing_symbols[0].max = 9;
  static const char *const without[] = {"s00 + s0_ + s0.x + s0$ + s0A + s0Z + s0z",
                                        "1s0 + as0 + As0 + _s0 + .s0 + $s0"};
  changing.expressions = without;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected s0 in [0, 9], got 10");
  CHECK(!strstr(kiln_last_error(), "input"));
  static const char *const with[] = {"Max(s00, s0)", "{s0}"};
  changing.expressions = with;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "input 0 \"x\"");
  changing.num_expressions = 0;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "expected s0 in [0, 9], got 10");
  /* In no shape, but as a value; or in strides. */
  start(ROWS);
  static const char *const as_value[] = {"t0", "s0"};
  changing.expressions = as_value;
  changing_symbols[0].max = 9;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "input 2 \"n\"");
  start(ROWS);
  changing_inputs[0].shape = changing_inputs[1].shape = (const int64_t[]){ROWS};
  changing_symbols[0].max = 9;
  CHECK_FAILS(run(), KILN_SHAPE_MISMATCH, "input 1 \"z\"");
}

static const int64_t s0[] = {0};
static int32_t asserts(kiln_rt_run *run_) {
  return kiln_rt_assert_failed(run_, "expected more", s0, 1);
}
static int32_t fails_with_ok(kiln_rt_run *run_) { return kiln_rt_fail(run_, KILN_OK, NULL); }

static void test_main(void) {
  start(ROWS);
  changing_main = asserts;
  CHECK_FAILS(run(), KILN_ASSERTION_FAILED,
              "expected more: s0 = 10 (dimension 0 of input 0 \"x\")");
  static const char *const twice[] = {"2*s0", "s0"};
  changing.expressions = twice; /* in a dimension that is not the symbol itself */
  CHECK_FAILS(run(), KILN_ASSERTION_FAILED, "s0 = 10 (input 0 \"x\")");
  changing.flags = 0;
  CHECK_FAILS(run(), KILN_ASSERTION_FAILED, "expected more: s0 = 10");
  CHECK(!strstr(kiln_last_error(), "input"));
  start(ROWS);
  changing_inputs[0].shape = (const int64_t[]){ROWS};
  changing_main = asserts;
  CHECK_FAILS(run(), KILN_ASSERTION_FAILED, "input 1 \"z\"");
  start(ROWS);
  changing_main = fails_with_ok;
  CHECK_FAILS(run(), KILN_INTERNAL, "");
}

static void ignore(void *ctx, const kiln_profile_event *event) { (void)ctx, (void)event; }

static void test_parts(void) {
  /* No outputs; and a profile that cannot be taken. */
  start(ROWS);
  changing.num_outputs = 0;
  CHECK_OK(run());
  start(ROWS);
  kiln_options options = quiet_options(1);
  options.profile = ignore;
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  kiln_model_destroy(model);
  /* Weights that are written to: each model has a copy. */
  changing_constants[0].flags = KILN_RT_MUTABLE_BUFFER;
  CHECK_OK(run());
  /* No external weights: no file either. */
  start(ROWS);
  changing.flags |= KILN_RT_EXTERNAL_WEIGHTS;
  changing.weights_bytes = 0;
  changing.num_constants = 0;
  CHECK_OK(run());
  /* Constants that come later: one without elements is there already. */
  start(ROWS);
  changing.later_bytes = 16;
  for (int i = 0; i < 3; ++i)
    changing_constants[i].flags |= KILN_RT_LATER;
  changing_constants[0].flags = 0;
  CHECK_FAILS(run(), KILN_INVALID_ARGUMENT, "constant \"unplaced\" has no value");
  changing.num_constants = 0;
  CHECK_OK(run());
}

static int32_t set(const char *name, int64_t count) {
  kiln_model *model = create();
  tensor value;
  set_tensor(&value, z, DTYPE_F32, 1, count, 0);
  int32_t status = kiln_model_set_constant(model, name, &value.t);
  kiln_model_destroy(model);
  return status;
}

static void test_constants(void) {
  start(ROWS);
  CHECK_OK(set("w", 2));
  CHECK_OK(set("nothing", 0));
  CHECK_OK(set("unplaced", 2));
  changing_constants[0].bytes = 4;
  CHECK_FAILS(set("w", 2), KILN_INTERNAL, "the model contradicts itself");
  changing_constants[0].bytes = 8;
  changing_constants[0].cell = 3;
  CHECK_FAILS(set("w", 2), KILN_INTERNAL, "the model contradicts itself");
  changing_constants[0].cell = 1;
  CHECK_FAILS(set("w", 2), KILN_INTERNAL, "the model contradicts itself");
  changing_constants[0].cell = 0;
  changing_constants[0].offset = 17;
  CHECK_FAILS(set("w", 2), KILN_INTERNAL, "lies outside the model's weights");
  changing_constants[0].offset = 12;
  CHECK_FAILS(set("w", 2), KILN_INTERNAL, "lies outside the model's weights");
}

int main(void) {
  test_unfit();
  test_texts();
  test_properties();
  test_ranges();
  test_main();
  test_parts();
  test_constants();
  puts("changing-test: passed");
  return 0;
}
