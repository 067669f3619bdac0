/*===- debug_tensor.c - Tensors as text and as files ------------------------===*/
#include "debug_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/*===-- Elements ------------------------------------------------------------===*/

/* A floating-point number of few bits, with its layout. Formats without infinities ("fn") have NaN
 * in their place; those without a negative zero ("fnuz") have NaN there. */
typedef struct {
  int exponent, mantissa, bias;
  enum { IEEE, FN, FNUZ } kind;
} float_format;

static double decode(uint32_t bits, const float_format *format) {
  uint32_t mask = (1u << format->mantissa) - 1, fraction = bits & mask;
  int most = (1 << format->exponent) - 1;
  int exponent = (int)(bits >> format->mantissa) & most;
  bool negative = bits >> (format->mantissa + format->exponent) & 1;
  if (format->kind == FNUZ && negative && !exponent && !fraction)
    return NAN;
  if (format->kind == FN && exponent == most && fraction == mask)
    return NAN;
  double value;
  if (format->kind == IEEE && exponent == most)
    value = fraction ? NAN : INFINITY;
  else
    value = exponent ? (double)(fraction + mask + 1) : (double)fraction;
  int scale = (exponent ? exponent : 1) - format->bias - format->mantissa;
  for (; scale > 0; --scale)
    value *= 2;
  for (; scale < 0; ++scale)
    value /= 2;
  return negative ? -value : value;
}

/* A real number: exact in one of the two. */
typedef struct {
  enum { SIGNED, UNSIGNED, REAL } kind;
  uint64_t integer;
  double value;
} number;

static number make_real(double value) { return (number){REAL, 0, value}; }

static number load_float(const char *data, uint8_t code, unsigned bits) {
  static const float_format half = {5, 10, 15, IEEE}, e4m3fn = {4, 3, 7, FN},
                            e4m3fnuz = {4, 3, 8, FNUZ}, e5m2 = {5, 2, 15, IEEE},
                            e5m2fnuz = {5, 2, 16, FNUZ};
  uint16_t word = 0;
  memcpy(&word, data, bits == 8 ? 1 : 2);
  if (code == kDLBfloat) {
    uint32_t wide = (uint32_t)word << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return make_real((double)value);
  }
  if (bits == 8)
    return make_real(decode(word, code == kDLFloat8_e4m3fn     ? &e4m3fn
                                  : code == kDLFloat8_e4m3fnuz ? &e4m3fnuz
                                  : code == kDLFloat8_e5m2     ? &e5m2
                                                               : &e5m2fnuz));
  if (bits == 16)
    return make_real(decode(word, &half));
  float single;
  double wide;
  memcpy(&single, data, sizeof single);
  if (bits == 32)
    return make_real((double)single);
  memcpy(&wide, data, sizeof wide);
  return make_real(wide);
}

