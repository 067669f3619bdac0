/* Debug printing: elements and statistics of every dtype, files, the environment. */
#include "../../runtime/debug_internal.h"
#include "harness.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

uint32_t shown_level;
const int64_t *shown_strides;

static const char *describe(const char *dtype, uint8_t code, uint8_t bits, const void *data,
                            int rank, int64_t a, int64_t b) {
  static char memory[KILN_DEBUG_DESCRIPTION_BYTES];
  const int64_t shape[] = {a, b};
  uint64_t count = (uint64_t)((rank > 0 ? a : 1) * (rank > 1 ? b : 1));
  kiln_debug_tensor tensor = {dtype, code, bits, (uint16_t)rank, shape, count, data};
  kiln_text text = {memory, sizeof memory, 0};
  kiln_debug_describe(&text, &tensor);
  return memory;
}

/* The text must begin with `values` and contain `part`. */
static void check_text(const char *text, const char *values, const char *part) {
  if (strncmp(text, values, strlen(values)) != 0 || !strstr(text, part)) {
    fprintf(stderr, "expected \"%s\" and \"%s\" in:\n%s\n", values, part, text);
    exit(1);
  }
}

static void test_numbers(void) {
  const float f32[] = {1, -2.5f, 0.1f, 4, 5, 6};
  check_text(describe("float32", kDLFloat, 32, f32, 2, 2, 3),
             "[[1, -2.5, 0.1],\n [4, 5, 6]]\nNumber of elements: 6\nSize: [2, 3]\nDtype: float32\n"
             "Mean value: 2.2666667\nMin value: -2.5\nMax value: 6\nStd value: 3.2690468\n",
             "");
  const double f64[] = {0.1, 1e300};
  check_text(describe("float64", kDLFloat, 64, f64, 1, 2, 0), "[0.1, 1e+300]\n", "Size: [2]\n");
  const uint16_t f16[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0xfc00, 0x7e00};
  check_text(describe("float16", kDLFloat, 16, f16, 1, 4, 0), "[1, -2, 5.96e-08, 6.55e+04]\n",
             "Dtype: float16\n");
  check_text(describe("float16", kDLFloat, 16, f16, 1, 6, 0), "[1, -2, 5.96e-08, 6.55e+04, -inf, ",
             "Min value: nan\nMax value: nan\nStd value: nan\nNaN: 1, infinite: 1\n");
  const uint16_t bf16[] = {0x3f80, 0xc040, 0x7f80};
  check_text(
      describe("bfloat16", kDLBfloat, 16, bf16, 1, 3, 0), "[1, -3, inf]\n",
      "Mean value: inf\nMin value: -3\nMax value: inf\nStd value: nan\nNaN: 0, infinite: 1\n");
  const uint8_t f8[] = {0x38, 0x7e, 0x7f, 0x01};
  check_text(describe("float8_e4m3fn", kDLFloat8_e4m3fn, 8, f8, 1, 4, 0), "[1, 448, nan, 0.001953]",
             "NaN: 1,");
  const uint8_t fnuz[] = {0x40, 0x7f, 0x80};
  check_text(describe("float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8, fnuz, 1, 3, 0), "[1, 240, nan]",
             "");
  const uint8_t e5m2[] = {0x3c, 0x7c, 0xfd, 0x7b};
  check_text(describe("float8_e5m2", kDLFloat8_e5m2, 8, e5m2, 1, 4, 0), "[1, inf, nan, 5.734e+04]",
             "");
  const uint8_t e5m2fnuz[] = {0x40, 0x7f, 0x80};
  check_text(describe("float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8, e5m2fnuz, 1, 3, 0),
             "[1, 5.734e+04, nan]", "");
}

static void test_integers(void) {
  const int64_t i64[] = {INT64_MIN, INT64_MAX, INT64_MAX - 1};
  check_text(describe("int64", kDLInt, 64, i64, 1, 3, 0), "[-9223372036854775808, ",
             "Min value: -9223372036854775808\nMax value: 9223372036854775807\n");
  const uint64_t u64[] = {UINT64_MAX - 1, UINT64_MAX};
  check_text(describe("uint64", kDLUInt, 64, u64, 1, 2, 0), "[18446744073709551614, ",
             "Min value: 18446744073709551614\nMax value: 18446744073709551615\n");
  const int8_t i8[] = {-128, 127};
  check_text(describe("int8", kDLInt, 8, i8, 1, 2, 0), "[-128, 127]", "Mean value: -0.5\n");
  const int16_t i16[] = {-300, 2};
  check_text(describe("int16", kDLInt, 16, i16, 1, 2, 0), "[-300, 2]", "Max value: 2\n");
  const uint8_t u8[] = {255, 0};
  check_text(describe("uint8", kDLUInt, 8, u8, 1, 2, 0), "[255, 0]", "Max value: 255\n");
  const int32_t i32[] = {-7};
  check_text(describe("int32", kDLInt, 32, i32, 0, 0, 0), "-7\nNumber of elements: 1\nSize: []\n",
             "Std value: nan\n");
  const uint8_t bools[] = {1, 0, 1};
  check_text(describe("bool", kDLBool, 8, bools, 1, 3, 0), "[True, False, True]\n",
             "Mean value: 0.66666667\nMin value: False\nMax value: True\n");
}

static void test_others(void) {
  const float complex64[] = {1, -2, 3, 0.5f};
  check_text(describe("complex64", kDLComplex, 64, complex64, 1, 2, 0), "[1-2j, 3+0.5j]\n",
             "Mean value: 2-0.75j\nStd value: 2.263");
  const double complex128[] = {NAN, -NAN};
  check_text(describe("complex128", kDLComplex, 128, complex128, 0, 0, 0), "nan+nanj\n", "NaN: 1,");
  const uint16_t complex32[] = {0x3c00, 0xc000};
  check_text(describe("complex32", kDLComplex, 32, complex32, 0, 0, 0), "1-2j\n", "");
  check_text(describe("float32", kDLFloat, 32, NULL, 2, 0, 3),
             "[]\nNumber of elements: 0\nSize: [0, 3]\nDtype: float32\n", "");
  CHECK(!strstr(describe("float32", kDLFloat, 32, NULL, 1, 0, 0), "Mean"));
  /* As many as are printed, of the longest kind, and one more. */
  double many[2 * 65];
  for (int i = 0; i < 2 * 65; ++i)
    many[i] = -1.234567890123456e-300;
  check_text(describe("complex128", kDLComplex, 128, many, 2, 64, 1),
             "[[-1.234567890123456e-300-1.234567890123456e-300j],\n [-1.2", "Size: [64, 1]\n");
  check_text(describe("complex128", kDLComplex, 128, many, 2, 65, 1), "Number of elements: 65\n",
             "");
}

/*===-- Files ---------------------------------------------------------------===*/

static size_t read_file(const char *path, char *data, size_t size) {
  FILE *file = fopen(path, "rb");
  CHECK(file);
  size_t bytes = fread(data, 1, size, file);
  fclose(file);
  return bytes;
}

static char folder[] = "/tmp/kiln-debug-test-XXXXXX";

static void check_saved(const char *header, uint8_t code, uint8_t bits, const void *data, int rank,
                        int64_t a, int64_t b) {
  char path[64], contents[512];
  snprintf(path, sizeof path, "%s/one.npy", folder);
  const int64_t shape[] = {a, b};
  uint64_t count = (uint64_t)((rank > 0 ? a : 1) * (rank > 1 ? b : 1)), bytes = count * bits / 8;
  kiln_debug_tensor tensor = {"", code, bits, (uint16_t)rank, shape, count, data};
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  CHECK(file >= 0 && kiln_debug_save(file, &tensor) && close(file) == 0);
  size_t length = read_file(path, contents, sizeof contents);
  CHECK(memcmp(contents, "\x93NUMPY\x01\x00\x76\x00", 10) == 0);
  CHECK(length == 128 + bytes && contents[127] == '\n');
  CHECK(strncmp(contents + 10, header, strlen(header)) == 0);
  CHECK(bytes == 0 || memcmp(contents + 128, data, bytes) == 0);
  CHECK(unlink(path) == 0);
}

static void test_save(void) {
  const double data[] = {1, 2, 3, 4, 5, 6};
  check_saved("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  ", kDLFloat, 32, data,
              2, 2, 3);
  check_saved("{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }  ", kDLInt, 64, data, 1, 3,
              0);
  check_saved("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", kDLUInt, 8, data, 0, 0, 0);
  check_saved("{'descr': '|b1', 'fortran_order': False, 'shape': (0, 3), }", kDLBool, 8, NULL, 2, 0,
              3);
  check_saved("{'descr': '|V2', ", kDLBfloat, 16, data, 1, 4, 0);
  check_saved("{'descr': '|V1', ", kDLFloat8_e5m2, 8, data, 1, 4, 0);
  check_saved("{'descr': '|V4', ", kDLComplex, 32, data, 1, 2, 0);
  check_saved("{'descr': '<c16', ", kDLComplex, 128, data, 1, 3, 0);
  int full = open("/dev/full", O_WRONLY);
  kiln_debug_tensor tensor = {"", kDLFloat, 64, 0, NULL, 1, data};
  CHECK(full >= 0 && !kiln_debug_save(full, &tensor));
  close(full);
}

/*===-- Runs ----------------------------------------------------------------===*/

static kiln_model *model;

static int32_t run(int64_t rows) {
  float x[] = {1, 2, 3, 4, 5, 6}, y[6];
  tensor input, output;
  DLManagedTensorVersioned managed, *outputs[] = {&managed};
  set_tensor(&input, x, DTYPE_F32, 2, rows, 2);
  set_tensor(&output, y, DTYPE_F32, 2, 2, rows);
  set_strides(&output, 1, 2);
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 1, NULL);
  CHECK(status != KILN_OK || rows == 0 || y[0] == 2);
  return status;
}

/* Standard error of a run, which goes to a file. */
static const char *capture(int64_t rows) {
  static char text[8192];
  char path[64];
  snprintf(path, sizeof path, "%s/stderr", folder);
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666), saved = dup(STDERR_FILENO);
  dup2(file, STDERR_FILENO);
  int32_t status = run(rows);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  text[read_file(path, text, sizeof text - 1)] = 0;
  CHECK(unlink(path) == 0);
  CHECK_OK(status);
  return text;
}

