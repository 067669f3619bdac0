// Tensors as the reference interpreter holds them: every element apart, wide enough for any type.
#ifndef KILN_REFERENCE_TENSOR_H
#define KILN_REFERENCE_TENSOR_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include <memory>

namespace kiln::reference {

/// One element or scalar of a region. Integers are sign-extended, but for bools, which are 0 or 1; 8-bit floats are their bits.
struct Scalar {
  union {
    double real; // and the real part of a complex number
    int64_t integer;
  };
  double imaginary;
  static Scalar of(double real, double imaginary = 0);
  static Scalar ofInteger(int64_t integer);
};

/// True if region code holds elements of this type as floating-point numbers, complex ones included.
bool isFloating(mlir::Type elementType);

/// Row-major. Copies share their elements.
struct Tensor {
  mlir::Type elementType;
  llvm::SmallVector<int64_t> sizes;
  std::shared_ptr<std::vector<Scalar>> elements;

  /// All elements zero.
  static Tensor zeros(mlir::Type elementType, llvm::ArrayRef<int64_t> sizes);
  /// `bytes` as kernel::getConstantBytes gives them; fails if they are too few.
  static mlir::FailureOr<Tensor> fromBytes(mlir::Type elementType, llvm::ArrayRef<int64_t> sizes,
                                           llvm::ArrayRef<char> bytes);
};

/// Elements of one tensor: 4 GB.
constexpr int64_t maxElements = int64_t(1) << 28;

/// The number of elements; an error if a size is negative or they are more than `most`.
llvm::Expected<int64_t> countElements(llvm::ArrayRef<int64_t> sizes, int64_t most = maxElements);

/// `value`, which is `wide`, in the precision of a floating-point type of at most 64 bits.
double roundTo(mlir::Type type, double value);

/// The error that rounding explains in results of one program.
struct Tolerance {
  double factor = 16; // times the difference between rounded and wide results
  double places = 64; // last places of the largest element
};
/// The difference between `got` and `want`, as a line for people; empty if there is none. Integers are compared exactly. `wide`
/// is `want` computed without rounding.
std::string compareTensors(const Tensor &got, const Tensor &want, const Tensor &wide,
                           const Tolerance &tolerance = {});

/// `tensor<2x3xf32> [0, 1.5, ...]`, at most 16 elements of it.
std::string describe(const Tensor &tensor);

} // namespace kiln::reference

#endif // KILN_REFERENCE_TENSOR_H
