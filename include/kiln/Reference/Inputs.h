// Made-up inputs for programs that have none at hand.
#ifndef KILN_REFERENCE_INPUTS_H
#define KILN_REFERENCE_INPUTS_H

#include "kiln/Reference/Interpreter.h"
#include <cstdint>

namespace kiln::reference {

enum class InputKind {
  Random, // about a normal distribution; integers are 0 and 1, so that they may be indices
  Count,  // 0, 1, 2, ...
};

/// Gives every symbol that is mentioned in the module and not in `symbols` a value: 3, 4, 5, ... to those of the function's arguments, 5 to all
/// others, as far as their ranges allow. The choice does not depend on the function's body.
void chooseSymbols(mlir::FunctionOpInterface function, llvm::DenseMap<sym::Expr, int64_t> &symbols);

/// The arguments of a function whose symbols have values, of `most` elements together. An error says that one would be too large.
llvm::Expected<llvm::SmallVector<Tensor>>
makeInputs(mlir::FunctionOpInterface function, const llvm::DenseMap<sym::Expr, int64_t> &symbols,
           InputKind kind, uint64_t seed, int64_t most = maxElements);

} // namespace kiln::reference

#endif // KILN_REFERENCE_INPUTS_H
