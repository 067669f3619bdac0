// Common parts of the patterns of libraries, and the chains of operators behind a product or a
// convolution that become its post-ops.
#include "Calls.h"
#include "kiln/Dialect/Kernel/KernelDialect.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::externs;
using namespace kiln::externs::libraries;

torch::CallOp libraries::getCall(Operation *op, ArrayRef<StringRef> targets) {
  auto call = dyn_cast_or_null<torch::CallOp>(op);
  return call && llvm::is_contained(targets, call.getTarget()) ? call : torch::CallOp();
}

std::optional<SmallVector<int64_t>> libraries::getPermutation(Operation *op) {
  torch::CallOp call = getCall(op, {"aten.transpose.int", "aten.permute.default"});
  auto type = call ? dyn_cast<RankedTensorType>(call.getResult(0).getType()) : RankedTensorType();
  if (!type)
    return std::nullopt;
  int64_t rank = type.getRank();
  torch::CallArgs args(call);
  auto normalize = [&](int64_t dim) { return dim < 0 ? dim + rank : dim; };
  if (call.getTarget() == "aten.permute.default") {
    std::optional<SmallVector<int64_t>> dims = args.optIntList(1);
    if (dims)
      for (int64_t &dim : *dims)
        dim = normalize(dim);
    return dims;
  }
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  int64_t a = normalize(args.integer(1)), b = normalize(args.integer(2));
  if (a < 0 || a >= rank || b < 0 || b >= rank)
    return std::nullopt;
  std::swap(dims[a], dims[b]);
  return dims;
}

Operation *libraries::getBehindPermutation(Operation *op, ArrayRef<int64_t> dims) {
  std::optional<SmallVector<int64_t>> known = getPermutation(op);
  if (!known || ArrayRef(*known) != dims)
    return nullptr;
  Value of = torch::CallArgs(cast<torch::CallOp>(op)).tensor(0);
  return of.hasOneUse() ? of.getDefiningOp() : nullptr;
}

Value libraries::takePermutation(Value value, ArrayRef<int64_t> dims, Call &call) {
  Operation *view = value.getDefiningOp();
  std::optional<SmallVector<int64_t>> known = view ? getPermutation(view) : std::nullopt;
  if (!known || ArrayRef(*known) != dims || !value.hasOneUse())
    return {};
  call.ops.push_back(view);
  return torch::CallArgs(cast<torch::CallOp>(view)).tensor(0);
}

bool libraries::isFloat(Value value, int64_t minRank, int64_t maxRank, const Settings &settings) {
  auto type = value ? dyn_cast<RankedTensorType>(value.getType()) : RankedTensorType();
  if (!type || type.getRank() < minRank || type.getRank() > maxRank)
    return false;
  Type element = type.getElementType();
  return element.isF32() || (settings.hasF16 && element.isF16()) ||
         (settings.hasBF16 && element.isBF16());
}

bool libraries::isPositive(Operation *op, sym::Expr size, const Settings &settings) {
  sym::Assumptions known;
  kernel::addSymbolRanges(op, known);
  return settings.isMarked || known.isPositive(size);
}

bool libraries::isOptionalVector(const torch::CallArgs &args, torch::CallArgs::Key key,
                                 const Settings &settings) {
  return args.isNone(key) || (args.isTensor(key) && isFloat(args.tensor(key), 1, 1, settings));
}

std::optional<SmallVector<int64_t>>
libraries::getIntegers(const torch::CallArgs &args, torch::CallArgs::Key key, unsigned size) {
  std::optional<SmallVector<int64_t>> values = args.optIntList(key);
  if (values && values->size() == 1)
    values->resize(size, values->front());
  return values && values->size() == size ? values : std::nullopt;
}

/// The post-op that `call` is, of its operand `*of`.
static std::optional<PostOp> getPostOp(torch::CallOp call, const Settings &settings, Value *of) {
  torch::CallArgs args(call);
  if (!args.schema() || !args.isTensor(0))
    return std::nullopt;
  *of = args.tensor(0);
  if (call.getTarget() == "aten.relu.default" && settings.finite)
    return PostOp{"relu", {}};
  if (call.getTarget() == "aten.gelu.default" && settings.hasGelu) {
    bool isTanh = args.string("approximate") == "tanh";
    if (isTanh || (settings.finite && !settings.isEpilogue))
      return PostOp{isTanh ? "gelu_tanh" : "gelu_erf", {}};
  }
  if (call.getTarget() != "aten.add.Tensor" || !args.isTensor(1))
    return std::nullopt;
  std::optional<double> alpha = args.optNumber("alpha");
  if (!alpha || *alpha != 1)
    return std::nullopt;
  return PostOp{"add", args.tensor(1)};
}

/// oneDNN takes no more.
static constexpr unsigned maxPostOps = 32;

/// A sum and a function, or one of the two.
static bool isEpilogue(ArrayRef<PostOp> ops) {
  if (!ops.empty() && ops.front().operand)
    ops = ops.drop_front();
  return ops.empty() || (ops.size() == 1 && !ops.front().operand);
}

/// The chain up to `op`. Each value on the way is used once, so that nothing else needs it.
static FailureOr<Chain> follow(Operation *op, const Settings &settings,
                               llvm::function_ref<bool(Operation *)> isBase, unsigned left) {
  if (op && isBase(op))
    return Chain{op, {}, {}};
  auto call = dyn_cast_or_null<torch::CallOp>(op);
  Value of;
  std::optional<PostOp> post = call && left ? getPostOp(call, settings, &of) : std::nullopt;
  if (!post || call->getNumResults() != 1)
    return failure();
  // Sizes stay: nothing is broadcast.
  auto isSame = [&](Value value) { return value.getType() == call.getResult(0).getType(); };
  if (!isSame(of) || (post->operand && !isSame(post->operand)))
    return failure();
  auto continueWith = [&](Value value) {
    return value.hasOneUse() ? follow(value.getDefiningOp(), settings, isBase, left - 1)
                             : FailureOr<Chain>(failure());
  };
  FailureOr<Chain> chain = continueWith(of);
  // Either operand of a sum may come from the base.
  if (failed(chain) && post->operand) {
    std::swap(of, post->operand);
    chain = continueWith(of);
  }
  if (failed(chain))
    return failure();
  chain->postOps.push_back(*post);
  chain->ops.push_back(op);
  return chain;
}

FailureOr<Chain> libraries::followPostOps(Operation *root, const Settings &settings,
                                          llvm::function_ref<bool(Operation *)> isBase) {
  FailureOr<Chain> chain = follow(root, settings, isBase, maxPostOps);
  if (succeeded(chain) && settings.isEpilogue && !isEpilogue(chain->postOps))
    return failure();
  return chain;
}

void libraries::addPostOps(const Chain &chain, Call &call) {
  Builder b(chain.base->getContext());
  // Names, and behind the list the operands of those that have one.
  SmallVector<Attribute> names;
  for (const PostOp &post : chain.postOps)
    names.push_back(b.getStringAttr(post.name));
  call.arguments.push_back(Attribute(b.getArrayAttr(names)));
  for (const PostOp &post : chain.postOps)
    if (post.operand)
      call.arguments.push_back(post.operand);
}
