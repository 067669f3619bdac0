// Calls of torch-functionalize that write arguments and have no form that returns what they write:
// they become the same calls with `updates`, the operands whose new values are further results.
#include "Functionalizer.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Dialect/Torch/CustomOp.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

bool torch::updatesStatistics(CallOp call, const SchemaArgument &argument) {
  if (argument.name != "running_mean" && argument.name != "running_var")
    return false;
  StringRef name = call.getTarget().split('.').second.split('.').first;
  if (name.contains("backward") || name.contains("functional") || name.contains("no_training"))
    return false;
  CallArgs args(call);
  if (!args.isTensor(argument.name))
    return false;
  for (StringRef flag : {"training", "use_input_stats"})
    if (args.has(flag))
      return args.boolean(flag);
  return true;
}

/// The same call with `updates`.
CallOp Functionalizer::emitWithUpdates(CallOp call, ArrayRef<int64_t> updates) {
  OperationState state(call.getLoc(), CallOp::getOperationName());
  state.addOperands(call->getOperands());
  state.addTypes(call->getResultTypes());
  for (int64_t operand : updates)
    state.addTypes(call->getOperand(operand).getType());
  state.addAttributes(call->getAttrs());
  state.attributes.set("updates", builder.getDenseI64ArrayAttr(updates));
  if (ArrayAttr values = call.getValuesAttr()) {
    SmallVector<Attribute> all(values.getValue());
    all.append(updates.size(), builder.getUnitAttr());
    state.attributes.set("values", builder.getArrayAttr(all));
  }
  replaced.push_back(call);
  return cast<CallOp>(builder.create(state));
}

/// The last results of `result` are what `call` wrote.
LogicalResult Functionalizer::writeUpdates(CallOp call, CallOp result, ArrayRef<int64_t> updates) {
  for (auto [i, operand] : llvm::enumerate(updates))
    if (failed(aliases.write(getAlias(call, operand), result->getResult(call->getNumResults() + i),
                             call)))
      return failure();
  return success();
}

/// No two of the operands share memory.
LogicalResult Functionalizer::checkDistinct(CallOp call, ArrayRef<int64_t> operands) {
  llvm::SmallPtrSet<Storage *, 4> storages;
  for (int64_t operand : operands)
    if (!storages.insert(getAlias(call, operand).storage).second)
      return refuse(call, "it writes two tensors that share memory");
  return success();
}

LogicalResult Functionalizer::visitUpdate(CallOp call, const OpSchema &schema) {
  SmallVector<int64_t> updates;
  SmallVector<StringRef> letters; // of the schema's alias sets
  for (auto [attr, argument] : llvm::zip_equal(call.getArgs(), schema.arguments)) {
    if (!argument.mutated && !updatesStatistics(call, argument))
      continue;
    StringRef letter = argument.type.list ? StringRef() : argument.alias;
    Attribute value = attr;
    value.walk([&](ArgAttr operand) {
      updates.push_back(operand.getIndex());
      letters.push_back(letter);
    });
  }
  if (failed(checkDistinct(call, updates)))
    return failure();
  // The update that each result is: `Tensor(a!)`.
  SmallVector<std::optional<unsigned>> returned(call->getNumResults());
  bool resizes = false;
  if (schema.results.size() == call->getNumResults())
    for (auto [i, result] : llvm::enumerate(schema.results))
      if (auto *letter = llvm::find(letters, result.alias);
          !result.alias.empty() && letter != letters.end()) {
        returned[i] = letter - letters.begin();
        resizes |=
            call->getResult(i).getType() != getOriginal(call, updates[*returned[i]]).getType();
      }
  if (resizes)
    return visitResizingOut(call, updates, returned);

  CallOp result = emitWithUpdates(call, updates);
  if (failed(writeUpdates(call, result, updates)))
    return failure();
  for (auto [i, old] : llvm::enumerate(call->getResults()))
    if (returned[i])
      aliases.set(old, getAlias(call, updates[*returned[i]]));
    else
      old.replaceAllUsesWith(result->getResult(i));
  return success();
}

