// run-reference: runs functions in the reference interpreter, and compares with what they gave before.
#include "kiln/Reference/Inputs.h"
#include "kiln/Reference/Passes.h"

namespace kiln::reference {
#define GEN_PASS_DEF_RUNREFERENCE
#include "kiln/Reference/Passes.h.inc"
} // namespace kiln::reference

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

namespace {

constexpr llvm::StringLiteral resultsAttrName = "reference.results";
using Symbols = llvm::DenseMap<sym::Expr, int64_t>;

/// Elements of a tensor as an attribute: complex numbers are two.
Attribute toAttribute(const Tensor &tensor) {
  Builder builder(tensor.elementType.getContext());
  SmallVector<int64_t> integers;
  SmallVector<double> numbers;
  for (const Scalar &value : *tensor.elements) {
    if (!isFloating(tensor.elementType)) {
      integers.push_back(value.integer);
      continue;
    }
    numbers.push_back(value.real);
    numbers.push_back(value.imaginary);
  }
  Attribute elements = isFloating(tensor.elementType)
                           ? Attribute(builder.getDenseF64ArrayAttr(numbers))
                           : Attribute(builder.getDenseI64ArrayAttr(integers));
  return builder.getArrayAttr(
      {TypeAttr::get(RankedTensorType::get(tensor.sizes, tensor.elementType)), elements});
}

std::optional<Tensor> toTensor(Attribute attribute) {
  auto parts = dyn_cast<ArrayAttr>(attribute);
  auto typeAttr = parts && parts.size() == 2 ? dyn_cast<TypeAttr>(parts[0]) : TypeAttr();
  auto type = typeAttr ? dyn_cast<RankedTensorType>(typeAttr.getValue()) : RankedTensorType();
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  Tensor tensor = Tensor::zeros(type.getElementType(), type.getShape());
  auto integers = dyn_cast<DenseI64ArrayAttr>(parts[1]);
  auto numbers = dyn_cast<DenseF64ArrayAttr>(parts[1]);
  size_t count = tensor.elements->size();
  if (isFloating(type.getElementType())
          ? !numbers || numbers.size() != static_cast<int64_t>(2 * count)
          : !integers || integers.size() != static_cast<int64_t>(count))
    return std::nullopt;
  for (size_t i = 0; i < count; ++i)
    (*tensor.elements)[i] =
        integers ? Scalar::ofInteger(integers[i]) : Scalar::of(numbers[2 * i], numbers[2 * i + 1]);
  return tensor;
}

struct RunReference : reference::impl::RunReferenceBase<RunReference> {
  using RunReferenceBase::RunReferenceBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto before = module->getAttrOfType<DictionaryAttr>(resultsAttrName);
    NamedAttrList after;
    bool hasFunctions = !module.getOps<func::FuncOp>().empty();
    for (auto function : module.getOps<FunctionOpInterface>()) {
      bool isRun = hasFunctions ? isa<func::FuncOp>(function) && function.isPublic() &&
                                      !function.isExternal()
                                : isa<kernel::FuncOp>(function);
      if (isRun && failed(run(function, before, after)))
        return signalPassFailure();
    }
    if (print)
      return;
    if (before)
      module->removeAttr(resultsAttrName);
    else
      module->setAttr(resultsAttrName, after.getDictionary(&getContext()));
  }

private:
  LogicalResult run(FunctionOpInterface function, DictionaryAttr before, NamedAttrList &after) {
    FailureOr<Symbols> values = chooseSymbols(function);
    if (failed(values))
      return failure();
    if (inputs != "random" && inputs != "count")
      return function.emitError("inputs: expected random or count instead of '") << inputs << "'";
    auto given = makeInputs(function, *values,
                            inputs == "count" ? InputKind::Count : InputKind::Random, seed);
    if (!given)
      return function.emitError(llvm::toString(given.takeError()));
    SmallVector<Tensor> results[2]; // as the types say, and wide
    std::string failure;
    for (bool wide : {false, true}) {
      InterpreterOptions options;
      options.wide = wide;
      Interpreter interpreter(options);
      interpreter.symbols = *values;
      auto kernel = dyn_cast<kernel::FuncOp>(function.getOperation());
      llvm::Expected<SmallVector<Tensor>> outputs =
          kernel ? interpreter.run(kernel, *given)
                 : interpreter.run(cast<func::FuncOp>(function.getOperation()), *given);
      if (outputs) {
        results[wide] = std::move(*outputs);
        continue;
      }
      if (!outputs.errorIsA<RunFailure>())
        return function.emitError(llvm::toString(outputs.takeError()));
      failure = llvm::toString(outputs.takeError());
      break;
    }
    if (!failure.empty())
      return fail(function, failure, before, after);
    if (print) {
      for (auto [i, result] : llvm::enumerate(results[false]))
        function.emitRemark("result ") << i << ": " << describe(result);
      return success();
    }
    if (before)
      return compare(function, before.getAs<ArrayAttr>(function.getName()), results[false]);
    SmallVector<Attribute> kept;
    for (auto [rounded, wide] : llvm::zip(results[false], results[true]))
      kept.push_back(ArrayAttr::get(&getContext(), {toAttribute(rounded), toAttribute(wide)}));
    after.set(function.getName(), ArrayAttr::get(&getContext(), kept));
    return success();
  }

  /// A run that fails has to do so in both runs. Which failure is the first is left open.
  LogicalResult fail(FunctionOpInterface function, StringRef failure, DictionaryAttr before,
                     NamedAttrList &after) {
    if (print)
      function.emitRemark("fails: ") << failure;
    else if (before && !before.getAs<StringAttr>(function.getName()))
      return function.emitError("fails as it did not before: ") << failure;
    after.set(function.getName(), StringAttr::get(&getContext(), failure));
    return success();
  }

  LogicalResult compare(FunctionOpInterface function, ArrayAttr before, ArrayRef<Tensor> results) {
    if (!before || before.size() != results.size())
      return function.emitError("has not as many results as it had before");
    for (auto [i, pair] : llvm::enumerate(before.getAsRange<ArrayAttr>())) {
      std::optional<Tensor> want, wide;
      if (pair && pair.size() == 2)
        want = toTensor(pair[0]), wide = toTensor(pair[1]);
      if (!want || !wide)
        return function.emitError("the module's ")
               << resultsAttrName << " are not what run-reference writes";
      std::string difference = compareTensors(results[i], *want, *wide);
      if (!difference.empty())
        return function.emitError("result ") << i << " is not what it was before: " << difference;
    }
    return success();
  }

  FailureOr<Symbols> chooseSymbols(FunctionOpInterface function) {
    Symbols values;
    for (const std::string &text : symbols) {
      auto [name, number] = StringRef(text).split('=');
      int64_t value;
      if (number.getAsInteger(10, value))
        return function.emitError("symbols: expected NAME=VALUE instead of '") << text << "'";
      values[sym::Expr::symbol(name)] = value;
    }
    reference::chooseSymbols(function, values);
    return values;
  }
};

} // namespace
