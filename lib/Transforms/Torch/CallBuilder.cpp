// Calls of operators that a pass writes in place of one call.
#include "CallBuilder.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

Value torch::getTensor(CallOp call, Attribute argument, unsigned rank) {
  auto arg = dyn_cast<ArgAttr>(argument);
  Value value = arg ? call->getOperand(arg.getIndex()) : Value();
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  bool fits = type && type.getRank() == rank && isa<FloatType>(type.getElementType());
  return fits ? value : Value();
}

Value CallBuilder::call(StringRef target, ValueRange operands, ArrayRef<Attribute> args,
                        Type type) {
  return CallOp::create(b, origin.getLoc(), type, target, operands, args, origin.getNodeAttr())
      ->getResult(0);
}

Value CallBuilder::call(StringRef target, ValueRange operands, ArrayRef<Attribute> args,
                        ArrayRef<Expr> shape) {
  return call(target, operands, args, sym::getTensorType(shape, elementOf(operands.front())));
}

void CallBuilder::replace(unsigned i, Value value) {
  Value result = origin->getResult(i);
  if (result.getType() != value.getType())
    value = call("aten.alias.default", value, arg(0), result.getType());
  result.replaceAllUsesWith(value);
}

Attribute CallBuilder::sizes(ArrayRef<Expr> shape) {
  SmallVector<Attribute> list;
  for (Expr size : shape) {
    std::optional<int64_t> constant = size.constant();
    list.push_back(constant ? integer(*constant) : sym::ExprAttr::get(b.getContext(), size));
  }
  return b.getArrayAttr(list);
}

Value CallBuilder::linear(Value x, Value weight, Value bias) {
  SmallVector<Expr> shape = shapeOf(x);
  shape.back() = shapeOf(weight).front();
  SmallVector<Value> operands{x, weight};
  Attribute last = b.getUnitAttr();
  if (bias) {
    operands.push_back(bias);
    last = arg(2);
  }
  return call("aten.linear.default", operands, {arg(0), arg(1), last}, shape);
}

Value CallBuilder::part(Value x, int64_t i, int64_t size) {
  SmallVector<Expr> shape = shapeOf(x);
  auto dim = static_cast<int64_t>(shape.size()) - 1;
  shape.back() = size;
  return call("aten.slice.Tensor", x,
              {arg(0), integer(dim), integer(i * size), integer((i + 1) * size), integer(1)},
              shape);
}

Value CallBuilder::select(Value x, int64_t i) {
  SmallVector<Expr> shape = shapeOf(x);
  shape.erase(shape.begin());
  return call("aten.select.int", x, {arg(0), integer(0), integer(i)}, shape);
}

Value CallBuilder::transpose(Value x, int64_t i, int64_t j) {
  SmallVector<Expr> shape = shapeOf(x);
  std::swap(shape[i], shape[j]);
  return call("aten.transpose.int", x, {arg(0), integer(i), integer(j)}, shape);
}

Value CallBuilder::join(StringRef target, ArrayRef<Value> tensors, int64_t dim,
                        ArrayRef<Expr> shape) {
  SmallVector<Attribute> list;
  for (unsigned i = 0; i < tensors.size(); ++i)
    list.push_back(arg(i));
  return call(target, tensors, {b.getArrayAttr(list), integer(dim)}, shape);
}

Value CallBuilder::stack(ArrayRef<Value> tensors) {
  SmallVector<Expr> shape = shapeOf(tensors.front());
  shape.insert(shape.begin(), static_cast<int64_t>(tensors.size()));
  return join("aten.stack.default", tensors, 0, shape);
}

Value CallBuilder::concatenate(ArrayRef<Value> tensors) {
  SmallVector<Expr> shape = shapeOf(tensors.front());
  auto dim = static_cast<int64_t>(shape.size()) - 1;
  for (Value tensor : tensors.drop_front())
    shape.back() = shape.back() + shapeOf(tensor).back();
  return join("aten.cat.default", tensors, dim, shape);
}
