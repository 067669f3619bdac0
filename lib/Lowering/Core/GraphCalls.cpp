// Calls of nested graphs (branches, loops, scans) become calls of the kernel dialect.
#include "kiln/Lowering/GraphCalls.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::lowering;

Value lowering::createNumber(KernelBuilder &kernels, Attribute number, Type type) {
  return kernels.map({}, type, [&](BodyBuilder &body) {
    if (auto expr = dyn_cast<sym::ExprAttr>(number))
      return body.index(expr.getValue());
    if (auto floating = dyn_cast<FloatAttr>(number))
      return body.constant(type, floating.getValueAsDouble());
    auto integer = cast<IntegerAttr>(number);
    // True has the value 1 in a bool, but -1 where it is sign-extended.
    return body.constant(type, isBool(type) ? int64_t(integer.getValue().getBoolValue())
                                            : integer.getInt());
  });
}

//===-- Arguments of higher-order operators --------------------------------------------------===//

/// The arguments of a call of nested graphs. Each graph takes what is carried, a slice of each of
/// `sliced`, and `invariants`.
struct GraphCalls::Arguments {
  Attribute predicate; // of cond
  SmallVector<func::FuncOp> graphs;
  SmallVector<Attribute> carried, sliced, invariants;
  SmallVector<Value> carriedValues, slicedValues, invariantValues;

  size_t size() const { return carried.size() + sliced.size() + invariants.size(); }
};

/// Nested arguments are one after the other among those of the graph.
static void flatten(Attribute attr, SmallVectorImpl<Attribute> &leaves) {
  auto list = dyn_cast<ArrayAttr>(attr);
  if (!list)
    return leaves.push_back(attr);
  for (Attribute element : list)
    flatten(element, leaves);
}

/// p: a predicate, g: a graph, c, s, i: a list of what is carried, sliced or invariant (the last
/// list may be left out), n: a name, *: what is left is invariant.
static StringRef getForm(StringRef target) {
  return llvm::StringSwitch<StringRef>(target)
      .Case("cond", "pggi")
      .Case("while_loop", "ggci")
      .Case("scan", "gcsi")
      .Case("map_impl", "gsi")
      .Case("invoke_subgraph", "gn*")
      .Default("");
}

std::optional<GraphCalls::Arguments> GraphCalls::read(torch::HigherOrderOp op) {
  Arguments arguments;
  StringRef form = getForm(op.getTarget());
  ArrayRef<Attribute> args = op.getArgs().getValue();
  if (form.empty() || op.getNames())
    return std::nullopt;
  for (char kind : form) {
    if (kind == '*') {
      llvm::append_range(arguments.invariants, args);
      return arguments;
    }
    if (args.empty())
      return kind == 'i' ? std::optional(std::move(arguments)) : std::nullopt;
    Attribute attr = args.front();
    args = args.drop_front();
    if (kind == 'p') {
      arguments.predicate = attr;
    } else if (kind == 'g') {
      auto reference = dyn_cast<FlatSymbolRefAttr>(attr);
      auto graph = reference ? symbols.lookup<func::FuncOp>(reference.getValue()) : func::FuncOp();
      if (!graph || graph.isExternal() || !graph.isPrivate())
        return std::nullopt;
      arguments.graphs.push_back(graph);
    } else if (kind != 'n') {
      if (!isa<ArrayAttr>(attr))
        return std::nullopt;
      flatten(attr, kind == 'c'   ? arguments.carried
                    : kind == 's' ? arguments.sliced
                                  : arguments.invariants);
    }
  }
  return args.empty() ? std::optional(std::move(arguments)) : std::nullopt;
}

