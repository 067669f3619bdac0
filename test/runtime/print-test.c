/*===- print-test.c - Numbers and tensors as text ------------------------------===*
 *
 * The texts are those of Python and PyTorch.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/print.h"
#include "../../runtime/runtime.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void check(const char *got, uint64_t length, const char *expected, int line) {
  if (length == strlen(expected) && memcmp(got, expected, length) == 0)
    return;
  fprintf(stderr, "print-test.c:%d: expected \"%s\", got \"%.*s\"\n", line, expected, (int)length,
          got);
  exit(1);
}

typedef void printer(kiln_printed *text, const DLTensor *tensor);

/* Measured and written in memory of just that size. */
static void print(printer *function, const void *data, uint8_t code, uint8_t bits, int rank,
                  const int64_t *shape, const int64_t *strides, const char *expected, int line) {
  DLTensor tensor = {.data = (void *)(uintptr_t)data,
                     .ndim = rank,
                     .dtype = {code, bits, 1},
                     .shape = (int64_t *)(uintptr_t)shape,
                     .strides = (int64_t *)(uintptr_t)strides};
  kiln_printed text = {NULL, 0, 0};
  function(&text, &tensor);
  uint64_t length = text.used;
  char *memory = malloc(length + (length == 0));
  text = (kiln_printed){memory, 0, 0};
  function(&text, &tensor);
  check(memory, text.used, expected, line);
  check(memory, length, expected, line);
  free(memory);
}

#define NUMBER(type, code, bits, expected, ...)                                                    \
  print(kiln_print_number, (const type[]){__VA_ARGS__}, code, bits, 0, NULL, NULL, expected,       \
        __LINE__)
#define VECTOR(type, code, bits, expected, ...)                                                    \
  print(kiln_print_tensor, (const type[]){__VA_ARGS__}, code, bits, 1,                             \
        (const int64_t[]){sizeof((const type[]){__VA_ARGS__}) * 8 / bits}, (const int64_t[]){1},   \
        expected, __LINE__)

/*===-- Numbers -------------------------------------------------------------===*/

static void test_numbers(void) {
  NUMBER(double, kDLFloat, 64, "0.1", 0.1);
  NUMBER(double, kDLFloat, 64, "-0.0", -0.0);
  NUMBER(double, kDLFloat, 64, "1.94", 1.94);
  NUMBER(double, kDLFloat, 64, "-9.4", -9.4);
  NUMBER(double, kDLFloat, 64, "5e-324", 5e-324);
  NUMBER(double, kDLFloat, 64, "1.7976931348623157e+308", 1.7976931348623157e308);
  NUMBER(double, kDLFloat, 64, "0.0001", 0.0001);
  NUMBER(double, kDLFloat, 64, "9.9e-05", 9.9e-5);
  NUMBER(double, kDLFloat, 64, "9999999999999998.0", 9999999999999998.0);
  NUMBER(double, kDLFloat, 64, "1e+16", 1e16);
  NUMBER(double, kDLFloat, 64, "7.120236347223045e-307", 0x1p-1017); /* not its nearest 16 digits */
  NUMBER(double, kDLFloat, 64, "-7.120236347223045e-307", -0x1p-1017);
  NUMBER(double, kDLFloat, 64, "nan", -NAN);
  NUMBER(double, kDLFloat, 64, "-inf", -INFINITY);
  NUMBER(float, kDLFloat, 32, "0.10000000149011612", 0.1f);
  NUMBER(uint16_t, kDLFloat, 16, "0.0999755859375", 0x2e66);
  NUMBER(uint16_t, kDLBfloat, 16, "3.140625", 0x4049);
  NUMBER(uint8_t, kDLFloat8_e4m3fn, 8, "nan", 0xff);
  NUMBER(uint8_t, kDLFloat8_e5m2, 8, "57344.0", 0x7b);
  NUMBER(int64_t, kDLInt, 64, "-9223372036854775808", INT64_MIN);
  NUMBER(uint64_t, kDLUInt, 64, "18446744073709551615", UINT64_MAX);
  NUMBER(int8_t, kDLInt, 8, "-128", -128);
  NUMBER(uint8_t, kDLBool, 8, "True", 1);
  NUMBER(uint8_t, kDLBool, 8, "False", 0);
  NUMBER(float, kDLComplex, 64, "(1+2.5j)", 1, 2.5f);
  NUMBER(float, kDLComplex, 64, "2j", 0, 2);
  NUMBER(float, kDLComplex, 64, "(-0-2j)", -0.0f, -2);
  NUMBER(double, kDLComplex, 128, "(nan+infj)", NAN, INFINITY);
  kiln_digits digits = kiln_write_real('f', 60, -1e308);
  if (digits.length != 1 + 309 + 1 + 60)
    exit(2);
  digits = kiln_write_real('g', 4, 123456);
  check(digits.text, (uint64_t)digits.length, "1.235e+05", __LINE__);
  digits = kiln_write_real('e', 0, -NAN);
  check(digits.text, (uint64_t)digits.length, "nan", __LINE__);
}

