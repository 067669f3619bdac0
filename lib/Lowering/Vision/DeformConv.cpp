// Deformable convolution (Dai et al., 2017; with a mask: Zhu et al., 2019), torchvision::deform_conv2d.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The image [N, C, H, W] between the four elements around (y, x), of which those outside are 0.
static Element interpolate(BodyBuilder &body, Value image, Expr batch, Expr channel, Element y,
                           Element x) {
  Exprs shape = shapeOf(image);
  Type type = elementType(image), i64 = body.b().getI64Type();
  Element zero = body.constant(type, 0);
  Element height = body.index(shape[2]), width = body.index(shape[3]);
  // Places further than one element from the image are 0, also beside NaN and infinity.
  auto isNear = [&](Element at, Element size) {
    return (at > at.constant(-1.0)) & (at < convert(size, type));
  };
  Element near = isNear(y, height) & isNear(x, width);
  Element top = floor(y), left = floor(x), down = y - top, right = x - left;
  Element value;
  for (bool isBelow : {false, true}) {
    Element row = convert(isBelow ? top + 1.0 : top, i64);
    Element inRows = near & (row >= row.constant(0)) & (row < height);
    for (bool isRight : {false, true}) {
      Element column = convert(isRight ? left + 1.0 : left, i64);
      Element inside = inRows & (column >= column.constant(0)) & (column < width);
      Element weight = (isBelow ? down : 1.0 - down) * (isRight ? right : 1.0 - right);
      Element term = weight * body.read(image, Indices{batch, channel, row, column}, inside, zero);
      value = value ? value + term : term;
    }
  }
  return select(near, value, zero);
}

/// input [N, C, H, W], weight [O, C / groups, kernel…], offset [N, 2 * offset groups * kernel…, …],
/// with a pair (y, x) for each element of the kernel, mask of half as many channels.
static LogicalResult lowerDeformConv(Call &call) {
  Value input = call.tensor("input"), weight = call.tensor("weight");
  Value offset = call.tensor("offset"), mask = call.tensor("mask"), bias = call.tensor("bias");
  Type type = elementType(input);
  bool usesMask = call.args.boolean("use_mask");
  if (!type.isF32() && !type.isF64())
    return call.refuse("an input that is neither of f32 nor of f64");
  for (Value tensor : {weight, offset, bias, usesMask ? mask : bias})
    if (elementType(tensor) != type)
      return call.refuse("tensors of several dtypes");
  if (rankOf(input) != 4 || rankOf(weight) != 4 || rankOf(offset) != 4 || rankOf(bias) != 1 ||
      (usesMask && rankOf(mask) != 4))
    return call.refuse("tensors of these ranks");
  auto groups = call.args.symInt("groups").constant();
  auto offsetGroups = call.args.symInt("offset_groups").constant();
  if (!groups || !offsetGroups || *groups < 1 || *offsetGroups < 1)
    return call.refuse("these groups");
  Exprs shape = shapeOf(input), kernel = shapeOf(weight), result = call.resultShape();
  Expr size = kernel[2] * kernel[3], parts = *offsetGroups;
  auto one = [&](StringRef name) { return call.args.symInt(name); };
  Expr stride[2] = {one("stride_h"), one("stride_w")}, pad[2] = {one("pad_h"), one("pad_w")};
  Expr dilation[2] = {one("dilation_h"), one("dilation_w")};
  Exprs places = {shape[0], size * 2 * parts};
  for (int i = 0; i < 2; ++i)
    places.push_back(
        (shape[2 + i] + pad[i] * 2 - dilation[i] * (kernel[2 + i] - 1) - 1).floorDiv(stride[i]) +
        1);
  Exprs ofMask = {shape[0], size * parts, places[2], places[3]};
  Expr groupRows = kernel[0].floorDiv(*groups);
  constexpr StringLiteral unfit = "sizes of input, weight, offset, mask and bias that do not fit";
  if (!call.fits(shapeOf(offset), places, unfit) ||
      (usesMask && !call.fits(shapeOf(mask), ofMask, unfit)) ||
      !call.fits(kernel[1] * *groups, shape[1], unfit) ||
      !call.fits(groupRows * *groups, kernel[0], unfit) ||
      !call.fits(shape[1].floorDiv(parts) * parts, shape[1], unfit) ||
      !call.fits(shapeOf(bias)[0], kernel[0], unfit))
    return call.refuse(unfit);

  Value columns = call.kernels.map(
      {shape[0], shape[1], kernel[2], kernel[3], places[2], places[3]}, type,
      [&](BodyBuilder &body) {
        Expr part = body.dim(1).floorDiv(shape[1].floorDiv(parts));
        Expr element = part * size + body.dim(2) * kernel[3] + body.dim(3);
        Element at[2];
        for (int i = 0; i < 2; ++i) {
          Expr start = body.dim(4 + i) * stride[i] - pad[i] + body.dim(2 + i) * dilation[i];
          at[i] = convert(body.index(start), type) +
                  body.read(offset, Exprs{body.dim(0), element * 2 + i, body.dim(4), body.dim(5)});
        }
        Element value = interpolate(body, input, body.dim(0), body.dim(1), at[0], at[1]);
        if (usesMask)
          value = body.read(mask, Exprs{body.dim(0), element, body.dim(4), body.dim(5)}) * value;
        return value;
      });

  Contraction c; // dims: batch, group, row, y, x, channel, kernel…
  c.batch = {shape[0], Expr(*groups)};
  c.m = {groupRows};
  c.n = {places[2], places[3]};
  c.k = {kernel[1], kernel[2], kernel[3]};
  auto row = [&](BodyBuilder &body) { return body.dim(1) * groupRows + body.dim(2); };
  auto lhs = [&](BodyBuilder &body) {
    return body.read(weight, Exprs{row(body), body.dim(5), body.dim(6), body.dim(7)});
  };
  auto rhs = [&](BodyBuilder &body) {
    return body.read(columns, Exprs{body.dim(0), body.dim(1) * kernel[1] + body.dim(5), body.dim(6),
                                    body.dim(7), body.dim(3), body.dim(4)});
  };
  auto epilogue = [&](BodyBuilder &body, Element sum) {
    return sum + body.read(bias, Exprs{row(body)});
  };
  c.lhs = lhs;
  c.rhs = rhs;
  c.epilogue = epilogue;
  return call.set(call.kernels.reshape(call.kernels.contract(c, type), result));
}

void lowering::registerDeformConv(LoweringTable &table) {
  table.add("torchvision.deform_conv2d.default", lowerDeformConv);
}