GraphCalls::GraphCalls(ModuleOp module) : symbols(module) {
  module->walk([&](torch::HigherOrderOp op) {
    std::optional<Arguments> arguments = read(op);
    if (!arguments)
      return;
    for (func::FuncOp graph : arguments->graphs) {
      unsigned count = graph.getNumArguments();
      llvm::BitVector isNumber(count, false);
      if (arguments->size() == count)
        for (unsigned i = arguments->carried.size(); i < count; ++i)
          if (graph.getArgAttr(i, torch::valueAttrName))
            isNumber.set(i);
      auto [entry, isNew] = numbers.try_emplace(graph, isNumber);
      if (!isNew)
        entry->second &= isNumber;
    }
  });
  // Symbols that have their value from elsewhere.
  sym::SymbolCollector inputs;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic())
      for (Type type : function.getArgumentTypes())
        inputs.walker.walk(type);
  known = inputs.symbols;
  module->walk([&](Operation *op) {
    if (auto defines = op->getAttrOfType<ArrayAttr>("defines"))
      for (auto name : defines.getAsRange<StringAttr>())
        known.insert(Expr::symbol(name.getValue()));
  });
}

/// The symbol that stands in `graph` for argument `i`, a number that changes from round to round.
std::optional<Expr> GraphCalls::getCarriedSymbol(func::FuncOp graph, unsigned i) {
  auto value = dyn_cast_or_null<sym::ExprAttr>(graph.getArgAttr(i, torch::valueAttrName));
  if (!value || value.getValue().kind() != sym::Kind::Symbol || known.contains(value.getValue()))
    return std::nullopt;
  return value.getValue();
}

void GraphCalls::replaceNumbers(func::FuncOp graph, KernelBuilder &kernels) {
  auto found = numbers.find(graph);
  if (found == numbers.end())
    return;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    BlockArgument argument = graph.getArgument(i);
    if (!found->second[i]) {
      if (std::optional<Expr> symbol = getCarriedSymbol(graph, i))
        kernel::DefineOp::create(kernels.b(), symbol->symbolName(), argument, sym::ExprAttr());
      continue;
    }
    Attribute value = graph.getArgAttr(i, torch::valueAttrName);
    if (!argument.use_empty())
      argument.replaceAllUsesWith(createNumber(kernels, value, elementType(argument)));
  }
}

void GraphCalls::eraseNumbers() {
  for (auto &[graph, isNumber] : numbers)
    (void)cast<func::FuncOp>(graph).eraseArguments(isNumber);
}

//===-- Types --------------------------------------------------------------------------------===//

/// Makes argument `i` of `graph` a tensor of this type, if that is another way to write its own.
static bool adaptArgument(func::FuncOp graph, unsigned i, RankedTensorType type,
                          KernelBuilder &kernels) {
  BlockArgument argument = graph.getArgument(i);
  auto old = dyn_cast<RankedTensorType>(argument.getType());
  if (old == type)
    return true;
  if (!old || old.getElementType() != type.getElementType() ||
      !kernels.isSame(sym::getShape(old), sym::getShape(type)))
    return false;
  auto builder = ImplicitLocOpBuilder::atBlockBegin(graph.getLoc(), &graph.getBody().front());
  argument.setType(type);
  KernelBuilder inside(builder, kernels.known());
  Value view = inside.withShape(argument, sym::getShape(old));
  argument.replaceUsesWithIf(
      view, [&](OpOperand &use) { return !view.getDefiningOp()->isAncestor(use.getOwner()); });
  graph.setFunctionType(
      builder.getFunctionType(graph.getBody().getArgumentTypes(), graph.getResultTypes()));
  return true;
}

/// Symbols that a call defines, and what each is in the terms of one of its graphs.
struct GraphCalls::Defined {
  llvm::SetVector<Expr> symbols;
  DenseMap<Operation *, DenseMap<Expr, Expr>> values;
};