/// An `out=` form that gives its tensors other sizes: they are what the functional form returns.
/// `returned` is the update that each result is.
LogicalResult Functionalizer::visitResizingOut(CallOp call, ArrayRef<int64_t> updates,
                                               ArrayRef<std::optional<unsigned>> returned) {
  auto refuseResizing = [&] { return refuse(call, "it changes the shape of what it writes"); };
  StringRef functional = lookupFunctional(call.getTarget());
  const OpSchema *schema = lookupSchema(functional);
  size_t count = updates.size(), operands = call->getNumOperands() - count;
  if (!schema || schema->arguments.size() + count != call.getArgs().size() ||
      call->getNumResults() != count || call.getDefines())
    return refuseResizing();
  // The functional form has the same arguments without the last ones, which are written.
  for (size_t i = 0; i < count; ++i)
    if (updates[i] != static_cast<int64_t>(operands + i) || returned[i] != i ||
        call.getArgs()[schema->arguments.size() + i] !=
            ArgAttr::get(builder.getContext(), operands + i))
      return refuseResizing();
  SmallVector<Alias *> written;
  for (int64_t operand : updates)
    written.push_back(&getAlias(call, operand));
  for (auto [alias, old] : llvm::zip_equal(written, call->getResults()))
    if (old.getType() != alias->current.getType() && !aliases.isAlone(*alias))
      return refuseResizing();

  OperationState state(call.getLoc(), CallOp::getOperationName());
  state.addOperands(call->getOperands().take_front(operands));
  state.addTypes(call->getResultTypes());
  state.addAttributes(call->getAttrs());
  state.attributes.set("target", builder.getStringAttr(functional));
  state.attributes.set("args", builder.getArrayAttr(call.getArgs().getValue().drop_back(count)));
  auto result = cast<CallOp>(builder.create(state));
  replaced.push_back(call);
  for (auto [alias, old, value] :
       llvm::zip_equal(written, call->getResults(), result->getResults())) {
    if (old.getType() != alias->current.getType())
      TensorAliases::resize(*alias, value);
    else if (failed(aliases.write(*alias, value, call)))
      return failure();
    aliases.set(old, *alias);
  }
  return success();
}

/// The arguments that a custom operator writes whose schema no saved program says: all, except
/// those that then would have to be kept (weights) or handed back (inputs, and buffers, where it
/// returns something and need not write at all). A library that runs it knows what it writes, and
/// refuses what is not expected here.
SmallVector<int64_t> Functionalizer::guessWrites(CallOp call) {
  SmallVector<int64_t> tensors, updates;
  llvm::SmallDenseMap<Storage *, unsigned> uses;
  for (Attribute attr : call.getArgs())
    attr.walk([&](ArgAttr operand) {
      if (isa<RankedTensorType>(call->getOperand(operand.getIndex()).getType()) &&
          !llvm::is_contained(tensors, operand.getIndex()))
        tensors.push_back(operand.getIndex());
    });
  for (int64_t operand : tensors)
    ++uses[getAlias(call, operand).storage];
  for (int64_t operand : tensors)
    if (Alias &alias = getAlias(call, operand);
        uses[alias.storage] == 1 && isWrittenByCustom(alias, call->getNumResults() == 0))
      updates.push_back(operand);
  return updates;
}

LogicalResult Functionalizer::visitCustom(CallOp call) {
  auto declared = call->getAttrOfType<DenseI64ArrayAttr>(writesAttrName);
  SmallVector<int64_t> updates =
      declared ? llvm::to_vector(declared.asArrayRef()) : guessWrites(call);
  if (failed(checkDistinct(call, updates)))
    return failure();
  if (updates.empty())
    return success();
  CallOp result = emitWithUpdates(call, updates);
  for (auto [i, old] : llvm::enumerate(call->getResults()))
    old.replaceAllUsesWith(result->getResult(i));
  return writeUpdates(call, result, updates);
}

bool Functionalizer::isWrittenByCustom(const Alias &alias, bool returnsNothing) {
  Value root = alias.storage->root;
  if (isa<BlockArgument>(root) && (!returnsNothing || function.isPrivate()))
    return false;
  if (auto constant = root.getDefiningOp<ConstantOp>();
      constant && (!returnsNothing || constant.getKind() != "buffer"))
    return false;
  return aliases.canWrite(alias);
}
