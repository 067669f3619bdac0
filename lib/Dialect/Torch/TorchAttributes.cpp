// The torch dialect's attributes.
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln::torch;

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/Torch/TorchAttributes.cpp.inc"

void TorchDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "kiln/Dialect/Torch/TorchAttributes.cpp.inc"
      >();
}
