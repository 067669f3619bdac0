/*===- element.c - Elements of tensors as numbers -----------------------------===*
 *
 * For text: what computes is generated code.
 *
 *===-----------------------------------------------------------------------===*/
#include "element.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

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

static kiln_number load_float(const char *data, uint8_t code, unsigned bits) {
  static const float_format half = {5, 10, 15, IEEE}, e4m3fn = {4, 3, 7, FN},
                            e4m3fnuz = {4, 3, 8, FNUZ}, e5m2 = {5, 2, 15, IEEE},
                            e5m2fnuz = {5, 2, 16, FNUZ};
  uint16_t word = 0;
  memcpy(&word, data, bits == 8 ? 1 : 2);
  if (code == kDLBfloat) {
    uint32_t wide = (uint32_t)word << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return kiln_real_number((double)value);
  }
  if (bits == 8)
    return kiln_real_number(decode(word, code == kDLFloat8_e4m3fn     ? &e4m3fn
                                         : code == kDLFloat8_e4m3fnuz ? &e4m3fnuz
                                         : code == kDLFloat8_e5m2     ? &e5m2
                                                                      : &e5m2fnuz));
  if (bits == 16)
    return kiln_real_number(decode(word, &half));
  float single;
  double wide;
  memcpy(&single, data, sizeof single);
  if (bits == 32)
    return kiln_real_number((double)single);
  memcpy(&wide, data, sizeof wide);
  return kiln_real_number(wide);
}

static kiln_number load_integer(const char *data, bool is_signed, unsigned bits) {
  uint64_t value = 0;
  memcpy(&value, data, bits / 8); /* little-endian */
  if (is_signed)
    value = (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits));
  return (kiln_number){is_signed ? KILN_SIGNED : KILN_UNSIGNED, value,
                       is_signed ? (double)(int64_t)value : (double)value};
}

kiln_number kiln_load_number(const void *data, uint8_t code, uint8_t bits, int part) {
  const char *bytes = data;
  if (code == kDLInt || code == kDLUInt)
    return load_integer(bytes, code == kDLInt, bits);
  if (code == kDLBool)
    return (kiln_number){KILN_UNSIGNED, *bytes != 0, *bytes != 0};
  if (code == kDLComplex)
    return load_float(bytes + (size_t)part * bits / 16, kDLFloat, bits / 2u);
  return load_float(bytes, code, bits);
}
