//===- TensorAliases.h - Which tensors share memory -------------*- C++ -*-===//
// What torch-functionalize knows of memory. Each tensor belongs to a Storage, whose `base` is the
// value that its memory holds now, and is reached from it by a chain of view calls. Writing through
// a view gives a new base: the views of the chain are undone one by one (`invertView`). Reading a
// view after a write repeats its chain on the new base. So nothing has to be known about strides,
// with one exception: `reshape` and `contiguous` may or may not copy. A chain through one is cut
// there when it is written, and whatever would tell the difference afterwards is refused.
#ifndef KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H
#define KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H

#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace kiln::torch {

enum class Sharing { Copy, View, Maybe };

/// Whether result 0 of the call shares the memory of argument 0.
Sharing getSharing(CallOp call);

/// One result of a view call.
struct ViewStep {
  CallOp call;
  unsigned result;
  /// It is a view, and never a copy.
  bool certain;
};

struct Storage {
  /// What the memory holds now; the value it began as.
  mlir::Value base, root;
  unsigned writes = 0;
  /// May share memory with what was written elsewhere.
  bool cut = false;
  /// May hold more elements than `base` shows.
  bool resized = false;
};

/// A tensor as the program knows it: how it is seen in its storage.
struct Alias {
  Storage *storage;
  mlir::SmallVector<ViewStep> chain;
  /// Its value after the first `writes` writes of the storage.
  mlir::Value current;
  unsigned writes;
};

class TensorAliases {
public:
  /// Views are repeated and undone where `builder` stands.
  explicit TensorAliases(mlir::ImplicitLocOpBuilder &builder) : builder(builder) {}

  /// The alias of a value of the program; one that is not known yet gets a storage of its own.
  Alias &get(mlir::Value value);
  /// `value` is the same tensor as `alias`, from here on.
  void set(mlir::Value value, Alias &alias) { aliases[value] = &alias; }

  /// What the tensor holds now; an error at `user` if that cannot be told.
  mlir::FailureOr<mlir::Value> getCurrent(mlir::Value value, mlir::Operation *user);

  /// The results of `call` are views of `source`.
  void addViews(CallOp call, mlir::Value source, bool certain);

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

private:
  Storage *addStorage(mlir::Value base);
  mlir::Value repeat(ViewStep step, mlir::Value source);
  mlir::Value undo(const Alias &alias, mlir::Value value, mlir::StringRef *obstacle = nullptr);
  mlir::LogicalResult cutAtUncertainStep(Alias &alias, CallOp call);

  mlir::ImplicitLocOpBuilder &builder;
  mlir::DenseMap<mlir::Value, Alias *> aliases;
  mlir::SmallVector<std::unique_ptr<Storage>> storages;
  mlir::SmallVector<std::unique_ptr<Alias>> owned;
};

} // namespace kiln::torch

#endif // KILN_LIB_TRANSFORMS_TORCH_TENSORALIASES_H
