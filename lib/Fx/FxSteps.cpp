// Steps that are nodes of a graph: launches, copies, calls of operators, checks.
#include "FxFunction.h"
#include "kiln/Dialect/Torch/CustomOp.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::fx;
using namespace kiln::wrapper;

void FunctionWriter::writeStep(Operation &op) {
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](ConstantOp op) { writeConstant(op); })
      .Case([&](OutputOp op) { setPending(op, "out", ""); })
      .Case([&](AllocOp op) { setPending(op, "buf", ""); })
      .Case([&](ReuseOp op) { writeReuse(op); })
      .Case([&](ViewOp op) {
        assign(op, "view", viewOf(op.getBuffer(), op.getType(), op.getOffset().getValue()));
      })
      .Case([&](LaunchOp op) { writeLaunch(op, op.getIns(), op.getOuts()); })
      .Case([&](ExternCallOp op) { writeCall(op); })
      .Case([&](CopyOp op) { writeCopy(op); })
      .Case([&](DefineOp op) { writeDefine(op); })
      .Case([&](CheckOp op) {
        line("g.check_data(" + use(op.getCondition()) + ", " + quote(op.getMessage()) + ")");
      })
      .Case([&](AssertOp op) { writeAssert(op); })
      .Case([&](CallOp op) { writeGraphCall(op); })
      .Case([&](IfOp op) { writeIf(op); })
      .Case([&](WhileOp op) { writeWhile(op); })
      .Case([&](ForOp op) { writeFor(op); })
      // On one line whatever is in it.
      .Case([&](CommentOp op) { line("# " + quote(op.getText())); })
      // Symbols are bound at the start, and results found at the end. PyTorch has memory of its
      // own.
      .Case<BindOp, GiveOp, FreeOp, ReserveOp, FoldOp>([](Operation *) {})
      .Default([&](Operation *op) { refuse(op, "the step " + op->getName().getStringRef()); });
}

void FunctionWriter::writeConstant(ConstantOp constant) {
  if (!constant.getOffset())
    return; // only a fold reads or makes it
  auto bufferType = constant.getType();
  std::string title = constant.getName().value_or("constant").str();
  setPending(constant, title,
             "g.constant(" + quote(Names().add(title)) + ", " + sizes(bufferType.getSizes()) +
                 ", " + dtype(bufferType.getElementType()) + ", " +
                 std::to_string(constant.getOffsetAttr().getInt()) + ")");
}

/// The same tensor where that has the same dtype.
void FunctionWriter::writeReuse(ReuseOp reuse) {
  auto from = cast<BufferType>(reuse.getBuffer().getType());
  if (isPending(reuse.getBuffer()) || from.getElementType() != reuse.getType().getElementType())
    return setPending(reuse, "buf", "");
  setPending(reuse, "buf", viewOf(reuse.getBuffer(), reuse.getType(), 0));
}

void FunctionWriter::writeLaunch(Operation *op, ValueRange ins, ValueRange outs) {
  const host::Step *step = context.steps.lookup(op);
  SmallVector<std::string> symbols;
  auto launch = dyn_cast<LaunchOp>(op);
  for (sym::Expr symbol : step->symbols)
    symbols.push_back(symbolName((launch ? launch.fromKernel(symbol) : symbol).symbolName()));
  std::string operands = uses(ins), results = uses(outs);
  line("g.launch(" + quote(step->name) + ", " + operands + ", " + results + ", " + list(symbols) +
       ")");
}

void FunctionWriter::writeCopy(CopyOp copy) {
  auto from = cast<BufferType>(copy.getSource().getType());
  auto to = cast<BufferType>(copy.getTarget().getType());
  // PyTorch refuses to write an element twice: one of those that are in one place is enough.
  SmallVector<sym::Expr> sizes(to.getSizes());
  for (auto [size, stride] : llvm::zip_equal(sizes, to.getStrides()))
    if (stride.isConstant(0) && size.constant().value_or(1) > 0)
      size = size.isConstant() ? sym::Expr(1) : sym::Expr::min(size, 1);
  if (ArrayRef<sym::Expr>(sizes) == to.getSizes()) {
    std::string source = use(copy.getSource());
    return store(copy.getTarget(), source);
  }
  auto narrow = [&](Value buffer, BufferType type) {
    return viewOf(
        buffer, BufferType::get(type.getContext(), sizes, type.getStrides(), type.getElementType()),
        0);
  };
  std::string source = narrow(copy.getSource(), from), target = narrow(copy.getTarget(), to);
  line("g.copy(" + source + ", " + target + ")");
}

void FunctionWriter::writeDefine(DefineOp define) {
  sym::Expr symbol = sym::Expr::symbol(define.getSymbol());
  if (sizesByName.contains(symbol))
    return;
  if (Value value = define.getValue()) {
    auto known = numbers.find(value);
    bool isKnown = known != numbers.end();
    setSymbol(define.getSymbol(), isKnown ? known->second : "g.item(" + use(value) + ")");
  } else {
    setSymbol(define.getSymbol(), size(define.getExpr()->getValue()));
  }
}

void FunctionWriter::writeAssert(AssertOp assertion) {
  line("g.check(" + size(assertion.getExpr().getValue()) + " >= 0, " +
       quote(assertion.getMessage()) + ")");
}

//===-- Calls of libraries ------------------------------------------------------------------===//

