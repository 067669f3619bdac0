// Tells constants with data from those that the host gives.
#include "kiln/Dialect/Wrapper/Weights.h"
#include "kiln/Dialect/Kernel/Constants.h"

using namespace mlir;
using namespace kiln;

bool wrapper::isLater(ConstantOp constant) {
  return !kernel::hasConstantBytes(constant.getValue());
}

int64_t wrapper::getKnownWeightsBytes(ProgramOp program) {
  int64_t bytes = program.getWeightsBytes().value_or(0);
  for (ConstantOp constant : getConstants(program))
    if (constant.getOffset() && isLater(constant) && !constant.getMutated())
      bytes = std::min(bytes, constant.getOffsetAttr().getInt());
  return bytes;
}
