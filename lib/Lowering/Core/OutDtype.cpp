// Operators that compute in a type which the program names (torch/_higher_order_ops/out_dtype.py).
#include "Core/OutDtype.h"
#include "kiln/Lowering/Promotion.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::kernel;
using namespace kiln::lowering;

/// `args` as the schema has them, with defaults; failure if they do not fit.
static FailureOr<SmallVector<Attribute>>
completeArguments(ArrayRef<Attribute> args, const torch::OpSchema &schema, MLIRContext *context) {
  if (args.size() > schema.arguments.size())
    return failure();
  SmallVector<Attribute> complete;
  for (auto [i, argument] : llvm::enumerate(schema.arguments)) {
    Attribute attr = i < args.size() ? torch::coerce(args[i], argument.type)
                                     : torch::defaultAttr(argument, context);
    if (!attr || !torch::fits(attr, argument.type))
      return failure();
    complete.push_back(attr);
  }
  return complete;
}

LogicalResult lowering::lowerOutDtype(torch::HigherOrderOp op, KernelBuilder &kernels) {
  auto refuse = [&](const Twine &reason) {
    kernels.fail(reason);
    return failure();
  };
  ArrayRef<Attribute> args = op.getArgs().getValue();
  auto callee = args.empty() ? torch::OperatorAttr() : dyn_cast<torch::OperatorAttr>(args[0]);
  auto dtype = args.size() < 2 ? torch::DTypeAttr() : dyn_cast<torch::DTypeAttr>(args[1]);
  const torch::OpSchema *schema = callee ? torch::lookupSchema(callee.getTarget()) : nullptr;
  if (!schema || !dtype || op.getNames() || op->getNumResults() != 1)
    return refuse("arguments that it does not take");
  args = args.drop_front(2);
  FailureOr<SmallVector<Attribute>> complete = completeArguments(args, *schema, op.getContext());
  if (failed(complete))
    return refuse("arguments that " + callee.getTarget() + " does not take");

  SmallVector<Operand> operands;
  for (Attribute arg : args) {
    if (auto tensor = dyn_cast<torch::ArgAttr>(arg))
      operands.emplace_back(op->getOperand(tensor.getIndex()));
    else if (auto number = dyn_cast<torch::ScalarAttr>(arg))
      operands.emplace_back(torch::Scalar(op->getOperand(number.getIndex())));
    else if (auto number = dyn_cast<FloatAttr>(arg))
      operands.emplace_back(torch::Scalar(number.getValueAsDouble()));
  }
  Type promoted = resultType(op.getContext(), operands, dtype.getType());
  if (!promoted)
    return refuse("operands whose types have none in common");

  OpBuilder b(op);
  Location loc = op.getLoc();
  StringAttr node = op.getNodeAttr();
  SmallVector<Value> values(op->getOperands());
  for (Attribute arg : args)
    if (auto tensor = dyn_cast<torch::ArgAttr>(arg)) {
      Value &value = values[tensor.getIndex()];
      value = torch::castTo(b, loc, value, promoted, node);
    }
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  Type computed = schema->name.starts_with("aten.div.") ? toFloat(promoted) : promoted;
  auto call =
      torch::CallOp::create(b, loc, result.clone(computed), schema->name, values, *complete, node);
  Type element = result.getElementType();
  op->getResult(0).replaceAllUsesWith(torch::castTo(b, loc, call->getResult(0), element, node));
  return success();
}
