// Matrix products, with a bias and post-ops.
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

namespace {
struct Product {
  Value source, weights, bias;
  bool isTransposed = false; // weights are [n, k]
};
} // namespace

/// The transposed operand of a view that swaps two dims, if nothing else uses that view.
static Value getTransposed(Value value, const Settings &settings) {
  torch::CallOp call = getCall(value.getDefiningOp(),
                               {"aten.t.default", "aten.transpose.int", "aten.permute.default"});
  if (!call || !value.hasOneUse() || !isFloat(value, 2, 2, settings))
    return {};
  torch::CallArgs args(call);
  if (call.getTarget() == "aten.transpose.int" &&
      (args.integer(1) - args.integer(2)) % 2 == 0) // the same dim twice
    return {};
  if (call.getTarget() == "aten.permute.default") {
    std::optional<SmallVector<int64_t>> dims = args.optIntList(1);
    if (!dims || ((*dims)[0] + 2) % 2 != 1)
      return {};
  }
  return args.tensor(0);
}

static std::optional<Product> getProduct(Operation *op, const Settings &settings) {
  torch::CallOp call = getCall(op, {"aten.linear.default", "aten.addmm.default", "aten.mm.default",
                                    "aten.bmm.default", "aten.matmul.default"});
  if (!call)
    return std::nullopt;
  torch::CallArgs args(call);
  if (call.getTarget() == "aten.linear.default") {
    if (!isOptionalVector(args, 2, settings) || !isFloat(args.tensor(0), 2, 6, settings) ||
        !isFloat(args.tensor(1), 2, 2, settings))
      return std::nullopt;
    return Product{args.tensor(0), args.tensor(1), args.optTensor(2), true};
  }
  if (call.getTarget() == "aten.addmm.default") {
    std::optional<double> beta = args.optNumber("beta"), alpha = args.optNumber("alpha");
    if (!beta || *beta != 1 || !alpha || *alpha != 1 || !isFloat(args.tensor(0), 1, 1, settings) ||
        sym::getShape(args.tensor(0))[0] != sym::getShape(call.getResult(0))[1])
      return std::nullopt;
    return Product{args.tensor(1), args.tensor(2), args.tensor(0)};
  }
  return Product{args.tensor(0), args.tensor(1), {}};
}

/// Libraries have no products of nothing: sums have at least one term, known as such.
static bool isSupported(Operation *op, const Product &product, const Settings &settings) {
  if (!isFloat(product.source, 2, 6, settings) || !isFloat(product.weights, 2, 6, settings) ||
      !isFloat(op->getResult(0), 2, 6, settings))
    return false;
  auto isSame = [&](Value value) {
    return !value || getElementTypeOrSelf(value) == getElementTypeOrSelf(op->getResult(0));
  };
  if (!isSame(product.source) || !isSame(product.weights) || !isSame(product.bias))
    return false;
  SmallVector<sym::Expr> source = sym::getShape(product.source),
                         weights = sym::getShape(product.weights);
  if (!isPositive(op, source.back(), settings))
    return false;
  if (weights.size() == 2)
    return true;
  return source.size() == weights.size() &&
         llvm::equal(ArrayRef(source).drop_back(2), ArrayRef(weights).drop_back(2));
}

FailureOr<Call> libraries::describeMatmul(Operation *root, const Settings &settings) {
  auto isBase = [&](Operation *op) { return getProduct(op, settings).has_value(); };
  FailureOr<Chain> chain = followPostOps(root, settings, isBase);
  if (failed(chain))
    return failure();
  Product product = *getProduct(chain->base, settings);
  Call call = {"matmul", {}, chain->ops, root->getResult(0)};
  if (Value weights = product.isTransposed ? Value() : getTransposed(product.weights, settings)) {
    call.ops.push_back(product.weights.getDefiningOp());
    product.weights = weights;
    product.isTransposed = true;
  }
  call.ops.push_back(chain->base);
  // Rows of batches would have to be told from rows of one product.
  if (!isSupported(chain->base, product, settings))
    return failure();
  Attribute isTransposed = Builder(root->getContext()).getBoolAttr(product.isTransposed);
  call.arguments = {product.source, product.weights, product.bias, isTransposed};
  addPostOps(*chain, call);
  return call;
}
