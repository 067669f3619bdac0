// wrapper-update-in-place: lets scatters write into the tensor that they begin as, and programs into what they
// mutate. Every buffer of the function's own is written by one step when this begins.
#include "Elementwise.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Dialect/Wrapper/WrapperDialect.h"
#include "kiln/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_WRAPPERUPDATEINPLACE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::wrapper;

namespace {

bool uses(Operation *op, Value storage) {
  return llvm::any_of(op->getOperands(), [&](Value value) { return getStorage(value) == storage; });
}

/// The memory that `op` writes; nullopt if it is no step that may change its place.
std::optional<SmallVector<Value>> getWritten(Operation *op) {
  if (auto launch = dyn_cast<LaunchOp>(op))
    return SmallVector<Value>(launch.getOuts());
  if (auto copy = dyn_cast<CopyOp>(op))
    return SmallVector<Value>{copy.getTarget()};
  return std::nullopt;
}

bool writes(Operation *op, Value storage) {
  auto written = getWritten(op);
  return !written ||
         llvm::any_of(*written, [&](Value value) { return getStorage(value) == storage; });
}

/// All of the memory of `storage`, in elements of the same size.
bool isAllOf(Value buffer, Value storage) {
  auto type = cast<BufferType>(buffer.getType()), all = cast<BufferType>(storage.getType());
  return getStorage(buffer) == storage && type.isContiguous() &&
         type.getBytes() == all.getBytes() &&
         getElementBytes(type.getElementType()) == getElementBytes(all.getElementType());
}

/// The steps that read an old value after `update`, with what they depend on, if all of it can be done before.
class Hoisting {
public:
  Hoisting(Operation *update, Value storage, Operation *end)
      : update(update), storage(storage), end(end) {}

  /// False: a step that reads `storage` has to stay behind the update.
  bool find() {
    for (Operation *user : getStorageUsers(storage))
      if (isBehind(user) && user != end && !add(user))
        return false;
    if (moved.empty())
      return true;
    // Sizes and conditions that are found out in between may be what a moved step relies on.
    for (Operation *op = update->getNextNode(); op && op != end; op = op->getNextNode())
      if (isa<DefineOp, CheckOp, AssertOp, GraphCallOpInterface>(op))
        return false;
    return llvm::all_of(moved, [&](Operation *op) { return isIndependent(op); });
  }

  void apply() {
    SmallVector<Operation *> steps = moved.takeVector();
    llvm::sort(steps, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *step : steps) {
      for (Value operand : step->getOperands())
        moveName(operand);
      step->moveBefore(update);
    }
  }

private:
  bool isBehind(Operation *op) const {
    return update->isBeforeInBlock(op) && (!end || !end->isBeforeInBlock(op));
  }

  /// Adds `op`, and those that compute what it reads.
  bool add(Operation *op) {
    if (!isa<LaunchOp, CopyOp>(op))
      return false;
    if (!moved.insert(op))
      return true;
    for (Value operand : op->getOperands()) {
      Value memory = getStorage(operand);
      if (memory != storage && uses(update, memory) && writes(update, memory))
        return false;
      for (Operation *user : getStorageUsers(memory))
        if (isBehind(user) && user->isBeforeInBlock(op) && writes(user, memory) && !add(user))
          return false;
    }
    return true;
  }

  /// Nothing that stays between the update and `op` uses what `op` writes.
  bool isIndependent(Operation *op) {
    SmallVector<Value> written = *getWritten(op);
    for (Value out : written) {
      Value memory = getStorage(out);
      if (!isa_and_present<AllocOp, OutputOp>(memory.getDefiningOp()))
        return false;
      for (Operation *user : getStorageUsers(memory))
        if (user == update ||
            (isBehind(user) && user->isBeforeInBlock(op) && !moved.contains(user)))
          return false;
    }
    return true;
  }

  void moveName(Value buffer) {
    Operation *op = buffer.getDefiningOp();
    if (!op || op->isBeforeInBlock(update))
      return;
    for (Value operand : op->getOperands())
      moveName(operand);
    op->moveBefore(update);
  }

