// The bytes of constants, as memory holds them: row-major, little-endian, bool one byte an element.
#ifndef KILN_DIALECT_KERNEL_CONSTANTS_H
#define KILN_DIALECT_KERNEL_CONSTANTS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include <vector>

namespace kiln::kernel {

/// Bytes of one element in memory (bool and narrower integers: one).
int64_t getElementBytes(mlir::Type elementType);

/// Bytes of a tensor with static sizes.
int64_t getByteSize(mlir::RankedTensorType type);

/// A view of a constant's bytes, or a copy where the attribute holds them differently.
class ConstantBytes {
public:
  ConstantBytes() = default;
  explicit ConstantBytes(llvm::ArrayRef<char> view) : view(view) {}
  explicit ConstantBytes(std::vector<char> copy) : copy(std::move(copy)) {}
  llvm::ArrayRef<char> data() const { return copy.empty() ? view : llvm::ArrayRef<char>(copy); }

private:
  llvm::ArrayRef<char> view;
  std::vector<char> copy;
};

/// True if the value is known when the model is compiled, as that of a resource without data is not.
bool hasConstantBytes(mlir::ElementsAttr value);

/// A value that the host gives later. Equal to no other one.
mlir::DenseResourceElementsAttr makeLaterConstant(mlir::RankedTensorType type,
                                                  llvm::StringRef name);

/// Fails (empty optional) when the resource that `value` names is not there or has another size.
std::optional<ConstantBytes> getConstantBytes(mlir::ElementsAttr value);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_CONSTANTS_H
