// Conversions between dtypes, and calls that in a compiled program have nothing left to do.
#include "Core/Bits.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The declared dtype says which of the many ways to ask was used.
static LogicalResult lowerTo(Call &call) {
  if (call.args.has("layout"))
    if (auto layout = call.args.layout("layout"); layout && *layout != torch::Layout::Strided)
      return call.refuse("a layout other than strided");
  return call.set(call.kernels.convert(call.tensor(0), call.resultType()));
}

/// An integer as one of another width, by dropping bits or with zeros.
static Element resizeBits(Element bits, unsigned width) {
  Type from = bits.type(), to = bits.b().getIntegerType(width);
  unsigned have = from.getIntOrFloatBitWidth();
  if (have == width)
    return bits;
  Value value = bits.value();
  return have > width ? bits.make(arith::TruncIOp::create(bits.b(), to, value), to)
                      : bits.make(arith::ExtUIOp::create(bits.b(), to, value), to);
}

/// The bytes of real numbers as those of another type, little-endian. With another width the last
/// dim grows or shrinks. Null, with a reason, where it is not a multiple of the new width.
static Value bitcastReal(Call &call, Value tensor, Type to) {
  Type from = elementType(tensor);
  if (from == to)
    return tensor;
  auto widthOf = [](Type type) { return std::max(8u, type.getIntOrFloatBitWidth()); };
  unsigned source = widthOf(from), target = widthOf(to);
  Exprs shape = shapeOf(tensor);
  if (source == target)
    return call.kernels.map(
        shape, to, [&](BodyBuilder &body) { return fromBits(toBits(body.broadcast(tensor)), to); });
  if (shape.empty()) {
    call.kernels.fail("a 0-d tensor seen as elements of another width");
    return {};
  }
  size_t last = shape.size() - 1;
  if (source > target) {
    int64_t parts = source / target;
    shape[last] = shape[last] * parts;
    return call.kernels.map(shape, to, [&](BodyBuilder &body) {
      Exprs index = body.ownDims();
      index[last] = body.dim(last).floorDiv(parts);
      Element bits = toBits(body.read(tensor, index));
      Element part = convert(body.index(body.dim(last).mod(parts) * target), bits.type());
      Element moved = apply<arith::ShRUIOp>(bits, part);
      return fromBits(resizeBits(moved, target), to);
    });
  }
  int64_t parts = target / source;
  Expr length = call.kernels.known().simplify(shape[last].floorDiv(parts));
  if (!call.fits(length * parts, shape[last],
                 "a last dim that is not a multiple of the new width")) {
    call.kernels.fail("a last dim that is not a multiple of the new width");
    return {};
  }
  shape[last] = length;
  return call.kernels.map(shape, to, [&](BodyBuilder &body) {
    Element all;
    for (int64_t part = 0; part < parts; ++part) {
      Exprs index = body.ownDims();
      index[last] = body.dim(last) * parts + part;
      Element bits = resizeBits(toBits(body.read(tensor, index)), target);
      Element moved = part ? shiftLeft(bits, bits.constant(part * source)) : bits;
      all = all ? all | moved : moved;
    }
    return fromBits(all, to);
  });
}

/// The real and imaginary parts of complex numbers, in turn along the last dim.
static Value interleaveParts(Call &call, Value tensor) {
  Exprs shape = shapeOf(tensor);
  Type part = cast<ComplexType>(elementType(tensor)).getElementType();
  size_t last = shape.size() - 1;
  shape[last] = shape[last] * 2;
  return call.kernels.map(shape, part, [&](BodyBuilder &body) {
    Exprs index = body.ownDims();
    index[last] = body.dim(last).floorDiv(2);
    Element x = body.read(tensor, index), which = body.index(body.dim(last).mod(2));
    return select(which == which.constant(0), real(x), imag(x));
  });
}

/// The reverse: complex numbers of two elements each. Null, with a reason, where one is left over.
static Value pairParts(Call &call, Value tensor, ComplexType type) {
  Exprs shape = shapeOf(tensor);
  size_t last = shape.size() - 1;
  Expr length = call.kernels.known().simplify(shape[last].floorDiv(2));
  if (!call.fits(length * 2, shape[last], "a last dim that is not a multiple of the new width")) {
    call.kernels.fail("a last dim that is not a multiple of the new width");
    return {};
  }
  shape[last] = length;
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Exprs re = body.ownDims(), im = re;
    re[last] = body.dim(last) * 2;
    im[last] = body.dim(last) * 2 + 1;
    return makeComplex(body.read(tensor, re), body.read(tensor, im));
  });
}

/// `view.dtype`: the same bytes. Complex numbers are two real ones each.
static LogicalResult lowerBitcast(Call &call) {
  Value tensor = call.tensor(0);
  Type from = elementType(tensor), to = call.resultType();
  if (from == to)
    return call.set(tensor);
  auto source = dyn_cast<ComplexType>(from), target = dyn_cast<ComplexType>(to);
  bool isScalar = rankOf(tensor) == 0 && (source || target);
  if (isScalar)
    tensor = call.kernels.reshape(tensor, Exprs{1});
  if (source)
    tensor = interleaveParts(call, tensor);
  Value result = bitcastReal(call, tensor, target ? target.getElementType() : to);
  if (result && target)
    result = pairParts(call, result, target);
  if (!result || (isScalar && !call.fits(shapeOf(result), Exprs{1}, "elements of another width")))
    return call.refuse("elements of another width");
  return call.set(isScalar ? call.kernels.reshape(result, Exprs()) : result);
}

void lowering::registerConvert(LoweringTable &table) {
  // Questions about dtypes and shapes: export has written down the answers where they were used.
  table.add(
      {"aten.promote_types.default", "aten.can_cast.default", "aten.result_type.Tensor",
       "aten.result_type.Scalar", "aten.result_type.Scalar_Tensor",
       "aten.result_type.Scalar_Scalar", "aten.is_same_size.default"},
      [](Call &call) -> LogicalResult { return call.set(SmallVector<Value>(call.numResults())); });
  table.add({"aten.to.dtype", "aten.to.dtype_layout", "aten.to.device", "aten.to.other",
             "aten.to.prim_Device", "aten.to.prim_dtype", "aten.to.prim_other",
             "aten._to_copy.default", "aten.type_as.default", "aten.chalf.default",
             "prims.convert_element_type.default",
             "quantized_decomposed.convert_element_type.no_fuse"},
            lowerTo);
  table.add({"aten.view.dtype", "aten.view_copy.dtype"}, lowerBitcast);
}
