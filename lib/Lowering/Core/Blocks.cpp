// Blocks of quantized tensors: which block an element is in, and the elements of a block.
#include "kiln/Lowering/Blocks.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

std::optional<Blocks> Blocks::get(Call &call, Value tensor, ArrayRef<Expr> blocks) {
  Exprs shape = shapeOf(tensor);
  auto refuse = [&](const Twine &reason) -> std::optional<Blocks> {
    (void)call.refuse(reason);
    return std::nullopt;
  };
  if (shape.size() != blocks.size())
    return refuse("blocks of another rank");
  Blocks result;
  for (auto [size, block] : llvm::zip(shape, blocks)) {
    if (call.kernels.isSame(size, block)) {
      result.sizes.push_back(size);
      result.counts.push_back(1);
      continue;
    }
    std::optional<int64_t> constant = block.constant();
    if (!constant || *constant <= 0)
      return refuse("blocks whose size is neither known nor that of the tensor");
    Expr count = size.floorDiv(*constant);
    if (!call.fits(size, count * *constant, "a tensor that is no whole number of blocks"))
      return refuse("a tensor that is no whole number of blocks");
    result.sizes.push_back(block);
    result.counts.push_back(count);
  }
  return result;
}

Exprs Blocks::blockOf(ArrayRef<Expr> index) const {
  Exprs block;
  for (auto [at, size, count] : llvm::zip(index, sizes, counts))
    block.push_back(count.isConstant(1) ? Expr(0) : size.isConstant(1) ? at : at.floorDiv(size));
  return block;
}

Exprs Blocks::innerSizes() const {
  Exprs inner;
  llvm::copy_if(sizes, std::back_inserter(inner), [](Expr size) { return !size.isConstant(1); });
  return inner;
}

Exprs Blocks::elementOf(ArrayRef<Expr> block, ArrayRef<Expr> inner) const {
  Exprs index;
  for (auto [at, size, count] : llvm::zip(block, sizes, counts)) {
    Expr begin = count.isConstant(1) ? Expr(0) : at * size;
    if (!size.isConstant(1)) {
      begin = begin + inner.front();
      inner = inner.drop_front();
    }
    index.push_back(begin);
  }
  return index;
}

Value Blocks::toGrid(Call &call, Value values) const {
  if (!call.kernels.isSame(sym::product(shapeOf(values)), sym::product(counts))) {
    (void)call.refuse("another number of scales or zero points than of blocks");
    return {};
  }
  return call.kernels.reshape(values, counts);
}

Element lowering::promoted(Element a, Element b, function_ref<Element(Element, Element)> compute) {
  Type common = promoteTypes(a.type(), b.type()), wide = opmath(common);
  auto widen = [&](Element x) { return convert(convert(x, common), wide); };
  return convert(compute(widen(a), widen(b)), common);
}

Element lowering::promoted(Element a, double b, function_ref<Element(Element, Element)> compute) {
  return promoted(a, a.constant(b), compute);
}

double lowering::largestOf(Type type) {
  if (auto number = dyn_cast<FloatType>(type))
    return APFloat::getLargest(number.getFloatSemantics()).convertToDouble();
  unsigned width = type.getIntOrFloatBitWidth();
  return std::ldexp(1.0, static_cast<int>(isUnsigned(type) ? width : width - 1)) - 1;
}

double lowering::leastOf(Type type) {
  if (isFloat(type))
    return -largestOf(type);
  return isUnsigned(type) ? 0 : -largestOf(type) - 1;
}

Element lowering::convertClamped(Element x, Type type) {
  bool isSmall = isInt(type) && type.getIntOrFloatBitWidth() < 32;
  return convert(isSmall ? convert(x, x.b().getI32Type()) : x, type);
}