/*===-- Tensors -------------------------------------------------------------===*/

static void test_tensors(void) {
  VECTOR(float, kDLFloat, 32, "tensor([1.0000, 2.5000])", 1, 2.5f);
  VECTOR(float, kDLFloat, 32, "tensor([1., inf, -0., nan])", 1, INFINITY, -0.0f, NAN);
  VECTOR(float, kDLFloat, 32, "tensor([nan, -inf])", NAN, -INFINITY);
  VECTOR(float, kDLFloat, 32, "tensor([1.0000e+00, 1.0010e+03])", 1, 1001);
  VECTOR(float, kDLFloat, 32, "tensor([1.0000e-05,        nan, 0.0000e+00])", 1e-5f, NAN, 0);
  VECTOR(double, kDLFloat, 64, "tensor([0.5000,    inf], dtype=torch.float64)", 0.5, INFINITY);
  VECTOR(uint16_t, kDLFloat, 16, "tensor([1., 2.], dtype=torch.float16)", 0x3c00, 0x4000);
  VECTOR(uint16_t, kDLBfloat, 16, "tensor([1.], dtype=torch.bfloat16)", 0x3f80);
  VECTOR(uint8_t, kDLFloat8_e4m3fn, 8, "tensor([nan, 1.], dtype=torch.float8_e4m3fn)", 0x7f, 0x38);
  VECTOR(uint8_t, kDLFloat8_e4m3fnuz, 8, "tensor([nan], dtype=torch.float8_e4m3fnuz)", 0x80);
  VECTOR(uint8_t, kDLFloat8_e5m2, 8, "tensor([inf], dtype=torch.float8_e5m2)", 0x7c);
  VECTOR(uint8_t, kDLFloat8_e5m2fnuz, 8, "tensor([nan], dtype=torch.float8_e5m2fnuz)", 0x80);
  VECTOR(uint8_t, kDLBool, 8, "tensor([ True, False])", 1, 0);
  VECTOR(int64_t, kDLInt, 64, "tensor([  1, -10])", 1, -10);
  VECTOR(int32_t, kDLInt, 32, "tensor([7], dtype=torch.int32)", 7);
  VECTOR(int16_t, kDLInt, 16, "tensor([-7], dtype=torch.int16)", -7);
  VECTOR(int8_t, kDLInt, 8, "tensor([-7], dtype=torch.int8)", -7);
  VECTOR(uint8_t, kDLUInt, 8, "tensor([255], dtype=torch.uint8)", 255);
  VECTOR(uint16_t, kDLUInt, 16, "tensor([65535], dtype=torch.uint16)", 65535);
  VECTOR(uint32_t, kDLUInt, 32, "tensor([1], dtype=torch.uint32)", 1);
  VECTOR(uint64_t, kDLUInt, 64, "tensor([18446744073709551615], dtype=torch.uint64)", UINT64_MAX);
  VECTOR(float, kDLComplex, 64, "tensor([1.+2.j, 3.-4.j])", 1, 2, 3, -4);
  VECTOR(double, kDLComplex, 128, "tensor([0.5000+nanj], dtype=torch.complex128)", 0.5, NAN);

  static const float values[] = {1, 2, 3, 4, 5, 6};
  print(kiln_print_tensor, values, kDLFloat, 32, 0, NULL, NULL, "tensor(1.)", __LINE__);
  /* Columns first, and a dim between them. */
  print(kiln_print_tensor, values, kDLFloat, 32, 3, (const int64_t[]){2, 1, 3},
        (const int64_t[]){1, 7, 2}, "tensor([[[1., 3., 5.]],\n\n        [[2., 4., 6.]]])",
        __LINE__);
  print(kiln_print_tensor, NULL, kDLFloat, 32, 1, (const int64_t[]){0}, (const int64_t[]){1},
        "tensor([])", __LINE__);
  print(kiln_print_tensor, NULL, kDLInt, 64, 2, (const int64_t[]){0, 3}, (const int64_t[]){3, 1},
        "tensor([], size=(0, 3), dtype=torch.int64)", __LINE__);
}

