// Nodes become calls, or nothing where they only compute sizes; nested graphs become functions.
#include "Importer.h"
#include "kiln/Dialect/Kernel/Triton.h"
#include "kiln/Sym/MemoryOrder.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace llvm;
using namespace kiln;
using namespace kiln::frontend;
using sym::Expr;

/// One result of a call, lists flattened.
struct Importer::Result {
  StringRef name; // empty for None
  Type type;
  Attribute number; // the constant or the expression of a number, if it has one
  bool isNumber = false;
  StringRef condition = {}; // what a symbolic bool says
};

/// The Python line that made the node: the innermost frame outside of PyTorch itself. Frames are
/// `  File "model.py", line 12, in forward` and the outermost comes first.
static LocationAttr sourceLine(StringRef trace, MLIRContext *context) {
  constexpr StringLiteral marker = "File \"";
  LocationAttr innermost;
  while (true) {
    size_t start = trace.rfind(marker);
    if (start == StringRef::npos)
      return innermost;
    auto [file, rest] = trace.drop_front(start + marker.size()).split("\", line ");
    trace = trace.take_front(start);
    unsigned number;
    if (rest.consumeInteger(10, number))
      continue;
    LocationAttr line = FileLineColLoc::get(StringAttr::get(context, file), number, 0);
    if (!file.contains("site-packages/torch/"))
      return line;
    innermost = innermost ? innermost : line;
  }
}

Location Importer::locationOf(const Node &node) {
  LocationAttr line = sourceLine(node.stackTrace, &context);
  StringRef name = node.name;
  if (name.empty())
    name = node.target;
  return NameLoc::get(builder.getStringAttr(name),
                      line ? Location(line) : UnknownLoc::get(&context));
}

//===-- Results -----------------------------------------------------------------------------===//

/// Whether a size that is no integer expression may stand for itself: it is computed from floats.
static bool isFromFloats(StringRef text) {
  return text.contains("'zuf") || text.contains("'zf") || text.contains("Float(") ||
         text.contains("OpaqueUnaryFn");
}

/// The value that a symbolic number's name has in `table`; null if it is not there.
static auto valueOf(const auto &ref, const auto &table) {
  using Sym = std::decay_t<decltype(table.begin()->second)>;
  const std::string *name = std::get_if<std::string>(&ref.value);
  auto it = name ? table.find(*name) : table.end();
  std::pair<StringRef, const Sym *> none("", nullptr);
  return it == table.end() ? none : std::pair<StringRef, const Sym *>(it->first(), &it->second);
}

Expected<Importer::Result> Importer::tensorResult(const TensorRef &ref) {
  Expected<const TensorMeta *> meta = metaOf(ref.name);
  if (!meta)
    return meta.takeError();
  for (const SymInt &size : (*meta)->sizes)
    if (auto *text = std::get_if<ExprText>(&size);
        text && isFromFloats(text->text) && sizesFromFloats.insert(text->text).second)
      defineFloatSizes(text->text);
  Expected<RankedTensorType> type = tensorType(**meta);
  if (!type)
    return type.takeError();
  return Result{ref.name, *type, {}, false};
}

Expected<Importer::Result> Importer::integerResult(const SymIntRef &ref) {
  auto [name, meaning] = valueOf(ref, scope->graph.symIntValues);
  if (!meaning)
    return fail("an output is not in sym_int_values");
  auto *text = std::get_if<ExprText>(meaning);
  if (text && isFromFloats(text->text) && sizesFromFloats.insert(text->text).second) {
    StringRef size = text->text;
    bool hasFloats = size.contains("'zuf") || size.contains("'zf");
    Expected<Expr> readable = hasFloats ? fail("no integer") : symbols.read(size, /*assume=*/false);
    if (!readable) { // otherwise an integer expression all the same
      consumeError(readable.takeError());
      symbols.define(size, opaqueSymbol(numOpaque++));
    }
  }
  Expected<Expr> expr = integer(*meaning);
  if (!expr)
    return expr.takeError();
  return Result{name, scalarType(builder.getI64Type()), integerAttr(*expr), true};
}

Expected<Importer::Result> Importer::floatResult(const SymFloatRef &ref) {
  auto [name, meaning] = valueOf(ref, scope->graph.symFloatValues);
  if (!meaning)
    return fail("an output is not in sym_float_values");
  auto *constant = std::get_if<double>(meaning);
  return Result{name, scalarType(builder.getF64Type()),
                constant ? Attribute(builder.getF64FloatAttr(*constant)) : Attribute(), true};
}

