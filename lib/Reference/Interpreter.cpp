// Functions of kernel ops, one op after another: constants, symbols, calls of kernels and of nested graphs.
#include "kiln/Reference/Interpreter.h"
#include "Code.h"
#include "kiln/Dialect/Kernel/Constants.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

using Tensors = Interpreter::Tensors;

char RunFailure::ID = 0;

namespace kiln::reference {

/// A run of one function: its values.
class GraphRun {
public:
  explicit GraphRun(Interpreter &interpreter) : interpreter(interpreter) {}

  llvm::Error bind(ValueRange arguments, ArrayRef<Tensor> inputs) {
    if (arguments.size() != inputs.size())
      return llvm::createStringError("there are " + Twine(inputs.size()) + " inputs instead of " +
                                     Twine(arguments.size()));
    for (auto [argument, input] : llvm::zip(arguments, inputs)) {
      auto type = cast<RankedTensorType>(argument.getType());
      if (type.getElementType() != input.elementType ||
          type.getRank() != static_cast<int64_t>(input.sizes.size()))
        return llvm::createStringError("an input is not of the type that the function takes: " +
                                       describe(input));
      values[argument] = input;
    }
    solveSymbols(arguments);
    return llvm::Error::success();
  }

  /// The operands of the block's terminator.
  llvm::Expected<Tensors> run(Block &block) {
    for (Operation &op : block.without_terminator())
      if (llvm::Error error = run(&op))
        return std::move(error);
    return getAll(block.getTerminator()->getOperands());
  }

private:
  Tensors getAll(ValueRange operands) {
    Tensors tensors;
    for (Value operand : operands)
      tensors.push_back(values.lookup(operand));
    return tensors;
  }

  llvm::Error define(ValueRange results, llvm::Expected<Tensors> tensors) {
    if (!tensors)
      return tensors.takeError();
    for (auto [result, tensor] : llvm::zip(results, *tensors)) {
      if (!tensor.elements) // of an op that could not be run
        return llvm::createStringError("a value is missing");
      values[result] = tensor;
    }
    return llvm::Error::success();
  }

  CodeBuilder makeBuilder() {
    return {values, interpreter.symbols, interpreter.options.wide, interpreter.options.strict};
  }

  /// Sizes are symbols, or linear in one that no other size gives.
  void solveSymbols(ValueRange arguments) {
    auto &symbols = interpreter.symbols;
    bool isNew = true;
    auto solve = [&](sym::Expr expr, int64_t value) {
      llvm::SmallSetVector<sym::Expr, 2> unknown;
      expr.walkLeaves([&](sym::Expr leaf) {
        if (!symbols.contains(leaf))
          unknown.insert(leaf);
      });
      if (unknown.size() != 1)
        return;
      std::optional<sym::Linear> linear = sym::splitLinear(expr, unknown[0]);
      if (!linear)
        return;
      auto lookUp = [&](sym::Expr leaf) { return symbols.lookup(leaf); };
      std::optional<int64_t> slope = linear->coefficient.evaluate(lookUp),
                             rest = linear->rest.evaluate(lookUp);
      if (!slope || !rest || *slope == 0)
        return;
      symbols[unknown[0]] = (value - *rest) / *slope;
      isNew = true;
    };
    while (std::exchange(isNew, false))
      for (Value argument : arguments) {
        const Tensor &tensor = values[argument];
        for (auto [expr, size] :
             llvm::zip(sym::getShape(cast<RankedTensorType>(argument.getType())), tensor.sizes))
          solve(expr, size);
        auto function = dyn_cast<func::FuncOp>(argument.getParentBlock()->getParentOp());
        auto value = function
                         ? function.getArgAttrOfType<sym::ExprAttr>(
                               cast<BlockArgument>(argument).getArgNumber(), torch::valueAttrName)
                         : sym::ExprAttr();
        if (value && tensor.sizes.empty())
          solve(value.getValue(), (*tensor.elements)[0].integer);
      }
  }

  llvm::Error run(Operation *op) {
    llvm::Error error = runOne(op);
    if (!error)
      return error;
    if (error.isA<RunFailure>())
      return error;
    std::string where = sym::describe(op->getLoc()), message = llvm::toString(std::move(error));
    if (where == "the program" || StringRef(message).contains(where))
      return llvm::createStringError(message);
    return llvm::createStringError(where + ": " + message);
  }