/* Lines of 80, and parts of what has more than 1000 elements. */
static void test_long(void) {
  static int32_t numbers[1001];
  for (int i = 0; i < 1001; ++i)
    numbers[i] = i;
  print(kiln_print_tensor, numbers, kDLInt, 32, 1, (const int64_t[]){20}, (const int64_t[]){1},
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19], dtype=torch.int32)",
        __LINE__);
  print(kiln_print_tensor, numbers, kDLInt, 32, 1, (const int64_t[]){16}, (const int64_t[]){1},
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15],\n"
        "       dtype=torch.int32)",
        __LINE__);
  print(kiln_print_tensor, numbers, kDLInt, 32, 1, (const int64_t[]){1001}, (const int64_t[]){1},
        "tensor([   0,    1,    2,  ...,  998,  999, 1000], dtype=torch.int32)", __LINE__);
  print(kiln_print_tensor, numbers, kDLInt, 32, 2, (const int64_t[]){501, 2},
        (const int64_t[]){1, 1},
        "tensor([[  0,   1],\n        [  1,   2],\n        [  2,   3],\n        ...,\n"
        "        [498, 499],\n        [499, 500],\n        [500, 501]], dtype=torch.int32)",
        __LINE__);
}

/*===-- What is written -----------------------------------------------------===*/

static DLTensor text_of(const char *text, int64_t *length) {
  *length = (int64_t)strlen(text);
  return (DLTensor){
      .data = (void *)(uintptr_t)text, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = length};
}

static void *has_no_memory(void *ctx, size_t bytes, size_t align) {
  (void)ctx, (void)bytes, (void)align;
  return NULL;
}

static void test_output(void) {
  kiln_model model = {.device = NULL};
  kiln_context run = {.model = &model};
  char message[128] = "";
  kiln_custom_op_context context = {.struct_size = sizeof context,
                                    .message = message,
                                    .message_size = sizeof message,
                                    .parallel_ctx = &run.run};
  double value = 2.5;
  int64_t lengths[2];
  DLTensor kinds = text_of("snf2t", lengths), text = text_of("%s{} ", lengths + 1);
  DLTensor number = {.data = &value, .dtype = {kDLFloat, 64, 1}};
  const DLTensor *inputs[] = {&kinds, &text, &number, &number, &number};
  int ends[2], kept = dup(1);
  if (pipe(ends) != 0 || dup2(ends[1], 1) < 0)
    exit(2);
  int32_t status = kiln_rt_print(inputs, 5, NULL, 0, &context);
  close(1); /* nothing to print to */
  int32_t closed = kiln_rt_print(inputs, 5, NULL, 0, &context);
  int full = open("/dev/full", O_WRONLY);
  dup2(full, 1);
  int32_t unwritten = kiln_rt_print(inputs, 5, NULL, 0, &context);
  dup2(kept, 1);
  char got[64];
  ssize_t length = read(ends[0], got, sizeof got);
  check(got, (uint64_t)length, "%s{} 2.52.50tensor(2.5000, dtype=torch.float64)\n", __LINE__);
  check(message, strlen(message), "cannot write to standard output: No space left on device",
        __LINE__);
  model.allocator.alloc = has_no_memory;
  message[0] = 0;
  if (kiln_rt_print(inputs, 5, NULL, 0, &context) != KILN_OUT_OF_MEMORY)
    exit(2);
  check(message, strlen(message), "out of memory for the text", __LINE__);
  if (status != KILN_OK || closed != KILN_OK || unwritten != KILN_INVALID_ARGUMENT)
    exit(2);
}

int main(void) {
  test_numbers();
  test_tensors();
  test_long();
  test_output();
  return 0;
}
