// Decides from recorded sizes and strides whether a call of `reshape`, `contiguous` and the like is
// a view of its argument or a copy, as eager PyTorch does.
#include "ViewDecision.h"
#include "kiln/Dialect/Torch/CallArgs.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

/// The dims from the outermost to the innermost in memory.
static SmallVector<int64_t> orderOf(MemoryFormat format, int64_t rank) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (format == MemoryFormat::ChannelsLast || format == MemoryFormat::ChannelsLast3d) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

namespace {

enum class Answer { No, Yes, Unknown };

class Decider {
public:
  Decider(ArrayRef<Expr> sizes, ArrayRef<Expr> strides, const sym::Assumptions &known)
      : sizes(sizes), strides(strides), known(known) {}

  /// The elements lie in the order of `dims`, the last of which is the innermost, without gaps.
  /// Tensors of no elements share nothing: only sizes from one on count.
  Answer isDense(ArrayRef<int64_t> dims) const {
    Answer answer = Answer::Yes;
    Expr next = 1;
    for (int64_t dim : llvm::reverse(dims)) {
      Answer here = isOne(sizes[dim]) == Answer::Yes ? Answer::Yes : isSame(strides[dim], next);
      if (here == Answer::No && isOne(sizes[dim]) == Answer::No)
        return Answer::No;
      if (here != Answer::Yes)
        answer = Answer::Unknown;
      next = next * sizes[dim];
    }
    return answer;
  }

  /// The tensor can be seen with these sizes. Its dims are taken in runs that lie in memory like
  /// one dim; each run must be a product of neighbouring sizes. Without strides, each is a run
  /// alone.
  Answer hasView(ArrayRef<Expr> wanted, bool withStrides) const {
    size_t left = wanted.size(), innermost = sizes.size() - 1; // dim of the run
    Expr run = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      run = run * sizes[dim];
      Answer goesOn = dim == 0 ? Answer::No : isRun(dim - 1, innermost, run, withStrides);
      if (goesOn == Answer::Unknown)
        return Answer::Unknown;
      if (goesOn == Answer::Yes)
        continue;
      if (Answer fits = takeSizes(wanted, left, run); fits != Answer::Yes)
        return fits;
      run = 1;
      innermost = dim - 1;
    }
    bool fits = llvm::all_of(wanted.take_front(left), [](Expr size) { return size.isConstant(1); });
    return fits ? Answer::Yes : Answer::Unknown;
  }

  /// The order of channels-last strides, as ATen suggests it for tensors of rank 4 and 5: outside of each other in the order of the
  /// dims C, W, H, (D,) N, with the strides of N and C apart. Tensors of no elements share nothing.
  Answer looksChannelsLast() const {
    int64_t rank = sizes.size();
    if (rank != 4 && rank != 5)
      return Answer::No;
    SmallVector<int64_t> order = orderOf(MemoryFormat::ChannelsLast, rank);
    Expr least = 0, channels = strides[1];
    if (channels.isConstant(0))
      return Answer::No;
    bool isCertain = known.isLess(0, channels);
    for (int64_t dim : llvm::reverse(order)) {
      Answer isShared = dim == 0 ? isSame(least, channels) : Answer::No;
      if (isShared == Answer::Yes || known.isLess(strides[dim], least))
        return Answer::No;
      isCertain &= isShared == Answer::No && known.isLessOrEqual(least, strides[dim]);
      least = strides[dim] * sizes[dim];
    }
    return isCertain ? Answer::Yes : Answer::Unknown;
  }

private:
  Answer isOne(Expr size) const {
    if (size.isConstant(1))
      return Answer::Yes;
    return known.isLess(1, size) ? Answer::No : Answer::Unknown;
  }

  Answer isSame(Expr a, Expr b) const {
    if (known.isEqual(a, b))
      return Answer::Yes;
    return known.isLess(a, b) || known.isLess(b, a) ? Answer::No : Answer::Unknown;
  }

  /// Dim `outer` and the `run` of elements inside of it lie in memory like one dim.
  Answer isRun(size_t outer, size_t innermost, Expr run, bool withStrides) const {
    Answer one = isOne(sizes[outer]);
    if (one == Answer::Yes)
      return Answer::Yes;
    if (!withStrides)
      return Answer::No;
    Answer same = isSame(strides[outer], run * strides[innermost]);
    return same == Answer::No && one != Answer::No ? Answer::Unknown : same;
  }

  /// Takes sizes from the end of `wanted[0 .. left)` whose product is `run`. A run that may be one, or the product of fewer sizes,
  /// may have taken these.
  Answer takeSizes(ArrayRef<Expr> wanted, size_t &left, Expr run) const {
    Expr product = 1;
    bool takesMore = true;
    while (left > 0 && !known.isEqual(product, run)) {
      takesMore &= known.isLess(product, run);
      product = product * wanted[--left];
      if (known.isLess(run, product))
        return takesMore ? Answer::No : Answer::Unknown;
    }
    if (!known.isEqual(product, run))
      return Answer::Unknown;
    while (left > 0 && wanted[left - 1].isConstant(1))
      --left;
    return Answer::Yes;
  }