  llvm::Error runOne(Operation *op) {
    if (kernel::isStructured(op)) {
      CodeBuilder builder = makeBuilder();
      int64_t left = getStepsLeft();
      llvm::Error error =
          define(op->getResults(), runStructured(op, builder, interpreter.options.wide, left));
      interpreter.steps = interpreter.options.maxSteps - left;
      return error;
    }
    return llvm::TypeSwitch<Operation *, llvm::Error>(op)
        .Case([&](kernel::ConstantOp constant) {
          return define(constant->getResults(), getConstant(constant));
        })
        .Case([&](kernel::CallOp call) {
          auto callee =
              SymbolTable::lookupNearestSymbolFrom<kernel::FuncOp>(call, call.getKernelAttr());
          return define(call.getResults(),
                        callee ? interpreter.run(callee, getAll(call.getOperands()))
                               : llvm::createStringError("there is no such kernel"));
        })
        .Case([&](kernel::SpanOp span) { return runSpan(span); })
        .Case([&](kernel::BitcastOp cast) { return runBitcast(cast); })
        .Case([&](kernel::DefineOp define) { return defineSymbol(define); })
        .Case([&](kernel::AssertOp assertion) -> llvm::Error {
          llvm::Expected<int64_t> value = makeBuilder().evaluate(assertion.getExpr().getValue());
          if (!value)
            return value.takeError();
          return *value >= 0 ? llvm::Error::success()
                             : llvm::make_error<RunFailure>(assertion.getMessage());
        })
        .Case([&](kernel::CheckOp check) -> llvm::Error {
          bool holds = (*values[check.getCondition()].elements)[0].integer;
          return holds ? llvm::Error::success() : llvm::make_error<RunFailure>(check.getMessage());
        })
        .Case([&](kernel::InvokeOp invoke) {
          return define(invoke.getResults(),
                        runGraph(op, invoke.getGraphAttr(), getAll(invoke.getOperands())));
        })
        .Case([&](kernel::CondOp cond) { return runCond(cond); })
        .Case([&](kernel::WhileOp loop) { return runWhile(loop); })
        .Case([&](kernel::ForOp loop) { return runFor(loop); })
        .Default([&](Operation *) -> llvm::Error {
          if (reference::getConstant(op))
            return llvm::Error::success(); // for the regions that use it
          return llvm::createStringError("the interpreter does not know " +
                                         op->getName().getStringRef());
        });
  }

  int64_t getStepsLeft() const { return interpreter.options.maxSteps - interpreter.steps; }

  llvm::Error runBitcast(kernel::BitcastOp cast) {
    const Tensor &tensor = values[cast.getTensor()];
    auto type = mlir::cast<RankedTensorType>(cast.getType());
    unsigned narrow = tensor.elementType.getIntOrFloatBitWidth();
    unsigned wide = type.getElementType().getIntOrFloatBitWidth(), count = wide / narrow;
    Tensor result{type.getElementType(), tensor.sizes, {}};
    result.sizes.back() /= count;
    result.elements = std::make_shared<std::vector<Scalar>>();
    for (size_t at = 0; at < tensor.elements->size(); at += count) {
      APInt word(wide, 0);
      for (unsigned i = 0; i < count; ++i)
        word.insertBits(
            APInt(64, static_cast<uint64_t>((*tensor.elements)[at + i].integer)).trunc(narrow),
            narrow * i);
      result.elements->push_back(Scalar::ofInteger(word.getSExtValue()));
    }
    return define(cast->getResults(), Tensors{std::move(result)});
  }

  llvm::Error runSpan(kernel::SpanOp span) {
    CodeBuilder builder = makeBuilder();
    llvm::Expected<int64_t> first = builder.evaluate(span.getFirst().getValue());
    if (!first)
      return first.takeError();
    llvm::Expected<int64_t> size =
        builder.evaluate(sym::getShape(cast<RankedTensorType>(span.getType())).front());
    if (!size)
      return size.takeError();
    const Tensor &tensor = values[span.getTensor()];
    auto count = static_cast<int64_t>(tensor.elements->size());
    if (*first < 0 || *size < 0 || *first > count || *size > count - *first)
      return llvm::createStringError("a span lies outside of its tensor");
    auto begin = tensor.elements->begin() + *first;
    Tensor result{tensor.elementType, {*size}, {}};
    result.elements = std::make_shared<std::vector<Scalar>>(begin, begin + *size);
    return define(span->getResults(), Tensors{std::move(result)});
  }

  llvm::Expected<Tensors> getConstant(kernel::ConstantOp op) {
    Tensor &tensor = interpreter.constants[op.getValue()];
    auto type = cast<RankedTensorType>(op.getType());
    if (!tensor.elements) {
      std::optional<kernel::ConstantBytes> bytes = kernel::getConstantBytes(op.getValue());
      FailureOr<Tensor> read;
      if (bytes)
        read = Tensor::fromBytes(type.getElementType(), type.getShape(), bytes->data());
      if (failed(read))
        return llvm::createStringError("the bytes of a constant are not there");
      tensor = *read;
    }
    Tensor result = tensor;
    result.elementType = type.getElementType();
    return Tensors{result};
  }

