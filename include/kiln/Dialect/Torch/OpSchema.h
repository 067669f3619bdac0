// Schemas of PyTorch's operators.
//
// The table (lib/Dialect/Torch/AtenSchema.inc, made by generator/generate.py) is one sorted
// text with a line for each overload in the syntax of native_functions.yaml:
//
//   aten.add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//
// It costs nothing at start-up: a lookup is a binary search over the text, and a line is parsed
// when it is first asked for.
#ifndef KILN_DIALECT_TORCH_OPSCHEMA_H
#define KILN_DIALECT_TORCH_OPSCHEMA_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>
#include <string>

namespace kiln::torch {

enum class BaseType : uint8_t {
  Tensor,
  Int,    // a constant
  SymInt, // a constant or an expression
  Float,
  Bool,
  Scalar, // a number of any kind
  String,
  DType,
  Device,
  Layout,
  MemoryFormat,
  Other, // Generator, Dimname, Storage, Stream, …
};

struct SchemaType {
  BaseType base = BaseType::Other;
  bool optional = false;        // T?
  bool list = false;            // T[]
  bool elementOptional = false; // T?[]
  unsigned listSize = 0;        // T[2]: a single value stands for that many; 0: none given
};

struct SchemaArgument {
  llvm::StringRef name; // empty for most results
  SchemaType type;
  llvm::StringRef alias;  // "a" of Tensor(a!), "*" for Tensor(a -> *); empty: none
  bool mutated = false;   // Tensor(a!)
  bool kwargOnly = false; // after `*`
  std::optional<llvm::StringRef> defaultText; // `[0, 0]`, `None`, `contiguous_format`, `1e-05`, …
};

struct OpSchema {
  llvm::StringRef name; // with overload: aten.relu.default
  llvm::SmallVector<SchemaArgument, 6> arguments;
  llvm::SmallVector<SchemaArgument, 2> results;

  /// Position of an argument, or -1.
  int indexOf(llvm::StringRef argument) const;
  /// Any argument is written.
  bool mutates() const;
  /// Any result may share memory with an argument that is not written.
  bool isView() const;
};

/// The schema of `aten.add.Tensor`, or null. Thread-safe; lives as long as the process.
const OpSchema *lookupSchema(llvm::StringRef target);

/// The operator that returns what this one writes, to its first argument or to its last ones
/// (`out=`): `aten.add.Tensor` for `aten.add_.Tensor` and for `aten.add.out`. Empty if there is
/// none. It takes the same arguments, less those that are only written (and where it makes a tensor
/// of nothing, dtype, layout and device besides).
llvm::StringRef lookupFunctional(llvm::StringRef target);

/// Parses one line; nullopt (with a reason in `error` when given) if it is not in the syntax.
/// The result refers to `line`.
std::optional<OpSchema> parseSchema(llvm::StringRef line, std::string *error = nullptr);

/// The whole table.
llvm::StringRef schemaTable();

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_OPSCHEMA_H
