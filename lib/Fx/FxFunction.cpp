// The frame of a function: its inputs and their checks, symbols, buffers and results.
#include "FxFunction.h"
#include "kiln/Host/ModelInfo.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::fx;
using namespace kiln::wrapper;

FunctionWriter::FunctionWriter(Context &context, HostFunctionOpInterface function)
    : context(context), function(function) {
  for (auto [expr, name] : getNamedSizes(context.program.getSymbolsAttr()))
    sizesByName[name] = expr;
}

SmallVector<sym::Expr> FunctionWriter::getFreeSymbols() {
  SymbolCollector used;
  used.add(function);
  function->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      used.walker.walk(operand.getType());
    if (const host::Step *step = context.steps.lookup(op))
      used.symbols.insert_range(step->symbols);
    if (auto call = dyn_cast<GraphCallOpInterface>(op))
      for (FlatSymbolRefAttr graph : call.getGraphs())
        used.symbols.insert_range(context.graphs.lookup(graph.getValue()).symbols);
  });
  llvm::SetVector<sym::Expr> defined = getDefinedSymbols(function);
  return llvm::to_vector(llvm::make_filter_range(used.symbols, [&](sym::Expr symbol) {
    return !defined.contains(symbol) && !sizesByName.contains(symbol);
  }));
}

SmallVector<sym::Expr> FunctionWriter::getGivenSymbols(HostFunctionOpInterface function) {
  SymbolCollector used;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (function.isGiven(i))
      used.walker.walk(type);
  llvm::SetVector<sym::Expr> defined = getDefinedSymbols(function);
  return llvm::to_vector(llvm::make_filter_range(
      used.symbols, [&](sym::Expr symbol) { return defined.contains(symbol); }));
}

llvm::Expected<std::string> FunctionWriter::write(StringRef name) {
  current = function;
  if (function == context.program)
    writeInputs();
  else
    writeGraphInputs();
  for (Operation &op : function.getFunctionBody().front()) {
    current = &op;
    writeStep(op);
    if (!error.empty())
      return llvm::createStringError(error);
  }
  current = function;
  writeResults();
  if (!error.empty())
    return llvm::createStringError(error);
  std::string parameters = "g";
  if (function != context.program)
    for (const std::string &input : inputs)
      parameters += ", " + input;
  return "def " + name.str() + "(" + parameters + "):\n" + body;
}

void FunctionWriter::refuse(Operation *op, const Twine &why) {
  if (error.empty())
    error = (sym::describe(op->getLoc()) + ": --emit=fx: " + why).str();
}

//===-- Inputs ------------------------------------------------------------------------------===//

void FunctionWriter::writeInputs() {
  // The symbols of the inputs' types, which are no nodes.
  isFree = true;
  DictionaryAttr symbols = context.program.getSymbolsAttr();
  llvm::SetVector<sym::Expr> defined = getDefinedSymbols(function);
  SmallVector<NamedAttribute> ofInputs;
  for (NamedAttribute symbol : symbols ? symbols.getValue() : ArrayRef<NamedAttribute>())
    if (!defined.contains(sym::Expr::symbol(symbol.getName())))
      ofInputs.push_back(symbol);
  llvm::StringMap<int64_t> examples = findExamples(context.program, ofInputs);
  for (NamedAttribute symbol : ofInputs)
    line("g.declare(" + quote(symbol.getName()) + ", " +
         std::to_string(examples.lookup(symbol.getName())) + ")");
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    writeInput(i);
  isFree = false;
  bindSymbols();
  checkInputs();
}

/// The sizes as messages of the runtime have them.
static std::string describe(BufferType type) {
  auto sizes = llvm::map_to_vector(type.getSizes(), [](sym::Expr size) { return size.str(); });
  return "[" + llvm::join(sizes, ", ") + "]";
}

/// A number is one for PyTorch, too.
static bool isNumber(ProgramOp program, unsigned input) {
  return program.getArgAttr(input, valueAttrName) || program.getArgAttr(input, numberAttrName);
}