  Operation *update;
  Value storage;
  Operation *end; // null: the end of the function
  llvm::SetVector<Operation *> moved;
};

/// State that all functions share.
struct UpdatedModule {
  explicit UpdatedModule(ModuleOp module) : symbols(module) {
    module.walk([&](ConstantOp constant) {
      if (constant.getName())
        ++numNamed[*constant.getName()];
    });
  }

  SymbolTable symbols;
  llvm::StringMap<unsigned> numNamed; // constants of each name
  llvm::MapVector<kernel::FuncOp, kernel::FuncOp> inPlace;
};

/// One function.
class Updater {
public:
  Updater(HostFunctionOpInterface function, UpdatedModule &module)
      : function(function), module(module), defined(getDefinedSymbols(function)) {}

  void run() {
    Block &block = function.getFunctionBody().front();
    for (auto launch : llvm::make_early_inc_range(block.getOps<LaunchOp>()))
      updateOwn(launch);
    for (auto copy : llvm::make_early_inc_range(block.getOps<CopyOp>()))
      if (isMutated(copy.getTarget()))
        updateState(copy);
  }

  /// The operand that the launch's result begins as.
  std::optional<unsigned> getUpdated(LaunchOp launch) {
    kernel::FuncOp func = getKernel(launch);
    if (func.getUpdates() || launch.getAlternatives())
      return std::nullopt;
    for (BlockArgument argument : func.getArguments())
      if (isUpdateOf(func, argument))
        return argument.getArgNumber();
    return std::nullopt;
  }

  bool isMutated(Value buffer) {
    if (auto argument = dyn_cast<BlockArgument>(buffer))
      return mayWriteArgument(function, argument.getArgNumber());
    auto constant = buffer.getDefiningOp<ConstantOp>();
    return constant && constant.getMutated() && // C4
           (!constant.getName() || module.numNamed.lookup(*constant.getName()) == 1);
  }

private:
  kernel::FuncOp getKernel(LaunchOp launch) {
    return module.symbols.lookup<kernel::FuncOp>(launch.getKernel());
  }

  /// Lets the launch write into `updated`, which is its result already.
  void setUpdates(LaunchOp launch, unsigned updated) {
    kernel::FuncOp func = getKernel(launch), &copy = module.inPlace[func];
    if (!copy) {
      OpBuilder builder(func);
      copy = cast<kernel::FuncOp>(builder.clone(*func));
      copy.setSymName((func.getSymName() + "_in_place").str());
      copy.setUpdates(updated);
      module.symbols.insert(copy);
    }
    launch.setKernel(copy.getSymName());
  }

  static unsigned countUses(Operation *op, Value storage) {
    return llvm::count_if(op->getOperands(),
                          [&](Value value) { return getStorage(value) == storage; });
  }

  /// `buffer` first means something in `step`.
  static bool beginsAt(Operation *step, Value buffer) {
    return llvm::all_of(getStorageUsers(buffer), [&](Operation *user) {
      return user == step || step->isBeforeInBlock(user);
    });
  }

  //===-- Memory of the function's own --------------------------------------------------------===//

  void updateOwn(LaunchOp launch) {
    std::optional<unsigned> updated = getUpdated(launch);
    if (!updated)
      return;
    Value in = launch.getIns()[*updated], out = launch.getOuts()[0];
    auto storage = getStorage(in).getDefiningOp<AllocOp>();
    Operation *target = out.getDefiningOp();
    if (!storage || !isa_and_present<AllocOp, OutputOp>(target) || !isAllOf(in, storage) || // C3
        countUses(launch, storage) != 1 || !beginsAt(launch, out))                          // C2
      return;
    if (isa<OutputOp>(target) && (storage.getType() != out.getType() || usesDefined(out)))
      return;
    Hoisting hoisting(launch, storage, nullptr);
    if (!hoisting.find()) // C1
      return;
    hoisting.apply();
    if (isa<OutputOp>(target)) {
      target->moveBefore(storage);
      storage.replaceAllUsesWith(out);
      storage.erase();
    } else {
      replaceByView(out, in);
      target->erase();
    }
    setUpdates(launch, *updated);
  }

