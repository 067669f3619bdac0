// Subgraphs that oneDNN computes: what each is, read off its ops. A generator's patterns and its code
// are made of the same description.
#ifndef KILN_LIB_EXTERN_ONEDNN_CALLS_H
#define KILN_LIB_EXTERN_ONEDNN_CALLS_H

#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Extern/ExternGenerator.h"
#include <variant>

namespace kiln::externs::onednn {

/// The user's options.
struct Settings {
  /// No value is NaN or infinite. oneDNN has other results for these in relu (0 for NaN), gelu with
  /// erf (NaN for infinity) and maxima of windows (NaN is skipped).
  bool finite = false;
};

/// What is done to each element of a result before it is written.
struct PostOp {
  llvm::StringRef name; // "relu", "gelu_erf", "gelu_tanh" or "add"
  mlir::Value operand;  // of "add"
};

/// One call of libkiln_onednn.so (runtime/onednn): its arguments in order, where a Value stands for a
/// tensor and a null one for None.
struct Call {
  llvm::StringRef callee;
  llvm::SmallVector<std::variant<mlir::Value, mlir::Attribute>> arguments;
  llvm::SmallVector<mlir::Operation *> ops;
  mlir::Value result;
};

/// The subgraph that ends with `root`.
using Describe = mlir::FailureOr<Call> (*)(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeMatmul(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeConvolution(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describePooling(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeLayerNorm(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeBatchNorm(mlir::Operation *root, const Settings &settings);

//===-- What they have in common --------------------------------------------------------------===//

/// The op is a call of one of these operators.
torch::CallOp getCall(mlir::Operation *op, llvm::ArrayRef<llvm::StringRef> targets);
/// A tensor of f32 whose rank is in this range.
bool isFloat(mlir::Value value, int64_t minRank, int64_t maxRank);
/// The tensor is None or a vector of f32.
bool isOptionalVector(const torch::CallArgs &args, torch::CallArgs::Key key);
/// `size` integers that are constants, of which a single one stands for all.
std::optional<llvm::SmallVector<int64_t>> getIntegers(const torch::CallArgs &args,
                                                      torch::CallArgs::Key key, unsigned size);

/// Operators that can be post-ops, up from `root` to the op that computes what they are applied to,
/// which `isBase` knows.
struct Chain {
  mlir::Operation *base;
  llvm::SmallVector<PostOp> postOps;        // the first one first
  llvm::SmallVector<mlir::Operation *> ops; // without the base
};
mlir::FailureOr<Chain> followPostOps(mlir::Operation *root, const Settings &settings,
                                     llvm::function_ref<bool(mlir::Operation *)> isBase);
/// As arguments of the call: a list of names, and then the operands.
void addPostOps(const Chain &chain, Call &call);

} // namespace kiln::externs::onednn

#endif // KILN_LIB_EXTERN_ONEDNN_CALLS_H
