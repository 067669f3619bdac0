// A convolution of single pixels and an interpolation between pixels are both sums of products, one
// along channels and the other along rows and columns: which comes first makes no difference but for
// rounding, and a small image has fewer pixels to convolve.
#include "kiln/Dialect/Torch/CallArgs.h"
#include "kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_TORCHCONVOLVEBEFOREUPSAMPLE
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

namespace {

/// Channels [begin, end) of what a convolution reads.
struct Part {
  Value image;
  int64_t begin, end;
  /// The call that has made the image of a smaller one; null if it is convolved as it is.
  CallOp upsample;
};

std::optional<SmallVector<int64_t>> staticShape(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  return SmallVector<int64_t>(type.getShape());
}

class Rewrite {
public:
  explicit Rewrite(CallOp conv) : conv(conv), b(conv) {}

  /// Finds the parts; false unless it pays to upsample one of them later.
  bool matches() {
    CallArgs args(conv);
    if (conv.getNamesAttr())
      return false;
    input = args.tensor("input");
    weight = args.tensor("weight");
    bias = args.optTensor("bias");
    std::optional<SmallVector<int64_t>> size = input ? staticShape(input) : std::nullopt;
    std::optional<SmallVector<int64_t>> window = weight ? staticShape(weight) : std::nullopt;
    auto all = [](const std::optional<SmallVector<int64_t>> &values, int64_t value) {
      return values && llvm::all_of(*values, [&](int64_t given) { return given == value; });
    };
    if (!size || size->size() != 4 || !window || (*window)[2] != 1 || (*window)[3] != 1 ||
        (*window)[1] != (*size)[1] || !all(args.optIntList("stride"), 1) ||
        !all(args.optIntList("padding"), 0) || args.optInteger("groups") != 1)
      return false;
    // Others are rounded on the way.
    Type element = cast<RankedTensorType>(input.getType()).getElementType();
    if (!element.isF32() && !element.isF64())
      return false;
    columns = window->front();
    if (!findParts())
      return false;
    for (Part &part : parts)
      if (!isWorthwhile(part))
        part.upsample = {};
    return llvm::any_of(parts, [](const Part &part) { return bool(part.upsample); });
  }

  void run() {
    SmallVector<Value> whole;
    SmallVector<Value> weights;
    for (const Part &part : parts)
      if (!part.upsample) {
        whole.push_back(part.image);
        weights.push_back(weightOf(part));
      }
    Value sum;
    if (!whole.empty())
      sum = convolve(join(whole), join(weights));
    for (Part &part : parts) {
      if (!part.upsample)
        continue;
      Value small = convolve(CallArgs(part.upsample).tensor(0), weightOf(part));
      Value large = call(part.upsample.getTarget(), small, part.upsample.getArgs().getValue(),
                         conv->getResult(0).getType());
      sum = sum ? call("aten.add.Tensor", {sum, large}, {arg(0), arg(1), b.getI64IntegerAttr(1)},
                       large.getType())
                : large;
    }
    conv->getResult(0).replaceAllUsesWith(sum);
    Operation *joined = input.getDefiningOp();
    conv.erase();
    eraseIfDead(joined);
    for (const Part &part : parts)
      if (part.upsample && part.upsample != joined)
        eraseIfDead(part.upsample);
  }

private:
  bool findParts() {
    auto cat = input.getDefiningOp<CallOp>();
    if (!cat || !cat->hasOneUse() || cat.getNamesAttr())
      return false;
    if (cat.getTarget() != "aten.cat.default") {
      parts = {{input, 0, sym::getShape(input)[1].constant().value(), findUpsample(input)}};
      return true;
    }
    CallArgs args(cat);
    if (args.optInteger("dim") != 1)
      return false;
    int64_t begin = 0;
    for (Value image : args.tensorList(0)) {
      std::optional<SmallVector<int64_t>> size = image ? staticShape(image) : std::nullopt;
      if (!size || size->size() != 4)
        return false;
      parts.push_back({image, begin, begin + (*size)[1], findUpsample(image)});
      begin = parts.back().end;
    }
    return begin == sym::getShape(input)[1].constant();
  }

