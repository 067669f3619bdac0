/* Rows of constants that are replaced: as they are, in other layouts, and where more was made of them. */
#include "harness.h"
#include "layouts.h"

static kiln_model *create(void) {
  kiln_options options = quiet_options(1);
  kiln_model *model;
  CHECK_OK(kiln_model_create(&options, &model));
  return model;
}

static layouts get(kiln_model *model) {
  DLManagedTensorVersioned *outputs[1] = {NULL};
  CHECK_OK(kiln_model_run(model, NULL, 0, outputs, 1, NULL));
  layouts result;
  memcpy(&result, outputs[0]->dl_tensor.data, sizeof result);
  outputs[0]->deleter(outputs[0]);
  return result;
}

static int32_t set(kiln_model *model, const char *name, void *data, int64_t rows, int64_t columns) {
  tensor value;
  set_tensor(&value, data, DTYPE_F32, columns < 0 ? 1 : 2, rows, columns);
  return kiln_model_set_constant(model, name, &value.t);
}

static void test_plain(void) {
  kiln_model *model = create();
  float rows[] = {1, 2, 3, 4};
  CHECK_OK(set(model, "plain[1:3]", rows, 2, 2));
  const float expected[] = {0, 0, 1, 2, 3, 4, 0, 0};
  CHECK(memcmp(get(model).plain, expected, sizeof expected) == 0);
  CHECK_OK(set(model, "plain[0:0]", rows, 0, 2));
  CHECK_OK(set(model, "plain[4:4]", rows, 0, 2));
  CHECK_OK(set(model, "plain[3:4]", rows, 1, 2));
  CHECK(get(model).plain[6] == 1);
  CHECK_OK(set(model, "empty[1:2]", rows, 1, 0));
  kiln_model_destroy(model);
}

static void check_panels(kiln_model *model, const float *w) {
  layouts all = get(model);
  for (int row = 0; row < 8; ++row)
    for (int k = 0; k < 3; ++k) {
      float expected = row < 5 ? w[3 * row + k] : 0;
      CHECK(all.in_panels[row / 4 * 12 + k * 4 + row % 4] == expected);
      CHECK(row >= 5 || all.transposed[5 * k + row] == expected);
    }
}

/* Every range of rows, from both names, with and without strides. */
static void test_panels(void) {
  kiln_model *model = create(), *other = create();
  float w[15], zeros[15] = {0}, next = 1;
  for (int i = 0; i < 15; ++i)
    w[i] = next++;
  CHECK_OK(set(model, "panels", w, 5, 3));
  check_panels(model, w);
  for (int begin = 0; begin < 5; ++begin)
    for (int end = begin; end <= 5; ++end) {
      float spread[30], *rows = w + 3 * begin;
      for (int i = 0; i < 3 * (end - begin); ++i)
        spread[2 * i] = rows[i] = next++;
      char name[32];
      snprintf(name, sizeof name, "%s[%d:%d]", end % 2 ? "panels" : "tied", begin, end);
      tensor value;
      set_tensor(&value, begin % 2 ? spread : rows, DTYPE_F32, 2, end - begin, 3);
      if (begin % 2)
        set_strides(&value, 6, 2);
      CHECK_OK(kiln_model_set_constant(model, name, &value.t));
      check_panels(model, w);
    }
  check_panels(other, zeros);
  kiln_model_destroy(model);
  kiln_model_destroy(other);
}

static void test_vector(void) {
  kiln_model *model = create();
  float values[] = {1, 2, 3};
  CHECK_OK(set(model, "vector", values, 3, -1));
  values[0] = 4, values[1] = 5;
  CHECK_OK(set(model, "vector[1:3]", values, 2, -1));
  const float expected[] = {1, 0, 4, 0, 5, 0};
  CHECK(memcmp(get(model).in_pairs, expected, sizeof expected) == 0);
  kiln_model_destroy(model);
}

