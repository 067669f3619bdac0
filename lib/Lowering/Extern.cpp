// A call that a library runs: kernel.extern with the arguments as they are. Refused is what a
// library could not get right, since it sees values in memory and not the program.
#include "kiln/Lowering/Lowering.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// Functions of Python's that export names as targets; they are no operators.
static bool isPythonFunction(StringRef target) {
  StringRef space = target.split('.').first;
  return space == "_operator" || space == "math" || space == "torch";
}

/// Operators whose results depend on how an argument lies in memory. Here every tensor is
/// row-major, whatever it was in the program.
static bool readsLayout(StringRef target) {
  return llvm::StringSwitch<bool>(target.split('.').second.split('.').first)
      .Cases({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"}, true)
      .Cases({"stride", "sym_stride", "storage_offset", "sym_storage_offset"}, true)
      .Cases({"is_contiguous", "sym_is_contiguous", "_reshape_alias", "set_"}, true)
      .Default(false);
}

/// Why an argument cannot be given to a library, or empty.
static StringRef unsupportedArgument(Attribute args) {
  StringRef reason;
  args.walk([&](Attribute attr) {
    if (isa<torch::OperatorAttr>(attr))
      reason = "an operator as an argument";
    else if (isa<torch::ObjectAttr>(attr))
      reason = "a script object as an argument";
    else if (isa<DictionaryAttr>(attr))
      reason = "a dictionary as an argument";
    else if (auto dtype = dyn_cast<torch::DTypeAttr>(attr);
             dtype && isa<Float8E8M0FNUType>(dtype.getType()))
      reason = "a dtype that tensors cannot be handed over in";
  });
  return reason;
}

/// The call may draw random numbers or fail on purpose.
static bool isImpure(torch::CallOp op) {
  const torch::OpSchema *schema = torch::lookupSchema(op.getTarget());
  StringRef target = op.getTarget();
  return !schema || op->getNumResults() == 0 || target.contains("rand") ||
         target.contains("dropout") || target.contains("_assert") ||
         llvm::any_of(schema->arguments, [](const torch::SchemaArgument &argument) {
           return argument.name == "generator" || argument.name.contains("dropout");
         });
}

Support lowering::getSupport(StringRef target) {
  StringRef functional = torch::lookupFunctional(target);
  if (loweringTable().find(functional.empty() ? target : functional))
    return Support::Native;
  return isPythonFunction(target) || readsLayout(target) ? Support::Refused : Support::Fallback;
}

LogicalResult Call::toExtern(StringRef library) {
  StringRef target = op.getTarget();
  if (isPythonFunction(target))
    return refuse("it has no lowering");
  if (readsLayout(target))
    return refuse("its result depends on strides, which only a lowering could know");
  if (StringRef reason = unsupportedArgument(op.getArgs()); !reason.empty())
    return refuse(reason);
  if (op.getDefines())
    return refuse("sizes of its results depend on data");

  SmallVector<Type> types;
  SmallVector<int64_t> projection;
  SmallVector<Value> results;
  ArrayRef<int64_t> updates = op.getUpdates().value_or(ArrayRef<int64_t>());
  unsigned returned = op->getNumResults() - updates.size();
  for (OpResult result : op->getResults()) {
    // An unused one is not asked for; updates all are, since the callee writes them.
    bool isUpdate = result.getResultNumber() >= returned;
    if (isa<NoneType>(result.getType()) || (!isUpdate && result.use_empty()))
      continue;
    types.push_back(result.getType());
    results.push_back(result);
    if (!isUpdate)
      projection.push_back(result.getResultNumber());
  }
  for (Value operand : op->getOperands())
    if (!isa<RankedTensorType>(operand.getType()))
      return refuse("None as an operand");

  auto call =
      kernel::ExternOp::create(kernels.b(), types, library, target, op->getOperands(), op.getArgs(),
                               op.getNamesAttr(), projection, updates, isImpure(op));
  for (auto [value, result] : llvm::zip_equal(call->getResults(), results))
    result.replaceAllUsesWith(value);
  return success();
}
