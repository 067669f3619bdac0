// Python numbers that are computed from data: item() and the arithmetic on what it gives. Each is a
// 0-d tensor of i64, f64 or i1. (What is computed from sizes alone is an expression, and never
// comes here.)
#include "Core/RoundedPow.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;
using torch::NumberKind;

static LogicalResult lowerItem(Call &call) {
  Value self = call.tensor(0);
  if (isComplex(elementType(self)))
    return call.refuse("a complex number");
  call.requireSame(sym::product(shapeOf(self)), 1, "item() of a tensor with more or less elements");
  if (rankOf(self) == 0 && elementType(self) == call.resultType())
    return call.set(self);
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    return body.read(self, Exprs(rankOf(self), Expr(0)));
  }));
}

/// An expression as the number that the call returns.
static LogicalResult returnNumber(Call &call, Expr expr) {
  return call.set(
      call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) { return body.index(expr); }));
}

/// The expression that export has for it may be one of floats.
static LogicalResult lowerNumel(Call &call) {
  return returnNumber(call, sym::product(shapeOf(call.tensor(0))));
}

/// The place of a view's first element in its memory. A tensor that is no view starts its memory.
static LogicalResult lowerStorageOffset(Call &call) {
  Value tensor = call.tensor(0);
  Expr offset;
  while (auto map = tensor.getDefiningOp<kernel::MapOp>()) {
    kernel::ReadOp read = map.getView();
    if (!read)
      break;
    if (!read.getValues().empty())
      return call.refuse("the offset of an element that data chooses");
    Exprs zeros(map.getExtents().size(), Expr(0)), first;
    for (Expr index : read.getMap().getResults())
      first.push_back(index.substituteDims(zeros));
    offset = offset + sym::linearize(first, shapeOf(read.getTensor()));
    tensor = read.getTensor();
  }
  return returnNumber(call, offset);
}

//===-- Arithmetic ----------------------------------------------------------------------------===//

namespace {
/// The type in which Python combines numbers.
Type commonType(Call &call, bool alwaysFloat) {
  OpBuilder &b = call.kernels.b();
  NumberKind kind = NumberKind::Bool;
  for (unsigned i = 0; i < call.args.size(); ++i)
    if (std::optional<torch::Scalar> number = call.args.optScalar(i))
      kind = std::max(kind, torch::kindOf(*number));
  if (kind == NumberKind::Complex || kind == NumberKind::Float || alwaysFloat)
    return b.getF64Type();
  return b.getI64Type();
}
} // namespace

using Compute = std::function<Element(Elements)>;

/// `compute` on the arguments, all of which are numbers.
static LogicalResult compute(Call &call, unsigned arity, const Compute &compute,
                             bool alwaysFloat = false) {
  // round() has None behind its number.
  if (call.args.size() < arity || !call.args.isNone(arity))
    return call.refuse("takes " + Twine(arity) + " numbers");
  SmallVector<torch::Scalar> numbers;
  for (unsigned i = 0; i < arity; ++i) {
    std::optional<torch::Scalar> number = call.args.optScalar(i);
    if (!number || torch::kindOf(*number) == NumberKind::Complex)
      return call.refuse("an argument that is not a real number");
    numbers.push_back(*number);
  }
  Type type = commonType(call, alwaysFloat);
  return call.set(call.kernels.map({}, call.resultType(), [&](BodyBuilder &body) {
    SmallVector<Element> elements;
    for (const torch::Scalar &number : numbers)
      elements.push_back(call.number(body, number, type));
    return compute(elements);
  }));
}

/// Division by zero is an error in Python.
static LogicalResult divideNumbers(Call &call, const Compute &quotient, bool alwaysFloat) {
  std::optional<torch::Scalar> divisor = call.args.optScalar(1);
  if (call.args.size() != 2 || !divisor)
    return call.refuse("takes 2 numbers");
  if (torch::asDouble(*divisor) == 0.0)
    return call.refuse("a division by zero");
  if (!torch::asDouble(*divisor)) {
    Type type = commonType(call, alwaysFloat);
    call.require(call.kernels.map(
                     {}, call.kernels.b().getI1Type(),
                     [&](BodyBuilder &body) { return isTrue(call.number(body, *divisor, type)); }),
                 "division by zero");
  }
  return compute(call, 2, quotient, alwaysFloat);
}

