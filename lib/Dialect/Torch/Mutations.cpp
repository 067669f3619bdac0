// Which state a program's results are the new value of.
#include "kiln/Dialect/Torch/Mutations.h"
#include "kiln/Dialect/Torch/TorchDialect.h"

using namespace mlir;
using namespace kiln;

StringAttr torch::getMutated(func::FuncOp function, unsigned result, State state) {
  auto kind = function.getResultAttrOfType<StringAttr>(result, mutatesKindAttrName);
  if (kind && (kind.getValue() == "input") != (state == State::Input))
    return {};
  return function.getResultAttrOfType<StringAttr>(result, mutatesAttrName);
}
