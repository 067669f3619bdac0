//===- TensorAliases.h - Which tensors share memory -------------*- C++ -*-===//
// What torch-functionalize knows of memory. Each tensor belongs to a Storage, whose `base` is the
// value that its memory holds now, and is reached from it by a chain of view calls. Writing through
// a view gives a new base: the views of the chain are undone one by one (`invertView`). Reading a
// view after a write repeats its chain on the new base. So nothing has to be known about strides,
// with one exception: `reshape` and `contiguous` may or may not copy. Recorded strides decide, for
// sizes from two on if sizes of one leave it open. Inputs on whose strides the decision depends, and
// sizes, are collected where results differ (`checked`). If symbolic strides decide nothing, a chain
// through such a call is cut there when it is written, and whatever would tell the difference
// afterwards is refused.
#ifndef KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H
#define KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H

#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/SmallBitVector.h"

namespace kiln::torch {

/// Grounds of a decision.
struct Conditions {
  /// Arguments of the function, by their strides.
  llvm::SmallBitVector strides;
  /// Symbols of inputs' sizes (SmallSizes), by being two at least.
  llvm::SmallBitVector sizes;

  bool any() const { return strides.any() || sizes.any(); }
  void reset() { *this = {}; }
  Conditions &operator|=(const Conditions &other) {
    strides |= other.strides;
    sizes |= other.sizes;
    return *this;
  }
};

/// One result of a view call.
struct ViewStep {
  CallOp call;
  unsigned result;
  /// It is a view, and never a copy.
  bool certain;
  /// Make it a view.
  Conditions decidedBy = {};
};

struct Storage {
  /// The value that the memory holds now, and the one that it began as.
  mlir::Value base, root;
  unsigned writes = 0;
  /// May share memory with what was written elsewhere.
  bool cut = false;
  /// May hold more elements than `base` shows.
  bool resized = false;
  /// Decide what is in `base`.
  Conditions pending = {};
};

/// A tensor as the program knows it: how it is seen in its storage.
struct Alias {
  Storage *storage;
  mlir::SmallVector<ViewStep> chain;
  /// Its value after the first `writes` writes of the storage.
  mlir::Value current;
  unsigned writes;
  /// Decide what the tensor holds.
  Conditions pending = {};
};

/// A tensor that is a copy of another one under conditions.
struct DecidedCopy {
  mlir::Value source, result;
  Conditions decidedBy;
};

class TensorAliases {
public:
  /// Views are repeated and undone where `builder` stands.
  explicit TensorAliases(mlir::ImplicitLocOpBuilder &builder) : builder(builder) {}

  /// The alias of a value of the program; one that is not known yet gets a storage of its own.
  Alias &get(mlir::Value value);
  /// `value` is the same tensor as `alias`, from here on.
  void set(mlir::Value value, Alias &alias) { aliases[value] = &alias; }

  /// The value that the tensor holds now; an error at `user` if that cannot be told.
  mlir::FailureOr<mlir::Value> getCurrent(mlir::Value value, mlir::Operation *user);

  /// The results of `call` are views of `source`, which `decidedBy` decides.
  void addViews(CallOp call, mlir::Value source, bool certain, const Conditions &decidedBy = {});
  /// The result of `call` is a copy of `source`, which `decidedBy` decides.
  void addCopy(CallOp call, mlir::Value source, Conditions decidedBy);

  /// `alias` holds `value` from now on, and its storage accordingly. `call` is what writes it.
  mlir::LogicalResult write(Alias &alias, mlir::Value value, CallOp call);
  /// `alias`, which is alone, is `value`, of another shape, from now on.
  static void resize(Alias &alias, mlir::Value value);

  /// Nothing else sees the memory, neither views nor whoever calls the program, and there is no
  /// more of it than is seen.
  bool isAlone(const Alias &alias) const;
  /// Writing through `alias` succeeds, and leaves nothing behind that could not be looked at.
  bool canWrite(const Alias &alias);

  mlir::ArrayRef<std::unique_ptr<Storage>> getStorages() const { return storages; }

  /// Decide what results are.
  Conditions checked;

private:
  Storage *addStorage(mlir::Value base);
  mlir::Value repeat(const ViewStep &step, mlir::Value source);
  mlir::Value undo(const Alias &alias, mlir::Value value, mlir::StringRef *obstacle = nullptr);
  mlir::LogicalResult cutAtUncertainStep(Alias &alias, CallOp call);
  std::pair<llvm::SmallPtrSet<Storage *, 4>, Conditions> getDecidedCopies(Storage *storage);
  void notePending(const Alias &written);

  mlir::ImplicitLocOpBuilder &builder;
  mlir::DenseMap<mlir::Value, Alias *> aliases;
  mlir::SmallVector<std::unique_ptr<Storage>> storages;
  mlir::SmallVector<std::unique_ptr<Alias>> owned;
  mlir::SmallVector<DecidedCopy> copies;
  bool hasDecisions = false;
};

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H
