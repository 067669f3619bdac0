// Follows tensors back to the arguments that decide how they lie in memory.
#include "LayoutSources.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using llvm::SmallBitVector;

/// The result is row-major, however the operands lie in memory.
static bool isRowMajor(CallOp call) {
  CallArgs args(call);
  StringRef name = call.getTarget();
  if (!name.consume_front("aten."))
    return false;
  name = name.split('.').first;
  if (name == "contiguous" || name == "clone" || name == "_to_copy")
    return args.has("memory_format") && !args.isNone("memory_format") &&
           args.memoryFormat("memory_format") == MemoryFormat::Contiguous;
  auto isMatrix = [](Value value) {
    return !value || cast<RankedTensorType>(value.getType()).getRank() < 3;
  };
  if (name == "matmul")
    return isMatrix(args.tensor(0)) && isMatrix(args.tensor(1));
  return llvm::StringSwitch<bool>(name)
      .Cases({"mm", "addmm", "bmm", "baddbmm", "linear", "embedding", "one_hot", "ravel"}, true)
      .Cases({"new_empty", "new_full", "new_ones", "new_zeros"}, true)
      .Default(false);
}

/// The result lies in memory as operand 0 does: it is a view of it, or it is itself written.
static bool followsFirst(CallOp call) {
  const OpSchema *schema = CallArgs(call).schema();
  if (!schema || !isa_and_nonnull<ArgAttr>(CallArgs(call).get(0)))
    return false;
  return schema->isView() || (!schema->arguments.empty() && schema->arguments[0].mutated);
}

LayoutSources::LayoutSources(func::FuncOp function) : numArguments(function.getNumArguments()) {
  for (auto [i, argument] : llvm::enumerate(function.getArguments())) {
    SmallBitVector own = none();
    own.set(i);
    sources[argument] = own;
  }
  for (Operation &op : function.getBody().front())
    add(&op);
}

void LayoutSources::add(Operation *op) {
  SmallBitVector all = none();
  auto call = dyn_cast<CallOp>(op);
  if (call && followsFirst(call))
    all = of(CallArgs(call).tensor(0));
  else if (!call || !isRowMajor(call))
    for (Value operand : op->getOperands())
      if (auto found = sources.find(operand); found != sources.end())
        all |= found->second;
  for (Value result : op->getResults())
    sources[result] = all;
}

void torch::checkStrides(func::FuncOp function, const SmallBitVector &arguments) {
  for (unsigned argument : arguments.set_bits())
    function.setArgAttr(argument, checkStridesAttrName, UnitAttr::get(function.getContext()));
}

static bool hasChecks(func::FuncOp function) {
  return llvm::any_of(llvm::seq(function.getNumArguments()), [&](unsigned i) {
    return function.getArgAttr(i, checkStridesAttrName) != nullptr;
  });
}

void torch::checkStridesOfCallers(ModuleOp module) {
  SymbolTable symbols(module);
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  SmallVector<func::FuncOp> marked = llvm::filter_to_vector(
      functions, [](func::FuncOp function) { return function.isPrivate() && hasChecks(function); });
  DenseSet<Operation *> done;
  while (!marked.empty()) {
    func::FuncOp callee = marked.pop_back_val();
    if (!done.insert(callee).second)
      continue;
    for (func::FuncOp caller : functions) {
      if (caller.isExternal())
        continue;
      std::optional<LayoutSources> sources;
      for (auto op : caller.getBody().front().getOps<HigherOrderOp>()) {
        bool calls = false;
        op.getArgs().walk(
            [&](FlatSymbolRefAttr name) { calls |= name.getAttr() == callee.getSymNameAttr(); });
        if (!calls)
          continue;
        if (!sources)
          sources.emplace(caller);
        for (Value operand : op->getOperands())
          checkStrides(caller, sources->of(operand));
        if (caller.isPrivate())
          marked.push_back(caller);
      }
    }
  }
}
