/*===- debug_tensor.c - Tensors as text and as files ------------------------===*/
#include "debug_internal.h"
#include "element.h"
#include "write.h"

#include <math.h>
#include <string.h>

/*===-- Elements ------------------------------------------------------------===*/

/* An element; complex ones have two parts, of which `part` is wanted. */
static kiln_number load(const kiln_debug_tensor *tensor, uint64_t index, int part) {
  const char *data = (const char *)tensor->data + index * (tensor->bits / 8);
  return kiln_load_number(data, tensor->code, tensor->bits, part);
}

static bool is_less(kiln_number a, kiln_number b) {
  if (a.kind == KILN_SIGNED)
    return (int64_t)a.integer < (int64_t)b.integer;
  return a.kind == KILN_UNSIGNED ? a.integer < b.integer : a.value < b.value;
}

static void append_number(kiln_text *text, kiln_number x, unsigned bits) {
  if (x.kind == KILN_SIGNED)
    kiln_append(text, "%lld", (long long)x.integer);
  else if (x.kind == KILN_UNSIGNED)
    kiln_append(text, "%llu", (unsigned long long)x.integer);
  else if (x.value != x.value) /* whatever its sign */
    kiln_append(text, "nan");
  else
    kiln_append(text, "%.*g", bits > 32 ? 16 : bits > 16 ? 8 : 4, x.value);
}

/* The second part, if the tensor has complex elements. */
static void append_complex(kiln_text *text, const kiln_debug_tensor *tensor, kiln_number real,
                           kiln_number imaginary, unsigned bits) {
  append_number(text, real, bits);
  if (tensor->code != kDLComplex)
    return;
  bool has_sign = imaginary.value == imaginary.value && __builtin_signbit(imaginary.value);
  kiln_append(text, has_sign ? "" : "+");
  append_number(text, imaginary, bits);
  kiln_append(text, "j");
}

static void append_element(kiln_text *text, const kiln_debug_tensor *tensor, uint64_t index) {
  kiln_number real = load(tensor, index, 0);
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
  append_complex(text, tensor, kiln_real_number(mean.real), kiln_real_number(mean.imaginary), 32);
  if (tensor->code != kDLComplex) { /* which have no order */
    kiln_append(text, "\nMin value: ");
    append_element(text, tensor, found.least);
    kiln_append(text, "\nMax value: ");
    append_element(text, tensor, found.greatest);
  }
  kiln_append(text, "\nStd value: ");
  append_number(text, kiln_real_number(mean.deviation), 32);
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
  return kiln_write(file, header, 10 + length) &&
         kiln_write(file, tensor->data, tensor->count * (tensor->bits / 8));
}