/// Makes result `i` of `graph` a tensor of this type. A size that the call defines gets its value
/// from the size that the graph computes.
bool GraphCalls::adaptResult(func::FuncOp graph, unsigned i, RankedTensorType type,
                             Defined &defined, KernelBuilder &kernels) {
  Operation *terminator = graph.getBody().front().getTerminator();
  Value value = terminator->getOperand(i);
  auto old = dyn_cast<RankedTensorType>(value.getType());
  if (!old || old.getElementType() != type.getElementType() || old.getRank() != type.getRank())
    return false;
  ImplicitLocOpBuilder builder(terminator->getLoc(), terminator);
  DenseMap<Expr, Expr> &values = defined.values[graph];
  Exprs expected;
  for (auto [declared, computed] : llvm::zip_equal(sym::getShape(type), sym::getShape(old))) {
    if (defined.symbols.contains(declared) && values.try_emplace(declared, computed).second)
      kernel::DefineOp::create(builder, declared.symbolName(), Value(),
                               sym::ExprAttr::get(builder.getContext(), computed));
    expected.push_back(declared.substitute([&](Expr leaf) -> std::optional<Expr> {
      auto known = values.find(leaf);
      return known == values.end() ? std::nullopt : std::optional(known->second);
    }));
  }
  if (!kernels.isSame(sym::getShape(old), expected))
    return false;
  KernelBuilder inside(builder, kernels.known());
  terminator->setOperand(i, inside.withShape(value, sym::getShape(type)));
  graph.setFunctionType(
      builder.getFunctionType(graph.getArgumentTypes(), terminator->getOperandTypes()));
  return true;
}

static RankedTensorType addDim(Expr size, RankedTensorType type) {
  Exprs shape = sym::getShape(type);
  shape.insert(shape.begin(), size);
  return sym::getTensorType(shape, type.getElementType());
}

//===-- Lowering -----------------------------------------------------------------------------===//

static FlatSymbolRefAttr getName(func::FuncOp graph) {
  return FlatSymbolRefAttr::get(graph.getSymNameAttr());
}

static bool isForLoop(torch::HigherOrderOp op) {
  return op.getTarget() == "scan" || op.getTarget() == "map_impl";
}

/// Finds the values of all arguments, and brings the graphs' arguments to their types.
LogicalResult GraphCalls::matchArguments(Arguments &arguments, torch::HigherOrderOp op,
                                         KernelBuilder &kernels) {
  auto refuse = [&](const Twine &reason) {
    kernels.fail(reason);
    return failure();
  };
  auto valueOf = [&](Attribute attr) -> Value {
    if (auto tensor = dyn_cast<torch::ArgAttr>(attr))
      return op->getOperand(tensor.getIndex());
    if (auto scalar = dyn_cast<torch::ScalarAttr>(attr))
      return op->getOperand(scalar.getIndex());
    if (isa<sym::ExprAttr>(attr))
      return createNumber(kernels, attr, kernels.b().getI64Type());
    if (isa<IntegerAttr, FloatAttr>(attr))
      return createNumber(kernels, attr, cast<TypedAttr>(attr).getType());
    return {};
  };
  const llvm::BitVector &isNumber = numbers.find(arguments.graphs.front())->second;
  for (func::FuncOp graph : arguments.graphs)
    if (graph.getNumArguments() != arguments.size() || !graph.getBody().hasOneBlock() ||
        numbers.find(graph)->second != isNumber)
      return refuse("its nested graphs take other arguments");

  unsigned position = 0;
  auto match = [&](ArrayRef<Attribute> attrs, SmallVectorImpl<Value> &values,
                   llvm::function_ref<RankedTensorType(Value)> typeInside) -> LogicalResult {
    for (Attribute attr : attrs) {
      unsigned i = position++;
      if (isNumber[i])
        continue;
      Value value = valueOf(attr);
      if (!value || !isa<RankedTensorType>(value.getType()))
        return refuse("an argument that is neither a tensor nor a number");
      values.push_back(value);
      for (func::FuncOp graph : arguments.graphs)
        if (!adaptArgument(graph, i, typeInside(value), kernels))
          return refuse("its nested graphs take tensors of other shapes or dtypes");
    }
    return success();
  };
  auto same = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  // Carried values have the shape that the call gives them at the end.
  unsigned numCarried = arguments.carried.size();
  if (op->getNumResults() < numCarried)
    return refuse("it gives other results than its nested graphs");
  for (unsigned i = 0; i < numCarried; ++i) {
    for (func::FuncOp graph : arguments.graphs)
      if (graph.getArgAttr(i, torch::valueAttrName) && !getCarriedSymbol(graph, i))
        return refuse("a number that changes from round to round and has no symbol of its own");
    Value value = valueOf(arguments.carried[i]);
    auto type = dyn_cast<RankedTensorType>(op->getResultTypes()[i]);
    if (!value || !type || elementType(value) != type.getElementType() ||
        !kernels.isSame(shapeOf(value), sym::getShape(type)))
      return refuse("what it carries changes its shape or dtype");
    arguments.carriedValues.push_back(kernels.withShape(value, sym::getShape(type)));
    for (func::FuncOp graph : arguments.graphs)
      if (!adaptArgument(graph, i, type, kernels))
        return refuse("its nested graphs take tensors of other shapes or dtypes");
  }
  position = numCarried;
  std::optional<Expr> length;
  for (Attribute attr : arguments.sliced) {
    Value value = valueOf(attr);
    if (!value || !isa<RankedTensorType>(value.getType()) || rankOf(value) == 0)
      return refuse("what it takes slices of is no tensor with a dim");
    length = length.value_or(shapeOf(value).front());
    if (!kernels.isSame(shapeOf(value).front(), *length))
      return refuse("what it takes slices of differs in length");
  }
  auto slice = [](Value value) {
    return kernel::getSliceType(cast<RankedTensorType>(value.getType()));
  };
  if (failed(match(arguments.sliced, arguments.slicedValues, slice)) ||
      failed(match(arguments.invariants, arguments.invariantValues, same)))
    return failure();
  for (Value &value : arguments.slicedValues) {
    Exprs shape = shapeOf(value);
    shape.front() = *length;
    value = kernels.withShape(value, shape);
  }
  return success();
}

