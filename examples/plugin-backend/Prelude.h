// The beginning of every generated file: helpers in plain C99.
#ifndef KILN_C_PRELUDE_H
#define KILN_C_PRELUDE_H

namespace cbackend {

constexpr const char prelude[] = R"C(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BAD_SYMBOL = 1, ASSERTION_FAILED = 2, OUT_OF_RANGE = 3, FAILED = 4 };

#define INLINE static inline
INLINE int64_t divide_i64(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
INLINE int64_t remainder_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
INLINE uint64_t divide_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
INLINE uint64_t remainder_u64(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }
INLINE int64_t floor_div(int64_t a, int64_t b) {
  return divide_i64(a, b) - (remainder_i64(a, b) != 0 && (a < 0) != (b < 0));
}
INLINE int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE bool within(int64_t index, int64_t bound) { return index >= 0 && index < bound; }
INLINE int64_t float_to_i64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
INLINE uint64_t float_to_u64(double x) {
  return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)float_to_i64(x);
}
INLINE float maximum_f32(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
INLINE float minimum_f32(float a, float b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
INLINE double maximum_f64(double a, double b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
INLINE double minimum_f64(double a, double b) {
  return a != a ? a : b != b ? b : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
INLINE float float_of_bits_32(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
INLINE double float_of_bits_64(int64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
INLINE int32_t int_of_bits_32(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
INLINE int64_t int_of_bits_64(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
)C";

} // namespace cbackend

#endif // KILN_C_PRELUDE_H
