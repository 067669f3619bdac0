// Ways to combine several values that are written to one place.
#ifndef KILN_LIB_LOWERING_CORE_COMBINE_H
#define KILN_LIB_LOWERING_CORE_COMBINE_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// `Mean` adds up; the division by the count comes later.
enum class Combine { Last, Sum, Product, Mean, Max, Min };

/// `old` and `x` put together in opmath's type, rounded to their own: as often as there are writes.
Element combined(Combine combine, Element old, Element x);

/// The value that changes nothing when it is combined.
Element identityOf(BodyBuilder &body, Combine combine, mlir::Type type);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_CORE_COMBINE_H
