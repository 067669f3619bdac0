// Attention as products with a softmax between them: for what no kernel of attention computes.
#ifndef KILN_LOWERING_ATTENTIONPRODUCTS_H
#define KILN_LOWERING_ATTENTIONPRODUCTS_H

#include "kiln/Lowering/KernelBuilder.h"

namespace kiln::lowering {

/// What `kernels.attention(spec, type)` gives, with the scores in memory. Without a `scale`, that
/// is one over the square root of the number of features; `value`, in the place of `spec.v`, is
/// asked for the key and the feature. Weights and values are multiplied in `weightType`.
mlir::Value attentionOfProducts(KernelBuilder &kernels, const AttentionSpec &spec,
                                std::optional<double> scale,
                                llvm::function_ref<Element(BodyBuilder &, Expr n, Expr dv)> value,
                                mlir::Type type, mlir::Type weightType);

} // namespace kiln::lowering

#endif // KILN_LOWERING_ATTENTIONPRODUCTS_H
