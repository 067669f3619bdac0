// Element-wise operators that are one function of floats, and what such functions are written with.
#ifndef KILN_LIB_LOWERING_SPECIAL_FUNCTIONS_H
#define KILN_LIB_LOWERING_SPECIAL_FUNCTIONS_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double notANumber = std::numeric_limits<double>::quiet_NaN();

using Unary = Element (*)(Element);
using Binary = Element (*)(Element, Element);

/// The lowering of a function of floats: integers and bool are converted to the default float type.
/// `complexForm` computes complex numbers; without it they are refused.
Lowering floatFunction(Unary compute, Unary complexForm = nullptr);
Lowering floatFunction(Binary compute, Binary complexForm = nullptr);

/// The function computed in double precision, of narrower floats too.
template <Unary compute> Element inDouble(Element x) {
  mlir::Type wide = mlir::Float64Type::get(x.b().getContext());
  return convert(compute(convert(x, wide)), x.type());
}
template <Binary compute> Element inDouble(Element x, Element y) {
  mlir::Type wide = mlir::Float64Type::get(x.b().getContext());
  return convert(compute(convert(x, wide), convert(y, wide)), x.type());
}

/// (c0*x + c1)*x + …
Element polynomial(Element x, llvm::ArrayRef<double> coefficients);

/// A sum of Chebyshev polynomials on [low, high].
struct Chebyshev {
  double low, high;
  llvm::ArrayRef<double> terms;
};
Element evaluate(const Chebyshev &function, Element x);

/// sin(pi x) and cos(pi x), of f64: the argument is reduced before it is multiplied.
Element sinPi(Element x);

// Functions of f64.
Element erfcx(Element x); // exp(x²) erfc(x)
Element logGamma(Element x);
Element digamma(Element x);
/// Hurwitz's zeta function.
Element zeta(Element x, Element q);
Element besselI0(Element x);
Element besselI1(Element x);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_SPECIAL_FUNCTIONS_H