static void test_print(void) {
  shown_level = KILN_RT_DEBUG_NAMES;
  CHECK(strcmp(capture(3), "[  before_launch - add_one - node 'add' (m.py:3)  ]\n"
                           "[  after_launch - add_one - node 'add' (m.py:3)  ]\n") == 0);
  setenv("KILN_DEBUG_PRINT", "2", 1);
  const char *text = capture(3);
  check_text(text, "[  inputs - x  ]:\n[[1, 2],\n [3, 4],\n [5, 6]]\n",
             "[  before_launch - add_one");
  /* By its sizes, not as it lies in memory. */
  check_text(strstr(text, "[  after_launch - add_one - ../y"),
             "[  after_launch - add_one - ../y\"  ]:\nOf: node 'add' (m.py:3)\n"
             "[[2, 4, 6],\n [3, 5, 7]]\n",
             "Size: [2, 3]\n");
  check_text(capture(0), "[  inputs - x  ]:\n[]\n", "after_launch");
  setenv("KILN_DEBUG_PRINT", "0", 1);
  CHECK(strcmp(capture(3), "") == 0);
  setenv("KILN_DEBUG_PRINT", "", 1);
  CHECK(strstr(capture(3), "before_launch - add_one - node"));
}

static void test_environment(void) {
  shown_level = KILN_RT_DEBUG_PRINT;
  for (const char *const *bad = (const char *const[]){"4", "-1", "x", "22", NULL}; *bad; ++bad) {
    setenv("KILN_DEBUG_PRINT", *bad, 1);
    CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "expected 0, 1, 2 or 3");
  }
  setenv("KILN_DEBUG_PRINT", "3", 1);
  CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "--debug-print=2, which can only be lowered");
  setenv("KILN_DEBUG_PRINT", "1", 1);
  unsetenv("KILN_DEBUG_DIR");
  CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "KILN_DEBUG_DIR is not set");
  setenv("KILN_DEBUG_DIR", "/proc/none", 1);
  CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "KILN_DEBUG_DIR: cannot write /proc/none: ");
  char path[8192];
  snprintf(path, sizeof path, "%s/file", folder);
  close(open(path, O_WRONLY | O_CREAT, 0666));
  setenv("KILN_DEBUG_DIR", path, 1);
  CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "Not a directory");
  CHECK(unlink(path) == 0);
  memset(path, 'x', sizeof path - 1);
  path[sizeof path - 1] = 0;
  setenv("KILN_DEBUG_DIR", path, 1);
  CHECK_FAILS(run(3), KILN_INVALID_ARGUMENT, "is too long");
}

