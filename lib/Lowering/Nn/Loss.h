// Helpers that losses are written with.
#ifndef KILN_LIB_LOWERING_NN_LOSS_H
#define KILN_LIB_LOWERING_NN_LOSS_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

enum LossReduction { None = 0, Mean = 1, Sum = 2 };

/// All elements of `losses` as the argument `reduction` says. Fails where `losses` is null.
mlir::LogicalResult reduced(Call &call, mlir::Value losses);

/// A function of two tensors for each element, in the opmath of their promoted dtype, to which it
/// is not rounded. Null, with a reason, for what it cannot take.
mlir::Value elementwise(Call &call, mlir::Value a, mlir::Value b,
                        llvm::function_ref<Element(BodyBuilder &, Element, Element)> compute);

/// |a - b| for each element, in the opmath of the promoted dtype or of that of its parts. With
/// `eps`, |a - b + eps| as a float: integers wrap around before that.
mlir::Value absoluteDifference(Call &call, mlir::Value a, mlir::Value b,
                               std::optional<double> eps = std::nullopt);

/// The p-norm of a reduction over `extents` of magnitudes, for any p.
Element normOf(BodyBuilder &body, llvm::ArrayRef<Expr> extents, mlir::Type type, double p,
               llvm::function_ref<Element(BodyBuilder &)> magnitude);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_NN_LOSS_H
