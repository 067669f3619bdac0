// The parts of a program's weights that are known when it is compiled.
#ifndef KILN_DIALECT_WRAPPER_WEIGHTS_H
#define KILN_DIALECT_WRAPPER_WEIGHTS_H

#include "kiln/Dialect/Wrapper/WrapperDialect.h"

namespace kiln::wrapper {

/// The host gives the value to each model (kiln_model_set_constant), or a fold makes it of such.
bool isLater(ConstantOp constant);

/// The bytes of the weights that are known: those of later constants come after them. (Those of
/// buffers that the program writes to come first in any case.)
int64_t getKnownWeightsBytes(ProgramOp program);

} // namespace kiln::wrapper

#endif // KILN_DIALECT_WRAPPER_WEIGHTS_H
