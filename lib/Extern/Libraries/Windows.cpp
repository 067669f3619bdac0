// Convolutions, with a bias and post-ops, and pooling.
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

static Attribute getList(MLIRContext *context, ArrayRef<int64_t> values) {
  return Builder(context).getI64ArrayAttr(values);
}

static torch::CallOp getConvolution(Operation *op, const Settings &settings) {
  torch::CallOp call = getCall(op, {"aten.conv1d.default", "aten.conv2d.default",
                                    "aten.conv3d.default", "aten.convolution.default"});
  if (!call)
    return {};
  torch::CallArgs args(call);
  Value source = args.tensor(0), weights = args.tensor(1);
  if (!isFloat(source, 3, 5, settings) || !isFloat(weights, 3, 5, settings) ||
      !isOptionalVector(args, 2, settings) ||
      cast<RankedTensorType>(source.getType()).getRank() !=
          cast<RankedTensorType>(weights.getType()).getRank() ||
      (args.has("transposed") && args.boolean("transposed")))
    return {};
  // Channels and windows are the weights' sizes, and there is something in them.
  auto type = cast<RankedTensorType>(weights.getType());
  return type.hasStaticShape() && type.getNumElements() ? call : torch::CallOp();
}

FailureOr<Call> libraries::describeConvolution(Operation *root, const Settings &settings) {
  FailureOr<Chain> chain = followPostOps(
      root, settings, [&](Operation *op) { return getConvolution(op, settings) != nullptr; });
  if (failed(chain))
    return failure();
  torch::CallArgs args(getConvolution(chain->base, settings));
  unsigned rank = cast<RankedTensorType>(args.tensor(0).getType()).getRank() - 2;
  auto stride = getIntegers(args, "stride", rank), padding = getIntegers(args, "padding", rank),
       dilation = getIntegers(args, "dilation", rank);
  std::optional<int64_t> groups = args.optInteger("groups");
  if (!stride || !padding || !dilation || !groups)
    return failure();
  Call call = {"convolution", {}, chain->ops, root->getResult(0)};
  call.ops.push_back(chain->base);
  MLIRContext *context = root->getContext();
  call.arguments = {args.tensor(0),
                    args.tensor(1),
                    args.optTensor(2),
                    getList(context, *stride),
                    getList(context, *padding),
                    getList(context, *dilation),
                    getList(context, *groups)};
  addPostOps(*chain, call);
  return call;
}

/// [n, ..., c] of [n, c, ...] for `isBehind`, or the other way round.
static SmallVector<int64_t> getOrder(int64_t rank, bool isBehind) {
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (isBehind)
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  else
    std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  return dims;
}

FailureOr<Call> libraries::describeConvolutionInAnyOrder(Operation *root,
                                                         const Settings &settings) {
  auto type =
      dyn_cast<RankedTensorType>(root->getNumResults() ? root->getResult(0).getType() : Type());
  if (!type || type.getRank() < 3)
    return failure();
  Operation *inner = getBehindPermutation(root, getOrder(type.getRank(), /*isBehind=*/true));
  FailureOr<Call> call = describeConvolution(inner ? inner : root, settings);
  if (failed(call))
    return failure();
  // The operand of a sum is in the order of the result before it is transposed.
  constexpr unsigned numOwn = 7;
  bool hasSum = call->arguments.size() > numOwn + 1;
  if (inner && hasSum)
    return failure();
  if (inner) {
    call->ops.push_back(root);
    call->result = root->getResult(0);
  }
  // There are images, and only a batch of them may be empty.
  Value source = std::get<Value>(call->arguments[0]);
  SmallVector<sym::Expr> shape = sym::getShape(source);
  for (sym::Expr size : llvm::drop_begin(shape))
    if (!isPositive(root, size, settings))
      return failure();
  Value taken = takePermutation(source, getOrder(type.getRank(), /*isBehind=*/false), *call);
  if (taken)
    call->arguments[0] = taken;
  Builder b(root->getContext());
  for (bool isLast : {inner != nullptr, taken != nullptr}) // the second one first
    call->arguments.insert(call->arguments.begin() + numOwn, Attribute(b.getBoolAttr(isLast)));
  return call;
}

FailureOr<Call> libraries::describePooling(Operation *root, const Settings &settings) {
  torch::CallOp pool = getCall(root, {"aten.max_pool2d.default", "aten.avg_pool2d.default",
                                      "aten.max_pool2d_with_indices.default"});
  if (!pool)
    return failure();
  torch::CallArgs args(pool);
  if (!isFloat(args.tensor(0), 4, 4, settings))
    return failure();
  bool isMax = pool.getTarget() != "aten.avg_pool2d.default";
  if (isMax && !settings.finite)
    return failure();
  auto kernel = getIntegers(args, "kernel_size", 2), padding = getIntegers(args, "padding", 2),
       stride = getIntegers(args, "stride", 2);
  std::optional<SmallVector<int64_t>> dilation(SmallVector<int64_t>{1, 1});
  if (isMax)
    dilation = getIntegers(args, "dilation", 2);
  if (auto given = args.optIntList("stride"); given && given->empty())
    stride = kernel;
  if (!kernel || !padding || !stride || !dilation)
    return failure();
  // Windows that end behind the padded image are counted in another way.
  if (!isMax && (args.boolean("ceil_mode") || !args.isNone("divisor_override")))
    return failure();
  for (Value unused : pool.getResults().drop_front())
    if (!unused.use_empty())
      return failure();
  StringRef kind = isMax ? "max" : args.boolean("count_include_pad") ? "avg" : "avg_inside";
  MLIRContext *context = root->getContext();
  Call call = {"pooling", {}, {root}, root->getResult(0)};
  call.arguments = {args.tensor(0),
                    Attribute(StringAttr::get(context, kind)),
                    getList(context, *kernel),
                    getList(context, *stride),
                    getList(context, *padding),
                    getList(context, *dilation)};
  return call;
}