Expected<Importer::Result> Importer::boolResult(const SymBoolRef &ref) {
  auto [name, meaning] = valueOf(ref, scope->graph.symBoolValues);
  if (!meaning)
    return fail("an output is not in sym_bool_values");
  Result result{name, scalarType(builder.getI1Type()), {}, true};
  if (auto *constant = std::get_if<bool>(meaning)) {
    result.number = builder.getBoolAttr(*constant);
    return result;
  }
  result.condition = std::get<ExprText>(*meaning).text;
  // A comparison with an integer of more than 64 bits may be known although its symbols are not
  // the program's.
  SymExprReader reader;
  Expected<Expr> known = reader.read(result.condition, /*assume=*/false);
  if (!known)
    consumeError(known.takeError());
  else if (known->isConstant())
    result.number = builder.getBoolAttr(!known->isConstant(0));
  return result;
}

Error Importer::collectResults(const Argument &output, SmallVectorImpl<Result> &results) {
  auto add = [&](Expected<Result> result) -> Error {
    if (!result)
      return result.takeError();
    results.push_back(*result);
    return Error::success();
  };
  auto addNone = [&] { results.push_back({"", builder.getNoneType(), {}, false}); };

  const auto &value = output.value;
  if (std::holds_alternative<None>(value)) {
    addNone();
  } else if (auto *tensor = std::get_if<TensorRef>(&value)) {
    return add(tensorResult(*tensor));
  } else if (auto *tensors = std::get_if<std::vector<TensorRef>>(&value)) {
    for (const TensorRef &tensor : *tensors)
      if (Error error = add(tensorResult(tensor)))
        return error;
  } else if (auto *optional = std::get_if<OptionalTensorRef>(&value)) {
    if (*optional)
      return add(tensorResult(**optional));
    addNone();
  } else if (auto *optionals = std::get_if<std::vector<OptionalTensorRef>>(&value)) {
    for (const OptionalTensorRef &tensor : *optionals) {
      if (!tensor)
        addNone();
      else if (Error error = add(tensorResult(*tensor)))
        return error;
    }
  } else if (auto *symInt = std::get_if<SymIntRef>(&value)) {
    return add(integerResult(*symInt));
  } else if (auto *symFloat = std::get_if<SymFloatRef>(&value)) {
    return add(floatResult(*symFloat));
  } else if (auto *symBool = std::get_if<SymBoolRef>(&value)) {
    return add(boolResult(*symBool));
  } else {
    return fail("unexpected kind of output");
  }
  return Error::success();
}

/// Operators that compute numbers from numbers and from sizes, never from a tensor's elements.
static bool isNumberComputation(StringRef target) {
  constexpr StringLiteral prefixes[] = {
      "_operator.",       "math.",           "builtins.round",
      "torch.sym_",       "torch._sym_",     "aten.sym_size.",
      "aten.sym_stride.", "aten.sym_numel.", "aten.sym_storage_offset."};
  return llvm::any_of(prefixes, [&](StringRef prefix) { return target.starts_with(prefix); });
}

/// Operators that give a number which only data knows, even where export has concluded it from a
/// check: the check is what they then are.
static bool isDataNumber(StringRef target) {
  return target.starts_with("aten.item.") || target.starts_with("aten._local_scalar_dense.");
}

/// A node all of whose results are constants or are expressions over known symbols leaves no trace:
/// its names stand for those.
Expected<bool> Importer::importAsNumbers(StringRef target, ArrayRef<Result> results) {
  if (results.empty())
    return false;
  bool computesNumbers = isNumberComputation(target);
  for (const Result &result : results) {
    if (!result.number)
      return false;
    auto expr = dyn_cast<sym::ExprAttr>(result.number);
    if (!expr && isDataNumber(target))
      return false;
    if (!expr)
      continue;
    if (!computesNumbers || !dependsOnlyOn(expr.getValue(), scope->known))
      return false;
  }
  for (const Result &result : results)
    if (Error error = define(result.name, {{}, result.number, true}))
      return error;
  return true;
}

