// Verifiers and effects of the torch dialect's operations.
#include "kiln/Dialect/Torch/OpSchema.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

#define GET_OP_CLASSES
#include "kiln/Dialect/Torch/TorchOps.cpp.inc"

//===-- Arguments ---------------------------------------------------------------------------===//

namespace {

bool isScalarTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 0;
}

template <typename Op> LogicalResult verifyCallLike(Op op) {
  if (failed(sym::verifyArguments(op.getArgs(), op->getNumOperands(),
                                  [&] { return op.emitOpError(); }))) // C1, C2
    return failure();
  if (ArrayAttr values = op.getValuesAttr()) { // C4
    if (values.size() != op->getNumResults())
      return op.emitOpError("has ")
             << values.size() << " entries in 'values' for " << op->getNumResults() << " results";
    for (auto [value, type] : llvm::zip(values, op->getResultTypes())) {
      if (isa<UnitAttr>(value))
        continue;
      Type element = isScalarTensor(type) ? cast<RankedTensorType>(type).getElementType() : Type();
      if (!isa<sym::ExprAttr>(value) || !element ||
          !(element.isInteger(64) || element.isInteger(1)))
        return op.emitOpError("expects an expression for a 0-d tensor of i64 or i1, or unit, in "
                              "'values'");
    }
  }
  ArrayAttr names = op.getNamesAttr();
  if (names && names.size() != op.getArgs().size()) // C5
    return op.emitOpError("has ") << names.size() << " names for " << op.getArgs().size()
                                  << " arguments";
  return success();
}

} // namespace

//===-- CallOp ------------------------------------------------------------------------------===//

LogicalResult CallOp::verify() {
  if (failed(verifyCallLike(*this)))
    return failure();
  if (std::optional<ArrayRef<int64_t>> updates = getUpdates()) { // C6
    unsigned own = getNumResults() - std::min<size_t>(updates->size(), getNumResults());
    if (failed(sym::verifyResults(llvm::to_vector(llvm::seq<int64_t>(0, own)), /*sizes=*/{},
                                  *updates, getNumOperands(), getNumResults(),
                                  [&] { return emitOpError(); })))
      return failure();
    for (auto [i, operand] : llvm::enumerate(*updates))
      if (getResult(own + i).getType() != getOperand(operand).getType())
        return emitOpError("updates operand ")
               << operand << ", but result " << own + i << " has another type";
  }
  const OpSchema *schema = lookupSchema(getTarget());
  if (!schema) // C3 is about operators that have one
    return success();
  if (getArgs().size() != schema->arguments.size())
    return emitOpError("has ") << getArgs().size() << " arguments, the schema of " << getTarget()
                               << " has " << schema->arguments.size();
  for (auto [attr, argument] : llvm::zip(getArgs(), schema->arguments))
    if (!fits(attr, argument.type))
      return emitOpError("argument '")
             << argument.name << "' does not fit the schema of " << getTarget() << ": " << attr;
  return success();
}

void CallOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  const OpSchema *schema = lookupSchema(getTarget());
  // An operator that is not known may do anything; one without results is there for what it does
  // (an assertion). Other processes wait for a collective.
  bool isCollective = getTarget().starts_with("_c10d_functional.");
  bool isOpaque = !schema || getNumResults() == 0 || isCollective;
  if (isOpaque) {
    effects.emplace_back(MemoryEffects::Read::get());
    effects.emplace_back(MemoryEffects::Write::get());
    return;
  }
  for (OpOperand &operand : getOperation()->getOpOperands())
    effects.emplace_back(MemoryEffects::Read::get(), &operand);
  // Each call makes its own tensor: two equal calls must not be merged while one result may still
  // be written in place.
  for (OpResult result : getOperation()->getOpResults())
    effects.emplace_back(MemoryEffects::Allocate::get(), result);
  // The schemas of batch and instance norm do not say that they update running statistics.
  bool drawsRandomNumbers = schema->indexOf("generator") >= 0;
  bool hasRunningStatistics = schema->indexOf("running_mean") >= 0;
  if (drawsRandomNumbers || hasRunningStatistics || schema->mutates() || getDefines())
    effects.emplace_back(MemoryEffects::Write::get());
}

Value kiln::torch::castTo(OpBuilder &builder, Location loc, Value value, Type element,
                          StringAttr node) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  MLIRContext *context = builder.getContext();
  Attribute no = builder.getBoolAttr(false);
  return CallOp::create(builder, loc, type.clone(element), "aten.to.dtype", value,
                        {ArgAttr::get(context, 0), DTypeAttr::get(context, element), no, no,
                         builder.getUnitAttr()},
                        node)
      ->getResult(0);
}

//===-- HigherOrderOp -----------------------------------------------------------------------===//

LogicalResult HigherOrderOp::verify() { return verifyCallLike(*this); }

LogicalResult HigherOrderOp::verifySymbolUses(SymbolTableCollection &symbolTable) {
  LogicalResult result = success();
  getArgs().walk([&](FlatSymbolRefAttr reference) { // C7
    if (succeeded(result) &&
        !symbolTable.lookupNearestSymbolFrom<func::FuncOp>(getOperation(), reference))
      result = emitOpError("'") << reference.getValue() << "' is not a function";
  });
  return result;
}

//===-- Constants ---------------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  StringRef kind = getKind();
  if (kind != "parameter" && kind != "buffer" && kind != "constant") // C1
    return emitOpError("kind is 'parameter', 'buffer' or 'constant', not '") << kind << "'";
  if (kind == "constant" && (getMutated() || getTransient())) // C2
    return emitOpError("a constant is neither mutated nor transient");
  return success();
}

LogicalResult NumberOp::verify() {
  Type type = cast<RankedTensorType>(getType()).getElementType();
  Attribute value = getValue();
  bool isValid = false; // C1
  if (isa<sym::ExprAttr>(value))
    isValid = type.isInteger(64);
  else if (auto number = dyn_cast<TypedAttr>(value))
    isValid = isa<IntegerAttr, FloatAttr>(value) && number.getType() == type;
  if (!isValid)
    return emitOpError("value ") << value << " does not fit type " << type;
  return success();
}
