// Interpolation of images of bytes, which ATen computes in integers.
#ifndef KILN_LIB_LOWERING_UPSAMPLEBYTES_H
#define KILN_LIB_LOWERING_UPSAMPLEBYTES_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// Whether argument 0 is an image of bytes, [N, C, H, W].
bool isImageOfBytes(Call &call);

/// The bilinear or bicubic interpolation of such an image.
mlir::LogicalResult resizeBytes(Call &call, bool isCubic, bool antialias);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_UPSAMPLEBYTES_H
