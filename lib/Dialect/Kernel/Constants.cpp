// The bytes of constants, as kernels and the file of weights want them.
#include "kiln/Dialect/Kernel/Constants.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace kiln;

int64_t kernel::getElementBytes(Type elementType) {
  if (auto complexType = dyn_cast<ComplexType>(elementType))
    return 2 * getElementBytes(complexType.getElementType());
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t kernel::getByteSize(RankedTensorType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

static void append(std::vector<char> &bytes, const llvm::APInt &bits, int64_t elementBytes) {
  llvm::APInt padded = bits.zext(8 * elementBytes);
  for (int64_t i = 0; i < elementBytes; ++i)
    bytes.push_back(static_cast<char>(padded.extractBitsAsZExtValue(8, 8 * i)));
}

bool kernel::hasConstantBytes(ElementsAttr value) {
  auto resource = dyn_cast<DenseResourceElementsAttr>(value);
  return !resource || resource.getRawHandle().getBlob();
}

DenseResourceElementsAttr kernel::makeLaterConstant(RankedTensorType type, StringRef name) {
  auto &manager = DenseResourceElementsHandle::getManagerInterface(type.getContext());
  return DenseResourceElementsAttr::get(type, manager.insert(name));
}

std::optional<kernel::ConstantBytes> kernel::getConstantBytes(ElementsAttr value) {
  auto type = cast<RankedTensorType>(value.getShapedType());
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || static_cast<int64_t>(blob->getData().size()) < getByteSize(type))
      return std::nullopt;
    return ConstantBytes(blob->getData().take_front(getByteSize(type)));
  }
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return std::nullopt;
  std::vector<char> bytes;
  Type element = type.getElementType();
  if (auto complexType = dyn_cast<ComplexType>(element)) {
    int64_t part = getElementBytes(complexType.getElementType());
    if (!isa<FloatType>(complexType.getElementType()))
      return std::nullopt;
    for (auto number : dense.getValues<std::complex<APFloat>>()) {
      append(bytes, number.real().bitcastToAPInt(), part);
      append(bytes, number.imag().bitcastToAPInt(), part);
    }
  } else if (isa<FloatType>(element)) {
    for (const APFloat &number : dense.getValues<APFloat>())
      append(bytes, number.bitcastToAPInt(), getElementBytes(element));
  } else {
    for (const APInt &number : dense.getValues<APInt>())
      append(bytes, number, getElementBytes(element));
  }
  return ConstantBytes(std::move(bytes));
}
