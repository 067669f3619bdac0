// The pass torch-functionalize. Tensors are values from here on: a call that writes an argument
// becomes the call that returns what would have been written, and everything that shares memory
// with that argument is seen through it (TensorAliases.h).
#include "Functionalizer.h"
#include "kiln/Dialect/Kernel/Remarks.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace kiln {
#define GEN_PASS_DEF_TORCHFUNCTIONALIZE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

/// Neither PyTorch's nor a function of Python's: what is not in the table of schemas.
static bool isCustom(StringRef target) {
  return !llvm::is_contained({"aten", "prims", "_operator", "math", "torch"},
                             target.split('.').first);
}

/// The operator writes nothing but how its argument is seen.
static bool isMetadataChange(StringRef target) {
  return llvm::StringSwitch<bool>(target)
      .Cases({"aten.squeeze_.default", "aten.squeeze_.dim", "aten.squeeze_.dims"}, true)
      .Cases({"aten.unsqueeze_.default", "aten.t_.default", "aten.transpose_.default"}, true)
      .Cases({"aten.swapaxes_.default", "aten.swapdims_.default"}, true)
      .Case("aten.as_strided_.default", true)
      .Default(false);
}

LogicalResult Functionalizer::run() {
  Block &block = function.getBody().front();
  SmallVector<Operation *> operations;
  for (Operation &op : block.without_terminator())
    operations.push_back(&op);
  for (Operation *op : operations)
    if (failed(visit(op)))
      return failure();
  Operation *terminator = block.getTerminator();
  if (failed(refreshOperands(terminator)) || failed(returnMutated(terminator)) ||
      failed(checkOverlaps()))
    return failure();
  for (Operation *op : llvm::reverse(replaced))
    op->erase();
  checkStrides(function, aliases.checked.strides);
  smallSizes.exclude(aliases.checked.sizes);
  return success();
}

InFlightDiagnostic Functionalizer::refuse(CallOp call, const Twine &reason) {
  InFlightDiagnostic diagnostic = call.emitError();
  diagnostic << call.getTarget() << ": " << reason << " (" << describe(call.getLoc()) << ")";
  return diagnostic;
}

LogicalResult Functionalizer::refreshOperands(Operation *op) {
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    original[{op, operand.getOperandNumber()}] = operand.get();
    FailureOr<Value> now = aliases.getCurrent(operand.get(), op);
    if (failed(now))
      return failure();
    operand.set(*now);
  }
  return success();
}

LogicalResult Functionalizer::visit(Operation *op) {
  builder.setInsertionPoint(op);
  builder.setLoc(op->getLoc());
  if (failed(refreshOperands(op)))
    return failure();
  auto call = dyn_cast<CallOp>(op);
  if (!call)
    return success();
  const OpSchema *schema = lookupSchema(call.getTarget());
  if (!schema && isCustom(call.getTarget()))
    return visitCustom(call);
  auto self = dyn_cast_or_null<ArgAttr>(CallArgs(call).get(0));
  for (unsigned argument : getStridedArguments(call))
    if (auto tensor = dyn_cast_or_null<ArgAttr>(CallArgs(call).get(argument)))
      aliases.checked.strides |= layouts.of(getOriginal(call, tensor.getIndex()));
  if (schema && (schema->mutates() || llvm::any_of(schema->arguments, [&](auto &argument) {
                   return updatesStatistics(call, argument);
                 }))) {
    // The result's dtype and shape of an out= form are not known here.
    StringRef functional = lookupFunctional(call.getTarget());
    if (functional.empty() || !self || !schema->arguments[0].mutated)
      return visitUpdate(call, *schema);
    return visitInPlace(call, functional);
  }
  if (call->getNumResults() > 0 && self && self.getIndex() == 0)
    visitSharing(call);
  return success();
}

/// A call that writes nothing may return a view of its first argument.
void Functionalizer::visitSharing(CallOp call) {
  Conditions decidedBy;
  ViewDecision decision = smallSizes.decide(call, decidedBy.sizes);
  Value source = getOriginal(call, 0);
  if (decision.byStrides)
    decidedBy.strides = layouts.of(source);
  // Calls that are always copies, or always views, are no decision.
  if (decision.byStrides)
    emitRemark(RemarkKind::Chosen, call, "torch-functionalize", "Sharing", [&] {
      StringRef chosen = decision.sharing == Sharing::Copy   ? " copies its argument"
                         : decision.sharing == Sharing::View ? " is a view of its argument"
                                                             : " may be a view of its argument";
      StringRef reason = decidedBy.sizes.any()
                             ? "by the strides that export recorded, for sizes from 2 on"
                             : "by the strides that export recorded";
      return RemarkText{(call.getTarget() + chosen).str(), reason.str()};
    });
  if (decision.sharing == Sharing::Copy)
    aliases.addCopy(call, source, std::move(decidedBy));
  else
    aliases.addViews(call, source, decision.sharing == Sharing::View, decidedBy);
}

