// The torch dialect, and how messages name the nodes of a program.
#include "kiln/Dialect/Torch/TorchDialect.h"

using namespace mlir;
using namespace kiln::torch;

#include "kiln/Dialect/Torch/TorchDialect.cpp.inc"

void TorchDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "kiln/Dialect/Torch/TorchOps.cpp.inc"
      >();
}

StateNames::StateNames(ModuleOp module) {
  auto list = module->getAttrOfType<ArrayAttr>(constantsAttrName);
  if (!list)
    return;
  isListed = true;
  // A tied parameter names the one whose storage it shares.
  for (auto entry : list.getAsRange<DictionaryAttr>())
    for (StringRef key : {"name", "storage"})
      if (auto name = entry.getAs<StringAttr>(key))
        names.insert(name.getValue());
}