  static CallOp findUpsample(Value image) {
    auto call = image.getDefiningOp<CallOp>();
    bool isBilinear = call && call.getTarget().starts_with("aten.upsample_bilinear2d.");
    return isBilinear && !call.getNamesAttr() && call->getNumOperands() == 1 && call->hasOneUse()
               ? call
               : CallOp();
  }

  /// The products that are saved cost more than interpolating other channels does.
  bool isWorthwhile(const Part &part) const {
    if (!part.upsample)
      return false;
    std::optional<SmallVector<int64_t>> small = staticShape(part.upsample->getOperand(0)),
                                        large = staticShape(part.image);
    int64_t channels = part.end - part.begin;
    constexpr int64_t fewChannels = 32;
    return small && small->size() == 4 && channels >= fewChannels && columns <= 2 * channels &&
           2 * (*small)[2] * (*small)[3] <= (*large)[2] * (*large)[3];
  }

  Value weightOf(const Part &part) {
    if (parts.size() == 1)
      return weight;
    SmallVector<Expr> shape = sym::getShape(weight);
    shape[1] = part.end - part.begin;
    return call("aten.slice.Tensor", weight,
                {arg(0), b.getI64IntegerAttr(1), b.getI64IntegerAttr(part.begin),
                 b.getI64IntegerAttr(part.end), b.getI64IntegerAttr(1)},
                typeOf(weight, shape));
  }

  /// Tensors one after the other along the channels.
  Value join(ArrayRef<Value> tensors) {
    if (tensors.size() == 1)
      return tensors.front();
    SmallVector<Expr> shape = sym::getShape(tensors.front());
    SmallVector<Attribute> list;
    for (auto [i, tensor] : llvm::enumerate(tensors)) {
      list.push_back(arg(i));
      shape[1] = i == 0 ? shape[1] : shape[1] + sym::getShape(tensor)[1];
    }
    return call("aten.cat.default", tensors, {b.getArrayAttr(list), b.getI64IntegerAttr(1)},
                typeOf(tensors.front(), shape));
  }

  /// The first of the convolutions adds the bias: the weights of an interpolation have the sum one.
  Value convolve(Value image, Value weights) {
    SmallVector<Expr> shape = sym::getShape(image);
    shape[1] = columns;
    SmallVector<Value> operands = {image, weights};
    SmallVector<Attribute> args(conv.getArgs().getValue());
    args[0] = arg(0);
    args[1] = arg(1);
    args[2] = bias ? Attribute(arg(2)) : b.getUnitAttr();
    if (bias)
      operands.push_back(bias);
    bias = {};
    return call(conv.getTarget(), operands, args, typeOf(image, shape));
  }

  Value call(StringRef target, ValueRange operands, ArrayRef<Attribute> args, Type type) {
    return CallOp::create(b, conv.getLoc(), type, target, operands, args, conv.getNodeAttr())
        ->getResult(0);
  }

  Attribute arg(unsigned i) { return ArgAttr::get(b.getContext(), i); }

  static Type typeOf(Value like, ArrayRef<Expr> shape) {
    return sym::getTensorType(shape, cast<RankedTensorType>(like.getType()).getElementType());
  }

  static void eraseIfDead(Operation *op) {
    if (op->use_empty())
      op->erase();
  }

  CallOp conv;
  OpBuilder b;
  Value input, weight, bias;
  int64_t columns = 0;
  SmallVector<Part> parts;
};

struct ConvolveBeforeUpsample
    : kiln::impl::TorchConvolveBeforeUpsampleBase<ConvolveBeforeUpsample> {
  void runOnOperation() override {
    SmallVector<CallOp> convs;
    getOperation().walk([&](CallOp call) {
      if (call.getTarget() == "aten.conv2d.default")
        convs.push_back(call);
    });
    for (CallOp conv : convs)
      if (Rewrite rewrite(conv); rewrite.matches())
        rewrite.run();
  }
};

} // namespace