/// A negative power of an integer is a float.
static LogicalResult lowerPow(Call &call) {
  std::optional<torch::Scalar> exponent = call.args.optScalar(1);
  bool isRoot = exponent && torch::asDouble(*exponent) == 0.5; // which is rounded to nearest, too
  auto power = [&](Elements x) {
    if (!isFloat(x[0].type()))
      return pow(x[0], x[1]);
    return isRoot ? sqrt(x[0]) : roundedPow(x[0], x[1]);
  };
  return compute(call, 2, power, isFloat(call.resultType()));
}

static LogicalResult lowerIte(Call &call) {
  if (call.args.size() != 3)
    return call.refuse("takes 3 numbers");
  auto condition = call.args.optScalar(0), a = call.args.optScalar(1), b = call.args.optScalar(2);
  if (!condition || !a || !b)
    return call.refuse("an argument that is not a number");
  Type type = call.resultType(), i1 = call.kernels.b().getI1Type();
  return call.set(call.kernels.map({}, type, [&](BodyBuilder &body) {
    return select(call.number(body, *condition, i1), call.number(body, *a, type),
                  call.number(body, *b, type));
  }));
}

void lowering::registerNumber(LoweringTable &table) {
  table.add({"aten.item.default", "aten._local_scalar_dense.default"}, lowerItem);
  table.add("aten.sym_numel.default", lowerNumel);
  table.add("aten.sym_storage_offset.default", lowerStorageOffset);

  auto unary = [&](StringRef target, Element (*f)(Element), bool alwaysFloat = false) {
    table.add(target, [=](Call &call) {
      return compute(call, 1, [=](Elements x) { return f(x[0]); }, alwaysFloat);
    });
  };
  auto binary = [&](StringRef target, Element (*f)(Element, Element)) {
    table.add(target, [=](Call &call) {
      return compute(call, 2, [=](Elements x) { return f(x[0], x[1]); });
    });
  };
  unary("_operator.neg", [](Element x) { return -x; });
  unary("_operator.pos", [](Element x) { return x; });
  unary("_operator.abs", [](Element x) { return abs(x); });
  unary("torch.sym_float", [](Element x) { return x; }, /*alwaysFloat=*/true);
  unary("torch.sym_int", [](Element x) { return x; }); // toward zero
  unary("math.trunc", [](Element x) { return x; });
  unary("math.floor", [](Element x) { return isFloat(x.type()) ? floor(x) : x; });
  unary("math.ceil", [](Element x) { return isFloat(x.type()) ? ceil(x) : x; });
  unary("builtins.round", [](Element x) { return isFloat(x.type()) ? roundEven(x) : x; });
  unary("torch.sym_sqrt", [](Element x) { return sqrt(x); }, /*alwaysFloat=*/true);
  unary("torch._sym_sqrt", [](Element x) { return sqrt(x); }, /*alwaysFloat=*/true);
  unary("torch.sym_not", [](Element x) { return ~isTrue(x); });
  binary("_operator.add", [](Element a, Element b) { return a + b; });
  binary("_operator.sub", [](Element a, Element b) { return a - b; });
  binary("_operator.mul", [](Element a, Element b) { return a * b; });
  binary("_operator.eq", [](Element a, Element b) { return a == b; });
  binary("_operator.ne", [](Element a, Element b) { return a != b; });
  binary("_operator.lt", [](Element a, Element b) { return a < b; });
  binary("_operator.le", [](Element a, Element b) { return a <= b; });
  binary("_operator.gt", [](Element a, Element b) { return a > b; });
  binary("_operator.ge", [](Element a, Element b) { return a >= b; });
  binary("_operator.and_", [](Element a, Element b) { return a & b; });
  binary("_operator.or_", [](Element a, Element b) { return a | b; });
  binary("_operator.lshift", [](Element a, Element b) { return shiftLeft(a, b); });
  binary("_operator.rshift", [](Element a, Element b) { return shiftRight(a, b); });
  // Python's max(a, b) is a unless b is greater.
  binary("torch.sym_max", [](Element a, Element b) { return select(b > a, b, a); });
  binary("torch.sym_min", [](Element a, Element b) { return select(b < a, b, a); });
  table.add("_operator.pow", lowerPow);
  table.add("torch.sym_ite", lowerIte);
  table.add("_operator.truediv", [](Call &call) {
    return divideNumbers(call, [](Elements x) { return x[0] / x[1]; }, /*alwaysFloat=*/true);
  });
  table.add("_operator.floordiv", [](Call &call) {
    return divideNumbers(
        call, [](Elements x) { return floorDiv(x[0], x[1]); }, /*alwaysFloat=*/false);
  });
  table.add("_operator.mod", [](Call &call) {
    return divideNumbers(
        call, [](Elements x) { return remainder(x[0], x[1]); }, /*alwaysFloat=*/false);
  });
}
