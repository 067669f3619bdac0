// An operator on lists, `_foreach_add`, becomes a call of `add` for each of their tensors: what
// ATen's own kernel for CPUs does.
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHEXPANDFOREACH
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;

namespace {

constexpr StringLiteral foreachPrefix = "aten._foreach_";

/// An operator on lists, by its name.
struct ListOperator {
  explicit ListOperator(StringRef target) {
    std::tie(name, overload) = target.drop_front(foreachPrefix.size()).split('.');
    inPlace = name.consume_back("_");
  }

  bool isPowerOfNumber() const { return overload == "ScalarAndTensor"; }

  /// The argument that is a tensor of numbers, one for each call; none if there is no such
  /// argument.
  std::optional<unsigned> numbersArgument() const {
    return name.starts_with("addc") && overload == "Tensor" ? std::optional(3u) : std::nullopt;
  }

  /// The operator for one element, in the form that writes its argument or in the other one.
  std::string findTarget() const {
    // ATen's lists of maxima are clamped.
    StringRef base = llvm::StringSwitch<StringRef>(name)
                         .Case("maximum", "clamp_min")
                         .Case("minimum", "clamp_max")
                         .Case("norm", "linalg_vector_norm")
                         .Case("powsum", "linalg__powsum")
                         .Default(name);
    bool isNumber = overload == "Scalar" || overload == "ScalarList" || numbersArgument();
    bool isClamp = base.starts_with("clamp"), isFused = base.starts_with("addc");
    StringRef form = "Tensor";
    if (overload == "default" || (isNumber && isClamp) || (isFused && isNumber) || name == "norm" ||
        name == "powsum")
      form = "default";
    else if (base == "pow" && !inPlace)
      form = isNumber ? "Tensor_Scalar" : isPowerOfNumber() ? "Scalar" : "Tensor_Tensor";
    else if (isNumber)
      form = "Scalar";
    return ("aten." + base + (inPlace ? "_." : ".") + form).str();
  }

  StringRef overload, name;
  bool inPlace;
};

class Expansion {
public:
  explicit Expansion(CallOp call) : op(call.getTarget()), call(call), args(call), b(call) {}

  /// Leaves calls that it does not know for lowering to refuse.
  void run() {
    const OpSchema *schema = args.schema();
    if (!schema || schema->arguments.empty() || !args.isList(listArgument()))
      return;
    size_t count = cast<ArrayAttr>(args.get(listArgument())).size();
    if (call->getNumResults() != (op.inPlace ? 0 : count) || !hasLists(count) || !hasNumbers(count))
      return;
    std::string target = op.findTarget();
    const OpSchema *base = lookupSchema(target);
    if (target.empty() || !base)
      return;
    for (size_t i = 0; i < count; ++i) {
      Value result = emit(target, *base, i);
      if (!op.inPlace)
        call->getResult(i).replaceAllUsesWith(result);
    }
    call.erase();
  }

private:
  unsigned listArgument() const { return op.isPowerOfNumber() ? 1 : 0; }

  /// Lists have an element for each call.
  bool hasLists(size_t count) {
    return llvm::all_of(call.getArgs(), [&](Attribute arg) {
      auto list = dyn_cast<ArrayAttr>(arg);
      return !list || list.size() == count;
    });
  }

  bool hasNumbers(size_t count) {
    if (!op.numbersArgument())
      return true;
    auto type = cast<RankedTensorType>(args.tensor(*op.numbersArgument()).getType());
    return !isa<ComplexType>(type.getElementType()) && type.getRank() == 1 &&
           type.getDimSize(0) == static_cast<int64_t>(count);
  }

  /// A call of `target` on `tensor`, with `rest` as its further arguments.
  Value callOn(StringRef target, Value tensor, ArrayRef<Attribute> rest, Type type) {
    SmallVector<Attribute> given = {ArgAttr::get(b.getContext(), 0)};
    llvm::append_range(given, rest);
    return CallOp::create(b, call.getLoc(), type, target, tensor, given, call.getNodeAttr())
        ->getResult(0);
  }

  /// Element `i` of a tensor of numbers, in the type of a Python number of its kind.
  Value number(Value numbers, size_t i) {
    Type type = cast<RankedTensorType>(numbers.getType()).getElementType();
    Type wide = type;
    if (isa<FloatType>(type))
      wide = b.getF64Type();
    else if (!type.isInteger(1))
      wide = b.getI64Type();
    Attribute index = b.getI64IntegerAttr(static_cast<int64_t>(i));
    Value value = callOn("aten.select.int", numbers, {b.getI64IntegerAttr(0), index},
                         RankedTensorType::get({}, type));
    return castTo(b, call.getLoc(), value, wide, call.getNodeAttr());
  }

  /// Element `i` of what `arg` is, over the new call's operands.
  Attribute element(Attribute arg, size_t i, SmallVector<Value> &operands) {
    if (auto list = dyn_cast<ArrayAttr>(arg))
      arg = list[i];
    auto addOperand = [&](unsigned index) {
      operands.push_back(call->getOperand(index));
      return static_cast<unsigned>(operands.size() - 1);
    };
    if (auto tensor = dyn_cast<ArgAttr>(arg))
      return ArgAttr::get(b.getContext(), addOperand(tensor.getIndex()));
    if (auto number = dyn_cast<ScalarAttr>(arg))
      return ScalarAttr::get(b.getContext(), addOperand(number.getIndex()));
    return arg;
  }

  Value emit(StringRef target, const OpSchema &base, size_t i) {
    SmallVector<Value> operands;
    SmallVector<Attribute> given;
    std::optional<unsigned> numbers = op.numbersArgument();
    for (auto [index, arg] : llvm::enumerate(call.getArgs())) {
      if (index == numbers) {
        given.push_back(ScalarAttr::get(b.getContext(), operands.size()));
        operands.push_back(number(args.tensor(*numbers), i));
      } else {
        given.push_back(element(arg, i, operands));
      }
    }
    if (op.name == "norm" || op.name == "powsum") // all dims, which go away
      given.insert(given.begin() + 2, {b.getUnitAttr(), b.getBoolAttr(false)});
    // The one argument that is left is `alpha`.
    while (given.size() < base.arguments.size())
      given.push_back(b.getI64IntegerAttr(1));
    Type type = op.inPlace ? operands.front().getType() : call->getResult(i).getType();
    return CallOp::create(b, call.getLoc(), type, target, operands, given, call.getNodeAttr())
        ->getResult(0);
  }

  ListOperator op;
  CallOp call;
  CallArgs args;
  OpBuilder b;
};

struct ExpandForeach : kiln::impl::TorchExpandForeachBase<ExpandForeach> {
  void runOnOperation() override {
    SmallVector<CallOp> calls;
    getOperation().walk([&](CallOp call) {
      if (call.getTarget().starts_with(foreachPrefix))
        calls.push_back(call);
    });
    for (CallOp call : calls)
      Expansion(call).run();
  }
};

} // namespace

std::string torch::getForeachTarget(StringRef target) {
  if (!target.starts_with(foreachPrefix) || target.ends_with("out"))
    return {};
  return ListOperator(target).findTarget();
}
