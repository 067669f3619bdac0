//===- MachineLimits.h - The rates that this machine reaches ----*- C++ -*-===//
#ifndef KILN_TOOLS_MACHINELIMITS_H
#define KILN_TOOLS_MACHINELIMITS_H

#include <cstdint>
#include <vector>

namespace kiln {

/// Measured on some threads together.
struct MachineLimits {
  struct ReadRate {
    int64_t bytes; // that all threads together read again and again
    double rate;   // bytes a second
  };

  /// Operations on float32 a second, a product with a sum being two; 0: not known.
  double flops = 0;
  std::vector<ReadRate> reads; // from small to large

  /// Of as many bytes; 0: not known.
  double getReadRate(int64_t bytes) const;
};

/// `bytes` is the largest number that the rate is asked of later on. Takes about 0.1 s.
MachineLimits measureLimits(int threads, int64_t bytes);

/// The rates of one core; `measureLimits` has said that they are known.
struct CoreRates {
  double hertz;      // of the clock, as fast as it has run meanwhile
  double lanes;      // float32 numbers in the widest vector
  double fmaSeconds; // from the begin of a multiply-add to its result
};
CoreRates measureCore();

} // namespace kiln

#endif // KILN_TOOLS_MACHINELIMITS_H
