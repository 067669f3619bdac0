// Sizes and elements for the arguments of a function.
#include "kiln/Reference/Inputs.h"
#include "kiln/Dialect/Torch/TorchDialect.h"
#include <random>

using namespace mlir;
using namespace kiln;
using namespace kiln::reference;

using Symbols = llvm::DenseMap<sym::Expr, int64_t>;

void reference::chooseSymbols(FunctionOpInterface function, Symbols &symbols) {
  auto module = function->getParentOfType<ModuleOp>();
  auto ranges = module->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName);
  auto choose = [&](sym::Expr symbol, int64_t value) {
    auto range = ranges ? ranges.getAs<DictionaryAttr>(symbol.symbolName()) : DictionaryAttr();
    auto min = range ? range.getAs<IntegerAttr>("min") : IntegerAttr();
    auto max = range ? range.getAs<IntegerAttr>("max") : IntegerAttr();
    value = min ? std::max(value, min.getInt()) : value;
    symbols.try_emplace(symbol, max ? std::min(value, max.getInt()) : value);
  };
  sym::SymbolCollector arguments, all;
  for (Type type : function.getArgumentTypes())
    arguments.add(sym::getShape(cast<RankedTensorType>(type)));
  for (auto [i, symbol] : llvm::enumerate(arguments.symbols))
    choose(symbol, static_cast<int64_t>(i) + 3);
  // Nested graphs see symbols that the function does not mention; what the program defines is overwritten.
  all.add(module);
  for (sym::Expr symbol : all.symbols)
    choose(symbol, 5);
}

static std::optional<int64_t> evaluate(sym::Expr expr, const Symbols &symbols) {
  return expr.evaluate([&](sym::Expr leaf) { return symbols.lookup(leaf); });
}

static double drawNumber(std::mt19937_64 &generator) {
  double sum = -6;
  for (int i = 0; i < 12; ++i)
    sum += static_cast<double>(generator() >> 11) * 0x1p-53;
  return sum;
}

/// Element number `number` of an argument.
static Scalar makeElement(Type type, InputKind kind, int64_t number, std::mt19937_64 &generator) {
  bool counts = kind == InputKind::Count;
  if (!isFloating(type)) {
    if (counts)
      return Scalar::ofInteger(type.isInteger(1) ? number & 1 : number);
    return Scalar::ofInteger(static_cast<int64_t>(generator() & 1));
  }
  auto complex = dyn_cast<ComplexType>(type);
  Type part = complex ? complex.getElementType() : type;
  double real = roundTo(part, counts ? static_cast<double>(number) : drawNumber(generator));
  return Scalar::of(real, complex && !counts ? roundTo(part, drawNumber(generator)) : 0);
}

llvm::Expected<SmallVector<Tensor>> reference::makeInputs(FunctionOpInterface function,
                                                          const Symbols &symbols, InputKind kind,
                                                          uint64_t seed, int64_t most) {
  std::mt19937_64 generator(seed);
  SmallVector<Tensor> inputs;
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensorType = cast<RankedTensorType>(type);
    SmallVector<int64_t> sizes;
    for (sym::Expr size : sym::getShape(tensorType))
      sizes.push_back(evaluate(size, symbols).value_or(-1));
    llvm::Expected<int64_t> count = countElements(sizes, most);
    if (!count)
      return count.takeError();
    most -= *count;
    Tensor tensor = Tensor::zeros(tensorType.getElementType(), sizes);
    int64_t number = 0;
    for (Scalar &element : *tensor.elements)
      element = makeElement(tensor.elementType, kind, number++, generator);
    // An integer that symbols are solved from.
    if (auto value = function.getArgAttrOfType<sym::ExprAttr>(i, torch::valueAttrName);
        value && sizes.empty())
      tensor.elements->front() = Scalar::ofInteger(evaluate(value.getValue(), symbols).value_or(0));
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}
