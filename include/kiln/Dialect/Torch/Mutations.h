// Which state a program's results are the new value of.
#ifndef KILN_DIALECT_TORCH_MUTATIONS_H
#define KILN_DIALECT_TORCH_MUTATIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace kiln::torch {

enum class State { Input, Buffer };

/// The name of the input, or of the buffer or parameter, that result `result` is the new value of; null
/// for none of these. Both may have one name, which `torch.mutates_kind` tells apart.
mlir::StringAttr getMutated(mlir::func::FuncOp function, unsigned result, State state);

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_MUTATIONS_H
