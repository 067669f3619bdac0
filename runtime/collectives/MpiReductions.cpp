// Reductions: MPI's own, and what it lacks: floats of 16 bits, minima of NaN, and integers that wrap
// around (Open MPI's sums of small ones saturate).
#include "MpiReductions.h"

#include <cstring>
#include <kiln-c/model.h>
#include <map>
#include <mutex>

using namespace kiln::collectives;

namespace {

struct Half {
  uint16_t bits;
  operator float() const {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
             fraction = bits & 0x3ff;
    if (exponent == 0) { // zero, or below the normal numbers: fraction * 2^-24
      float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign ? -value : value;
    }
    uint32_t word = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
  }
  static Half from(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    auto sign = static_cast<uint16_t>(word >> 16 & 0x8000);
    word &= 0x7fffffff;
    if (word > 0x7f800000)
      return {static_cast<uint16_t>(sign | 0x7e00)};
    if (word >= 0x477ff000) // rounds to more than the largest number
      return {static_cast<uint16_t>(sign | 0x7c00)};
    if (word < 0x38800000) { // below the normal numbers: a multiple of 2^-24, rounded by the sum
      float rest, sum;
      memcpy(&rest, &word, sizeof rest);
      sum = rest + 0.5f;
      memcpy(&word, &sum, sizeof word);
      return {static_cast<uint16_t>(sign | (word - 0x3f000000))};
    }
    word += 0xfff + (word >> 13 & 1); // to nearest, to even
    return {static_cast<uint16_t>(sign | ((word - 0x38000000) >> 13))};
  }
};

struct BFloat {
  uint16_t bits;
  operator float() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
  }
  static BFloat from(float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    if ((word & 0x7fffffff) > 0x7f800000)
      return {static_cast<uint16_t>(word >> 16 | 0x40)};
    return {static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16)};
  }
};

template <typename Value> struct Wide {
  using Type = float;
  static Value round(float value) { return Value::from(value); }
};
template <> struct Wide<float> {
  using Type = float;
  static float round(float value) { return value; }
};
template <> struct Wide<double> {
  using Type = double;
  static double round(double value) { return value; }
};

/// Integers of either sign, whose sums and products have the same bits.
template <typename Value, typename Number> struct WrappingInteger {
  using Type = Number;
  static Value round(Number value) { return static_cast<Value>(value); }
};
template <> struct Wide<uint8_t> : WrappingInteger<uint8_t, uint32_t> {};
template <> struct Wide<uint16_t> : WrappingInteger<uint16_t, uint32_t> {};
template <> struct Wide<uint32_t> : WrappingInteger<uint32_t, uint32_t> {};
template <> struct Wide<uint64_t> : WrappingInteger<uint64_t, uint64_t> {};

template <Reduction reduction, typename Number> Number combine(Number a, Number b) {
  if constexpr (reduction == Reduction::Sum)
    return a + b;
  else if constexpr (reduction == Reduction::Product)
    return a * b;
  else if (a != a || b != b) // NaN
    return a + b;
  else if constexpr (reduction == Reduction::Min)
    return b < a ? b : a;
  else
    return a < b ? b : a;
}

template <Reduction reduction, typename Value>
void reduce(void *in, void *inout, int *count, MPI_Datatype *) {
  using Number = typename Wide<Value>::Type;
  const auto *from = static_cast<const Value *>(in);
  auto *to = static_cast<Value *>(inout);
  for (int i = 0; i < *count; ++i)
    to[i] = Wide<Value>::round(combine<reduction, Number>(from[i], to[i]));
}

template <typename Value> MPI_User_function *choose(Reduction reduction) {
  switch (reduction) {
  case Reduction::Min:
    return reduce<Reduction::Min, Value>;
  case Reduction::Max:
    return reduce<Reduction::Max, Value>;
  case Reduction::Product:
    return reduce<Reduction::Product, Value>;
  default:
    return reduce<Reduction::Sum, Value>;
  }
}

