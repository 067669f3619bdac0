// The pass torch-functionalize. Tensors are values from here on: a call that writes an argument
// becomes the call that returns what would have been written, and everything that shares memory
// with that argument is seen through it.
//
// Each tensor belongs to a Storage, whose `base` is the value that its memory holds now, and is
// reached from it by a chain of view calls. Writing through a view gives a new base: the views of
// the chain are undone one by one (`invert`). Reading a view after a write repeats its chain on the
// new base. So nothing has to be known about strides, with one exception: `reshape` and
// `contiguous` may or may not copy. A chain through one is cut there when it is written, and
// whatever would tell the difference afterwards is refused.
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace kiln {
#define GEN_PASS_DEF_TORCHFUNCTIONALIZE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

namespace {

//===-- What is known of operators ------------------------------------------------------------===//

/// Batch and instance norm in training mode write running statistics, which their schemas do not
/// say.
bool updatesStatistics(CallOp call, const SchemaArgument &argument) {
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

/// Neither PyTorch's nor a function of Python's: what is not in the table of schemas.
bool isCustom(StringRef target) {
  return !llvm::is_contained({"aten", "prims", "_operator", "math", "torch"},
                             target.split('.').first);
}

/// The argument is known to be row-major and without gaps.
bool isOfContiguous(CallOp call) {
  auto strides = call->getAttrOfType<sym::ShapeAttr>(stridesAttrName);
  auto sizes = sym::getShape(call->getOperand(0));
  if (!strides || strides.getSizes().size() != sizes.size())
    return false;
  sym::Expr next = 1;
  for (auto [size, stride] : llvm::reverse(llvm::zip(sizes, strides.getSizes()))) {
    if (!size.isConstant(1) && stride != next)
      return false;
    next = next * size;
  }
  return true;
}

enum class Sharing { Copy, View, Maybe };

/// Whether result 0 shares the memory of argument 0. The schemas say so for views; some composite
/// operators return their argument without saying.
Sharing sharing(CallOp call) {
  StringRef target = call.getTarget();
  CallArgs args(call);
  auto [name, overload] = target.drop_front(target.find('.') + 1).split('.');
  if (name == "dropout" || name == "feature_dropout" || name == "alpha_dropout" ||
      name == "feature_alpha_dropout")
    return args.boolean("train") ? Sharing::Copy : Sharing::View;
  if (name == "to" || name == "type_as") {
    if (args.tensor(0).getType() != call.getResult(0).getType())
      return Sharing::Copy;
    return args.has("copy") && args.boolean("copy") ? Sharing::Copy : Sharing::View;
  }
  bool composite = llvm::StringSwitch<bool>(name)
                       .Cases({"reshape", "reshape_as", "contiguous", "flatten", "ravel"}, true)
                       .Cases({"atleast_1d", "atleast_2d", "atleast_3d"}, true)
                       .Default(false);
  if (composite) {
    bool isRowMajor = name != "contiguous" || args.isNone("memory_format") ||
                      args.memoryFormat("memory_format") == MemoryFormat::Contiguous;
    return isRowMajor && isOfContiguous(call) ? Sharing::View : Sharing::Maybe;
  }
  return args.schema() && args.schema()->isView() ? Sharing::View : Sharing::Copy;
}

//===-- Aliases -------------------------------------------------------------------------------===//

/// One result of a view call.
struct Step {
  CallOp call;
  unsigned result;
  bool certain;
};

struct Storage {
  Value base, root; // what the memory holds now; the value it began as
  unsigned writes = 0;
  bool cut = false;     // may share memory with what was written elsewhere
  bool resized = false; // may hold more elements than `base` shows
};

struct Alias {
  Storage *storage;
  SmallVector<Step> chain;
  Value current;   // as of `writes`
  unsigned writes; // of the storage
};

class Functionalizer {
public:
  explicit Functionalizer(func::FuncOp function) : function(function) {}

  LogicalResult run() {
    Block &block = function.getBody().front();
    SmallVector<Operation *> operations;
    for (Operation &op : block.without_terminator())
      operations.push_back(&op);
    for (Operation *op : operations)
      if (failed(visit(op)))
        return failure();
    Operation *terminator = block.getTerminator();
    if (failed(refreshOperands(terminator)) || failed(returnMutated(terminator)))
      return failure();
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    return success();
  }

private:
  LogicalResult visit(Operation *op) {
    builder.setInsertionPoint(op);
    builder.setLoc(op->getLoc());
    if (failed(refreshOperands(op)))
      return failure();
    auto call = dyn_cast<CallOp>(op);
    if (!call)
      return success();
    const OpSchema *schema = lookupSchema(call.getTarget());
    if (schema && (schema->mutates() || llvm::any_of(schema->arguments, [&](auto &argument) {
                     return updatesStatistics(call, argument);
                   })))
      return visitMutation(call, *schema);
    if (!schema && isCustom(call.getTarget()))
      return visitCustom(call);
    auto self = dyn_cast_or_null<ArgAttr>(CallArgs(call).get(0));
    if (call->getNumResults() > 0 && self && self.getIndex() == 0)
      if (Sharing how = sharing(call); how != Sharing::Copy)
        addViews(call, how == Sharing::View);
    return success();
  }

  /// Every operand is replaced by what its memory holds now.
  LogicalResult refreshOperands(Operation *op) {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      original[{op, operand.getOperandNumber()}] = operand.get();
      FailureOr<Value> now = current(operand.get(), op);
      if (failed(now))
        return failure();
      operand.set(*now);
    }
    return success();
  }

  Alias &aliasOf(Value value) {
    Alias *&alias = aliases[value];
    if (!alias) {
      storages.push_back(std::make_unique<Storage>(Storage{value, value}));
      owned.push_back(std::make_unique<Alias>(Alias{storages.back().get(), {}, value, 0}));
      alias = owned.back().get();
    }
    return *alias;
  }

  FailureOr<Value> current(Value value, Operation *user) {
    auto found = aliases.find(value);
    if (found == aliases.end())
      return value;
    Alias &alias = *found->second;
    if (alias.storage->cut)
      return user->emitError("cannot tell whether a tensor shares memory with one that was "
                             "written: it was reshaped (")
             << describe(user->getLoc()) << ")";
    if (alias.writes == alias.storage->writes)
      return alias.current;
    Value now = alias.storage->base;
    for (Step &step : alias.chain) {
      if (!step.certain)
        return user->emitError("cannot tell whether '")
               << step.call.getNode() << "' shares memory with what was written ("
               << describe(user->getLoc()) << ")";
      now = repeat(step, now);
    }
    alias.current = now;
    alias.writes = alias.storage->writes;
    return now;
  }

  /// The view call again, of another tensor.
  Value repeat(Step step, Value source) {
    auto clone = cast<CallOp>(builder.clone(*step.call));
    clone->setOperand(0, source);
    clone.removeDefinesAttr(); // the first one has
    return clone->getResult(step.result);
  }

  void addViews(CallOp call, bool certain) {
    // The alias of the value as the program wrote it, before operands were refreshed.
    Alias &source = aliasOf(originalOperand(call, 0));
    for (unsigned i = 0; i < call->getNumResults(); ++i) {
      SmallVector<Step> chain = source.chain;
      chain.push_back({call, i, certain});
      owned.push_back(std::make_unique<Alias>(
          Alias{source.storage, std::move(chain), call->getResult(i), source.storage->writes}));
      aliases[call->getResult(i)] = owned.back().get();
    }
  }

  Value originalOperand(Operation *op, unsigned operand) { return original.at({op, operand}); }

  //===-- Writes -----------------------------------------------------------------------------===//

  LogicalResult visitMutation(CallOp call, const OpSchema &schema) {
    CallArgs args(call);
    auto self = dyn_cast_or_null<ArgAttr>(args.get(0));
    StringRef functional = lookupFunctional(call.getTarget());
    // Of an out= form the result's dtype and shape are not known here.
    if (functional.empty() || !self || !schema.arguments[0].mutated)
      return visitUpdate(call, schema);
    bool reshapes = isMetadataChange(call.getTarget());
    Value written = originalOperand(call, self.getIndex());
    Alias &alias = aliasOf(written);
    bool resizes = !reshapes && call->getNumResults() == 1 &&
                   call->getResult(0).getType() != written.getType();
    if (resizes && !isAlone(alias))
      return call.emitError() << call.getTarget() << ": it changes the shape of what it writes ("
                              << describe(call.getLoc()) << ")";

    OperationState state(call.getLoc(), CallOp::getOperationName());
    state.addOperands(call->getOperands());
    state.addTypes(reshapes || resizes ? call->getResult(0).getType()
                                       : call->getOperand(self.getIndex()).getType());
    state.addAttributes(call->getAttrs());
    state.attributes.set("target", builder.getStringAttr(functional));
    auto result = cast<CallOp>(builder.create(state));
    replaced.push_back(call);
    if (reshapes) {
      // Only this tensor is seen differently from here on.
      alias.chain.push_back({result, 0, true});
      alias.current = result->getResult(0);
    } else if (resizes) {
      resize(alias, result->getResult(0));
    } else if (sharing(result) == Sharing::View) {
      result->erase(); // detach_, dropout_ of a model in evaluation mode: nothing is written
    } else if (failed(write(alias, result->getResult(0), call))) {
      return failure();
    }
    if (call->getNumResults() == 1)
      aliases[call->getResult(0)] = &alias;
    return success();
  }

  /// `alias`, which is alone, is `value` from now on.
  static void resize(Alias &alias, Value value) {
    *alias.storage = Storage{value, value};
    alias.storage->resized = true;
    alias.current = value;
    alias.writes = 0;
  }

  /// Nothing else sees the memory, neither views nor whoever calls the program, and there is no
  /// more of it than is seen.
  bool isAlone(const Alias &alias) {
    Value root = alias.storage->root;
    return alias.chain.empty() && !alias.storage->resized && !isa<BlockArgument>(root) &&
           !root.getDefiningOp<ConstantOp>() &&
           llvm::none_of(owned, [&](const std::unique_ptr<Alias> &other) {
             return other.get() != &alias && other->storage == alias.storage;
           });
  }

  /// A call without a form that returns what it writes: it becomes the same call with `updates`.
  LogicalResult visitUpdate(CallOp call, const OpSchema &schema) {
    auto refuse = [&](const Twine &reason) {
      return call.emitError() << call.getTarget() << ": " << reason << " ("
                              << describe(call.getLoc()) << ")";
    };
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
    llvm::SmallPtrSet<Storage *, 4> storagesWritten;
    for (int64_t operand : updates)
      if (!storagesWritten.insert(aliasOf(originalOperand(call, operand)).storage).second)
        return refuse("it writes two tensors that share memory");
    // The update that each result is: `Tensor(a!)`.
    SmallVector<std::optional<unsigned>> returned(call->getNumResults());
    bool resizes = false;
    if (schema.results.size() == call->getNumResults())
      for (auto [i, result] : llvm::enumerate(schema.results))
        if (auto *letter = llvm::find(letters, result.alias);
            !result.alias.empty() && letter != letters.end()) {
          returned[i] = letter - letters.begin();
          resizes |= call->getResult(i).getType() !=
                     originalOperand(call, updates[*returned[i]]).getType();
        }
    if (resizes)
      return succeeded(resizeOut(call, updates, returned))
                 ? success()
                 : refuse("it changes the shape of what it writes");

    CallOp result = emitWithUpdates(call, updates);
    if (failed(writeUpdates(call, result, updates)))
      return failure();
    for (auto [i, old] : llvm::enumerate(call->getResults()))
      if (returned[i])
        aliases[old] = &aliasOf(originalOperand(call, updates[*returned[i]]));
      else
        old.replaceAllUsesWith(result->getResult(i));
    return success();
  }

  /// An `out=` form that gives its tensors other sizes: they are what the functional form returns.
  LogicalResult resizeOut(CallOp call, ArrayRef<int64_t> updates,
                          ArrayRef<std::optional<unsigned>> returned) {
    StringRef functional = lookupFunctional(call.getTarget());
    const OpSchema *schema = lookupSchema(functional);
    size_t count = updates.size(), operands = call->getNumOperands() - count;
    if (!schema || schema->arguments.size() + count != call.getArgs().size() ||
        call->getNumResults() != count || call.getDefines())
      return failure();
    for (size_t i = 0; i < count; ++i)
      if (updates[i] != static_cast<int64_t>(operands + i) || returned[i] != i ||
          call.getArgs()[schema->arguments.size() + i] != arg(operands + i))
        return failure();
    SmallVector<Alias *> written;
    for (int64_t operand : updates)
      written.push_back(&aliasOf(originalOperand(call, operand)));
    for (auto [alias, old] : llvm::zip_equal(written, call->getResults()))
      if (old.getType() != alias->current.getType() && !isAlone(*alias))
        return failure();

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
      if (old.getType() == alias->current.getType()) {
        if (failed(write(*alias, value, call)))
          return failure();
      } else {
        resize(*alias, value);
      }
      aliases[old] = alias;
    }
    return success();
  }

  /// A custom operator may write its tensors, which no saved program says: it is taken to write
  /// what it is given, except what then would have to be kept (weights) or handed back (inputs, and
  /// buffers, where it returns something and need not write at all). A library that runs it knows
  /// what it writes, and refuses what is not expected here.
  LogicalResult visitCustom(CallOp call) {
    SmallVector<int64_t> tensors, updates;
    llvm::SmallDenseMap<Storage *, unsigned> uses;
    for (Attribute attr : call.getArgs())
      attr.walk([&](ArgAttr operand) {
        if (isa<RankedTensorType>(call->getOperand(operand.getIndex()).getType()) &&
            !llvm::is_contained(tensors, operand.getIndex()))
          tensors.push_back(operand.getIndex());
      });
    for (int64_t operand : tensors)
      ++uses[aliasOf(originalOperand(call, operand)).storage];
    for (int64_t operand : tensors)
      if (Alias &alias = aliasOf(originalOperand(call, operand));
          uses[alias.storage] == 1 && isWritable(alias, call->getNumResults() == 0))
        updates.push_back(operand);
    if (updates.empty())
      return success();
    CallOp result = emitWithUpdates(call, updates);
    for (auto [i, old] : llvm::enumerate(call->getResults()))
      old.replaceAllUsesWith(result->getResult(i));
    return writeUpdates(call, result, updates);
  }

  /// With `state`, inputs and buffers are, too.
  bool isWritable(const Alias &alias, bool state) {
    Value root = alias.storage->root;
    if (isa<BlockArgument>(root) && (!state || function.isPrivate()))
      return false;
    if (auto constant = root.getDefiningOp<ConstantOp>();
        constant && (!state || constant.getKind() != "buffer"))
      return false;
    // A view that may be a copy could not be looked at any more.
    for (const std::unique_ptr<Alias> &other : owned)
      if (other->storage == alias.storage &&
          !llvm::all_of(other->chain, [](const Step &step) { return step.certain; }))
        return false;
    // Whether all views have an inverse shows when they are undone.
    Operation *before = builder.getInsertionPoint() == builder.getBlock()->begin()
                            ? nullptr
                            : &*std::prev(builder.getInsertionPoint());
    bool isInvertible = static_cast<bool>(undo(alias, alias.current));
    while (builder.getInsertionPoint() != builder.getBlock()->begin() &&
           &*std::prev(builder.getInsertionPoint()) != before)
      std::prev(builder.getInsertionPoint())->erase();
    return isInvertible;
  }

  /// The same call with `updates`.
  CallOp emitWithUpdates(CallOp call, ArrayRef<int64_t> updates) {
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
  LogicalResult writeUpdates(CallOp call, CallOp result, ArrayRef<int64_t> updates) {
    for (auto [i, operand] : llvm::enumerate(updates))
      if (failed(write(aliasOf(originalOperand(call, operand)),
                       result->getResult(call->getNumResults() + i), call)))
        return failure();
    return success();
  }

  static bool isMetadataChange(StringRef target) {
    return llvm::StringSwitch<bool>(target)
        .Cases({"aten.squeeze_.default", "aten.squeeze_.dim", "aten.squeeze_.dims"}, true)
        .Cases({"aten.unsqueeze_.default", "aten.t_.default", "aten.transpose_.default"}, true)
        .Cases({"aten.swapaxes_.default", "aten.swapdims_.default"}, true)
        .Case("aten.as_strided_.default", true)
        .Default(false);
  }

  /// `alias` holds `value` from now on, and its storage accordingly.
  LogicalResult write(Alias &alias, Value value, CallOp call) {
    if (failed(cutAtUncertainStep(alias, call)))
      return failure();
    StringRef obstacle;
    Value base = undo(alias, value, &obstacle);
    if (!base)
      return call.emitError() << call.getTarget() << ": cannot write through '" << obstacle << "' ("
                              << describe(call.getLoc()) << ")";
    alias.current = value;
    alias.storage->base = base;
    alias.writes = ++alias.storage->writes;
    return success();
  }

  /// The base through which `alias` sees `value`; null if a view, the `obstacle`, has no inverse.
  Value undo(const Alias &alias, Value value, StringRef *obstacle = nullptr) {
    // The values along the chain, before the write.
    SmallVector<Value> sources = {alias.storage->base};
    for (const Step &step : alias.chain)
      sources.push_back(repeat(step, sources.back()));
    for (size_t i = alias.chain.size(); i-- > 0;) {
      value = invert(alias.chain[i], sources[i], value);
      if (value)
        continue;
      if (obstacle)
        *obstacle = CallOp(alias.chain[i].call).getTarget();
      return Value();
    }
    return value;
  }

  /// What was made by a call that may have copied becomes a storage of its own. The one it came
  /// from must not be looked at any more.
  LogicalResult cutAtUncertainStep(Alias &alias, CallOp call) {
    auto isUncertain = [](const Step &step) { return !step.certain; };
    while (true) {
      auto step = llvm::find_if(alias.chain, isUncertain);
      if (step == alias.chain.end())
        return success();
      size_t length = step - alias.chain.begin() + 1;
      Step at = *step;
      Storage *old = alias.storage;
      if (isa<BlockArgument>(old->root) || old->root.getDefiningOp<ConstantOp>())
        return call.emitError() << call.getTarget() << ": cannot tell whether it writes an input "
                                << "or a buffer, through '" << at.call.getTarget() << "' ("
                                << describe(call.getLoc()) << ")";
      Value base = at.call->getResult(at.result);
      storages.push_back(std::make_unique<Storage>(Storage{base, base}));
      Storage *fresh = storages.back().get();
      for (std::unique_ptr<Alias> &other : owned) {
        bool passes = other->storage == old && other->chain.size() >= length &&
                      other->chain[length - 1].call == at.call &&
                      other->chain[length - 1].result == at.result;
        if (!passes)
          continue;
        other->storage = fresh;
        other->chain.erase(other->chain.begin(), other->chain.begin() + length);
        other->writes = 0;
      }
      old->cut = true;
    }
  }

  //===-- Undoing views ----------------------------------------------------------------------===//

  Attribute arg(unsigned index) { return ArgAttr::get(builder.getContext(), index); }
  Attribute number(int64_t value) { return builder.getI64IntegerAttr(value); }
  Attribute number(sym::Expr value) {
    if (auto constant = value.constant())
      return number(*constant);
    return sym::ExprAttr::get(builder.getContext(), value);
  }

  Value emit(StringRef target, ValueRange operands, ArrayRef<Attribute> args, Type type,
             StringRef node) {
    OperationState state(builder.getLoc(), CallOp::getOperationName());
    state.addOperands(operands);
    state.addTypes(type);
    state.addAttribute("target", builder.getStringAttr(target));
    state.addAttribute("args", builder.getArrayAttr(args));
    state.addAttribute("node", builder.getStringAttr(node));
    return builder.create(state)->getResult(0);
  }

  static sym::Expr sizeBefore(CallOp call, unsigned result, int64_t dim) {
    sym::Expr offset = 0;
    for (unsigned i = 0; i < result; ++i)
      offset = offset + sym::getShape(call->getResult(i))[dim];
    return offset;
  }

  /// `source` with the part that `step` shows replaced by `value`; null for views without an
  /// inverse.
  Value invert(Step step, Value source, Value value) {
    CallOp call = step.call;
    CallArgs args(call);
    StringRef target = call.getTarget(), node = call.getNode();
    auto type = cast<RankedTensorType>(source.getType());
    StringRef name = target.drop_front(target.find('.') + 1).split('.').first;
    auto dimOf = [&](CallArgs::Key key) {
      int64_t dim = args.integer(key);
      return dim < 0 ? dim + type.getRank() : dim;
    };
    auto again = [&](ArrayRef<Attribute> rest) {
      SmallVector<Attribute> all = {arg(0)};
      llvm::append_range(all, rest);
      return emit(target, value, all, type, node);
    };
    auto scatter = [&](StringRef into, ArrayRef<Attribute> rest) {
      SmallVector<Attribute> all = {arg(0), arg(1)};
      llvm::append_range(all, rest);
      return emit(into, {source, value}, all, type, node);
    };
    if (name == "transpose" || name == "swapaxes" || name == "swapdims")
      return again({args.get(1), args.get(2)});
    if (name == "t" || name == "numpy_T" || name == "mT" || name == "adjoint" || name == "mH")
      return again({});
    if (name == "movedim" || name == "moveaxis")
      return again({args.get(2), args.get(1)});
    if (name == "permute") {
      SmallVector<int64_t> perm = args.intList(1), inverse(perm.size());
      for (auto [i, dim] : llvm::enumerate(perm))
        inverse[dim < 0 ? dim + perm.size() : dim] = i;
      return again({builder.getI64ArrayAttr(inverse)});
    }
    if (name == "select")
      return scatter("aten.select_scatter.default", {args.get(1), args.get(2)});
    if (name == "slice")
      return scatter("aten.slice_scatter.default",
                     {args.get(1), args.get(2), args.get(3), args.get(4)});
    if (name == "diagonal")
      return scatter("aten.diagonal_scatter.default", {args.get(1), args.get(2), args.get(3)});
    if (name == "as_strided") {
      Value result =
          scatter("aten.as_strided_scatter.default", {args.get(1), args.get(2), args.get(3)});
      for (StringRef attribute : {stridesAttrName, storageOffsetAttrName})
        if (Attribute recorded = call->getAttr(attribute))
          result.getDefiningOp()->setAttr(attribute, recorded);
      return result;
    }
    if (name == "view_as_real")
      return emit("aten.view_as_complex.default", value, {arg(0)}, type, node);
    if (name == "view_as_complex")
      return emit("aten.view_as_real.default", value, {arg(0)}, type, node);
    if (name == "real" || name == "imag") {
      bool isReal = name == "real";
      Value other = emit(isReal ? "aten.imag.default" : "aten.real.default", source, {arg(0)},
                         value.getType(), node);
      return emit("aten.complex.default", {isReal ? value : other, isReal ? other : value},
                  {arg(0), arg(1)}, type, node);
    }
    if (target == "aten.view.dtype")
      return emit(target, value,
                  {arg(0), DTypeAttr::get(builder.getContext(), type.getElementType())}, type,
                  node);
    if (name == "unbind")
      return scatter("aten.select_scatter.default", {args.get(1), number(int64_t(step.result))});
    if (name == "split" || name == "split_with_sizes" || name == "chunk" ||
        name == "tensor_split") {
      int64_t dim = dimOf(2);
      sym::Expr begin = sizeBefore(call, step.result, dim);
      sym::Expr end = begin + sym::getShape(call->getResult(step.result))[dim];
      return scatter("aten.slice_scatter.default",
                     {number(dim), number(begin), number(end), number(int64_t(1))});
    }
    if (name == "narrow" && args.optInteger(2).value_or(-1) >= 0) {
      sym::Expr begin = args.symInt(2), end = begin + args.symInt(3);
      return scatter("aten.slice_scatter.default",
                     {args.get(1), number(begin), number(end), number(int64_t(1))});
    }
    bool sameElements = llvm::StringSwitch<bool>(name)
                            .Cases({"view", "view_as", "_unsafe_view", "unflatten"}, true)
                            .Cases({"unsqueeze", "squeeze"}, true)
                            .Cases({"reshape", "reshape_as", "contiguous", "flatten"}, true)
                            .Case("ravel", true)
                            .Default(false);
    if (sameElements && !target.ends_with(".dtype")) {
      SmallVector<Attribute> sizes;
      for (sym::Expr size : sym::getShape(type))
        sizes.push_back(number(size));
      return emit("aten.view.default", value, {arg(0), builder.getArrayAttr(sizes)}, type, node);
    }
    bool identity = llvm::StringSwitch<bool>(name)
                        .Cases({"alias", "detach", "lift_fresh", "to", "type_as"}, true)
                        .Cases({"dropout", "feature_dropout", "alpha_dropout", "positive"}, true)
                        .Cases({"expand", "expand_as", "feature_alpha_dropout"}, true)
                        .Default(false);
    return identity && value.getType() == type ? value : Value();
  }

  //===-- Results ----------------------------------------------------------------------------===//

  /// New values of inputs and buffers become results.
  LogicalResult returnMutated(Operation *terminator) {
    SmallVector<Type> types(function.getResultTypes());
    SmallVector<Attribute> attributes;
    for (unsigned i = 0; i < types.size(); ++i) {
      auto dictionary = function.getResultAttrDict(i);
      attributes.push_back(dictionary ? dictionary : builder.getDictionaryAttr({}));
    }
    size_t before = types.size();
    for (const std::unique_ptr<Storage> &storage : storages) {
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
        kind = constant.getKindAttr();
        if (kind.getValue() == "constant")
          return constant.emitError("the program writes the constant ") << name;
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

  func::FuncOp function;
  ImplicitLocOpBuilder builder{function.getLoc(), function.getContext()};
  DenseMap<Value, Alias *> aliases;
  DenseMap<std::pair<Operation *, unsigned>, Value> original;
  SmallVector<std::unique_ptr<Storage>> storages;
  SmallVector<std::unique_ptr<Alias>> owned;
  SmallVector<Operation *> replaced;
};

struct TorchFunctionalize : kiln::impl::TorchFunctionalizeBase<TorchFunctionalize> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(Functionalizer(function).run()))
        return signalPassFailure();
  }
};

} // namespace
