// The nodes of the exported program whose values ops of the kernel dialect compute, for debugging.
//
// A lowering may make several ops of one node, and only the last of them has the node's value. It is
// written into that op's location, which passes keep or drop with the op: attributes would keep equal
// ops apart. Ops that a pass makes on behalf of another often get the other's location, so a mark also
// says for which kind of op it is; of ops of one kind and number of elements, none is made of another
// that computes something else.
#ifndef KILN_DIALECT_KERNEL_RESULTNODES_H
#define KILN_DIALECT_KERNEL_RESULTNODES_H

#include "mlir/IR/Operation.h"

namespace kiln::kernel {

/// Result `output` of `node`.
struct ResultNode {
  llvm::StringRef node;
  int64_t output = 0;
};

/// Says that `value`, the result of an op that has no mark or one of the same node, is the node's
/// value in some order of its elements.
void markResult(mlir::OpResult value, ResultNode node);

/// The mark of result `result` of an op of `kind` ("kernel.map") with this location.
std::optional<ResultNode> getResultNode(mlir::Location location, llvm::StringRef kind,
                                        unsigned result);

/// The location of an op that computes what `before` did, and then what `last` did. The mark is that
/// of the last one's only result.
mlir::Location fuseLocations(mlir::Operation *before, mlir::Operation *last);

} // namespace kiln::kernel

#endif // KILN_DIALECT_KERNEL_RESULTNODES_H
