// The call that a lowering lowers: its arguments, its results, and how it refuses.
#include "kiln/Lowering/Lowering.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Table ---------------------------------------------------------------------------------===//

void LoweringTable::add(StringRef target, Lowering lowering) {
  [[maybe_unused]] bool isNew = lowerings.try_emplace(target, std::move(lowering)).second;
  assert(isNew && "an operator with two lowerings");
}

void LoweringTable::add(std::initializer_list<StringRef> targets, const Lowering &lowering) {
  for (StringRef target : targets)
    add(target, lowering);
}

void LoweringTable::addUpdating(StringRef target, Lowering lowering) {
  add((target + "!").str(), std::move(lowering));
}

const Lowering *LoweringTable::find(StringRef target, bool updating) const {
  auto found = lowerings.find(updating ? (target + "!").str() : target.str());
  return found == lowerings.end() ? nullptr : &found->second;
}

const LoweringTable &lowering::loweringTable() {
  static const LoweringTable table = [] {
    LoweringTable all;
    registerActivation(all);
    registerActivationBackward(all);
    registerAssert(all);
    registerAttention(all);
    registerBessel(all);
    registerCat(all);
    registerCholesky(all);
    registerCollective(all);
    registerChooseScales(all);
    registerCompare(all);
    registerComplex(all);
    registerConv(all);
    registerConvert(all);
    registerCreation(all);
    registerDeformConv(all);
    registerDiagonal(all);
    registerDistance(all);
    registerEigen(all);
    registerEinsum(all);
    registerEmbeddingBag(all);
    registerErrorFunction(all);
    registerFft(all);
    registerFloatParts(all);
    registerGamma(all);
    registerGridSample(all);
    registerGroupedMatmul(all);
    registerHistogram(all);
    registerIm2col(all);
    registerIndex(all);
    registerIndexPut(all);
    registerInt4(all);
    registerIntegrate(all);
    registerLdl(all);
    registerLinearCrossEntropy(all);
    registerLinearSolve(all);
    registerLoss(all);
    registerMarginLoss(all);
    registerMatmul(all);
    registerMatrixExp(all);
    registerNms(all);
    registerNorm(all);
    registerNormBackward(all);
    registerNumber(all);
    registerPad(all);
    registerPartScatter(all);
    registerPointwise(all);
    registerPolynomial(all);
    registerPool(all);
    registerPoolBackward(all);
    registerProduct(all);
    registerQr(all);
    registerQuantile(all);
    registerQuantize(all);
    registerQuantizeBlocks(all);
    registerRandom(all);
    registerReduction(all);
    registerRepeat(all);
    registerRoiAlign(all);
    registerScan(all);
    registerScatter(all);
    registerSearch(all);
    registerSegmentReduce(all);
    registerSingularValues(all);
    registerSoftmax(all);
    registerSort(all);
    registerStrided(all);
    registerUnique(all);
    registerUnpool(all);
    registerUpsample(all);
    registerUpsampleAntialias(all);
    registerUpsampleBackward(all);
    registerView(all);
    registerWindow(all);
    registerPrims(all); // takes lowerings from the table
    return all;
  }();
  return table;
}

//===-- Arguments -----------------------------------------------------------------------------===//

Call::Call(torch::CallOp op, KernelBuilder &kernels, RandomSource *random)
    : args(op), kernels(kernels), random(random), op(op) {
  if (ArrayAttr symbols = op.getDefinesAttr())
    for (StringRef symbol : symbols.getAsValueRange<StringAttr>())
      pending.insert(Expr::symbol(symbol));
}

bool Call::isUnused(unsigned i) const {
  return isa<NoneType>(op->getResult(i).getType()) || op->getResult(i).use_empty();
}

/// The type of the tensor that PyTorch makes of a Python number.
static Type widestType(OpBuilder &b, const torch::Scalar &number) {
  switch (torch::kindOf(number)) {
  case torch::NumberKind::Bool:
    return b.getI1Type();
  case torch::NumberKind::Int:
    return b.getI64Type();
  case torch::NumberKind::Float:
    return b.getF64Type();
  case torch::NumberKind::Complex:
    return ComplexType::get(b.getF64Type());
  }
  llvm_unreachable("unknown kind of number");
}