/// The symbol that export introduces for a bool that data gives: the condition is that it is 1.
Expr Importer::newSymbol(StringRef condition) {
  Expected<Expr> expr = symbols.read(condition);
  if (!expr) {
    consumeError(expr.takeError());
    return 0;
  }
  llvm::SetVector<Expr> unknown;
  expr->walkLeaves([&](Expr leaf) {
    if (!scope->known.contains(leaf))
      unknown.insert(leaf);
  });
  if (unknown.size() != 1)
    return 0;
  Expr symbol = unknown.front();
  auto at = [&](int64_t value) {
    return expr->substitute([&](Expr leaf) -> std::optional<Expr> {
      return leaf == symbol ? std::optional<Expr>(value) : std::nullopt;
    });
  };
  return at(0).isConstant(0) && at(1).isConstant(1) ? symbol : Expr(0);
}

//===-- Nodes -------------------------------------------------------------------------------===//

/// Operators whose result, or whether it is a view, depends on how their argument lies in memory.
static bool seesMemory(StringRef target) {
  return target.starts_with("aten.as_strided") || target.starts_with("aten.resize") ||
         target.starts_with("aten.reshape") || target.starts_with("aten.flatten.") ||
         target.starts_with("aten.contiguous.") || target.starts_with("aten.ravel.") ||
         target == "auto_functionalized_v2";
}

/// How a tensor lies in memory: its strides and its offset.
Expected<std::pair<Attribute, Attribute>> Importer::memoryOf(StringRef tensor) {
  Expected<const TensorMeta *> meta = metaOf(tensor);
  if (!meta)
    return meta.takeError();
  useCorrectionsOf(tensor);
  Expected<SmallVector<Expr>> strides = integers((*meta)->strides);
  if (!strides)
    return strides.takeError();
  Expected<Expr> offset = integer((*meta)->storageOffset);
  if (!offset)
    return offset.takeError();
  return std::pair<Attribute, Attribute>(sym::ShapeAttr::get(&context, *strides),
                                         sym::ExprAttr::get(&context, *offset));
}

/// Views of their argument, in its dtype, whatever its strides are.
static bool isAlwaysView(StringRef target) {
  constexpr StringLiteral names[] = {"alias",  "as_strided", "detach", "diagonal",  "expand",
                                     "narrow", "permute",    "select", "slice",     "squeeze",
                                     "t",      "transpose",  "unfold", "unsqueeze", "view"};
  return target.consume_front("aten.") && target != "view.dtype" &&
         llvm::is_contained(names, target.split('.').first);
}

static const TensorRef *firstTensor(const Node &node) {
  return node.inputs.empty() ? nullptr : std::get_if<TensorRef>(&node.inputs.front().arg.value);
}

/// as_strided of a view sees all of the tensor that it is a view of. It becomes as_strided of that
/// one, if it has no gaps.
Error Importer::seeViewedTensor(const Node &node, torch::CallOp op) {
  constexpr unsigned offset = 3; // of the arguments
  auto viewed = scope->viewed.find(firstTensor(node)->name);
  if (viewed == scope->viewed.end() || op.getArgs()[0] != torch::ArgAttr::get(&context, 0))
    return Error::success();
  auto own = memoryOf(viewed->first()), whole = memoryOf(viewed->second);
  if (Error error = joinErrors(own.takeError(), whole.takeError()))
    return error;
  Value value = scope->entries.lookup(viewed->second).value;
  auto strides = cast<sym::ShapeAttr>(whole->first).getSizes();
  if (!sym::getMemoryOrder(sym::getShape(value), strides, sym::Assumptions()))
    return Error::success();
  SmallVector<Attribute> args(op.getArgs().getValue());
  if (isa<UnitAttr>(args[offset]))
    args[offset] = integerAttr(cast<sym::ExprAttr>(own->second).getValue());
  op.setArgsAttr(builder.getArrayAttr(args));
  op->setOperand(0, value);
  op->setAttr(torch::stridesAttrName, whole->first);
  op->setAttr(torch::storageOffsetAttrName, whole->second);
  return Error::success();
}