void FunctionWriter::writeInput(unsigned index) {
  ProgramOp program = context.program;
  Value buffer = function.getArgument(index);
  auto bufferType = cast<BufferType>(buffer.getType());
  // PyTorch writes it in code: an archive's text would be more than a name.
  std::string name = names.add(program.getInputName(index));
  inputs.push_back(name);
  if (isNumber(program, index)) {
    auto value = program.getArgAttrOfType<sym::ExprAttr>(index, valueAttrName);
    std::string kind = value                                      ? size(value.getValue())
                       : bufferType.getElementType().isInteger(1) ? "bool"
                                                                  : "float";
    line(name + " = g.number(" + quote(name) + ", " + kind + ")");
    setPending(buffer, name, "g.scalar(" + name + ", " + dtype(bufferType.getElementType()) + ")");
    return;
  }
  SmallVector<sym::Expr> strides(bufferType.getStrides());
  if (auto wanted = program.getArgAttrOfType<sym::ShapeAttr>(index, stridesAttrName))
    strides.assign(wanted.getSizes().begin(), wanted.getSizes().end());
  line(name + " = g.input(" + quote(name) + ", " + sizes(bufferType.getSizes()) + ", " +
       sizes(strides) + ", " + dtype(bufferType.getElementType()) + ")");
  setPending(buffer, name, "g.contiguous(" + name + ")");
}

void FunctionWriter::bindSymbols() {
  for (BindOp bind : context.program.getBody().front().getOps<BindOp>()) {
    current = bind;
    unsigned index = cast<BlockArgument>(bind.getInput()).getArgNumber();
    const std::string &input = inputs[index];
    std::string value = input;
    std::string place =
        "input " + std::to_string(index) + " \"" + context.program.getInputName(index).str() + "\"";
    if (std::optional<int64_t> dim = bind.getSize()) {
      value = "g.size(" + input + ", " + std::to_string(*dim) + ")";
      place += ", dimension " + std::to_string(*dim);
    } else if (std::optional<int64_t> dim = bind.getStride()) {
      value = "g.stride(" + input + ", " + std::to_string(*dim) + ")";
      place += ", stride " + std::to_string(*dim);
    }
    sym::Linear linear =
        *sym::splitLinear(bind.getExpr().getValue(), sym::Expr::symbol(bind.getSymbol()));
    if (!linear.rest.isConstant(0))
      value = ("(" + Twine(value) + " - (" + size(linear.rest) + "))").str();
    if (!linear.coefficient.isConstant(1))
      value += linear.coefficient.isConstant() ? " // " + size(linear.coefficient)
                                               : " // g.max(" + size(linear.coefficient) + ", 1)";
    setSymbol(bind.getSymbol(), value);
    NamedAttribute symbol = *context.program.getSymbolsAttr().getNamed(bind.getSymbol());
    std::optional<int64_t> low = host::getSymbolBound(symbol, "min"),
                           high = host::getSymbolBound(symbol, "max");
    if (low || high)
      line("g.check_range(" + symbolName(bind.getSymbol()) + ", " +
           quote(place + ": expected " + bind.getSymbol().str()) + ", " +
           (low ? std::to_string(*low) : "None") + ", " + (high ? std::to_string(*high) : "None") +
           ")");
  }
}

void FunctionWriter::checkInputs() {
  ProgramOp program = context.program;
  current = program;
  for (auto [i, name] : llvm::enumerate(inputs)) {
    auto bufferType = cast<BufferType>(function.getArgument(i).getType());
    if (auto value = program.getArgAttrOfType<sym::ExprAttr>(i, valueAttrName)) {
      if (value.getValue().kind() != sym::Kind::Symbol)
        line("g.check(" + name + " == " + size(value.getValue()) + ", " +
             quote("expected " + program.getInputName(i).str() + " to be " +
                   value.getValue().str()) +
             ")");
    } else if (!isNumber(program, i)) {
      line("g.check_tensor(" + name + ", " + sizes(bufferType.getSizes()) + ", " +
           dtype(bufferType.getElementType()) + ", " +
           quote("input " + std::to_string(i) + " \"" + program.getInputName(i).str() +
                 "\": expected " + host::describeElement(bufferType.getElementType()).name + " " +
                 describe(bufferType)) +
           ")");
    }
    if (auto wanted = program.getArgAttrOfType<sym::ShapeAttr>(i, stridesAttrName))
      line("g.check_strides(" + name + ", " + sizes(wanted.getSizes()) + ")");
  }
}