Value Call::tensor(torch::CallArgs::Key key) {
  const torch::OpSchema *schema = args.schema();
  int position = schema && !key.name.empty() ? schema->indexOf(key.name) : key.index;
  std::optional<torch::Scalar> scalar = args.optScalar(key);
  if (!scalar || !schema || position < 0 ||
      schema->arguments[position].type.base != torch::BaseType::Tensor)
    return args.tensor(key);
  Type type = widestType(kernels.b(), *scalar);
  return kernels.map({}, type, [&](BodyBuilder &body) { return number(body, *scalar, type); });
}

Operand Call::operand(torch::CallArgs::Key key) const {
  if (Value tensor = args.tensor(key))
    return tensor;
  return args.scalar(key);
}

static std::optional<int64_t> wrapDim(int64_t dim, int64_t rank) {
  rank = std::max<int64_t>(rank, 1); // a 0-d tensor takes -1 and 0
  if (dim < -rank || dim >= rank)
    return std::nullopt;
  return dim < 0 ? dim + rank : dim;
}

int64_t Call::dim(torch::CallArgs::Key key, int64_t rank) {
  std::optional<int64_t> wrapped = wrapDim(args.integer(key), rank);
  if (!wrapped)
    kernels.fail("dim " + Twine(args.integer(key)) + " is out of range for rank " + Twine(rank));
  return wrapped.value_or(0);
}

SmallVector<int64_t> Call::dims(torch::CallArgs::Key key, int64_t rank) {
  SmallVector<int64_t> list;
  if (auto one = args.optInteger(key))
    list = {*one};
  else
    list = args.optIntList(key).value_or(SmallVector<int64_t>());
  if (list.empty())
    return llvm::to_vector(llvm::seq<int64_t>(0, rank));
  for (int64_t &dim : list) {
    std::optional<int64_t> wrapped = wrapDim(dim, rank);
    if (!wrapped)
      kernels.fail("dim " + Twine(dim) + " is out of range for rank " + Twine(rank));
    dim = wrapped.value_or(0);
  }
  llvm::sort(list);
  if (std::adjacent_find(list.begin(), list.end()) != list.end())
    kernels.fail("a dim is given twice");
  if (rank == 0)
    list.clear();
  return list;
}

SmallVector<int64_t> Call::ints(torch::CallArgs::Key key, unsigned n) {
  SmallVector<int64_t> list;
  for (Expr expr : symInts(key, n)) {
    if (!expr.isConstant())
      kernels.fail("a symbolic value where only a constant is supported");
    list.push_back(expr.constant().value_or(1));
  }
  return list;
}

Exprs Call::symInts(torch::CallArgs::Key key, unsigned n) {
  Exprs list;
  if (auto one = args.optSymInt(key))
    list = {*one};
  else
    list = args.optSymIntList(key).value_or(Exprs());
  if (list.size() == 1)
    list.resize(n, list.front());
  if (list.size() != n) {
    kernels.fail("expected " + Twine(n) + " values, got " + Twine(list.size()));
    list.resize(n, Expr(1));
  }
  return list;
}

double Call::constantNumber(torch::CallArgs::Key key) {
  std::optional<torch::Scalar> scalar = args.optScalar(key);
  std::optional<double> value = scalar ? torch::asDouble(*scalar) : std::nullopt;
  if (!value)
    kernels.fail("a number that is only known when the model runs");
  return value.value_or(0);
}

//===-- Results -------------------------------------------------------------------------------===//

LogicalResult Call::refuse(const Twine &reason) {
  kernels.fail(reason);
  return failure();
}

/// Never the same.
static bool differ(Expr a, Expr b) {
  std::optional<int64_t> difference = (a - b).isValid() ? (a - b).constant() : 1;
  return difference && *difference != 0;
}

static bool differ(ArrayRef<Expr> a, ArrayRef<Expr> b) {
  return a.size() != b.size() || llvm::any_of(llvm::zip_equal(a, b), [](auto sizes) {
           return differ(std::get<0>(sizes), std::get<1>(sizes));
         });
}

