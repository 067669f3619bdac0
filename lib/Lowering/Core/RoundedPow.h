// Powers of doubles as Python gives them.
#ifndef KILN_LIB_LOWERING_CORE_ROUNDEDPOW_H
#define KILN_LIB_LOWERING_CORE_ROUNDEDPOW_H

#include "kiln/Dialect/Kernel/Builder/Element.h"

namespace kiln::lowering {

using namespace kernel; // elements and builders

/// x to the power y in f64, rounded to nearest: 27 ** (1/3) is 3, which a size is made of. Slower
/// than `pow`, whose last bit may be another one.
Element roundedPow(Element x, Element y);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_ROUNDEDPOW_H
