// Normalisation: over the last dim, and over channels with what training has found.
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

static bool hasOneResult(torch::CallOp call) {
  return llvm::all_of(call.getResults().drop_front(),
                      [](Value other) { return other.use_empty(); });
}

static Attribute getEpsilon(const torch::CallArgs &args) {
  return Builder(args.op()->getContext()).getF64FloatAttr(args.number("eps"));
}

FailureOr<Call> libraries::describeLayerNorm(Operation *root, const Settings &settings) {
  torch::CallOp norm = getCall(root, {"aten.layer_norm.default", "aten.native_layer_norm.default"});
  if (!norm || !hasOneResult(norm))
    return failure();
  torch::CallArgs args(norm);
  std::optional<SmallVector<sym::Expr>> normalized = args.optSymIntList("normalized_shape");
  if (!isFloat(args.tensor(0), 2, 5, settings) || !normalized || normalized->size() != 1 ||
      !isOptionalVector(args, "weight", settings) || !isOptionalVector(args, "bias", settings))
    return failure();
  if (!isPositive(root, normalized->front(), settings))
    return failure();
  Call call = {"layer_norm", {}, {root}, root->getResult(0)};
  call.arguments = {args.tensor(0), args.optTensor("weight"), args.optTensor("bias"),
                    getEpsilon(args)};
  return call;
}

static torch::CallOp getBatchNorm(Operation *op, const Settings &settings) {
  torch::CallOp norm =
      getCall(op, {"aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default"});
  if (!norm || !hasOneResult(norm))
    return {};
  torch::CallArgs args(norm);
  for (unsigned i = 1; i < 5; ++i) // weight, bias, mean, variance
    if (args.isNone(i) || !isOptionalVector(args, i, settings))
      return {};
  bool isTraining = args.has("training") && args.boolean("training");
  return isFloat(args.tensor(0), 3, 5, settings) && !isTraining ? norm : torch::CallOp();
}

FailureOr<Call> libraries::describeBatchNorm(Operation *root, const Settings &settings) {
  torch::CallOp relu = settings.finite ? getCall(root, {"aten.relu.default"}) : torch::CallOp();
  Value normalized = relu ? torch::CallArgs(relu).tensor(0) : Value();
  if (relu && (!normalized || !normalized.hasOneUse()))
    return failure();
  torch::CallOp norm = getBatchNorm(relu ? normalized.getDefiningOp() : root, settings);
  if (!norm || (relu && normalized != norm.getResult(0)))
    return failure();
  torch::CallArgs args(norm);
  Call call = {"batch_norm", {}, {norm}, root->getResult(0)};
  if (relu)
    call.ops.push_back(relu);
  Attribute hasRelu = Builder(root->getContext()).getBoolAttr(relu != nullptr);
  call.arguments = {args.tensor(0), args.tensor(1),   args.tensor(2), args.tensor(3),
                    args.tensor(4), getEpsilon(args), hasRelu};
  return call;
}