  /// Uses of `buffer` are of `memory`, as the same type.
  void replaceByView(Value buffer, Value memory) {
    if (buffer.getType() == memory.getType())
      return buffer.replaceAllUsesWith(memory);
    OpBuilder builder(buffer.getDefiningOp());
    Value view = ViewOp::create(builder, buffer.getLoc(), buffer.getType(), memory,
                                sym::ExprAttr::get(builder.getContext(), sym::Expr()));
    buffer.replaceAllUsesWith(view);
  }

  /// Its size is not known before the function runs.
  bool usesDefined(Value buffer) {
    bool found = false;
    cast<BufferType>(buffer.getType()).getBytes().walkLeaves([&](sym::Expr leaf) {
      found |= defined.contains(leaf);
    });
    return found;
  }

  //===-- Inputs and buffers that are mutated -------------------------------------------------===//

  /// `copy` moves the new value of its target there.
  void updateState(CopyOp copy) {
    Value state = copy.getTarget(), memory = getStorage(copy.getSource());
    Operation *owner = memory.getDefiningOp();
    if (!isa_and_present<AllocOp, OutputOp>(owner) || !isAllOf(copy.getSource(), memory) ||
        !isAllOf(state, state) ||
        cast<BufferType>(memory.getType()).getBytes() !=
            cast<BufferType>(state.getType()).getBytes()) // C3
      return;
    Operation *step = getFirstUser(memory);
    std::optional<unsigned> updated;
    if (!mayWrite(step, memory, state, updated) ||
        (isa<OutputOp>(owner) && (!updated || memory.getType() != state.getType())))
      return;
    // Whatever comes after the copy sees the new value.
    for (Operation *user : getStorageUsers(state))
      if (user != copy && (user->isBeforeInBlock(step) || copy->isBeforeInBlock(user)) &&
          writesAt(user, state))
        return;
    Hoisting hoisting(step, state, copy);
    if (!hoisting.find()) // C1
      return;
    hoisting.apply();
    if (Operation *constant = state.getDefiningOp(); constant && owner->isBeforeInBlock(constant))
      constant->moveBefore(owner);
    if (isa<OutputOp>(owner)) {
      // The output becomes a copy of the state instead.
      owner->moveBefore(copy);
      memory.replaceAllUsesWith(state);
      OpBuilder builder(copy);
      CopyOp::create(builder, copy.getLoc(), state, memory);
    } else {
      replaceByView(memory, state);
      owner->erase();
    }
    copy.erase();
    if (updated)
      setUpdates(cast<LaunchOp>(step), *updated);
  }

  static Operation *getFirstUser(Value storage) {
    Operation *first = nullptr;
    for (Operation *user : getStorageUsers(storage))
      if (!first || user->isBeforeInBlock(first))
        first = user;
    return first;
  }

  static bool writesAt(Operation *op, Value storage) {
    return uses(op, storage) && writes(op, storage);
  }

  /// True if `step`, which writes all of `memory`, may write it over `state`. `updated` is the operand that is the
  /// state, if the step is a scatter that begins as it.
  bool mayWrite(Operation *step, Value memory, Value state, std::optional<unsigned> &updated) {
    ValueRange ins, outs;
    if (auto launch = dyn_cast<LaunchOp>(step)) {
      ins = launch.getIns();
      outs = launch.getOuts();
    } else if (auto call = dyn_cast<ExternCallOp>(step);
               call && call.getLibrary() != kernel::tritonLibrary) { // needs aligned memory
      ins = call.getIns();
      outs = call.getOuts();
    } else {
      return false;
    }
    // C2
    auto out = llvm::find_if(outs, [&](Value value) { return getStorage(value) == memory; });
    auto in = llvm::find_if(ins, [&](Value value) { return getStorage(value) == state; });
    if (out == outs.end() || !isAllOf(*out, memory) || countUses(step, memory) != 1 ||
        countUses(step, state) != (in == ins.end() ? 0 : 1))
      return false;
    if (in == ins.end())
      return true;
    unsigned number = in - ins.begin();
    if (!isAllOf(*in, state))
      return false;
    if (auto call = dyn_cast<ExternCallOp>(step)) {
      OperandRange updates = call.getOuts().take_back(call.getUpdates().size());
      return llvm::any_of(llvm::zip_equal(call.getUpdates(), updates), [&](auto pair) {
        return std::get<0>(pair) == number && std::get<1>(pair) == *out;
      });
    }
    auto launch = cast<LaunchOp>(step);
    if (getUpdated(launch) == number)
      updated = number;
    return updated || isElementwise(getKernel(launch), getKernel(launch).getArgument(number));
  }

