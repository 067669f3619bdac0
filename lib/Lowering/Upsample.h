// What the forms of interpolation share.
#ifndef KILN_LIB_LOWERING_UPSAMPLE_H
#define KILN_LIB_LOWERING_UPSAMPLE_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// The factors that the call gives for its spatial dims, the outermost first: `scale_factors`, or
/// one `scales` argument for each.
llvm::SmallVector<std::optional<double>> scaleFactors(Call &call, size_t spatial);

/// Whether argument 0 is an image of bytes, [N, C, H, W].
bool isImageOfBytes(Call &call);

/// The bilinear or bicubic interpolation of such an image, which ATen computes in integers.
mlir::LogicalResult resizeBytes(Call &call, bool isCubic, bool antialias);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_UPSAMPLE_H
