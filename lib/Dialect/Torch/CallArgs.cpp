// The arguments of a call by their names in the operator's schema, with its defaults.
#include "kiln/Dialect/Torch/CallArgs.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

/// A value that must be there. A caller that is wrong has a bug, but the program comes from a file:
/// stop rather than read what is missing.
template <typename T> static T required(std::optional<T> value, const char *complaint) {
  if (!value)
    llvm::report_fatal_error(complaint);
  return *value;
}

std::optional<double> kiln::torch::asDouble(const Scalar &scalar) {
  if (auto *value = std::get_if<bool>(&scalar))
    return *value ? 1.0 : 0.0;
  if (auto *value = std::get_if<int64_t>(&scalar))
    return static_cast<double>(*value);
  if (auto *value = std::get_if<double>(&scalar))
    return *value;
  return std::nullopt;
}

std::optional<sym::Expr> kiln::torch::asExpr(const Scalar &scalar) {
  if (auto *value = std::get_if<bool>(&scalar))
    return sym::Expr(*value ? 1 : 0);
  if (auto *value = std::get_if<int64_t>(&scalar))
    return sym::Expr(*value);
  if (auto *value = std::get_if<sym::Expr>(&scalar))
    return *value;
  return std::nullopt;
}

NumberKind kiln::torch::kindOf(const Scalar &scalar) {
  if (auto *value = std::get_if<Value>(&scalar)) {
    Type type = cast<RankedTensorType>(value->getType()).getElementType();
    if (isa<FloatType>(type))
      return NumberKind::Float;
    return type.isInteger(1) ? NumberKind::Bool : NumberKind::Int;
  }
  if (std::holds_alternative<bool>(scalar))
    return NumberKind::Bool;
  if (std::holds_alternative<double>(scalar))
    return NumberKind::Float;
  if (std::holds_alternative<std::complex<double>>(scalar))
    return NumberKind::Complex;
  return NumberKind::Int;
}

CallArgs::CallArgs(CallOp call) : call(call), opSchema(lookupSchema(call.getTarget())) {}

int CallArgs::position(Key key) const {
  if (key.name.empty())
    return key.index;
  if (opSchema)
    return opSchema->indexOf(key.name);
  if (auto names = call.getNames())
    for (auto [i, name] : llvm::enumerate(names->getAsValueRange<StringAttr>()))
      if (name == key.name)
        return static_cast<int>(i);
  return -1;
}

Attribute CallArgs::get(Key key) const {
  int index = position(key);
  if (index < 0 || static_cast<size_t>(index) >= call.getArgs().size())
    return {};
  return call.getArgs()[index];
}

//===-- What kind of argument it is ---------------------------------------------------------===//

bool CallArgs::isNone(Key key) const {
  Attribute attr = get(key);
  return !attr || isa<UnitAttr>(attr);
}
bool CallArgs::isTensor(Key key) const { return isa_and_nonnull<ArgAttr>(get(key)); }
bool CallArgs::isNumber(Key key) const {
  Attribute attr = get(key);
  return attr && toScalar(attr).has_value();
}
bool CallArgs::isList(Key key) const { return isa_and_nonnull<ArrayAttr>(get(key)); }

//===-- Tensors -----------------------------------------------------------------------------===//

static Value toTensor(CallOp call, Attribute attr) {
  if (auto arg = dyn_cast_or_null<ArgAttr>(attr))
    return call->getOperand(arg.getIndex());
  return {};
}

/// The entries of a list argument; none for None.
static ArrayRef<Attribute> elements(Attribute attr) {
  if (auto list = dyn_cast_or_null<ArrayAttr>(attr))
    return list.getValue();
  return {};
}

Value CallArgs::tensor(Key key) const { return toTensor(call, get(key)); }

SmallVector<Value> CallArgs::tensorList(Key key) const {
  return llvm::map_to_vector(elements(get(key)), [&](Attribute a) { return toTensor(call, a); });
}

//===-- Integers ----------------------------------------------------------------------------===//

static std::optional<sym::Expr> toExpr(Attribute attr) {
  if (auto expr = dyn_cast_or_null<sym::ExprAttr>(attr))
    return expr.getValue();
  if (auto value = dyn_cast_or_null<BoolAttr>(attr))
    return sym::Expr(value.getValue() ? 1 : 0);
  if (auto value = dyn_cast_or_null<IntegerAttr>(attr))
    return sym::Expr(value.getInt());
  return std::nullopt;
}

std::optional<sym::Expr> CallArgs::optSymInt(Key key) const { return toExpr(get(key)); }
sym::Expr CallArgs::symInt(Key key) const {
  return required(optSymInt(key), "the argument is not an integer");
}

std::optional<int64_t> CallArgs::optInteger(Key key) const {
  std::optional<sym::Expr> expr = optSymInt(key);
  return expr ? expr->constant() : std::nullopt;
}
int64_t CallArgs::integer(Key key) const {
  return required(optInteger(key), "the argument is not a constant integer");
}