  HostFunctionOpInterface function;
  UpdatedModule &module;
  llvm::SetVector<sym::Expr> defined;
};

/// A loop's carried values that its body updates: these are in one buffer, which the body writes, and no
/// longer take turns.
class Carrier {
public:
  Carrier(GraphCallOpInterface loop, FlatSymbolRefAttr body, ArrayRef<FlatSymbolRefAttr> graphs,
          UpdatedModule &module)
      : loop(loop), body(module.symbols.lookup<FuncOp>(body.getValue())), module(module) {
    for (FlatSymbolRefAttr name : graphs)
      functions.push_back(module.symbols.lookup<FuncOp>(name.getValue()));
  }

  template <typename Loop> void run(Loop op) {
    // Other callers would have the other arguments.
    for (FuncOp function : functions)
      if (!llvm::hasSingleElement(
              *SymbolTable::getSymbolUses(function, loop->getParentOfType<ModuleOp>())))
        return;
    // A loop carries one value at least, as those who read the program expect.
    for (unsigned i = op.getCarried().size(); i-- > 0;)
      if (op.getCarried().size() > 1 && !body.isGiven(i) && isOne(op.getOuts()[i]) && updates(i))
        carry(op, i);
  }

private:
  /// All of an output, or of a buffer that is the caller's own, and written by the loop alone.
  bool isOne(Value out) {
    return isa_and_present<AllocOp, OutputOp>(out.getDefiningOp()) &&
           llvm::all_of(getStorageUsers(out), [&](Operation *user) {
             return user == loop || loop->isBeforeInBlock(user);
           });
  }

  /// Tries to let the body write result `i` over the argument.
  bool updates(unsigned i) {
    BlockArgument argument = body.getArgument(i);
    OutputOp output;
    for (auto each : body.getBody().getOps<OutputOp>())
      if (each.getIndex() == i)
        output = each;
    Updater updater(body, module);
    bool begins = llvm::any_of(argument.getUsers(), [&](Operation *user) {
      auto launch = dyn_cast<LaunchOp>(user);
      std::optional<unsigned> updated = launch ? updater.getUpdated(launch) : std::nullopt;
      return updated && launch.getIns()[*updated] == argument;
    });
    if (!begins || !output || output.getType() != argument.getType())
      return false;
    // As if it were an input that the body mutates.
    OpBuilder builder(output);
    Value next = AllocOp::create(builder, output.getLoc(), output.getType());
    output.replaceAllUsesWith(next);
    builder.setInsertionPointToEnd(&body.getBody().front());
    CopyOp::create(builder, output.getLoc(), next, argument);
    body.setArgAttr(i, mutatedAttrName, builder.getUnitAttr());
    updater.run();
    CopyOp left;
    for (auto copy : body.getBody().getOps<CopyOp>())
      if (copy.getTarget() == argument)
        left = copy;
    if (!left) {
      output.erase();
      return true;
    }
    body.removeArgAttr(i, mutatedAttrName);
    // Updates of the body's own memory may have put the value elsewhere.
    if (auto alloc = left.getSource().getDefiningOp<AllocOp>()) {
      output->moveBefore(alloc);
      alloc.replaceAllUsesWith(output.getResult());
      left.erase();
      alloc.erase();
    } else {
      left.getTargetMutable().assign(output);
    }
    return false;
  }