void FunctionWriter::writeGraphInputs() {
  for (Value argument : function.getArguments()) {
    inputs.push_back(names.add("x" + std::to_string(inputs.size())));
    buffers[argument] = inputs.back();
  }
  for (sym::Expr symbol : context.graphs.lookup(function.getName()).symbols) {
    std::string name = names.add(symbol.symbolName());
    symbols[symbol.symbolName()] = name;
    inputs.push_back(name);
  }
}

void FunctionWriter::writeResults() {
  if (function == context.program)
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.isMutated(i) && !isNumber(context.program, i) &&
          !isPending(function.getArgument(i)))
        line("g.copy(" + buffers[function.getArgument(i)] + ", " + inputs[i] + ")");
  SmallVector<Value> given(function.getNumResults());
  for (Operation &op : function.getFunctionBody().front()) {
    if (auto output = dyn_cast<OutputOp>(op))
      given[output.getIndex()] = output;
    if (auto give = dyn_cast<GiveOp>(op))
      given[give.getIndex()] = give.getBuffer();
  }
  SmallVector<std::string> results;
  for (auto [i, result] : llvm::enumerate(given)) {
    if (function.isNone(i))
      results.push_back("None");
    else if (result)
      results.push_back(use(result));
    else // nothing is written to it
      results.push_back(empty(cast<BufferType>(function.getResultTypes()[i])));
  }
  if (function != context.program)
    for (sym::Expr symbol : getGivenSymbols(function))
      results.push_back("g.scalar(" + symbolName(symbol.symbolName()) + ", torch.int64)");
  line("return " + tuple(results));
}

//===-- Symbols -----------------------------------------------------------------------------===//

std::string FunctionWriter::symbolName(StringRef symbol) {
  if (isFree)
    return "g.free[" + quote(symbol) + "]";
  if (auto expr = sizesByName.find(sym::Expr::symbol(symbol)); expr != sizesByName.end())
    return "(" + size(expr->second) + ")";
  auto known = symbols.find(symbol);
  if (known != symbols.end())
    return known->second;
  refuse(current, "the size " + symbol + " has no value here");
  return "None";
}

void FunctionWriter::setSymbol(StringRef symbol, const std::string &text) {
  std::string &name = symbols[symbol];
  if (name.empty())
    name = names.add(symbol);
  line(name + " = " + text);
}

std::string FunctionWriter::size(sym::Expr expr) {
  return expression(expr, [&](StringRef symbol) { return symbolName(symbol); });
}

std::string FunctionWriter::sizes(ArrayRef<sym::Expr> exprs) {
  return tuple(llvm::map_to_vector(exprs, [&](sym::Expr expr) { return size(expr); }));
}

std::string FunctionWriter::type(BufferType type) {
  return sizes(type.getSizes()) + ", " + sizes(type.getStrides()) + ", " +
         dtype(type.getElementType());
}

//===-- Buffers -----------------------------------------------------------------------------===//

void FunctionWriter::setPending(Value buffer, StringRef name, std::string text) {
  pending[buffer] = {name.str(), std::move(text)};
}

void FunctionWriter::assign(Value buffer, StringRef name, const std::string &text) {
  pending.erase(buffer);
  buffers[buffer] = names.add(name);
  line(buffers[buffer] + " = " + text);
}

std::string FunctionWriter::use(Value buffer) {
  if (auto waiting = pending.find(buffer); waiting != pending.end()) {
    auto [name, text] = waiting->second;
    assign(buffer, name, text.empty() ? empty(cast<BufferType>(buffer.getType())) : text);
  }
  auto known = buffers.find(buffer);
  if (known != buffers.end())
    return known->second;
  refuse(current, "a buffer has no memory here");
  return "None";
}

SmallVector<std::string> FunctionWriter::useEach(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value buffer) { return use(buffer); });
}

void FunctionWriter::store(Value buffer, const std::string &source) {
  line("g.copy(" + source + ", " + use(buffer) + ")");
}

std::string FunctionWriter::empty(BufferType bufferType) {
  return "g.empty(" + type(bufferType) + ")";
}

std::string FunctionWriter::viewOf(Value buffer, BufferType bufferType, sym::Expr offset) {
  return "g.view(" + use(buffer) + ", " + type(bufferType) + ", " + size(offset) + ")";
}
