// The windows of a convolution as columns, and columns added up to an image again.
#include "Core/NonEmpty.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// Two spatial dims.
struct Windows {
  SmallVector<int64_t> kernel, dilation, padding, stride;
  Exprs image, count;
};
} // namespace

/// The arguments, for an image of these sizes; nullopt with a reason.
static std::optional<Windows> windowsOf(Call &call, ArrayRef<Expr> image) {
  Windows w{call.ints("kernel_size", 2),
            call.ints("dilation", 2),
            call.ints("padding", 2),
            call.ints("stride", 2),
            Exprs(image),
            {}};
  for (int i = 0; i < 2; ++i) {
    if (w.kernel[i] <= 0 || w.dilation[i] <= 0 || w.padding[i] < 0 || w.stride[i] <= 0)
      call.kernels.fail("a window of this size, stride or padding");
    if (call.kernels.failure)
      return std::nullopt;
    Expr room = image[i] + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;
    w.count.push_back(call.kernels.known().simplify(room.floorDiv(w.stride[i]) + 1));
  }
  return w;
}

/// [N, C, H, W] or [C, H, W] -> [N, C * kernel, windows]
static LogicalResult lowerIm2col(Call &call) {
  Value x = call.tensor(0);
  Exprs shape = shapeOf(x);
  if (shape.size() != 3 && shape.size() != 4)
    return call.refuse("this rank");
  auto w = windowsOf(call, ArrayRef(shape).take_back(2));
  if (!w)
    return failure();
  size_t leading = shape.size() - 2; // N and C
  requireElements(call, x, leading - 1, "columns of an empty dim that is not the batch");
  for (Expr count : w->count)
    call.require(count - 1, "columns of an image that is too small for the kernel");
  Exprs domain(ArrayRef(shape).drop_back(2));
  domain.append({w->kernel[0], w->kernel[1], w->count[0], w->count[1]});
  Type type = elementType(x);
  Value columns = call.kernels.map(domain, type, [&](BodyBuilder &body) {
    Exprs at = body.dims(0, leading);
    for (unsigned i = 0; i < 2; ++i)
      at.push_back(body.dim(leading + i) * w->dilation[i] +
                   body.dim(leading + 2 + i) * w->stride[i] - w->padding[i]);
    return body.readPadded(x, at, body.constant(type, 0));
  });
  Exprs result(ArrayRef(shape).drop_back(3));
  result.push_back(shape[leading - 1] * w->kernel[0] * w->kernel[1]);
  result.push_back(w->count[0] * w->count[1]);
  return call.set(call.kernels.reshape(columns, result));
}

/// [N, C * kernel, windows] or [C * kernel, windows] -> [N, C, H, W]
static LogicalResult lowerCol2im(Call &call) {
  Value columns = call.tensor(0);
  Exprs shape = shapeOf(columns);
  Type type = elementType(columns);
  if ((shape.size() != 2 && shape.size() != 3) || isBool(type))
    return call.refuse("this dtype or rank");
  auto w = windowsOf(call, call.symInts("output_size", 2));
  if (!w)
    return failure();
  Exprs result = call.resultShape();
  size_t leading = shape.size() - 1;
  if (result.size() != leading + 2 ||
      !call.fits({shape[leading - 1], shape.back()},
                 {result[leading - 1] * w->kernel[0] * w->kernel[1], w->count[0] * w->count[1]},
                 "columns that do not fit the image"))
    return call.refuse("columns that do not fit the image");
  Exprs split(ArrayRef(result).take_front(leading));
  split.append({w->kernel[0], w->kernel[1], w->count[0], w->count[1]});
  Value windows = call.kernels.reshape(columns, split);
  return call.set(call.kernels.map(result, type, [&](BodyBuilder &body) {
    Type wide = opmath(type);
    return body.sum({w->kernel[0], w->kernel[1]}, wide, [&](BodyBuilder &inner) {
      Exprs at = inner.dims(0, leading), window;
      Element hits;
      for (unsigned i = 0; i < 2; ++i) {
        Expr tap = inner.dim(leading + 2 + i);
        Expr offset = inner.dim(leading + i) + w->padding[i] - tap * w->dilation[i];
        Expr place = offset.floorDiv(w->stride[i]);
        Element exact = inner.index(offset - place * w->stride[i]);
        Element hit = (exact == exact.constant(0)) & inner.inside({place}, {w->count[i]});
        hits = hits ? hits & hit : hit;
        at.push_back(tap);
        window.push_back(place);
      }
      llvm::append_range(at, window);
      return convert(inner.read(windows, at, hits, inner.constant(type, 0)), wide);
    });
  }));
}

void lowering::registerIm2col(LoweringTable &table) {
  table.add("aten.im2col.default", lowerIm2col);
  table.add("aten.col2im.default", lowerCol2im);
}