static void test_bytes(void) {
  kiln_model *model = create();
  uint8_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8}, expected[32] = {0};
  tensor value;
  set_tensor(&value, rows, (DLDataType){kDLUInt, 8, 1}, 2, 2, 4);
  CHECK_OK(kiln_model_set_constant(model, "bytes[2:4]", &value.t));
  memcpy(expected + 8, rows, 8);
  CHECK(memcmp(get(model).in_bytes, expected, sizeof expected) == 0);
  kiln_model_destroy(model);
}

static void test_others(void) {
  kiln_model *model = create();
  float rows[] = {10, 20, 30, 40, 50, 60, 70, 80};
  CHECK_OK(set(model, "doubled[1:3]", rows, 2, -1));
  const float doubled[] = {1, 10, 20, 4}, twice[] = {2, 20, 40, 8};
  layouts all = get(model);
  CHECK(memcmp(all.doubled, doubled, 16) == 0 && memcmp(all.twice, twice, 16) == 0);
  CHECK_FAILS(set(model, "lost[1:3]", rows, 2, -1), KILN_UNSUPPORTED,
              "constant \"lost\": its rows cannot be replaced alone, since compilation has mixed");
  CHECK_FAILS(set(model, "chained[1:3]", rows, 2, 2), KILN_UNSUPPORTED, "give the whole tensor");
  CHECK_OK(set(model, "lost", rows, 4, -1));
  CHECK_OK(set(model, "chained", rows, 4, 2));
  all = get(model);
  CHECK(all.lost_twice[3] == 80 && all.chained_twice[1] == 60 && all.chained_twice[4] == 40);
  kiln_model_destroy(model);
}

static void test_bad_rows(void) {
  kiln_model *model = create();
  float rows[8] = {0};
  static const char *const unknown[] = {"plain[1:3",
                                        "plain[1:3]x",
                                        "plain 1:3]",
                                        "plain[13]",
                                        "plain[1:]",
                                        "plain[:3]",
                                        "plain[-1:3]",
                                        "plain[1: 3]",
                                        "plan[1:3]",
                                        "[1:3]",
                                        "plain]1:3[",
                                        "plain:[1]",
                                        "plain[1:99999999999999999999]"};
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; ++i)
    CHECK_FAILS(set(model, unknown[i], rows, 2, 2), KILN_INVALID_ARGUMENT,
                "the model has no constant named");
  CHECK_FAILS(set(model, "plain[3:5]", rows, 2, 2), KILN_SHAPE_MISMATCH,
              "constant \"plain[3:5]\": expected rows within [0:4]");
  CHECK_FAILS(set(model, "plain[3:2]", rows, 2, 2), KILN_SHAPE_MISMATCH, "expected rows within");
  CHECK_FAILS(set(model, "scalar[0:1]", rows, 1, -1), KILN_SHAPE_MISMATCH, "a scalar has no rows");
  CHECK_FAILS(set(model, "plain[1:3]", rows, 4, 2), KILN_SHAPE_MISMATCH,
              "constant \"plain[1:3]\": expected float32 [2, 2], got float32 [4, 2]");
  CHECK_FAILS(set(model, "plain[1:3]", rows, 4, -1), KILN_SHAPE_MISMATCH,
              "expected float32 [2, 2]");
  CHECK_FAILS(set(model, "bytes[1:3]", rows, 2, 4), KILN_INVALID_ARGUMENT, "expected uint8 [2, 4]");
  CHECK_FAILS(kiln_model_set_constant(model, "plain[1:3]", NULL), KILN_INVALID_ARGUMENT,
              "constant \"plain[1:3]\": expected a tensor, got NULL");
  layouts all = get(model);
  for (int i = 0; i < 8; ++i)
    CHECK(all.plain[i] == 0);
  kiln_model_destroy(model);
}

int main(void) {
  test_plain();
  test_panels();
  test_vector();
  test_bytes();
  test_others();
  test_bad_rows();
  puts("layouts-test: passed");
  return 0;
}
