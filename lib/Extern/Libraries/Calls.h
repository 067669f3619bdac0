// Subgraphs that libraries compute: what each is, read off its ops. A generator's patterns and its code
// are made of the same description.
#ifndef KILN_LIB_EXTERN_LIBRARIES_CALLS_H
#define KILN_LIB_EXTERN_LIBRARIES_CALLS_H

#include "kiln/Dialect/Kernel/KernelDialect.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Extern/ExternGenerator.h"
#include <variant>

namespace kiln::externs::libraries {

/// The library's abilities, and the user's options.
struct Settings {
  /// No value is NaN or infinite. Libraries have other results for these in relu (0 for NaN), gelu
  /// with erf (NaN for infinity) and maxima of windows (NaN is skipped).
  bool finite = false;
  /// Tensors of these as well as of f32.
  bool hasF16 = false, hasBF16 = false;
  /// Behind a product come one sum and one function at most, which is not gelu with erf.
  bool isEpilogue = false;
  /// Functions behind it are relu and gelu, else relu alone.
  bool hasGelu = true;
  /// Set for a function that has been marked: ranges of its symbols are not known, and
  /// have been looked at.
  bool isMarked = false;
};

/// An operation on each element of a result before it is written.
struct PostOp {
  llvm::StringRef name; // "relu", "gelu_erf", "gelu_tanh" or "add"
  mlir::Value operand;  // of "add"
};

/// One call of a library: its arguments in order, where a Value stands for a
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
/// Also with the transpositions before and behind it that a program with channels last has: whether they
/// are there comes before the post-ops.
mlir::FailureOr<Call> describeConvolutionInAnyOrder(mlir::Operation *root,
                                                    const Settings &settings);
mlir::FailureOr<Call> describeAttention(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describePooling(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeLayerNorm(mlir::Operation *root, const Settings &settings);
mlir::FailureOr<Call> describeBatchNorm(mlir::Operation *root, const Settings &settings);

//===-- What they have in common --------------------------------------------------------------===//

/// The op is a call of one of these operators.
torch::CallOp getCall(mlir::Operation *op, llvm::ArrayRef<llvm::StringRef> targets);
/// The dims that a view takes, in order, if the op is one that only reorders them.
std::optional<llvm::SmallVector<int64_t>> getPermutation(mlir::Operation *op);
/// The operand of a view with these dims that nothing else uses; the view is then part of the call. Null:
/// the value is none.
mlir::Value takePermutation(mlir::Value value, llvm::ArrayRef<int64_t> dims, Call &call);
/// The op whose only result a view with these dims is of, and nothing else's; null: `op` is none.
mlir::Operation *getBehindPermutation(mlir::Operation *op, llvm::ArrayRef<int64_t> dims);
/// A tensor of floats that the library has, whose rank is in this range.
bool isFloat(mlir::Value value, int64_t minRank, int64_t maxRank, const Settings &settings);
/// The size, of an operand of `op`, is at least one in every run.
bool isPositive(mlir::Operation *op, sym::Expr size, const Settings &settings);
/// The tensor is None or a vector of such floats.
bool isOptionalVector(const torch::CallArgs &args, torch::CallArgs::Key key,
                      const Settings &settings);
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

//===-- Generators ----------------------------------------------------------------------------===//

struct Kind {
  llvm::StringRef pattern;
  Describe describe;
};

/// Extra arguments of each call of a library, beside its operation.
struct Extras {
  int64_t workspace = 0; // bytes
  /// The workspace has room for a copy of each tensor, too.
  bool hasCopies = false;
  llvm::SmallVector<mlir::Attribute> arguments;
};

/// A generator whose code is calls of `library`.
class LibraryGenerator : public ExternGenerator {
public:
  LibraryGenerator(llvm::StringRef library, llvm::ArrayRef<Kind> kinds, Settings settings,
                   Extras extras = {});

  llvm::StringRef getName() const override { return library; }
  llvm::ArrayRef<ExternPattern> getPatterns() const override { return patterns; }
  mlir::LogicalResult generate(mlir::ModuleOp module,
                               llvm::ArrayRef<mlir::func::FuncOp> functions) const override;

private:
  kernel::ExternCodeAttr makeCode(const Call &call, mlir::func::FuncOp function) const;

  llvm::StringRef library;
  llvm::ArrayRef<Kind> kinds;
  Settings settings;
  Extras extras;
  std::vector<ExternPattern> patterns;
};

} // namespace kiln::externs::libraries

#endif // KILN_LIB_EXTERN_LIBRARIES_CALLS_H
