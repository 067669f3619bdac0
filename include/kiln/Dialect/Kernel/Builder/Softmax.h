// A softmax inside of a body.
#ifndef KILN_DIALECT_KERNEL_BUILDER_SOFTMAX_H
#define KILN_DIALECT_KERNEL_BUILDER_SOFTMAX_H

#include "kiln/Dialect/Kernel/Builder/KernelBuilder.h"

namespace kiln::kernel {

/// Safe: 0 where all elements are -inf. Logarithm: of the softmax.
enum class SoftmaxKind { Plain, Safe, Logarithm };

/// exp(x - max) / sum, or x - max - log(sum), where the maximum and the sum are over `extents` of
/// what `read` gives.
Element softmax(BodyBuilder &body, Element x, llvm::ArrayRef<Expr> extents, BodyBuilder::Body read,
                SoftmaxKind kind);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_BUILDER_SOFTMAX_H
