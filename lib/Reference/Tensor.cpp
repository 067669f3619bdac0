// Elements of tensors: from memory, rounded, compared.
#include "kiln/Reference/Tensor.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

Scalar Scalar::of(double real, double imaginary) {
  Scalar scalar;
  scalar.real = real;
  scalar.imaginary = imaginary;
  return scalar;
}

Scalar Scalar::ofInteger(int64_t integer) {
  Scalar scalar;
  scalar.integer = integer;
  scalar.imaginary = 0;
  return scalar;
}

bool reference::isFloating(Type elementType) {
  return isa<FloatType, ComplexType>(kernel::getScalarType(elementType));
}

llvm::Expected<int64_t> reference::countElements(ArrayRef<int64_t> sizes, int64_t most) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0)
      return llvm::createStringError("a tensor has the size " + Twine(size));
    if (llvm::MulOverflow(count, size, count))
      count = std::numeric_limits<int64_t>::max();
  }
  if (count > std::min(most, maxElements))
    return llvm::createStringError("a tensor has too many elements to interpret the program");
  return count;
}

Tensor Tensor::zeros(Type elementType, ArrayRef<int64_t> sizes) {
  int64_t count = llvm::product_of(sizes);
  auto zero = isFloating(elementType) ? Scalar::of(0) : Scalar::ofInteger(0);
  return {elementType, llvm::to_vector(sizes), std::make_shared<std::vector<Scalar>>(count, zero)};
}

static uint64_t readBits(const char *bytes, int64_t size) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  return bits;
}

static double readFloat(FloatType type, const char *bytes) {
  if (type.isF64())
    return llvm::bit_cast<double>(readBits(bytes, 8));
  if (type.isF32())
    return llvm::bit_cast<float>(static_cast<uint32_t>(readBits(bytes, 4)));
  llvm::APFloat number(type.getFloatSemantics(),
                       llvm::APInt(type.getWidth(), readBits(bytes, (type.getWidth() + 7) / 8)));
  return number.convertToDouble();
}

FailureOr<Tensor> Tensor::fromBytes(Type elementType, ArrayRef<int64_t> sizes,
                                    ArrayRef<char> bytes) {
  int64_t element = kernel::getElementBytes(elementType), count = llvm::product_of(sizes);
  if (static_cast<int64_t>(bytes.size()) < count * element)
    return failure();
  Tensor tensor = zeros(elementType, sizes);
  Type scalar = kernel::getScalarType(elementType);
  const char *at = bytes.data();
  for (Scalar &value : *tensor.elements) {
    if (auto complex = dyn_cast<ComplexType>(scalar)) {
      auto part = cast<FloatType>(complex.getElementType());
      value = Scalar::of(readFloat(part, at), readFloat(part, at + element / 2));
    } else if (auto type = dyn_cast<FloatType>(scalar)) {
      value = Scalar::of(readFloat(type, at));
    } else {
      unsigned width = scalar.getIntOrFloatBitWidth();
      int64_t bits = static_cast<int64_t>(readBits(at, element));
      value = Scalar::ofInteger(width == 1 ? bits & 1 : llvm::SignExtend64(bits, width));
    }
    at += element;
  }
  return tensor;
}

double reference::roundTo(Type type, double value) {
  if (type.isF64())
    return value;
  if (type.isF32())
    return static_cast<float>(value);
  llvm::APFloat number(value);
  bool inexact;
  number.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &inexact);
  return number.convertToDouble();
}

//===-- For people --------------------------------------------------------------------------===//

static std::string toText(double number) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.9g", number);
  return text;
}

static std::string print(const Tensor &tensor, int64_t i) {
  const Scalar &value = (*tensor.elements)[i];
  if (!isFloating(tensor.elementType))
    return std::to_string(value.integer);
  std::string text = toText(value.real);
  if (isa<ComplexType>(tensor.elementType))
    text += " + " + toText(value.imaginary) + "i";
  return text;
}

static std::string describeIndex(const Tensor &tensor, int64_t number) {
  SmallVector<std::string> index;
  for (int64_t size : llvm::reverse(tensor.sizes)) {
    index.push_back(std::to_string(number % size));
    number /= size;
  }
  return "[" + llvm::join(llvm::reverse(index), ", ") + "]";
}

/// Per part of complex numbers.
static double getPart(const Scalar &value, bool imaginary) {
  return imaginary ? value.imaginary : value.real;
}

/// The same integer, or two NaNs among bytes that are small floats: nothing says which NaN an operation gives.
static bool areEqual(Type type, int64_t x, int64_t y) {
  if (x == y)
    return true;
  auto small = dyn_cast<FloatType>(type);
  auto isNan = [&](int64_t bits) {
    return llvm::APFloat(small.getFloatSemantics(), llvm::APInt(8, bits & 0xff)).isNaN();
  };
  return small && isNan(x) && isNan(y);
}

std::string reference::compareTensors(const Tensor &got, const Tensor &want, const Tensor &wide,
                                      const Tolerance &tolerance) {
  if (got.elementType != want.elementType || got.sizes != want.sizes)
    return describe(got) + " instead of " + describe(want);
  int64_t count = static_cast<int64_t>(want.elements->size());
  auto differsAt = [&](int64_t i, int64_t number) {
    return llvm::formatv("at {0}: {1} instead of {2} ({3} of {4} elements differ)",
                         describeIndex(want, i), print(got, i), print(want, i), number, count)
        .str();
  };
  int64_t first = -1, number = 0;
  auto note = [&](int64_t i) {
    first = first < 0 ? i : first;
    ++number;
  };
  if (!isFloating(want.elementType)) {
    for (int64_t i = 0; i < count; ++i)
      if (!areEqual(want.elementType, (*got.elements)[i].integer, (*want.elements)[i].integer))
        note(i);
    return number ? differsAt(first, number) : std::string();
  }
  Type part = want.elementType;
  if (auto complex = dyn_cast<ComplexType>(part))
    part = complex.getElementType();
  double epsilon = std::ldexp(1., 1 - static_cast<int>(cast<FloatType>(part).getFPMantissaWidth()));
  double largest = 0, rounding = 0;
  for (int64_t i = 0; i < count; ++i)
    for (bool imaginary : {false, true}) {
      double x = getPart((*want.elements)[i], imaginary),
             y = getPart((*wide.elements)[i], imaginary);
      if (std::isfinite(x))
        largest = std::max(largest, std::abs(x));
      if (std::isfinite(x) && std::isfinite(y))
        rounding = std::max(rounding, std::abs(x - y));
    }
  double allowed = tolerance.factor * rounding + tolerance.places * epsilon * largest;
  for (int64_t i = 0; i < count; ++i) {
    bool differs = false;
    for (bool imaginary : {false, true}) {
      double x = getPart((*got.elements)[i], imaginary),
             y = getPart((*want.elements)[i], imaginary);
      bool same = std::isnan(y)   ? std::isnan(x)
                  : std::isinf(y) ? x == y
                                  : std::abs(x - y) <= allowed;
      differs |= !same;
    }
    if (differs)
      note(i);
  }
  return number ? differsAt(first, number) : std::string();
}

std::string reference::describe(const Tensor &tensor) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "tensor<";
  for (int64_t size : tensor.sizes)
    os << size << "x";
  os << tensor.elementType << "> [";
  int64_t count = static_cast<int64_t>(tensor.elements->size());
  for (int64_t i = 0; i < std::min<int64_t>(count, 16); ++i)
    os << (i ? ", " : "") << print(tensor, i);
  os << (count > 16 ? ", ...]" : "]");
  return text;
}