std::string FunctionWriter::argument(Attribute attr, ArrayRef<std::string> operands) {
  if (isa<UnitAttr>(attr))
    return "None";
  if (auto tensor = dyn_cast<sym::ArgAttr>(attr))
    return operands[tensor.getIndex()];
  if (auto item = dyn_cast<sym::ScalarAttr>(attr))
    return "g.item(" + operands[item.getIndex()] + ")";
  if (auto expr = dyn_cast<sym::ExprAttr>(attr))
    return size(expr.getValue());
  if (auto boolean = dyn_cast<BoolAttr>(attr))
    return boolean.getValue() ? "True" : "False";
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return std::to_string(integer.getInt());
  if (auto floating = dyn_cast<FloatAttr>(attr))
    return number(floating.getValueAsDouble());
  if (auto complex = dyn_cast<sym::ComplexAttr>(attr))
    return "complex(" + number(complex.getReal().getValueAsDouble()) + ", " +
           number(complex.getImag().getValueAsDouble()) + ")";
  if (auto text = dyn_cast<StringAttr>(attr))
    return quote(text.getValue());
  if (auto element = dyn_cast<sym::DTypeAttr>(attr))
    return dtype(element.getType());
  if (auto device = dyn_cast<sym::DeviceAttr>(attr))
    return "torch.device(" + quote(device.getName()) + ")";
  if (auto layout = dyn_cast<sym::LayoutAttr>(attr))
    return "torch." + sym::stringify(layout.getValue()).str();
  if (auto format = dyn_cast<sym::MemoryFormatAttr>(attr))
    return "torch." + sym::stringify(format.getValue()).str();
  SmallVector<std::string> items;
  if (auto dictionary = dyn_cast<DictionaryAttr>(attr)) {
    for (auto [key, value] : llvm::zip_equal(dictionary.getAs<ArrayAttr>("keys"),
                                             dictionary.getAs<ArrayAttr>("values")))
      items.push_back(argument(key, operands) + ": " + argument(value, operands));
    return "{" + llvm::join(items, ", ") + "}";
  }
  for (Attribute item : cast<ArrayAttr>(attr)) // lowering refuses everything else
    items.push_back(argument(item, operands));
  return list(items);
}

/// The format that a print was taken apart from, or one that prints the same.
void FunctionWriter::writePrint(ExternCallOp call) {
  SmallVector<std::string> operands = useEach(call.getIns()), arguments;
  std::string format;
  StringRef kinds = cast<StringAttr>(call.getArgs()[0]).getValue();
  for (Attribute piece : call.getArgs().getValue().drop_front()) {
    char kind = kinds.front();
    StringRef decimals = kinds.drop_front().take_while(llvm::isDigit);
    kinds = kinds.drop_front(1 + decimals.size());
    if (kind == 's') {
      for (char c : cast<StringAttr>(piece).getValue())
        format += std::string(c == '{' || c == '}' ? 2 : 1, c);
      continue;
    }
    arguments.push_back(argument(piece, operands));
    // A tensor of one element is a number in `{}`.
    format += kind == 't'   ? "{!s}"
              : kind == 'n' ? "{}"
                            : ("{:." + decimals + Twine(kind) + "}").str();
  }
  line("g.print(" + quote(format) + ", " + list(arguments) + ")");
}

void FunctionWriter::writeCall(ExternCallOp call) {
  if (call.getLibrary() == torch::runtimeLibrary && call.getCallee() == torch::printFunction)
    return writePrint(call);
  if (host::isFunctionCall(call))
    return writeLaunch(call, call.getIns(), call.getOuts());
  if (call.getLibrary() != "torch")
    return refuse(call, "an operator of the library '" + call.getLibrary() + "'");
  writeOperator(call);
}

/// The call, then where its results go: the projected ones, sizes of those that a library would
/// keep with what stands for them, and buffers that the operator writes.
void FunctionWriter::writeOperator(ExternCallOp call) {
  SmallVector<std::string> operands = useEach(call.getIns());
  OperandRange outs = call.getOuts();
  ArrayRef<int64_t> projection = call.getProjection(), sizes = call.getSizes(),
                    updates = call.getUpdates();
  for (auto [operand, out] : llvm::zip_equal(updates, outs.take_back(updates.size()))) {
    if (use(out) != operands[operand])
      line("g.copy(" + operands[operand] + ", " + use(out) + ")");
    operands[operand] = use(out);
  }
  std::string results;
  if (call.getCallee() == "kiln.results") {
    results = kept.lookup(call.getIns().front());
  } else {
    results = names.add(StringRef(call.getCallee()).split('.').second.split('.').first);
    SmallVector<std::string> arguments, titles, types;
    for (Attribute attr : call.getArgs())
      arguments.push_back(argument(attr, operands));
    if (ArrayAttr given = call.getNamesAttr())
      for (StringRef name : given.getAsValueRange<StringAttr>())
        titles.push_back(quote(name));
    line(results + " = g.operator(" + quote(call.getCallee()) + ", " + list(arguments) +
         (titles.empty() ? "" : ", names=" + list(titles)) + ")");
  }
  for (auto [i, number] : llvm::enumerate(projection))
    line("g.copy(" + results + "[" + std::to_string(number) + "], " + use(outs[i]) + ")");
  size_t at = projection.size();
  for (size_t i = 0; i < sizes.size(); i += 2) {
    Value out = outs[at++];
    std::string result = results + "[" + std::to_string(sizes[i]) + "]";
    std::string name = names.add("size");
    line(name + " = " +
         (sizes[i + 1] < 0 ? result
                           : "g.size(" + result + ", " + std::to_string(sizes[i + 1]) + ")"));
    numbers[out] = name;
    std::string text = "g.scalar(" + name + ", torch.int64)";
    if (isPending(out))
      setPending(out, "buf", text);
    else
      line("g.copy(" + text + ", " + use(out) + ")");
  }
  if (!sizes.empty())
    kept[outs[at]] = results;
}