  llvm::Error defineSymbol(kernel::DefineOp op) {
    int64_t value;
    if (op.getValue()) {
      value = (*values[op.getValue()].elements)[0].integer;
    } else {
      llvm::Expected<int64_t> number = makeBuilder().evaluate(op.getExpr()->getValue());
      if (!number)
        return number.takeError();
      value = *number;
    }
    interpreter.symbols[sym::Expr::symbol(op.getSymbol())] = value;
    return llvm::Error::success();
  }

  llvm::Expected<Tensors> runGraph(Operation *from, FlatSymbolRefAttr name,
                                   ArrayRef<Tensor> inputs) {
    auto graph = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(from, name);
    if (!graph || graph.isExternal())
      return llvm::createStringError("there is no graph " + name.getValue());
    return interpreter.run(graph, inputs);
  }

  static bool isTrue(const Tensor &tensor) { return (*tensor.elements)[0].integer != 0; }

  llvm::Error runCond(kernel::CondOp op) {
    bool holds;
    if (op.getPredicate()) {
      holds = isTrue(values[op.getPredicate()]);
    } else {
      llvm::Expected<int64_t> value = makeBuilder().evaluate(op.getWhen()->getValue());
      if (!value)
        return value.takeError();
      holds = *value >= 0;
    }
    return define(op.getResults(),
                  runGraph(op, holds ? op.getThenGraphAttr() : op.getElseGraphAttr(),
                           getAll(op.getInvariants())));
  }

  llvm::Error runWhile(kernel::WhileOp op) {
    Tensors state = getAll(op.getCarried()), invariants = getAll(op.getInvariants());
    while (true) {
      Tensors inputs = state;
      llvm::append_range(inputs, invariants);
      llvm::Expected<Tensors> condition = runGraph(op, op.getConditionAttr(), inputs);
      if (!condition)
        return condition.takeError();
      if (!isTrue((*condition)[0]))
        return define(op.getResults(), state);
      llvm::Expected<Tensors> next = runGraph(op, op.getBodyAttr(), inputs);
      if (!next)
        return next.takeError();
      state = std::move(*next);
    }
  }

  llvm::Error runFor(kernel::ForOp op) {
    CodeBuilder builder = makeBuilder();
    llvm::Expected<int64_t> length = builder.evaluate(op.getLength().getValue());
    if (!length)
      return length.takeError();
    Tensors state = getAll(op.getCarried()), sliced = getAll(op.getSliced()), collected;
    for (Value result : op.getResults().drop_front(state.size())) {
      auto type = cast<RankedTensorType>(result.getType());
      llvm::Expected<SmallVector<int64_t>> sizes = builder.evaluate(sym::getShape(type));
      if (!sizes)
        return sizes.takeError();
      if (llvm::Expected<int64_t> count = countElements(*sizes, getStepsLeft()); !count)
        return count.takeError();
      collected.push_back(Tensor::zeros(type.getElementType(), *sizes));
    }
    for (int64_t i = 0; i < *length; ++i) {
      Tensors inputs = state;
      for (const Tensor &tensor : sliced) {
        Tensor slice =
            Tensor::zeros(tensor.elementType, ArrayRef<int64_t>(tensor.sizes).drop_front());
        auto size = static_cast<int64_t>(slice.elements->size());
        std::copy_n(tensor.elements->begin() + i * size, size, slice.elements->begin());
        inputs.push_back(slice);
      }
      llvm::append_range(inputs, getAll(op.getInvariants()));
      llvm::Expected<Tensors> next = runGraph(op, op.getBodyAttr(), inputs);
      if (!next)
        return next.takeError();
      state.assign(next->begin(), next->begin() + op.getCarried().size());
      for (auto [whole, slice] :
           llvm::zip(collected, ArrayRef<Tensor>(*next).drop_front(state.size())))
        llvm::copy(*slice.elements, whole.elements->begin() + i * slice.elements->size());
    }
    llvm::append_range(state, collected);
    return define(op.getResults(), state);
  }

  Interpreter &interpreter;
  llvm::DenseMap<Value, Tensor> values;
};

} // namespace kiln::reference

llvm::Expected<Tensors> Interpreter::run(func::FuncOp function, ArrayRef<Tensor> inputs) {
  GraphRun graph(*this);
  if (llvm::Error error = graph.bind(function.getArguments(), inputs))
    return std::move(error);
  return graph.run(function.getBody().front());
}

llvm::Expected<Tensors> Interpreter::run(kernel::FuncOp kernel, ArrayRef<Tensor> inputs) {
  GraphRun graph(*this);
  if (llvm::Error error = graph.bind(kernel.getBody().getArguments(), inputs))
    return std::move(error);
  return graph.run(kernel.getBody().front());
}