LogicalResult Call::set(ValueRange values) {
  if (kernels.failure)
    return failure();
  assert(values.size() == op->getNumResults() && "one value for each result");
  auto isNeeded = [&](unsigned i) {
    Value declared = op->getResult(i);
    return !isa<NoneType>(declared.getType()) && (values[i] || !declared.use_empty());
  };
  // All checks first: a call that is refused is left as it was.
  for (unsigned i = 0; i < values.size(); ++i) {
    if (!isNeeded(i))
      continue;
    if (elementType(values[i]) != resultType(i))
      return refuse("computes another dtype than the program declares");
    if (differ(shapeOf(values[i]), resultShape(i)))
      return refuse("computes another shape than the program declares");
  }
  llvm::DenseSet<Expr> given;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType>(operand.getType()))
      given.insert_range(shapeOf(operand));
  for (unsigned i = 0; i < values.size(); ++i) {
    if (!isNeeded(i))
      continue;
    // A number that comes into being here, or the bool that says whether it is 1.
    if (auto number =
            op.getValuesAttr() ? dyn_cast<sym::ExprAttr>(op.getValuesAttr()[i]) : sym::ExprAttr()) {
      Expr expr = number.getValue();
      if (expr.kind() == sym::Kind::Symbol && pending.contains(expr))
        defineSize(kernels.convert(values[i], kernels.b().getI64Type()), expr);
      else if (expr.isConstant())
        require(kernels.map({}, kernels.b().getI1Type(),
                            [&](BodyBuilder &body) {
                              Element value = body.read(values[i], Exprs());
                              return value == value.constant(*expr.constant());
                            }),
                "expected the value " + expr.str());
    }
    // Symbols have a range, and the operands' sizes have been looked at.
    for (Expr size : resultShape(i))
      if (size.kind() != sym::Kind::Symbol && !given.contains(size))
        require(size, "a size below zero: " + size.str());
    for (auto [computed, size] : llvm::zip_equal(shapeOf(values[i]), resultShape(i)))
      requireSame(computed, size, "expected size " + computed.str() + " to be " + size.str());
    op->getResult(i).replaceAllUsesWith(kernels.withShape(values[i], resultShape(i)));
  }
  return success();
}

//===-- What only data says -------------------------------------------------------------------===//

StringAttr Call::located(const Twine &message) {
  return kernels.b().getStringAttr(message + " (" + torch::describe(op.getLoc()) + ")");
}

void Call::defineSize(Value count, Expr size) {
  if (size.kind() == sym::Kind::Symbol && pending.remove(size)) {
    kernel::DefineOp::create(kernels.b(), size.symbolName(), count, sym::ExprAttr());
    return;
  }
  require(kernels.map({}, kernels.b().getI1Type(),
                      [&](BodyBuilder &body) {
                        return body.read(count, ArrayRef<Expr>()) == body.index(size);
                      }),
          "expected a size of " + size.str());
}

void Call::defineSize(Expr count, Expr size) {
  if (size.kind() != sym::Kind::Symbol || !pending.remove(size))
    return requireSame(count, size, "expected a size of " + size.str());
  kernel::DefineOp::create(kernels.b(), size.symbolName(), Value(),
                           sym::ExprAttr::get(op.getContext(), count));
}

Expr Call::newSize(Value count) {
  auto module = op->getParentOfType<ModuleOp>();
  Builder &b = kernels.b();
  NamedAttrList symbols(module->getAttrOfType<DictionaryAttr>(sym::symbolsAttrName));
  std::string name;
  for (unsigned i = 0; name.empty() || symbols.get(name); ++i)
    name = "size" + std::to_string(i);
  symbols.set(name, b.getDictionaryAttr(b.getNamedAttr("min", b.getI64IntegerAttr(0))));
  module->setAttr(sym::symbolsAttrName, symbols.getDictionary(b.getContext()));
  kernel::DefineOp::create(kernels.b(), name, count, sym::ExprAttr());
  return Expr::symbol(name);
}

void Call::defineFixedSizes() {
  for (Expr symbol : SmallVector<Expr>(pending.getArrayRef()))
    if (Expr value = kernels.known().simplify(symbol); value.isConstant())
      defineSize(value, symbol);
}