static number load_integer(const char *data, bool is_signed, unsigned bits) {
  uint64_t value = 0;
  memcpy(&value, data, bits / 8); /* little-endian */
  if (is_signed)
    value = (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
  return (number){is_signed ? SIGNED : UNSIGNED, value,
                  is_signed ? (double)(int64_t)value : (double)value};
}

/* An element; complex ones have two parts, of which `part` is wanted. */
static number load(const kiln_debug_tensor *tensor, uint64_t index, int part) {
  size_t item = tensor->bits / 8;
  const char *data = (const char *)tensor->data + index * item;
  if (tensor->code == kDLInt || tensor->code == kDLUInt)
    return load_integer(data, tensor->code == kDLInt, tensor->bits);
  if (tensor->code == kDLBool)
    return (number){UNSIGNED, *data != 0, *data != 0};
  if (tensor->code == kDLComplex)
    return load_float(data + (size_t)part * item / 2, kDLFloat, tensor->bits / 2);
  return load_float(data, tensor->code, tensor->bits);
}

static bool is_less(number a, number b) {
  if (a.kind == SIGNED)
    return (int64_t)a.integer < (int64_t)b.integer;
  return a.kind == UNSIGNED ? a.integer < b.integer : a.value < b.value;
}

static void append_number(kiln_text *text, number x, unsigned bits) {
  if (x.kind == SIGNED)
    kiln_append(text, "%lld", (long long)x.integer);
  else if (x.kind == UNSIGNED)
    kiln_append(text, "%llu", (unsigned long long)x.integer);
  else if (x.value != x.value) /* whatever its sign */
    kiln_append(text, "nan");
  else
    kiln_append(text, "%.*g", bits > 32 ? 16 : bits > 16 ? 8 : 4, x.value);
}

/* The second part, if the tensor has complex elements. */
static void append_complex(kiln_text *text, const kiln_debug_tensor *tensor, number real,
                           number imaginary, unsigned bits) {
  append_number(text, real, bits);
  if (tensor->code != kDLComplex)
    return;
  bool has_sign = imaginary.value == imaginary.value && __builtin_signbit(imaginary.value);
  kiln_append(text, has_sign ? "" : "+");
  append_number(text, imaginary, bits);
  kiln_append(text, "j");
}

static void append_element(kiln_text *text, const kiln_debug_tensor *tensor, uint64_t index) {
  number real = load(tensor, index, 0);
  if (tensor->code == kDLBool)
    kiln_append(text, real.integer ? "True" : "False");
  else if (tensor->code == kDLComplex)
    append_complex(text, tensor, real, load(tensor, index, 1), tensor->bits / 2);
  else
    append_number(text, real, tensor->bits);
}

/*===-- Text ----------------------------------------------------------------===*/

/* Nested lists, as PyTorch prints them. */
static void append_values(kiln_text *text, const kiln_debug_tensor *tensor) {
  for (uint64_t i = 0; i < tensor->count; ++i) {
    uint64_t block = 1;
    int opened = 0;
    for (int d = tensor->rank - 1; d >= 0; --d) {
      block *= (uint64_t)tensor->shape[d];
      opened += i % block == 0;
    }
    if (i)
      kiln_append(text, opened ? ",\n%*s" : ", ", opened ? tensor->rank - opened : 0, "");
    for (int d = 0; d < opened; ++d)
      kiln_append(text, "[");
    append_element(text, tensor, i);
    block = 1;
    for (int d = tensor->rank - 1; d >= 0; --d) {
      block *= (uint64_t)tensor->shape[d];
      if ((i + 1) % block == 0)
        kiln_append(text, "]");
    }
  }
  kiln_append(text, "%s\n", tensor->count ? "" : "[]");
}

static double real_of(const kiln_debug_tensor *tensor, uint64_t i) {
  return load(tensor, i, 0).value;
}

static double imaginary_of(const kiln_debug_tensor *tensor, uint64_t i) {
  return tensor->code == kDLComplex ? load(tensor, i, 1).value : 0;
}

typedef struct {
  double real, imaginary, deviation;
} moments;

/* The mean, and the deviation from it as torch.std has it: over one less than the elements. */
static moments compute_moments(const kiln_debug_tensor *tensor) {
  double squares = 0, count = (double)tensor->count;
  moments result = {0};
  for (uint64_t i = 0; i < tensor->count; ++i) {
    result.real += real_of(tensor, i) / count;
    result.imaginary += imaginary_of(tensor, i) / count;
  }
  for (uint64_t i = 0; i < tensor->count; ++i) {
    double x = real_of(tensor, i) - result.real, y = imaginary_of(tensor, i) - result.imaginary;
    squares += x * x + y * y;
  }
  result.deviation = count > 1 ? __builtin_sqrt(squares / (count - 1)) : NAN;
  return result;
}

typedef struct {
  uint64_t least, greatest; /* elements; the first NaN if there is one */
  uint64_t nans, infinities;
} range;

static range find_range(const kiln_debug_tensor *tensor) {
  range result = {0};
  for (uint64_t i = 0; i < tensor->count; ++i) {
    double x = real_of(tensor, i), y = imaginary_of(tensor, i);
    bool is_nan = x != x || y != y;
    if (is_nan && !result.nans++)
      result.least = result.greatest = i;
    result.infinities += !is_nan && (x - x != 0 || y - y != 0);
    if (result.nans)
      continue;
    if (is_less(load(tensor, i, 0), load(tensor, result.least, 0)))
      result.least = i;
    if (is_less(load(tensor, result.greatest, 0), load(tensor, i, 0)))
      result.greatest = i;
  }
  return result;
}

static void append_statistics(kiln_text *text, const kiln_debug_tensor *tensor) {
  moments mean = compute_moments(tensor);
  range found = find_range(tensor);
  kiln_append(text, "Mean value: ");
  append_complex(text, tensor, make_real(mean.real), make_real(mean.imaginary), 32);
  if (tensor->code != kDLComplex) { /* which have no order */
    kiln_append(text, "\nMin value: ");
    append_element(text, tensor, found.least);
    kiln_append(text, "\nMax value: ");
    append_element(text, tensor, found.greatest);
  }
  kiln_append(text, "\nStd value: ");
  append_number(text, make_real(mean.deviation), 32);
  kiln_append(text, "\n");
  if (found.nans || found.infinities)
    kiln_append(text, "NaN: %llu, infinite: %llu\n", (unsigned long long)found.nans,
                (unsigned long long)found.infinities);
}

void kiln_debug_describe(kiln_text *text, const kiln_debug_tensor *tensor) {
  if (tensor->count <= KILN_DEBUG_MOST_PRINTED)
    append_values(text, tensor);
  kiln_append(text, "Number of elements: %llu\nSize: [", (unsigned long long)tensor->count);
  for (int d = 0; d < tensor->rank; ++d)
    kiln_append(text, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
  kiln_append(text, "]\nDtype: %s\n", tensor->dtype);
  if (tensor->count)
    append_statistics(text, tensor);
}

/*===-- Files ---------------------------------------------------------------===*/

bool kiln_debug_write(int file, const void *data, uint64_t bytes) {
  const char *from = data;
  while (bytes) {
    ssize_t written = write(file, from, bytes < 1u << 30 ? bytes : 1u << 30);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    from += written;
    bytes -= (uint64_t)written;
  }
  return true;
}

/* The header of a .npy file of version 1.0, whose length is a multiple of 64. */
static void append_header(kiln_text *text, const kiln_debug_tensor *tensor) {
  unsigned bytes = tensor->bits / 8;
  char kind = tensor->code == kDLInt                            ? 'i'
              : tensor->code == kDLUInt                         ? 'u'
              : tensor->code == kDLFloat                        ? 'f'
              : tensor->code == kDLBool                         ? 'b'
              : tensor->code == kDLComplex && tensor->bits > 32 ? 'c'
                                                                : 'V';
  kiln_append(text, "{'descr': '%c%c%u', 'fortran_order': False, 'shape': (",
              bytes > 1 && kind != 'V' ? '<' : '|', kind, bytes);
  for (int d = 0; d < tensor->rank; ++d)
    kiln_append(text, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
  kiln_append(text, "%s), }", tensor->rank == 1 ? "," : "");
}

bool kiln_debug_save(int file, const kiln_debug_tensor *tensor) {
  char header[10 + 2048];
  memcpy(header, "\x93NUMPY\x01\x00", 8);
  kiln_text text = {header + 10, sizeof header - 10, 0};
  append_header(&text, tensor);
  size_t length = (10 + text.used + 1 + 63) / 64 * 64 - 10;
  memset(text.text + text.used, ' ', length - text.used - 1);
  text.text[length - 1] = '\n';
  header[8] = (char)(length & 0xff);
  header[9] = (char)(length >> 8);
  return kiln_debug_write(file, header, 10 + length) &&
         kiln_debug_write(file, tensor->data, tensor->count * (tensor->bits / 8));
}
