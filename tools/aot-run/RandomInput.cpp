//===- RandomInput.cpp - Inputs when none are given -----------------------===//
#include "RandomInput.h"

#include "llvm/ADT/APFloat.h"
#include <cmath>
#include <cstring>
#include <numbers>

using namespace llvm;

/// Box-Muller, since the standard leaves std::normal_distribution's values open.
static double drawNormal(std::mt19937_64 &generator) {
  constexpr double unit = 1.0 / (uint64_t(1) << 53);
  double u = ((generator() >> 11) + 1) * unit, v = (generator() >> 11) * unit;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

template <typename T> static void fillFloats(char *data, size_t bytes, std::mt19937_64 &generator) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T value = static_cast<T>(drawNormal(generator));
    std::memcpy(data + at, &value, sizeof(T));
  }
}

void kiln::run::fillRandom(Array &array, std::mt19937_64 &generator) {
  const DType &type = *array.dtype;
  char *data = array.data.get();
  bool isComplex = type.code == kDLComplex;
  unsigned part = isComplex ? type.bytes() / 2 : type.bytes();
  if ((type.code == kDLFloat || isComplex) && part == 8)
    return fillFloats<double>(data, array.bytes, generator);
  if ((type.code == kDLFloat || isComplex) && part == 4)
    return fillFloats<float>(data, array.bytes, generator);
  const fltSemantics *semantics = getHalfSemantics(type);
  for (size_t at = 0; at < array.bytes; at += part) {
    uint64_t bits = generator() >> 63; // little-endian: an integer of any width
    if (semantics) {
      APFloat value(drawNormal(generator));
      if (type.code == kDLFloat8_e8m0fnu) // has no sign
        value.clearSign();
      bool inexact;
      value.convert(*semantics, APFloat::rmNearestTiesToEven, &inexact);
      bits = value.bitcastToAPInt().getZExtValue();
    }
    std::memcpy(data + at, &bits, part);
  }
}