void Call::require(Expr expr, const Twine &message) {
  expr = kernels.known().simplify(expr);
  if (kernels.known().isNonNegative(expr))
    return;
  assertNonNegative(expr, message);
}

void Call::assertNonNegative(Expr expr, const Twine &message) {
  if (expr.isConstant() && *expr.constant() >= 0)
    return;
  if (!expr.isValid() || expr.isConstant())
    return kernels.fail("an assertion that never holds: " + message);
  kernel::AssertOp::create(kernels.b(), sym::ExprAttr::get(op.getContext(), expr),
                           located(message));
}

bool Call::fits(Expr a, Expr b, const Twine &message) {
  return fits(ArrayRef(a), ArrayRef(b), message);
}

bool Call::fits(ArrayRef<Expr> a, ArrayRef<Expr> b, const Twine &message) {
  if (differ(a, b))
    return false;
  for (auto [one, other] : llvm::zip_equal(a, b))
    requireSame(one, other, message);
  return true;
}

void Call::requireSame(Expr a, Expr b, const Twine &message) {
  if (kernels.isSame(a, b))
    return;
  require(a - b, message);
  require(b - a, message);
}

void Call::require(Value condition, const Twine &message) {
  kernel::CheckOp::create(kernels.b(), condition, located(message));
}

Element Call::expect(Element value, Element holds, const Twine &message) {
  StringAttr text = located(op.getTarget() + ": " + message);
  auto expect =
      kernel::ExpectOp::create(kernels.b(), value.value(), holds.value(), text, IntegerAttr());
  return value.make(expect.getResult());
}

Element Call::expectDivisor(Element divisor) {
  if (!isInt(divisor.type()))
    return divisor;
  APInt constant;
  if (matchPattern(divisor.value(), m_ConstantInt(&constant)) && !constant.isZero())
    return divisor;
  auto index = divisor.value().getDefiningOp<kernel::IndexOp>();
  if (index && kernels.known().isPositive(index.getMap().getResults()[0]))
    return divisor;
  return expect(divisor, divisor != divisor.constant(0), "integer division by zero");
}

//===-- Element-wise --------------------------------------------------------------------------===//

Element Call::number(BodyBuilder &body, const torch::Scalar &number, Type type) {
  if (auto *value = std::get_if<bool>(&number))
    return body.constant(type, int64_t(*value));
  if (auto *value = std::get_if<int64_t>(&number))
    return body.constant(type, *value);
  if (auto *value = std::get_if<double>(&number))
    return body.constant(type, *value);
  if (auto *value = std::get_if<std::complex<double>>(&number))
    return constant(body.b(), type, *value);
  if (auto *value = std::get_if<Expr>(&number))
    return convert(body.index(*value), type);
  return convert(body.read(std::get<Value>(number), ArrayRef<Expr>()), type);
}

Element Call::read(BodyBuilder &body, const Operand &operand, Type type) {
  if (!operand.tensor)
    return number(body, *operand.number, type);
  return convert(body.broadcast(operand.tensor), type);
}

LogicalResult Call::pointwise(ArrayRef<Operand> operands, Pointwise compute, bool exactNumbers) {
  Type common = lowering::resultType(op.getContext(), operands);
  if (!common)
    return refuse("dtypes that do not promote");
  return pointwise(operands, common, compute, exactNumbers);
}

/// A number, or a tensor of one element that is not the first operand.
static bool isNumber(const Operand &operand, bool isFirst) {
  return !operand.tensor || (!isFirst && llvm::all_of(shapeOf(operand.tensor), [](Expr size) {
    return size.isConstant(1);
  }));
}

LogicalResult Call::pointwise(ArrayRef<Operand> operands, Type common, Pointwise compute,
                              bool exactNumbers) {
  Type wide = opmath(common);
  Value result = kernels.map(resultShape(), resultType(), [&](BodyBuilder &body) {
    SmallVector<Element> inputs;
    for (const Operand &operand : operands) {
      bool exact = exactNumbers && !isComplex(common) && isNumber(operand, inputs.empty());
      inputs.push_back(convert(read(body, operand, exact ? wide : common), wide));
    }
    Element value = compute(body, inputs);
    return value.type() == wide ? convert(value, common) : value;
  });
  return set(result);
}
