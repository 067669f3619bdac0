// Attention as products with a softmax between them: for what no kernel of attention computes.
#ifndef KILN_DIALECT_KERNEL_BUILDER_ATTENTIONPRODUCTS_H
#define KILN_DIALECT_KERNEL_BUILDER_ATTENTIONPRODUCTS_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"

namespace kiln::kernel {

/// The result of `kernels.attention(spec, type)`, with the scores in memory. The default of `scale`
/// is one over the square root of the number of features; `value`, in the place of `spec.v`, is
/// asked for the key and the feature. Weights and values are multiplied in `weightType`.
mlir::Value attentionOfProducts(KernelBuilder &kernels, const AttentionSpec &spec,
                                std::optional<double> scale,
                                llvm::function_ref<Element(BodyBuilder &, Expr n, Expr dv)> value,
                                mlir::Type type, mlir::Type weightType);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_BUILDER_ATTENTIONPRODUCTS_H