template <typename Value> void divideAll(char *data, uint64_t count, int64_t ranks) {
  using Number = typename Wide<Value>::Type;
  auto *values = reinterpret_cast<Value *>(data);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = Wide<Value>::round(static_cast<Number>(values[i]) / static_cast<Number>(ranks));
}

bool isFloat(const Call &call, unsigned bits) {
  return call.type.code == kDLFloat && call.type.bits == bits;
}
bool isBFloat(const Call &call) { return call.type.code == kDLBfloat; }

/// MPI moves floats of 16 bits as integers.
MPI_User_function *findFunction(const Call &call) {
  bool isOrder = call.reduction == Reduction::Min || call.reduction == Reduction::Max;
  bool isInteger = call.type.code == kDLInt || call.type.code == kDLUInt;
  if (isInteger && !isOrder) {
    switch (call.type.bits) {
    case 8:
      return choose<uint8_t>(call.reduction);
    case 16:
      return choose<uint16_t>(call.reduction);
    case 32:
      return choose<uint32_t>(call.reduction);
    default:
      return choose<uint64_t>(call.reduction);
    }
  }
  if (isFloat(call, 16))
    return choose<Half>(call.reduction);
  if (isBFloat(call))
    return choose<BFloat>(call.reduction);
  if (isFloat(call, 32) && isOrder)
    return choose<float>(call.reduction);
  if (isFloat(call, 64) && isOrder)
    return choose<double>(call.reduction);
  return nullptr;
}

const char *findType(const Call &call) {
  if (isFloat(call, 32))
    return "ompi_mpi_float";
  if (isFloat(call, 64))
    return "ompi_mpi_double";
  bool isUnsigned = call.type.code != kDLInt;
  switch (call.type.bits) {
  case 8:
    return isUnsigned ? "ompi_mpi_uint8_t" : "ompi_mpi_int8_t";
  case 16:
    return isUnsigned ? "ompi_mpi_uint16_t" : "ompi_mpi_int16_t";
  case 32:
    return isUnsigned ? "ompi_mpi_uint32_t" : "ompi_mpi_int32_t";
  default:
    return isUnsigned ? "ompi_mpi_uint64_t" : "ompi_mpi_int64_t";
  }
}

const char *findOp(const Call &call) {
  bool isBool = call.type.code == kDLBool; // a byte: 0 or 1
  switch (call.reduction) {
  case Reduction::Min:
    return "ompi_mpi_op_min";
  case Reduction::Max:
    return "ompi_mpi_op_max";
  case Reduction::Product:
    return isBool ? "ompi_mpi_op_min" : "ompi_mpi_op_prod";
  default:
    return isBool ? "ompi_mpi_op_max" : "ompi_mpi_op_sum";
  }
}

} // namespace

MpiReduction kiln::collectives::getReduction(const Call &call) {
  const Mpi &mpi = Mpi::get(/*timeout=*/0);
  MpiReduction reduction = {mpi.find(findType(call)), nullptr};
  MPI_User_function *function = findFunction(call);
  if (!function) {
    reduction.op = mpi.find(findOp(call));
    return reduction;
  }
  static std::mutex mutex;
  static auto *known = new std::map<MPI_User_function *, MPI_Op>;
  std::lock_guard<std::mutex> lock(mutex);
  MPI_Op &op = (*known)[function];
  if (!op)
    mpi.check(mpi.Op_create(function, /*commutes=*/1, &op), "MPI_Op_create");
  reduction.op = op;
  return reduction;
}

void kiln::collectives::divide(const Call &call, char *data, uint64_t count) {
  if (isFloat(call, 16))
    divideAll<Half>(data, count, call.ranks);
  else if (isBFloat(call))
    divideAll<BFloat>(data, count, call.ranks);
  else if (isFloat(call, 32))
    divideAll<float>(data, count, call.ranks);
  else
    divideAll<double>(data, count, call.ranks);
}
