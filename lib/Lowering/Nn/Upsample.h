// Helpers that the forms of interpolation share.
#ifndef KILN_LIB_LOWERING_NN_UPSAMPLE_H
#define KILN_LIB_LOWERING_NN_UPSAMPLE_H

#include "kiln/Lowering/Lowering.h"

namespace kiln::lowering {

/// One spatial dim: input and output size, and the input distance of neighbouring outputs where it
/// does not depend on the run.
struct ResizedAxis {
  Expr in, out;
  std::optional<double> scale;
  bool align;
};

/// An input position with its weight.
struct Tap {
  Element position;
  Element weight;
};

/// The spatial axes between images [N, C, spatial…] of these shapes, with the scale as ATen
/// computes it: from a given factor, else from the sizes. With align_corners the corners of input
/// and output meet. Nullopt, with a reason, for other shapes.
std::optional<llvm::SmallVector<ResizedAxis>> axesBetween(Call &call, size_t spatial,
                                                          llvm::ArrayRef<Expr> in,
                                                          llvm::ArrayRef<Expr> out,
                                                          bool alignCorners);

/// The elements that the output at `dim` of the body is made of, by the axis, and their weights in
/// a type. Nearest (also exact) gives one, linear two, cubic four.
using Taps = llvm::SmallVector<Tap> (*)(BodyBuilder &, const ResizedAxis &, unsigned dim,
                                        mlir::Type);
llvm::SmallVector<Tap> nearestTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                   mlir::Type);
llvm::SmallVector<Tap> nearestExactTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                        mlir::Type);
llvm::SmallVector<Tap> linearTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                  mlir::Type);
llvm::SmallVector<Tap> cubicTaps(BodyBuilder &body, const ResizedAxis &axis, unsigned dim,
                                 mlir::Type);

/// The factors that the call gives for its spatial dims, the outermost first: `scale_factors`, or
/// one `scales` argument for each.
llvm::SmallVector<std::optional<double>> scaleFactors(Call &call, size_t spatial);

/// Whether argument 0 is an image of bytes, [N, C, H, W].
bool isImageOfBytes(Call &call);

/// The bilinear or bicubic interpolation of such an image, which ATen computes in integers.
mlir::LogicalResult resizeBytes(Call &call, bool isCubic, bool antialias);

/// Along an axis, for each output the first input and `count` weights, which count 2^-bits; `bits`
/// is 0-d. All are i32.
struct ByteWindow {
  mlir::Value first, weights, bits;
  Expr count;
};

/// The window of spatial dim `i` of an image of bytes whose size is known when the model runs.
ByteWindow byteWindowAtRun(Call &call, size_t i, std::optional<double> factor, bool isCubic,
                           bool antialias);

} // namespace kiln::lowering

#endif // KILN_LIB_LOWERING_NN_UPSAMPLE_H
