//===- Array.cpp - Arrays in memory and their dtypes ----------------------===//
#include "Array.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <cstring>

using namespace llvm;
using namespace kiln::run;

static constexpr DType dtypes[] = {
    {"bool", kDLBool, 8, "|b1"},
    {"uint8", kDLUInt, 8, "|u1"},
    {"uint16", kDLUInt, 16, "<u2"},
    {"uint32", kDLUInt, 32, "<u4"},
    {"uint64", kDLUInt, 64, "<u8"},
    {"int8", kDLInt, 8, "|i1"},
    {"int16", kDLInt, 16, "<i2"},
    {"int32", kDLInt, 32, "<i4"},
    {"int64", kDLInt, 64, "<i8"},
    {"float16", kDLFloat, 16, "<f2"},
    {"float32", kDLFloat, 32, "<f4"},
    {"float64", kDLFloat, 64, "<f8"},
    {"bfloat16", kDLBfloat, 16, "|V2"},
    {"complex32", kDLComplex, 32, "|V4"},
    {"complex64", kDLComplex, 64, "<c8"},
    {"complex128", kDLComplex, 128, "<c16"},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8, "|V1"},
    {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8, "|V1"},
    {"float8_e5m2", kDLFloat8_e5m2, 8, "|V1"},
    {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8, "|V1"},
    {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8, "|V1"},
};

ArrayRef<DType> kiln::run::allDTypes() { return dtypes; }

const DType *kiln::run::findDType(StringRef name) {
  const DType *found = find_if(dtypes, [&](const DType &type) { return type.name == name; });
  return found == std::end(dtypes) ? nullptr : found;
}

const DType *kiln::run::findDType(DLDataType wanted) {
  const DType *found = find_if(dtypes, [&](const DType &type) {
    return type.code == wanted.code && type.bits == wanted.bits && wanted.lanes == 1;
  });
  return found == std::end(dtypes) ? nullptr : found;
}

const fltSemantics *kiln::run::getHalfSemantics(const DType &type) {
  switch (type.code) {
  case kDLFloat:
    return type.bits == 16 ? &APFloat::IEEEhalf() : nullptr;
  case kDLComplex:
    return type.bits == 32 ? &APFloat::IEEEhalf() : nullptr;
  case kDLBfloat:
    return &APFloat::BFloat();
  case kDLFloat8_e4m3fn:
    return &APFloat::Float8E4M3FN();
  case kDLFloat8_e4m3fnuz:
    return &APFloat::Float8E4M3FNUZ();
  case kDLFloat8_e5m2:
    return &APFloat::Float8E5M2();
  case kDLFloat8_e5m2fnuz:
    return &APFloat::Float8E5M2FNUZ();
  case kDLFloat8_e8m0fnu:
    return &APFloat::Float8E8M0FNU();
  default:
    return nullptr;
  }
}

template <typename T> static T loadAs(const char *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

/// A part of a complex number, or a real one of so many bytes.
static long double loadReal(const DType &type, const char *data, unsigned bytes) {
  if (const fltSemantics *semantics = getHalfSemantics(type)) {
    uint64_t bits = bytes == 1 ? loadAs<uint8_t>(data) : loadAs<uint16_t>(data);
    return APFloat(*semantics, APInt(8 * bytes, bits)).convertToDouble();
  }
  if (type.code == kDLFloat || type.code == kDLComplex)
    return bytes == 4 ? static_cast<long double>(loadAs<float>(data)) : loadAs<double>(data);
  uint64_t bits = 0;
  std::memcpy(&bits, data, bytes); // little-endian
  if (type.code == kDLInt)
    return SignExtend64(bits, 8 * bytes);
  return bits;
}

std::complex<long double> Array::load(size_t element) const {
  const char *at = data.get() + element * dtype->bytes();
  if (dtype->code != kDLComplex)
    return loadReal(*dtype, at, dtype->bytes());
  unsigned part = dtype->bytes() / 2;
  return {loadReal(*dtype, at, part), loadReal(*dtype, at + part, part)};
}

Expected<Array> Array::allocate(const DType &dtype, ArrayRef<int64_t> shape) {
  Array array;
  array.dtype = &dtype;
  array.shape.assign(shape.begin(), shape.end());
  array.strides.resize(shape.size());
  uint64_t elements = 1;
  bool empty = false, overflow = false;
  for (size_t d = shape.size(); d-- > 0;) {
    array.strides[d] = static_cast<int64_t>(elements);
    overflow |= shape[d] < 0;
    empty |= shape[d] == 0;
    if (shape[d] > 1)
      elements = SaturatingMultiply<uint64_t>(elements, shape[d]);
    overflow |= elements > (uint64_t(1) << 48);
  }
  if (overflow)
    return createStringError("an array of " + describe(&dtype, shape) + " does not fit in memory");
  array.bytes = empty ? 0 : elements * dtype.bytes();
  array.data.reset(static_cast<char *>(std::aligned_alloc(64, alignTo(array.bytes + 1, 64))));
  if (!array.data)
    return createStringError("out of memory for an array of " + describe(&dtype, shape));
  return array;
}

static void copyRows(char *&to, const char *from, const DLTensor &tensor, int d, size_t bytes) {
  if (d == tensor.ndim) {
    std::memcpy(to, from, bytes);
    to += bytes;
    return;
  }
  for (int64_t i = 0; i < tensor.shape[d]; ++i)
    copyRows(to, from + i * tensor.strides[d] * static_cast<int64_t>(bytes), tensor, d + 1, bytes);
}

Expected<Array> Array::copy(const DLTensor &tensor) {
  const DType *dtype = findDType(tensor.dtype);
  if (!dtype)
    return createStringError("the model gave a tensor of an unknown dtype");
  ArrayRef<int64_t> shape(tensor.shape, tensor.ndim);
  Expected<Array> array = allocate(*dtype, shape);
  if (!array || array->bytes == 0)
    return array;
  const char *from = static_cast<const char *>(tensor.data) + tensor.byte_offset;
  char *to = array->data.get();
  if (!tensor.strides || array->strides == ArrayRef<int64_t>(tensor.strides, tensor.ndim))
    std::memcpy(to, from, array->bytes);
  else
    copyRows(to, from, tensor, 0, dtype->bytes());
  return array;
}

DLTensor Array::tensor() {
  return {.data = data.get(),
          .device = {kDLCPU, 0},
          .ndim = static_cast<int32_t>(shape.size()),
          .dtype = dtype->dlpack(),
          .shape = shape.data(),
          .strides = strides.data(),
          .byte_offset = 0};
}

std::string kiln::run::describe(const DType *dtype, ArrayRef<int64_t> shape) {
  std::string text = (dtype ? dtype->name : StringRef("?")).str() + " [";
  raw_string_ostream stream(text);
  interleaveComma(shape, stream);
  return text + "]";
}

std::string kiln::run::quote(StringRef text) {
  std::string quoted = "'";
  raw_string_ostream stream(quoted);
  printEscapedString(text, stream);
  return quoted + "'";
}