/* The folder of a run has been made, and holds `name` of so many bytes. */
static void check_file(const char *run_folder, const char *name, size_t bytes, char *contents) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s/%s", folder, run_folder, name);
  CHECK(read_file(path, contents, 8192) == bytes || bytes == 0);
  CHECK(unlink(path) == 0);
}

static void test_folders(void) {
  char path[256], contents[8193];
  setenv("KILN_DEBUG_DIR", folder, 1);
  setenv("KILN_DEBUG_PRINT", "1", 1);
  const int taken = 2; /* by another process, say */
  for (int i = 0; i < taken; ++i) {
    snprintf(path, sizeof path, "%s/run%d", folder, i);
    CHECK(mkdir(path, 0777) == 0);
  }
  CHECK_OK(run(3));
  snprintf(path, sizeof path, "run%d", taken);
  check_file(path, "000000-inputs-inputs-0-x.npy", 128 + 24, contents);
  check_file(path, "000001-before_launch-add_one-0-x.npy", 128 + 24, contents);
  check_file(path, "000001-before_launch-add_one-1-.._y_.npy", 128 + 24, contents);
  check_file(path, "000001-after_launch-add_one-0-x.npy", 128 + 24, contents);
  check_file(path, "000001-after_launch-add_one-1-.._y_.npy", 128 + 24, contents);
  const float expected[] = {2, 4, 6, 3, 5, 7};
  CHECK(memcmp(contents + 128, expected, sizeof expected) == 0);
  memset(contents, 0, sizeof contents);
  check_file(path, "index.jsonl", 0, contents);
  CHECK(strstr(contents,
               "{\"step\": 1, \"time\": \"after_launch\", \"kernel\": \"add_one\", \"where\": "
               "\"node 'add' (m.py:3)\", \"role\": \"result\", \"name\": \"../y\\\"\", "
               "\"dtype\": \"float32\", \"node\": \"add\", \"output\": 1, \"file\": "
               "\"000001-after_launch-add_one-1-.._y_.npy\", \"index\": 0, \"shape\": "
               "[2, 3]}\n"));
  for (int i = 0; i <= taken; ++i) {
    snprintf(path, sizeof path, "%s/run%d", folder, i);
    CHECK(rmdir(path) == 0);
  }
}

static void test_sizes(void) {
  static const int64_t wide[] = {INT64_MAX, 2};
  setenv("KILN_DEBUG_PRINT", "2", 1);
  shown_strides = wide;
  CHECK_FAILS(run(3), KILN_INTERNAL, "add_one: the sizes of ../y\" are out of range");
  shown_strides = NULL;
}

int main(void) {
  CHECK(mkdtemp(folder));
  test_numbers();
  test_integers();
  test_others();
  test_save();
  kiln_options options = quiet_options(1);
  CHECK_OK(kiln_model_create(&options, &model));
  test_print();
  test_environment();
  test_folders();
  test_sizes();
  kiln_model_destroy(model);
  CHECK(rmdir(folder) == 0);
  return 0;
}
