// A call that a library runs: kernel.extern with the arguments as they are. Refused is what a
// library could not get right, since it sees values in memory and not the program.
#include "kiln/Dialect/Torch/CustomOp.h"
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

/// Operators whose results depend on how an argument lies in memory, or on which of them share it.
/// Here every tensor is row-major, whatever it was in the program, and may be a copy.
static bool readsLayout(StringRef target) {
  return llvm::StringSwitch<bool>(target.split('.').second.split('.').first)
      .Cases({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"}, true)
      .Cases({"stride", "sym_stride", "storage_offset", "sym_storage_offset"}, true)
      .Cases({"is_contiguous", "sym_is_contiguous", "_reshape_alias", "set_"}, true)
      .Cases({"is_set_to", "_has_same_storage_numel"}, true)
      .Default(false);
}

/// As the importer writes one: keys, which are strings, and as many values.
static bool isDictionary(DictionaryAttr attr) {
  auto keys = attr.getAs<ArrayAttr>("keys"), values = attr.getAs<ArrayAttr>("values");
  return keys && values && keys.size() == values.size() &&
         llvm::all_of(keys, [](Attribute key) { return isa<StringAttr>(key); });
}

/// Why an argument cannot be given to a library, or empty.
static StringRef unsupportedArgument(Attribute args, bool isFunction) {
  StringRef reason;
  args.walk([&](Attribute attr) {
    if (isa<torch::OperatorAttr>(attr))
      reason = "an operator as an argument";
    else if (isa<torch::ObjectAttr>(attr))
      reason = "a script object as an argument";
    else if (auto dictionary = dyn_cast<DictionaryAttr>(attr);
             dictionary && (isFunction || !isDictionary(dictionary)))
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

namespace {
/// A place where a symbol can be read when a call has come back: a size of a result, or with dim -1
/// the result itself, is `expr`.
struct KnownSize {
  Expr symbol, expr;
  int64_t result, dim;
};
} // namespace

/// A place for each of `symbols`; what comes later in the list may use what comes before.
static FailureOr<SmallVector<KnownSize>> findSizes(torch::CallOp op, ArrayRef<Expr> symbols) {
  SmallVector<KnownSize> places, solvable; // the symbol itself is better than what is solved for it
  auto add = [&](Expr expr, int64_t result, int64_t dim) {
    (expr.kind() == sym::Kind::Symbol ? places : solvable).push_back({{}, expr, result, dim});
  };
  for (OpResult result : op->getResults()) {
    int64_t number = result.getResultNumber();
    auto value =
        op.getValuesAttr() ? dyn_cast<sym::ExprAttr>(op.getValuesAttr()[number]) : sym::ExprAttr();
    if (value)
      add(value.getValue(), number, -1);
    if (isa<RankedTensorType>(result.getType()))
      for (auto [dim, size] : llvm::enumerate(shapeOf(result)))
        add(size, number, dim);
  }
  llvm::append_range(places, solvable);
  SmallVector<KnownSize> chosen;
  llvm::SmallSetVector<Expr, 4> unknown(symbols.begin(), symbols.end());
  while (!unknown.empty()) {
    bool isFound = false;
    for (const KnownSize &place : places) {
      SmallVector<Expr> inside;
      place.expr.walkLeaves([&](Expr leaf) {
        if (unknown.contains(leaf) && !llvm::is_contained(inside, leaf))
          inside.push_back(leaf);
      });
      if (inside.size() != 1 || !sym::splitLinear(place.expr, inside[0]))
        continue;
      chosen.push_back({inside[0], place.expr, place.result, place.dim});
      unknown.remove(inside[0]);
      isFound = true;
    }
    if (!isFound)
      return failure();
  }
  return chosen;
}

/// The symbol of `size`, whose expression has the value `count`.
static Value solve(KernelBuilder &kernels, Value count, const KnownSize &size) {
  sym::Linear linear = *sym::splitLinear(size.expr, size.symbol);
  if (linear.coefficient.isConstant(1) && linear.rest.isConstant(0))
    return count;
  return kernels.map({}, kernels.b().getI64Type(), [&](BodyBuilder &body) {
    Element rest = body.read(count, ArrayRef<Expr>()) - body.index(linear.rest);
    Element coefficient = body.index(linear.coefficient);
    // A quotient that does not come out even shows when the results are fetched: their sizes
    // differ.
    return truncDiv(rest, select(coefficient == rest.constant(0), rest.constant(1), coefficient));
  });
}

Support lowering::getSupport(StringRef target) {
  StringRef functional = torch::lookupFunctional(target);
  if (loweringTable().find(functional.empty() ? target : functional) ||
      loweringTable().find(target, /*updating=*/true))
    return Support::Native;
  return isPythonFunction(target) || readsLayout(target) ? Support::Refused : Support::Fallback;
}

LogicalResult Call::toExtern(StringRef library) {
  bool isFunction = library == torch::cLibrary;
  StringRef target =
      isFunction ? op->getAttrOfType<StringAttr>(torch::symbolAttrName).getValue() : op.getTarget();
  if (!isFunction && isPythonFunction(target))
    return refuse("it has no lowering");
  if (!isFunction && readsLayout(target))
    return refuse(
        "its result depends on strides or shared memory, which only a lowering could know");
  if (isFunction && op.getDefines())
    return refuse("a C function cannot say how large its results are");
  if (StringRef reason = unsupportedArgument(op.getArgs(), isFunction); !reason.empty())
    return refuse(reason);
  for (Value operand : op->getOperands())
    if (!isa<RankedTensorType>(operand.getType()))
      return refuse("None as an operand");

  ArrayRef<int64_t> updates = op.getUpdates().value_or(ArrayRef<int64_t>());
  ResultRange returned = op->getResults().drop_back(updates.size());
  ResultRange updated = op->getResults().take_back(updates.size());
  SmallVector<int64_t> projection;
  SmallVector<Type> types;
  SmallVector<Value> results;
  for (OpResult result : returned)
    // Else it is not asked for. A C function writes all of its results.
    if (!isa<NoneType>(result.getType()) && (isFunction || !result.use_empty())) {
      projection.push_back(result.getResultNumber());
      types.push_back(result.getType());
      results.push_back(result);
    }
  auto replace = [](ArrayRef<Value> results, ValueRange values) {
    for (auto [i, value] : llvm::enumerate(values))
      Value(results[i]).replaceAllUsesWith(value);
  };
  if (!op.getDefines()) {
    llvm::append_range(types, updated.getTypes()); // all of them, since the callee writes them
    llvm::append_range(results, updated);
    auto call = kernel::ExternOp::create(kernels.b(), types, library, target, op->getOperands(),
                                         op.getArgs(), op.getNamesAttr(), projection,
                                         /*sizes=*/ArrayRef<int64_t>(), updates, isImpure(op));
    replace(results, call->getResults());
    return success();
  }

  pending.clear(); // a lowering may have begun to define them
  for (StringRef symbol : op.getDefinesAttr().getAsValueRange<StringAttr>())
    pending.insert(Expr::symbol(symbol));
  FailureOr<SmallVector<KnownSize>> known = findSizes(op, pending.getArrayRef());
  if (failed(known))
    return refuse("nothing in its results has the value of " + pending.front().str());
  SmallVector<int64_t> sizes;
  for (const KnownSize &size : *known)
    sizes.append({size.result, size.dim});
  Type count = RankedTensorType::get({}, kernels.b().getI64Type());
  SmallVector<Type> first(known->size() + 1, count);
  llvm::append_range(first, updated.getTypes());
  // Two equal calls keep their results each.
  auto call = kernel::ExternOp::create(kernels.b(), first, library, target, op->getOperands(),
                                       op.getArgs(), op.getNamesAttr(),
                                       /*projection=*/ArrayRef<int64_t>(), sizes, updates,
                                       /*impure=*/true);
  replace(SmallVector<Value>(updated), call->getResults().take_back(updates.size()));
  for (auto [i, size] : llvm::enumerate(*known))
    defineSize(solve(kernels, call->getResult(i), size), size.symbol);
  if (results.empty())
    return success();
  ArrayAttr all = kernels.b().getArrayAttr(torch::ArgAttr::get(op.getContext(), 0));
  auto fetch = kernel::ExternOp::create(
      kernels.b(), types, library, "kiln.results", ValueRange(call->getResult(known->size())), all,
      ArrayAttr(), projection, /*sizes=*/ArrayRef<int64_t>(), /*updates=*/ArrayRef<int64_t>(),
      /*impure=*/true);
  replace(results, fetch->getResults());
  return success();
}