/// A call that writes its first argument becomes one of `functional`.
LogicalResult Functionalizer::visitInPlace(CallOp call, StringRef functional) {
  unsigned self = cast<ArgAttr>(CallArgs(call).get(0)).getIndex();
  Alias &alias = getAlias(call, self);
  bool reshapes = isMetadataChange(call.getTarget());
  bool resizes = !reshapes && call->getNumResults() == 1 &&
                 call->getResult(0).getType() != getOriginal(call, self).getType();
  if (resizes && !aliases.isAlone(alias))
    return refuse(call, "it changes the shape of what it writes");

  OperationState state(call.getLoc(), CallOp::getOperationName());
  state.addOperands(call->getOperands());
  state.addTypes(reshapes || resizes ? call->getResult(0).getType()
                                     : call->getOperand(self).getType());
  state.addAttributes(call->getAttrs());
  state.attributes.set("target", builder.getStringAttr(functional));
  auto result = cast<CallOp>(builder.create(state));
  replaced.push_back(call);
  if (reshapes) {
    // Only this tensor is seen differently from here on.
    alias.chain.push_back({result, 0, true});
    alias.current = result->getResult(0);
  } else if (resizes) {
    TensorAliases::resize(alias, result->getResult(0));
  } else if (decideSharing(result, smallSizes.getRanges()).sharing == Sharing::View) {
    result->erase(); // detach_, dropout_ of a model in evaluation mode: nothing is written
  } else if (failed(aliases.write(alias, result->getResult(0), call))) {
    return failure();
  }
  if (call->getNumResults() == 1)
    aliases.set(call->getResult(0), alias);
  return success();
}

/// A tensor that a module holds without registering it, and writes, is a buffer all the same.
static void makeBuffer(ConstantOp constant) {
  constant.setKind("buffer");
  auto module = constant->getParentOfType<ModuleOp>();
  auto listed = module->getAttrOfType<ArrayAttr>(constantsAttrName);
  if (!listed)
    return;
  SmallVector<Attribute> entries(listed.getValue());
  NamedAttrList entry;
  entry.set("name", constant.getNameAttr());
  entry.set("type", TypeAttr::get(constant.getType()));
  entries.push_back(entry.getDictionary(constant.getContext()));
  module->setAttr(constantsAttrName, ArrayAttr::get(constant.getContext(), entries));
}

/// New values of inputs and buffers become results.
LogicalResult Functionalizer::returnMutated(Operation *terminator) {
  SmallVector<Type> types(function.getResultTypes());
  SmallVector<Attribute> attributes;
  for (unsigned i = 0; i < types.size(); ++i) {
    auto dictionary = function.getResultAttrDict(i);
    attributes.push_back(dictionary ? dictionary : builder.getDictionaryAttr({}));
  }
  size_t before = types.size();
  for (const std::unique_ptr<Storage> &storage : aliases.getStorages()) {
    if (isa<BlockArgument>(storage->root) || storage->root.getDefiningOp<ConstantOp>())
      aliases.checked |= storage->pending;
    if (storage->writes == 0)
      continue;
    StringAttr name, kind;
    if (auto argument = dyn_cast<BlockArgument>(storage->root)) {
      name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttrName);
      kind = builder.getStringAttr("input");
      if (function.isPrivate())
        return function.emitError("a nested graph writes its argument");
    } else if (auto constant = storage->root.getDefiningOp<ConstantOp>()) {
      name = constant.getNameAttr();
      if (constant.getKind() == "constant")
        makeBuffer(constant);
      kind = constant.getKindAttr();
      constant.setMutated(true);
    } else {
      continue;
    }
    if (!name)
      return function.emitError("the program writes an input without a name");
    NamedAttrList attrs;
    attrs.set(mutatesAttrName, name);
    attrs.set(mutatesKindAttrName, kind);
    attributes.push_back(attrs.getDictionary(builder.getContext()));
    types.push_back(storage->base.getType());
    terminator->insertOperands(terminator->getNumOperands(), storage->base);
  }
  if (types.size() > before) {
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), types));
    function.setAllResultAttrs(attributes);
  }
  return success();
}

/// Constants are values by themselves: one that is read must not change with another one.
LogicalResult Functionalizer::checkOverlaps() {
  llvm::StringSet<> used;
  for (auto constant : function.getOps<ConstantOp>())
    if (!constant->use_empty())
      used.insert(constant.getName());
  for (auto constant : function.getOps<ConstantOp>()) {
    if (!constant.getMutated() || !constant.getOverlaps())
      continue;
    for (auto other : constant.getOverlapsAttr().getAsRange<StringAttr>())
      if (used.contains(other))
        return constant.emitError("the program writes ")
               << constant.getKind() << " '" << constant.getName() << "', and reads '"
               << other.getValue()
               << "', which is another view of the same memory: compute that view in forward()";
  }
  return success();
}

namespace {
struct TorchFunctionalize : kiln::impl::TorchFunctionalizeBase<TorchFunctionalize> {
  void runOnOperation() override {
    SmallSizes smallSizes(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(Functionalizer(function, smallSizes).run()))
        return signalPassFailure();
    checkStridesOfCallers(getOperation());
  }
};
} // namespace
