// Reads the arguments of a torch.call.
//
//   CallArgs args(call);
//   Value self = args.tensor(0);
//   SmallVector<int64_t> dims = args.intList("dim");
//   bool keepdim = args.boolean("keepdim");
//
// An argument is named by its position or by its name in the schema. The verifier of torch.call has
// checked every argument against the schema (constraint C3), so an accessor may be used without a
// check where the declared type allows nothing else. Where it allows more, the plain accessor is
// for what must be there (the process stops if it is not) and the `opt` one answers "none" (a null
// Value, nullopt):
//
//   declared            accessor
//   Tensor              tensor: null when a Python number was given instead, see `scalar`
//   Tensor?             optTensor: null for None (and for a number)
//   Tensor[], Tensor?[] tensorList, optTensorList: null entries for None
//   int, SymInt         integer (int only), symInt; optInteger, optSymInt
//   int[], SymInt[]     intList (int[] only), symIntList; optIntList, optSymIntList
//   Scalar              scalar, number; optScalar
//   float, bool, str    number, boolean, string; optNumber, optBoolean, optString
//   ScalarType?         dtype
//
// A SymInt argument with a constant value is read by `integer` too: use optInteger to ask.
#ifndef KILN_DIALECT_TORCH_CALLARGS_H
#define KILN_DIALECT_TORCH_CALLARGS_H

#include "kiln/Dialect/Torch/OpSchema.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include <complex>
#include <variant>

namespace kiln::torch {

/// A Python number: a constant, an expression over symbols, or a 0-d tensor (i64, f64 or i1) whose
/// value is only known when the model runs.
using Scalar = std::variant<bool, int64_t, double, std::complex<double>, sym::Expr, mlir::Value>;

/// The value of a real constant.
std::optional<double> asDouble(const Scalar &scalar);
/// The value of an integer or bool, constant or symbolic.
std::optional<sym::Expr> asExpr(const Scalar &scalar);
/// How the number takes part in type promotion.
inline bool isBool(const Scalar &s) { return std::holds_alternative<bool>(s); }
enum class NumberKind { Bool, Int, Float, Complex };
NumberKind kindOf(const Scalar &scalar);

class CallArgs {
public:
  /// A position, or a name of the schema.
  struct Key {
    Key(int index) : index(index) {}                        // NOLINT: args.tensor(0)
    Key(unsigned index) : index(static_cast<int>(index)) {} // NOLINT
    Key(const char *name) : name(name) {}                   // NOLINT: args.tensor("self")
    Key(llvm::StringRef name) : name(name) {}               // NOLINT
    int index = -1;
    llvm::StringRef name;
  };

  explicit CallArgs(CallOp call);

  unsigned size() const { return call.getArgs().size(); }
  /// Null for an operator without a schema.
  const OpSchema *schema() const { return opSchema; }
  /// The schema has an argument of this name.
  bool has(llvm::StringRef name) const { return position(name) >= 0; }
  /// The raw attribute; null when there is no such argument.
  mlir::Attribute get(Key key) const;

  bool isNone(Key key) const;   // None, or no such argument
  bool isTensor(Key key) const; // #sym.arg
  bool isNumber(Key key) const; // a constant, an expression or #sym.scalar
  bool isList(Key key) const;

  mlir::Value tensor(Key key) const;
  mlir::Value optTensor(Key key) const { return tensor(key); }
  llvm::SmallVector<mlir::Value> tensorList(Key key) const;
  llvm::SmallVector<mlir::Value> optTensorList(Key key) const { return tensorList(key); }

  int64_t integer(Key key) const;
  std::optional<int64_t> optInteger(Key key) const;
  sym::Expr symInt(Key key) const;
  std::optional<sym::Expr> optSymInt(Key key) const;
  llvm::SmallVector<int64_t> intList(Key key) const;
  std::optional<llvm::SmallVector<int64_t>> optIntList(Key key) const; // nullopt: None, or symbolic
  llvm::SmallVector<sym::Expr> symIntList(Key key) const;
  std::optional<llvm::SmallVector<sym::Expr>> optSymIntList(Key key) const;

  Scalar scalar(Key key) const;
  std::optional<Scalar> optScalar(Key key) const;
  llvm::SmallVector<Scalar> scalarList(Key key) const;
  double number(Key key) const; // a constant float, int or bool
  std::optional<double> optNumber(Key key) const;
  llvm::SmallVector<double> numberList(Key key) const;
  bool boolean(Key key) const;
  std::optional<bool> optBoolean(Key key) const;
  llvm::SmallVector<bool> booleanList(Key key) const;
  llvm::StringRef string(Key key) const; // empty for None
  std::optional<llvm::StringRef> optString(Key key) const;
  std::optional<mlir::Type> dtype(Key key) const;
  std::optional<llvm::StringRef> device(Key key) const;
  std::optional<Layout> layout(Key key) const;
  std::optional<MemoryFormat> memoryFormat(Key key) const;

  CallOp op() const { return call; }

private:
  int position(Key key) const;
  std::optional<Scalar> toScalar(mlir::Attribute attr) const;

  mutable CallOp call; // an op handle: its accessors are not const
  const OpSchema *opSchema;
};

} // namespace kiln::torch

#endif // KILN_DIALECT_TORCH_CALLARGS_H