  ArrayRef<Expr> sizes, strides;
  const sym::Assumptions &known;
};

} // namespace

static ViewDecision toDecision(Answer isView, bool byStrides = true) {
  switch (isView) {
  case Answer::Yes:
    return {Sharing::View, byStrides};
  case Answer::No:
    return {Sharing::Copy, byStrides};
  case Answer::Unknown:
    return {Sharing::Maybe, byStrides};
  }
  llvm_unreachable("an answer");
}

static MemoryFormat formatOf(const CallArgs &args, MemoryFormat otherwise) {
  if (!args.has("memory_format") || args.isNone("memory_format"))
    return otherwise;
  return args.memoryFormat("memory_format").value_or(otherwise);
}

/// `to` in the same dtype: a view unless it asks for another order of dims than the tensor's.
static ViewDecision decideTo(Decider decider, int64_t rank, MemoryFormat format) {
  Answer last = decider.looksChannelsLast();
  if (last != Answer::Unknown)
    last = (last == Answer::Yes) == (format != MemoryFormat::Contiguous) ? Answer::Yes : Answer::No;
  return toDecision(last, rank == 4 || rank == 5);
}

/// Calls that may be either: by the strides which the program recorded.
static ViewDecision decideByStrides(CallOp call, StringRef name, const sym::Assumptions &known) {
  CallArgs args(call);
  auto sizes = sym::getShape(args.tensor(0)), wanted = sym::getShape(call->getResult(0));
  bool asksFormat = name == "to" || name == "contiguous" || name == "ravel";
  MemoryFormat format =
      formatOf(args, name == "to" ? MemoryFormat::Preserve : MemoryFormat::Contiguous);
  if (llvm::any_of(sizes, [](Expr size) { return size.isConstant(0); }) ||
      (asksFormat && format == MemoryFormat::Preserve) ||
      (!asksFormat &&
       Decider(sizes, {}, known).hasView(wanted, /*withStrides=*/false) == Answer::Yes))
    return {Sharing::View};
  auto recorded = call->getAttrOfType<sym::ShapeAttr>(stridesAttrName);
  if (!recorded || recorded.getSizes().size() != sizes.size())
    return {Sharing::Maybe, true};
  Decider decider(sizes, recorded.getSizes(), known);
  int64_t rank = sizes.size();
  if (name == "to")
    return decideTo(decider, rank, format);
  if (!asksFormat)
    return toDecision(decider.hasView(wanted, /*withStrides=*/true));
  if (format != MemoryFormat::Contiguous && rank < 3)
    return {Sharing::Maybe, true};
  return toDecision(decider.isDense(orderOf(format, rank)), rank > 0);
}

// The schemas say which operators are views; some composite ones return their argument without
// saying so.
ViewDecision torch::decideSharing(CallOp call, const sym::Assumptions &known) {
  StringRef target = call.getTarget();
  CallArgs args(call);
  if (args.isNumber(0)) // made a tensor for this call
    return {Sharing::Copy};
  auto [name, overload] = target.drop_front(target.find('.') + 1).split('.');
  if (name == "dropout" || name == "feature_dropout" || name == "alpha_dropout" ||
      name == "feature_alpha_dropout")
    return {args.boolean("train") ? Sharing::Copy : Sharing::View};
  if (name == "to" || name == "type_as") {
    if (args.tensor(0).getType() != call.getResult(0).getType() ||
        (args.has("copy") && args.boolean("copy")))
      return {Sharing::Copy};
    return name == "to" ? decideByStrides(call, name, known) : ViewDecision{Sharing::View};
  }
  bool isEither = llvm::StringSwitch<bool>(name)
                      .Cases({"reshape", "reshape_as", "contiguous", "flatten", "ravel"}, true)
                      .Default(false);
  if (isEither)
    return decideByStrides(call, name, known);
  // A conjugate that is not computed yet is a view, and computing it is a copy.
  if (name == "resolve_conj" || name == "resolve_neg")
    return {Sharing::Maybe};
  if (name == "conj_physical")
    return {isa<ComplexType>(cast<RankedTensorType>(args.tensor(0).getType()).getElementType())
                ? Sharing::Copy
                : Sharing::View};
  bool isView = name.starts_with("atleast_") || name.starts_with("unsafe_split") ||
                name == "unsafe_chunk" || (args.schema() && args.schema()->isView());
  return {isView ? Sharing::View : Sharing::Copy};
}

ArrayRef<unsigned> torch::getStridedArguments(CallOp call) {
  static constexpr unsigned arguments[] = {0, 1};
  StringRef name = call.getTarget();
  if (!name.consume_front("aten."))
    return {};
  size_t count =
      llvm::StringSwitch<size_t>(name.split('.').first)
          .Cases({"as_strided", "as_strided_"}, 1)
          .Cases({"as_strided_copy", "as_strided_scatter"}, 1)
          .Cases({"resize", "resize_"}, 1)
          .Cases({"resize_as", "resize_as_"}, 2) // the order of dims is the other tensor's
          .Default(0);
  return ArrayRef(arguments).take_front(count);
}