std::optional<SmallVector<sym::Expr>> CallArgs::optSymIntList(Key key) const {
  auto list = dyn_cast_or_null<ArrayAttr>(get(key));
  if (!list)
    return std::nullopt;
  SmallVector<sym::Expr> exprs;
  for (Attribute element : list) {
    std::optional<sym::Expr> expr = toExpr(element);
    if (!expr)
      return std::nullopt;
    exprs.push_back(*expr);
  }
  return exprs;
}
SmallVector<sym::Expr> CallArgs::symIntList(Key key) const {
  return required(optSymIntList(key), "the argument is not a list of integers");
}

std::optional<SmallVector<int64_t>> CallArgs::optIntList(Key key) const {
  auto exprs = optSymIntList(key);
  if (!exprs)
    return std::nullopt;
  SmallVector<int64_t> values;
  for (sym::Expr expr : *exprs) {
    std::optional<int64_t> value = expr.constant();
    if (!value)
      return std::nullopt;
    values.push_back(*value);
  }
  return values;
}
SmallVector<int64_t> CallArgs::intList(Key key) const {
  return required(optIntList(key), "the argument is not a list of constant integers");
}

//===-- Numbers -----------------------------------------------------------------------------===//

std::optional<Scalar> CallArgs::toScalar(Attribute attr) const {
  if (auto value = dyn_cast<BoolAttr>(attr))
    return value.getValue();
  if (auto value = dyn_cast<IntegerAttr>(attr))
    return value.getInt();
  if (auto value = dyn_cast<FloatAttr>(attr))
    return value.getValueAsDouble();
  if (auto value = dyn_cast<ComplexAttr>(attr))
    return std::complex<double>(value.getReal().getValueAsDouble(),
                                value.getImag().getValueAsDouble());
  if (auto value = dyn_cast<sym::ExprAttr>(attr))
    return value.getValue();
  if (auto value = dyn_cast<ScalarAttr>(attr))
    return call->getOperand(value.getIndex());
  return std::nullopt;
}

std::optional<Scalar> CallArgs::optScalar(Key key) const {
  Attribute attr = get(key);
  return attr ? toScalar(attr) : std::nullopt;
}
Scalar CallArgs::scalar(Key key) const {
  return required(optScalar(key), "the argument is not a number");
}
SmallVector<Scalar> CallArgs::scalarList(Key key) const {
  SmallVector<Scalar> values;
  for (Attribute element : elements(get(key)))
    if (std::optional<Scalar> value = toScalar(element))
      values.push_back(*value);
  return values;
}

std::optional<double> CallArgs::optNumber(Key key) const {
  std::optional<Scalar> value = optScalar(key);
  return value ? asDouble(*value) : std::nullopt;
}
double CallArgs::number(Key key) const {
  return required(optNumber(key), "the argument is not a constant number");
}
SmallVector<double> CallArgs::numberList(Key key) const {
  SmallVector<double> values;
  for (const Scalar &scalar : scalarList(key))
    values.push_back(asDouble(scalar).value_or(0));
  return values;
}

//===-- Everything else ---------------------------------------------------------------------===//

std::optional<bool> CallArgs::optBoolean(Key key) const {
  if (auto value = dyn_cast_or_null<BoolAttr>(get(key)))
    return value.getValue();
  return std::nullopt;
}
bool CallArgs::boolean(Key key) const {
  return required(optBoolean(key), "the argument is not a constant bool");
}
SmallVector<bool> CallArgs::booleanList(Key key) const {
  SmallVector<bool> values;
  for (Attribute element : elements(get(key)))
    if (auto value = dyn_cast<BoolAttr>(element))
      values.push_back(value.getValue());
  return values;
}

std::optional<StringRef> CallArgs::optString(Key key) const {
  if (auto value = dyn_cast_or_null<StringAttr>(get(key)))
    return value.getValue();
  return std::nullopt;
}
StringRef CallArgs::string(Key key) const { return optString(key).value_or(StringRef()); }

std::optional<Type> CallArgs::dtype(Key key) const {
  if (auto value = dyn_cast_or_null<DTypeAttr>(get(key)))
    return value.getType();
  return std::nullopt;
}
std::optional<StringRef> CallArgs::device(Key key) const {
  if (auto value = dyn_cast_or_null<DeviceAttr>(get(key)))
    return value.getName();
  return std::nullopt;
}
std::optional<Layout> CallArgs::layout(Key key) const {
  if (auto value = dyn_cast_or_null<LayoutAttr>(get(key)))
    return value.getValue();
  return std::nullopt;
}
std::optional<MemoryFormat> CallArgs::memoryFormat(Key key) const {
  if (auto value = dyn_cast_or_null<MemoryFormatAttr>(get(key)))
    return value.getValue();
  return std::nullopt;
}