/// The results of the new op, and its graphs.
struct GraphCalls::Results {
  SmallVector<Type> types;
  /// Numbers among the results, null for tensors: symbols that are read from them.
  SmallVector<sym::ExprAttr> numbers;
  /// The length of the dim that `scan` and `map_impl` go through.
  Expr length;
};

/// Finds the types of all results, and brings the graphs' results to them.
LogicalResult GraphCalls::matchResults(Results &results, const Arguments &arguments,
                                       torch::HigherOrderOp op, KernelBuilder &kernels) {
  auto refuse = [&](const Twine &reason) {
    kernels.fail(reason);
    return failure();
  };
  bool isWhile = op.getTarget() == "while_loop", isFor = isForLoop(op);
  if (isFor && arguments.slicedValues.empty())
    return refuse("nothing to take slices of");
  if (isFor)
    results.length = shapeOf(arguments.slicedValues.front()).front();
  func::FuncOp body = isWhile ? arguments.graphs.back() : arguments.graphs.front();
  if (body.getNumResults() != op->getNumResults())
    return refuse("it gives other results than its nested graphs");
  Defined defined;
  if (op.getDefines())
    for (auto name : op.getDefines()->getAsRange<StringAttr>())
      defined.symbols.insert(Expr::symbol(name.getValue()));
  // Numbers among the results are read from them; sizes are known to the graphs.
  results.numbers.resize(op->getNumResults());
  if (ArrayAttr values = op.getValuesAttr())
    for (auto [i, value] : llvm::enumerate(values))
      if (auto number = dyn_cast<sym::ExprAttr>(value);
          number && number.getValue().kind() == sym::Kind::Symbol &&
          defined.symbols.remove(number.getValue()))
        results.numbers[i] = number;
  SmallVector<func::FuncOp> producers;
  for (func::FuncOp graph : arguments.graphs)
    if ((!isWhile || graph == body) && !llvm::is_contained(producers, graph))
      producers.push_back(graph);
  for (auto [i, declared] : llvm::enumerate(op->getResultTypes())) {
    auto type = dyn_cast<RankedTensorType>(declared);
    bool isStacked = isFor && i >= arguments.carriedValues.size();
    if (!type || (isStacked && (type.getRank() == 0 ||
                                !kernels.isSame(sym::getShape(type).front(), results.length))))
      return refuse("it gives other results than its nested graphs");
    RankedTensorType inside = isStacked ? kernel::getSliceType(type) : type;
    for (func::FuncOp graph : producers)
      if (graph.getNumResults() <= i || !adaptResult(graph, i, inside, defined, kernels))
        return refuse("it gives other shapes or dtypes than its nested graphs");
    results.types.push_back(isStacked ? addDim(results.length, inside) : inside);
  }
  for (func::FuncOp graph : producers)
    if (defined.values[graph].size() != defined.symbols.size() ||
        (isFor && !defined.symbols.empty()))
      return refuse("a size that its nested graphs do not give");
  return success();
}

