// Values of the runtime's C structs as LLVM structs of the same layout.
#include "kiln/Codegen/RuntimeStruct.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::codegen;

LLVM::LLVMStructType StructValue::getType(MLIRContext *context) const {
  SmallVector<Type> fields;
  for (ScalarType type : types)
    fields.push_back(type.get(context));
  return LLVM::LLVMStructType::getLiteral(context, fields);
}

void StructValue::add(const char *name, ScalarType type, size_t elements,
                      ArrayRef<FieldValue> elementValues) {
  if (elementValues.size() != elements)
    llvm::reportFatalInternalError(Twine(name) + ": " + Twine(elementValues.size()) +
                                   " values for " + Twine(elements) + " elements");
  for (const FieldValue &value : elementValues) {
    auto *number = std::get_if<int64_t>(&value);
    if (number && !llvm::isIntN(type.bits, *number) &&
        !llvm::isUIntN(type.bits, static_cast<uint64_t>(*number)))
      llvm::reportFatalInternalError(Twine(name) + ": " + Twine(*number) + " needs more than " +
                                     Twine(type.bits) + " bits");
    types.push_back(type);
    values.push_back(value);
  }
}
