// Lowerings of functions of one or two elements, and ways to compute these: polynomials, Chebyshev
// series.
#include "Special/Functions.h"
#include <numbers>

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

Lowering lowering::floatFunction(Unary compute, Unary complexForm) {
  return [compute, complexForm](Call &call) {
    Type type = toFloat(elementType(call.tensor(0)));
    if (isComplex(type) && !complexForm)
      return call.refuse("complex numbers");
    return call.pointwise({call.tensor(0)}, type, [&](BodyBuilder &, Elements x) {
      return isComplex(type) ? complexForm(x[0]) : compute(x[0]);
    });
  };
}

Lowering lowering::floatFunction(Binary compute, Binary complexForm) {
  return [compute, complexForm](Call &call) {
    SmallVector<Operand> operands = {call.operand(0), call.operand(1)};
    Type common = resultType(call.args.op().getContext(), operands);
    if (!common || (isComplex(common) && !complexForm))
      return call.refuse("this dtype");
    return call.pointwise(operands, toFloat(common), [&](BodyBuilder &, Elements x) {
      return isComplex(common) ? complexForm(x[0], x[1]) : compute(x[0], x[1]);
    });
  };
}

Element lowering::polynomial(Element x, ArrayRef<double> coefficients) {
  Element result = x.constant(coefficients.front());
  for (double coefficient : coefficients.drop_front())
    result = result * x + coefficient;
  return result;
}

Element lowering::evaluate(const Chebyshev &function, Element x) { // Clenshaw's recurrence
  double half = (function.high - function.low) / 2, middle = (function.high + function.low) / 2;
  Element t = (x - middle) * (1 / half), twice = t + t;
  Element next = x.constant(function.terms.back()), afterNext = x.constant(0.0);
  for (double term : llvm::reverse(function.terms.drop_front().drop_back())) {
    Element current = twice * next - afterNext + term;
    afterNext = next;
    next = current;
  }
  return t * next - afterNext + function.terms.front();
}

Element lowering::sinPi(Element x) {
  Element nearest = roundEven(x);
  Element value = apply<math::SinOp>((x - nearest) * std::numbers::pi);
  Element isOdd = nearest * 0.5 != floor(nearest * 0.5);
  return select(isOdd, -value, value);
}