  /// Moves carried value `i` to the operands of all rounds.
  template <typename Loop> void carry(Loop op, unsigned i) {
    Value first = op.getCarried()[i], memory = op.getOuts()[i], spare = op.getSpare()[i];
    op.getCarriedMutable().erase(i);
    op.getOutsMutable().erase(i);
    op.getSpareMutable().erase(i);
    op.getInsMutable().append(memory);
    if (spare.use_empty())
      spare.getDefiningOp()->erase();
    for (FuncOp function : functions) {
      // The last argument instead.
      Block &block = function.getBody().front();
      BlockArgument from = block.getArgument(i);
      from.replaceAllUsesWith(block.addArgument(from.getType(), from.getLoc()));
      auto type = function.getFunctionType();
      SmallVector<Type> arguments(type.getInputs());
      arguments.push_back(arguments[i]);
      SmallVector<DictionaryAttr> attributes;
      function.getAllArgAttrs(attributes);
      attributes.push_back(attributes[i]);
      arguments.erase(arguments.begin() + i);
      attributes.erase(attributes.begin() + i);
      block.eraseArgument(i);
      SmallVector<Type> results(type.getResults());
      SmallVector<DictionaryAttr> resultAttributes;
      function.getAllResultAttrs(resultAttributes);
      if (function == body) {
        results.erase(results.begin() + i);
        resultAttributes.erase(resultAttributes.begin() + i);
        for (auto output : function.getBody().getOps<OutputOp>())
          if (output.getIndex() > i)
            output.setIndex(output.getIndex() - 1);
        for (auto give : function.getBody().getOps<GiveOp>())
          if (give.getIndex() > i)
            give.setIndex(give.getIndex() - 1);
      }
      function.removeArgAttrsAttr();
      function.removeResAttrsAttr();
      function.setFunctionType(FunctionType::get(function.getContext(), arguments, results));
      function.setAllArgAttrs(attributes);
      function.setAllResultAttrs(resultAttributes);
    }
    if (isLast(first, memory)) {
      memory.replaceAllUsesWith(first);
      memory.getDefiningOp()->erase();
      return;
    }
    OpBuilder builder(loop);
    CopyOp::create(builder, loop->getLoc(), first, memory);
  }

  /// True if nobody wants what `first` holds after the loop, so that it may be the memory. A copy that
  /// brings a new value back to what the program mutates goes away.
  bool isLast(Value first, Value memory) {
    if (!memory.getDefiningOp<AllocOp>() || first.getType() != memory.getType() ||
        llvm::is_contained(loop->getOperands(), first))
      return false;
    bool isState =
        Updater(loop->getParentOfType<HostFunctionOpInterface>(), module).isMutated(first);
    CopyOp back;
    for (Operation *user : getStorageUsers(first)) {
      if (user->isBeforeInBlock(loop))
        continue;
      auto copy = dyn_cast<CopyOp>(user);
      if (!isState || back || !copy || copy.getSource() != memory || copy.getTarget() != first)
        return false;
      back = copy;
    }
    if (!first.getDefiningOp<AllocOp>() && !back)
      return false;
    if (back)
      back.erase();
    return true;
  }

  GraphCallOpInterface loop;
  FuncOp body;
  SmallVector<FuncOp> functions;
  UpdatedModule &module;
};

struct UpdateInPlace : kiln::impl::WrapperUpdateInPlaceBase<UpdateInPlace> {
  void runOnOperation() override {
    UpdatedModule module(getOperation());
    getOperation().walk([&](WhileOp loop) {
      Carrier(loop, loop.getBodyAttr(), loop.getGraphs(), module).run(loop);
    });
    getOperation().walk(
        [&](ForOp loop) { Carrier(loop, loop.getBodyAttr(), loop.getGraphs(), module).run(loop); });
    for (auto function : getOperation().getOps<HostFunctionOpInterface>())
      Updater(function, module).run();
    for (auto [func, copy] : module.inPlace)
      if (SymbolTable::symbolKnownUseEmpty(func, getOperation()))
        module.symbols.erase(func);
  }
};

} // namespace