/// Null, and `kernels` has the reason, for a predicate that is not one bool.
Operation *GraphCalls::createCond(const Arguments &arguments, const Results &results,
                                  torch::HigherOrderOp op, KernelBuilder &kernels) {
  sym::ExprAttr when;
  Value predicate;
  if (std::optional<Expr> condition = torch::getCondition(arguments.predicate, op))
    when = sym::ExprAttr::get(op.getContext(), *condition);
  else if (auto tensor = dyn_cast<torch::ArgAttr>(arguments.predicate))
    predicate = op->getOperand(tensor.getIndex());
  else if (auto scalar = dyn_cast<torch::ScalarAttr>(arguments.predicate))
    predicate = op->getOperand(scalar.getIndex());
  if (!when && (!predicate || !isBool(elementType(predicate)) ||
                !kernels.isSame(sym::product(shapeOf(predicate)), 1))) {
    kernels.fail("a predicate that is not one bool");
    return nullptr;
  }
  if (predicate && !sym::product(shapeOf(predicate)).isConstant(1))
    predicate = kernels.reshape(predicate, {});
  return kernel::CondOp::create(kernels.b(), results.types, when, predicate,
                                getName(arguments.graphs[0]), getName(arguments.graphs[1]),
                                arguments.invariantValues);
}

/// Null, and `kernels` has the reason, for a condition that is not one bool.
Operation *GraphCalls::createWhile(const Arguments &arguments, const Results &results,
                                   KernelBuilder &kernels) {
  func::FuncOp condition = arguments.graphs.front();
  auto type = condition.getNumResults() == 1
                  ? dyn_cast<RankedTensorType>(condition.getResultTypes()[0])
                  : RankedTensorType();
  if (!type || !isBool(type.getElementType()) || !sym::product(sym::getShape(type)).isConstant(1)) {
    kernels.fail("a condition that is not one bool");
    return nullptr;
  }
  return kernel::WhileOp::create(kernels.b(), results.types, getName(condition),
                                 getName(arguments.graphs[1]), arguments.carriedValues,
                                 arguments.invariantValues);
}

LogicalResult GraphCalls::lower(torch::HigherOrderOp op, KernelBuilder &kernels) {
  std::optional<Arguments> arguments = read(op);
  if (!arguments) {
    kernels.fail(getForm(op.getTarget()).empty() ? "it has no lowering"
                                                 : "arguments that it does not take");
    return failure();
  }
  Results results;
  if (failed(matchArguments(*arguments, op, kernels)) ||
      failed(matchResults(results, *arguments, op, kernels)))
    return failure();

  ImplicitLocOpBuilder &b = kernels.b();
  Operation *lowered;
  if (op.getTarget() == "cond")
    lowered = createCond(*arguments, results, op, kernels);
  else if (op.getTarget() == "while_loop")
    lowered = createWhile(*arguments, results, kernels);
  else if (isForLoop(op))
    lowered = kernel::ForOp::create(b, results.types, getName(arguments->graphs[0]),
                                    sym::ExprAttr::get(b.getContext(), results.length),
                                    arguments->carriedValues, arguments->slicedValues,
                                    arguments->invariantValues);
  else
    lowered = kernel::InvokeOp::create(b, results.types, getName(arguments->graphs[0]),
                                       arguments->invariantValues);
  if (!lowered)
    return failure();
  for (auto [result, value, number] :
       llvm::zip_equal(op->getResults(), lowered->getResults(), results.numbers)) {
    if (number)
      kernel::DefineOp::create(b, number.getValue().symbolName(),
                               kernels.convert(value, b.getI64Type()), sym::ExprAttr());
    result.replaceAllUsesWith(
        kernels.withShape(value, sym::getShape(cast<RankedTensorType>(result.getType()))));
  }
  return success();
}
