/*===- print_number.c - Numbers as Python prints them -------------------------===*/
#include "element.h"
#include "print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*===-- Text ----------------------------------------------------------------===*/

void kiln_print_bytes(kiln_printed *text, const char *bytes, uint64_t count) {
  if (text->to && count)
    memcpy(text->to + text->used, bytes, count);
  text->used += count;
}

void kiln_print_text(kiln_printed *text, const char *c_string) {
  kiln_print_bytes(text, c_string, strlen(c_string));
}

void kiln_print_spaces(kiln_printed *text, int64_t count) {
  for (; count > 0; --count)
    kiln_print_bytes(text, " ", 1);
}

static void print_digits(kiln_printed *text, kiln_digits digits) {
  kiln_print_bytes(text, digits.text, (uint64_t)digits.length);
}

/*===-- Numbers -------------------------------------------------------------===*/

static void format_list(kiln_digits *digits, const char *style, va_list args) {
  int length = vsnprintf(digits->text, sizeof digits->text, style, args);
  int most = (int)sizeof digits->text - 1;
  digits->length = length < 0 ? 0 : length < most ? length : most;
}

__attribute__((format(printf, 2, 3))) static void format(kiln_digits *digits, const char *style,
                                                         ...) {
  va_list args;
  va_start(args, style);
  format_list(digits, style, args);
  va_end(args);
}

void kiln_print_format(kiln_printed *text, const char *style, ...) {
  kiln_digits digits;
  va_list args;
  va_start(args, style);
  format_list(&digits, style, args);
  va_end(args);
  print_digits(text, digits);
}

/* A nan has no sign. False: `value` is finite. */
static bool write_special(kiln_digits *digits, double value) {
  if (value - value == 0)
    return false;
  format(digits, "%s", value != value ? "nan" : value < 0 ? "-inf" : "inf");
  return true;
}

/* The locale's decimal point may be another, and have several bytes. */
static void set_point(kiln_digits *digits) {
  int used = 0;
  for (int i = 0; i < digits->length; ++i) {
    char c = digits->text[i];
    bool is_plain = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
    if (is_plain || (used && digits->text[used - 1] != '.'))
      digits->text[used++] = is_plain ? c : '.';
  }
  digits->length = used;
}

kiln_digits kiln_write_real(char style, int decimals, double value) {
  kiln_digits digits;
  if (write_special(&digits, value))
    return digits;
  if (style == 'e')
    format(&digits, "%.*e", decimals, value);
  else if (style == 'f')
    format(&digits, "%.*f", decimals, value);
  else
    format(&digits, "%.*g", decimals, value);
  set_point(&digits);
  return digits;
}

/* Raises the last digit before the exponent by 1; not of nines alone. */
static void round_up(kiln_digits *digits) {
  char *last = digits->text;
  while (*last != 'e')
    ++last;
  while (last-- > digits->text) {
    if (*last < '0' || *last > '9')
      continue;
    if (*last != '9') {
      ++*last;
      return;
    }
    *last = '0';
  }
}

/* The fewest digits that are read as the same number again; `is_part` of a complex number, which
 * has no ".0". */
static kiln_digits write_shortest(double value, bool is_part) {
  kiln_digits digits, shortest;
  if (write_special(&digits, value))
    return digits;
  for (int decimals = 0; decimals < 17; ++decimals) {
    format(&digits, "%.*e", decimals, value);
    if (strtod(digits.text, NULL) == value)
      break;
    round_up(&digits); /* a power of two is nearer to what is below it */
    if (strtod(digits.text, NULL) == value)
      break;
  }
  set_point(&digits);
  bool is_negative = digits.text[0] == '-';
  const char *first = digits.text + is_negative, *end = first;
  while (*end != 'e')
    ++end;
  int sign = end[1] == '-' ? -1 : 1, exponent = 0;
  for (const char *c = end + 2; c < digits.text + digits.length; ++c)
    exponent = 10 * exponent + (*c - '0');
  exponent *= sign;
  if (exponent < -4 || exponent >= 16)
    return digits;
  char all[32];
  int count = 0;
  for (const char *c = first; c < end; ++c)
    if (*c != '.')
      all[count++] = *c;
  const char *minus = is_negative ? "-" : "";
  int whole = exponent + 1; /* digits before the point */
  if (whole <= 0)
    format(&shortest, "%s0.%.*s%.*s", minus, -whole, "0000", count, all);
  else if (count > whole)
    format(&shortest, "%s%.*s.%.*s", minus, whole, all, count - whole, all + whole);
  else
    format(&shortest, "%s%.*s%.*s%s", minus, count, all, whole - count, "0000000000000000",
           is_part ? "" : ".0");
  return shortest;
}

kiln_digits kiln_write_element(const void *data, DLDataType dtype, int part) {
  kiln_digits digits;
  kiln_number number = kiln_load_number(data, dtype.code, dtype.bits, part);
  if (dtype.code == kDLBool)
    format(&digits, "%s", number.integer ? "True" : "False");
  else if (number.kind == KILN_SIGNED)
    format(&digits, "%lld", (long long)number.integer);
  else if (number.kind == KILN_UNSIGNED)
    format(&digits, "%llu", (unsigned long long)number.integer);
  else
    digits = write_shortest(number.value, dtype.code == kDLComplex);
  return digits;
}

void kiln_print_number(kiln_printed *text, const DLTensor *tensor) {
  kiln_digits first = kiln_write_element(tensor->data, tensor->dtype, 0);
  if (tensor->dtype.code != kDLComplex)
    return print_digits(text, first);
  kiln_digits second = kiln_write_element(tensor->data, tensor->dtype, 1);
  bool has_real = first.length != 1 || first.text[0] != '0'; /* -0 is one */
  if (has_real) {
    kiln_print_text(text, "(");
    print_digits(text, first);
    if (second.text[0] != '-')
      kiln_print_text(text, "+");
  }
  print_digits(text, second);
  kiln_print_text(text, has_real ? "j)" : "j");
}

void kiln_print_styled(kiln_printed *text, const DLTensor *tensor, char style, int decimals) {
  kiln_number number = kiln_load_number(tensor->data, tensor->dtype.code, tensor->dtype.bits, 0);
  print_digits(text, kiln_write_real(style, decimals, number.value));
}
