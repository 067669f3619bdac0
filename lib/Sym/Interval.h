// Integer intervals with infinite ends.
#ifndef KILN_LIB_SYM_INTERVAL_H
#define KILN_LIB_SYM_INTERVAL_H

#include "kiln/Sym/Assumptions.h"
#include <algorithm>

namespace kiln::sym::detail {

inline void intersect(Range &range, Range other) {
  if (other.min && (!range.min || *other.min > *range.min))
    range.min = other.min;
  if (other.max && (!range.max || *other.max < *range.max))
    range.max = other.max;
}

/// Finite ends have 64 bits. An end that would leave them is rounded outward: a lower end above
/// INT64_MAX becomes INT64_MAX, one below INT64_MIN becomes infinite.
struct Interval {
  using Wide = __int128;
  static constexpr Wide infinity = (static_cast<Wide>(1) << 126) + 1; // above any product
  Wide min = -infinity, max = infinity;

  static Interval of(Range range) {
    return {range.min ? *range.min : -infinity, range.max ? *range.max : infinity};
  }
  static Interval rounded(Wide min, Wide max) {
    return {min < INT64_MIN ? -infinity : std::min<Wide>(min, INT64_MAX),
            max > INT64_MAX ? infinity : std::max<Wide>(max, INT64_MIN)};
  }
  Range range() const {
    Range result;
    if (min != -infinity)
      result.min = static_cast<int64_t>(min);
    if (max != infinity)
      result.max = static_cast<int64_t>(max);
    return result;
  }

  Interval operator+(Interval o) const {
    return rounded(min == -infinity || o.min == -infinity ? -infinity : min + o.min,
                   max == infinity || o.max == infinity ? infinity : max + o.max);
  }
  Interval operator*(Interval o) const {
    auto [lo, hi] =
        std::minmax({times(min, o.min), times(min, o.max), times(max, o.min), times(max, o.max)});
    return rounded(lo, hi);
  }
  /// The divisor must be of one sign, so that the quotient is monotone in each operand and its ends
  /// are at the corners.
  Interval floorDiv(Interval o) const {
    auto [lo, hi] = std::minmax(
        {divide(min, o.min), divide(min, o.max), divide(max, o.min), divide(max, o.max)});
    return rounded(lo, hi);
  }

private:
  static bool isInfinite(Wide v) { return v == infinity || v == -infinity; }
  static Wide times(Wide a, Wide b) {
    if (a == 0 || b == 0)
      return 0;
    if (isInfinite(a) || isInfinite(b))
      return (a < 0) == (b < 0) ? infinity : -infinity;
    return a * b;
  }
  static Wide divide(Wide a, Wide b) {
    bool isNegative = a != 0 && (a < 0) != (b < 0);
    if (isInfinite(
            b)) // the limit for a finite `a`; the corner with the other end of b has the rest
      return isNegative ? -1 : 0;
    if (isInfinite(a))
      return isNegative ? -infinity : infinity;
    return a / b - (isNegative && a % b != 0);
  }
};

} // namespace kiln::sym::detail

#endif // KILN_LIB_SYM_INTERVAL_H