/// The memory of the node's first tensor, as attributes of its call; of a functionalized call,
/// lists for its bases.
Error Importer::recordMemory(const Node &node, Operation *op) {
  SmallVector<Attribute> strides, offsets;
  auto record = [&](const TensorRef &tensor) -> Error {
    auto memory = memoryOf(tensor.name);
    if (!memory)
      return memory.takeError();
    strides.push_back(memory->first);
    offsets.push_back(memory->second);
    return Error::success();
  };
  if (isa<torch::HigherOrderOp>(op)) {
    for (const NamedArgument &input : node.inputs)
      if (auto *bases = std::get_if<std::vector<TensorRef>>(&input.arg.value);
          bases && input.name == "_all_bases")
        for (const TensorRef &base : *bases)
          if (Error error = record(base))
            return error;
    op->setAttr(torch::stridesAttrName, builder.getArrayAttr(strides));
    op->setAttr(torch::storageOffsetAttrName, builder.getArrayAttr(offsets));
    return Error::success();
  }
  const TensorRef *tensor = firstTensor(node);
  if (!tensor)
    return Error::success();
  if (Error error = record(*tensor))
    return error;
  op->setAttr(torch::stridesAttrName, strides[0]);
  op->setAttr(torch::storageOffsetAttrName, offsets[0]);
  auto call = cast<torch::CallOp>(op);
  return call.getTarget() == "aten.as_strided.default" ? seeViewedTensor(node, call)
                                                       : Error::success();
}

/// `with_effects(token, op, …)` is op, with a token before its results: nodes are in order anyway.
Expected<Node> Importer::withoutToken(const Node &node) {
  auto *op = node.inputs.size() < 2 ? nullptr : std::get_if<OperatorRef>(&node.inputs[1].arg.value);
  if (!op || node.outputs.empty())
    return fail("with_effects: expected a token and an operator");
  constexpr StringLiteral known[] = {"torch.ops.higher_order.print",
                                     "torch.ops.aten._linalg_check_errors.default"};
  if (!llvm::is_contained(known, op->target))
    return fail("with_effects of " + op->target + " is not supported");
  Node plain = node;
  plain.target = op->target;
  plain.inputs.erase(plain.inputs.begin(), plain.inputs.begin() + 2);
  plain.outputs.erase(plain.outputs.begin());
  // Arguments of higher-order operators have no names.
  StringRef target = plain.target;
  target.consume_front("torch.ops.");
  if (const torch::OpSchema *schema = torch::lookupSchema(target))
    for (auto [input, argument] : llvm::zip(plain.inputs, schema->arguments))
      if (input.name.empty())
        input.name = argument.name;
  return plain;
}

Error Importer::importNode(const Node &node) {
  StringRef target = node.target;
  target.consume_front("torch.ops.");
  if (target == "higher_order.with_effects") {
    Expected<Node> plain = withoutToken(node);
    return plain ? importNode(*plain) : plain.takeError();
  }
  SmallVector<Result> results;
  inheritCorrections(node);
  for (const Argument &output : node.outputs)
    if (Error error = collectResults(output, results))
      return error;
  for (Result &result : results) {
    if (auto expr = dyn_cast_or_null<sym::ExprAttr>(result.number))
      result.number = integerAttr(computeQuotient(node, expr.getValue()));
    keepCorrections(result.name);
  }
  Expected<bool> isDone = importAsNumbers(target, results);
  if (!isDone || *isDone)
    return isDone.takeError();

  CallArguments call;
  if (Error error = importArguments(node, target, call))
    return error;
  SmallVector<Type> types;
  SmallVector<Expr> defined;
  SmallVector<Attribute> values;
  bool hasValues = false;
  for (const Result &result : results) {
    types.push_back(result.type);
    learn(result.type, &defined);
    auto expr = dyn_cast_or_null<sym::ExprAttr>(result.number);
    if (!expr && result.isNumber && isa_and_nonnull<IntegerAttr>(result.number) &&
        !isa<BoolAttr>(result.number))
      expr = sym::ExprAttr::get(&context, Expr(cast<IntegerAttr>(result.number).getInt()));
    if (!result.condition.empty() && !isNumberComputation(target))
      if (Expr symbol = newSymbol(result.condition); symbol.kind() == sym::Kind::Symbol)
        expr = sym::ExprAttr::get(&context, symbol);
    if (expr)
      learn(expr.getValue(), &defined);
    values.push_back(expr ? Attribute(expr) : builder.getUnitAttr());
    hasValues |= static_cast<bool>(expr);
  }
  ArrayAttr definesAttr, valuesAttr, namesAttr;
  if (!defined.empty())
    definesAttr = builder.getArrayAttr(llvm::map_to_vector(defined, [&](Expr symbol) -> Attribute {
      return builder.getStringAttr(symbol.symbolName());
    }));
  if (hasValues)
    valuesAttr = builder.getArrayAttr(values);
  if (!call.names.empty())
    namesAttr = builder.getArrayAttr(call.names);
  StringAttr name = cast<NameLoc>(location).getName();
  ArrayAttr args = builder.getArrayAttr(call.args);
  Operation *op;
  if (target.consume_front("higher_order."))
    op =
        torch::HigherOrderOp::create(builder, location, types, builder.getStringAttr(target),
                                     call.operands, args, name, definesAttr, valuesAttr, namesAttr);
  else
    op = torch::CallOp::create(builder, location, types, builder.getStringAttr(target),
                               call.operands, args, name, definesAttr, valuesAttr, namesAttr,
                               /*updates=*/nullptr);
  if (auto call = dyn_cast<torch::HigherOrderOp>(op); call && target == kernel::tritonOperator)
    if (Error error = importTriton(node, call))
      return error;
  if (options.modules && !node.modules.empty())
    op->setAttr(torch::modulesAttrName, builder.getStringAttr(node.modules));
  bool asksFormat = target.starts_with("aten.to.") && llvm::any_of(call.args, [](Attribute arg) {
                      return isa<torch::MemoryFormatAttr>(arg);
                    });
  if (seesMemory(target) || asksFormat)
    if (Error error = recordMemory(node, op))
      return error;
  // Results have these types, as has whatever is seen through a name: a tensor.
  const TensorRef *source = firstTensor(node);
  if (source && isAlwaysView(target) && results.size() == 1 && isa<torch::CallOp>(op)) {
    auto viewed = scope->viewed.find(source->name);
    bool isKnown = viewed != scope->viewed.end();
    scope->viewed[results[0].name] = isKnown ? viewed->second : StringRef(source->name);
  }
  for (auto [result, value] : llvm::zip(results, op->getResults()))
    if (!result.name.empty())
      if (Error error = define(result.name, {value, result.number, result.isNumber}))
        return error;
  return Error::success();
}

