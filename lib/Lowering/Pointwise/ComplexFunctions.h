// Functions of complex numbers, from functions of their parts. What is worth it is computed in
// double precision for complex64 too. Branch cuts and the signs of zeros on them are C's.
#ifndef KILN_LIB_LOWERING_POINTWISE_COMPLEXFUNCTIONS_H
#define KILN_LIB_LOWERING_POINTWISE_COMPLEXFUNCTIONS_H

#include "kiln/Dialect/Kernel/Builder/Element.h"

namespace kiln::lowering {
using namespace kernel; // elements and builders

/// The angle of (x, y). Of two zeros, too, of which MLIR folds math.atan2 to NaN.
Element atan2(Element y, Element x);
} // namespace kiln::lowering

namespace kiln::lowering::complexes {

Element exp(Element z);
Element exp2(Element z);
Element expm1(Element z);
Element log(Element z);
Element log2(Element z);
Element log10(Element z);
Element log1p(Element z);
Element sqrt(Element z);
Element rsqrt(Element z);
Element sin(Element z);
Element cos(Element z);
Element tan(Element z);
Element asin(Element z);
Element acos(Element z);
Element atan(Element z);
Element sinh(Element z);
Element cosh(Element z);
Element tanh(Element z);
Element asinh(Element z);
Element acosh(Element z);
Element atanh(Element z);
Element sigmoid(Element z);
Element sinc(Element z);
Element pow(Element a, Element b);
/// log(exp(a) + exp(b)), without leaving the range of either.
Element logaddexp(Element a, Element b);
/// z / |z|, 0 at 0.
Element sgn(Element z);

} // namespace kiln::lowering::complexes

#endif // KILN_LIB_LOWERING_POINTWISE_COMPLEXFUNCTIONS_H