Error Importer::importNodes() {
  Location outer = location;
  for (const Node &node : scope->graph.nodes) {
    location = locationOf(node);
    if (Error error = importNode(node))
      return error;
  }
  location = outer;
  return Error::success();
}

//===-- Nested graphs -----------------------------------------------------------------------===//

Expected<FlatSymbolRefAttr> Importer::importNested(const GraphRef &nested) {
  const Graph &graph = *nested.graph;
  Scope *outer = scope;
  // Nothing is visible but the inputs; what a symbol means is the same everywhere.
  Scope inner{graph, {}, outer->known};
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(module->getBody());
  auto func = func::FuncOp::create(builder, location, nested.name.empty() ? "graph" : nested.name,
                                   builder.getFunctionType({}, {}));
  func.setPrivate();
  Block *body = func.addEntryBlock();
  builder.setInsertionPointToStart(body);

  scope = &inner;
  auto import = [&]() -> Error {
    SmallVector<Result> inputs;
    for (const Argument &input : graph.inputs)
      if (Error error = collectResults(input, inputs))
        return error;
    SmallVector<Attribute> argAttrs;
    for (const Result &input : inputs) {
      learn(input.type);
      keepCorrections(input.name); // those of the call's arguments
      if (auto expr = dyn_cast_or_null<sym::ExprAttr>(input.number))
        learn(expr.getValue());
      NamedAttrList attrs;
      if (!input.name.empty()) {
        attrs.set(torch::nameAttrName, builder.getStringAttr(input.name));
        BlockArgument argument = body->addArgument(input.type, func.getLoc());
        if (Error error = define(input.name, {argument, input.number, input.isNumber}))
          return error;
      } else {
        body->addArgument(input.type, func.getLoc());
      }
      if (input.number && input.isNumber)
        attrs.set(torch::valueAttrName, input.number);
      argAttrs.push_back(attrs.getDictionary(&context));
    }
    if (Error error = importNodes())
      return error;
    SmallVector<Value> outputs;
    for (const Argument &output : graph.outputs) {
      Expected<Value> value = outputValue(output);
      if (!value)
        return value.takeError();
      outputs.push_back(*value);
    }
    func::ReturnOp::create(builder, func.getLoc(), outputs);
    func.setFunctionType(
        builder.getFunctionType(body->getArgumentTypes(), ValueRange(outputs).getTypes()));
    func.setArgAttrsAttr(builder.getArrayAttr(argAttrs));
    return Error::success();
  };
  Error error = import();
  scope = outer;
  if (error)
    return error;
  // Two conds may call their branches the same: the later one gets a new name.
  func->remove();
  StringAttr name = SymbolTable(*module).insert(func);
  return FlatSymbolRefAttr::get(name);
}
