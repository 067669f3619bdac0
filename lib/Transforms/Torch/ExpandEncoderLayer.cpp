// Attention and feed-forward network of `torch.nn.TransformerEncoderLayer`, which inference calls as one operator or two
// (aten/src/ATen/native/transformers/transformer.cpp): https://arxiv.org/abs/1706.03762, section 3.1.
#include "CallBuilder.h"
#include "kiln/Transforms/Passes.h"
#include <cmath>

namespace kiln {
#define GEN_PASS_DEF_TORCHEXPANDENCODERLAYER
#include "kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using namespace kiln::torch;
using sym::Expr;

static constexpr StringLiteral attentionTarget = "aten._native_multi_head_attention.default",
                               layerTarget = "aten._transformer_encoder_layer_fwd.default";

bool torch::isEncoderLayer(StringRef target) {
  return target == attentionTarget || target == layerTarget;
}

namespace {

struct Linear {
  Value weight, bias; // [rows, columns], [rows]
};

/// Arguments that `aten._native_multi_head_attention` and `aten._transformer_encoder_layer_fwd` have in common.
struct Attention {
  Value query, key, value; // [batch, length, features]
  Linear qkv = {}, projection = {};
  int64_t features = 0, heads = 0;
  Value mask = {}; // of any dtype, other than zero where a score does not count; may be null
  int64_t maskKind = 0;

  enum {
    MaskOfScores,
    MaskOfKeys,
    MaskOfAll
  }; // [length, length], [batch, length], both with heads

  /// The sizes are argument `first` and the next, and the weights and biases follow.
  bool read(CallOp call, unsigned first, unsigned maskAt, unsigned kindAt);
};

/// The arguments of `aten._transformer_encoder_layer_fwd`.
struct Layer {
  Attention attention;
  Linear norms[2], forward[2];
  bool useGelu = false, normFirst = false;
  double epsilon = 0;

  static std::optional<Layer> read(CallOp call);
};

Linear getLinear(CallOp call, unsigned i, unsigned rank) {
  ArrayRef<Attribute> args = call.getArgs().getValue();
  return {getTensor(call, args[i], rank), getTensor(call, args[i + 1], 1)};
}

bool Attention::read(CallOp call, unsigned first, unsigned maskAt, unsigned kindAt) {
  ArrayRef<Attribute> args = call.getArgs().getValue();
  auto integer = [&](unsigned i) { return dyn_cast<IntegerAttr>(args[i]); };
  qkv = getLinear(call, first + 2, 2);
  projection = getLinear(call, first + 4, 2);
  for (Value each : {query, key, value, qkv.weight, qkv.bias, projection.weight, projection.bias})
    if (!each)
      return false;
  if (!integer(first) || !integer(first + 1))
    return false;
  features = integer(first).getInt();
  heads = integer(first + 1).getInt();
  if (heads <= 0 || features <= 0 || features % heads != 0 ||
      shapeOf(qkv.weight)[0] != Expr(3 * features))
    return false;
  for (Value each : {query, key, value})
    if (shapeOf(each)[2] != Expr(features))
      return false;
  auto given = dyn_cast<ArgAttr>(args[maskAt]);
  if (!given)
    return true;
  mask = call->getOperand(given.getIndex());
  auto type = dyn_cast<RankedTensorType>(mask.getType());
  if (!integer(kindAt) || !type)
    return false;
  maskKind = integer(kindAt).getInt();
  return maskKind == MaskOfAll ? type.getRank() == 4
                               : type.getRank() == 2 && maskKind >= 0 && maskKind < MaskOfAll;
}

std::optional<Layer> Layer::read(CallOp call) {
  ArrayRef<Attribute> args = call.getArgs().getValue();
  Value source = getTensor(call, args[0], 3);
  Layer layer{.attention = {source, source, source},
              .norms = {getLinear(call, 10, 1), getLinear(call, 12, 1)},
              .forward = {getLinear(call, 14, 2), getLinear(call, 16, 2)}};
  auto useGelu = dyn_cast<BoolAttr>(args[7]), normFirst = dyn_cast<BoolAttr>(args[8]);
  auto epsilon = dyn_cast<FloatAttr>(args[9]);
  for (Linear one : {layer.norms[0], layer.norms[1], layer.forward[0], layer.forward[1]})
    if (!one.weight || !one.bias)
      return std::nullopt;
  if (!useGelu || !normFirst || !epsilon || !layer.attention.read(call, 1, 18, 19))
    return std::nullopt;
  layer.useGelu = useGelu.getValue();
  layer.normFirst = normFirst.getValue();
  layer.epsilon = epsilon.getValueAsDouble();
  return layer;
}

/// [batch, length, features] -> [batch, heads, length, features of a head]
Value splitHeads(CallBuilder &b, Value x, const Attention &of) {
  SmallVector<Expr> shape = shapeOf(x);
  Value split = b.reshape(x, {shape[0], shape[1], of.heads, of.features / of.heads});
  return b.transpose(split, 1, 2);
}

Value matmul(CallBuilder &b, Value x, Value y) {
  SmallVector<Expr> shape = shapeOf(x);
  shape.back() = shapeOf(y).back();
  return b.call("aten.matmul.default", {x, y}, {b.arg(0), b.arg(1)}, shape);
}

/// A row of scores none of which counts gives NaN, as it does there.
Value maskScores(CallBuilder &b, Value scores, const Attention &of) {
  SmallVector<Expr> shape = shapeOf(of.mask);
  Value mask = of.mask;
  if (!elementOf(mask).isInteger(1))
    mask = b.call("aten.ne.Scalar", mask, {b.arg(0), b.integer(0)},
                  sym::getTensorType(shape, b.b.getI1Type()));
  if (of.maskKind == Attention::MaskOfKeys)
    mask = b.reshape(mask, {shape[0], 1, 1, shape[1]});
  return b.call("aten.masked_fill.Scalar", {scores, mask}, {b.arg(0), b.arg(1), b.real(-INFINITY)},
                scores.getType());
}

/// Queries (0), keys (1) and values (2), in heads.
SmallVector<Value> projectInputs(CallBuilder &b, const Attention &of) {
  SmallVector<Value> parts;
  if (of.query == of.key && of.key == of.value) {
    Value qkv = b.linear(of.query, of.qkv.weight, of.qkv.bias);
    for (int64_t i = 0; i < 3; ++i)
      parts.push_back(splitHeads(b, b.part(qkv, i, of.features), of));
    return parts;
  }
  Value inputs[] = {of.query, of.key, of.value};
  for (auto [i, x] : llvm::enumerate(inputs)) {
    int64_t first = static_cast<int64_t>(i) * of.features;
    Value weight = b.call(
        "aten.slice.Tensor", of.qkv.weight,
        {b.arg(0), b.integer(0), b.integer(first), b.integer(first + of.features), b.integer(1)},
        {of.features, shapeOf(of.qkv.weight)[1]});
    Value bias = b.part(of.qkv.bias, i, of.features);
    parts.push_back(splitHeads(b, b.linear(x, weight, bias), of));
  }
  return parts;
}

/// The weights of attention, [batch, heads, length of the query, length of the keys], are written to `weights`.
Value attend(CallBuilder &b, const Attention &of, Value &weights) {
  SmallVector<Value> parts = projectInputs(b, of);
  int64_t featuresOfHead = of.features / of.heads;
  double scale = 1 / std::sqrt(static_cast<double>(featuresOfHead));
  Value query = b.call("aten.mul.Scalar", parts[0], {b.arg(0), b.real(scale)}, parts[0].getType());
  Value scores = matmul(b, query, b.transpose(parts[1], 2, 3));
  if (of.mask)
    scores = maskScores(b, scores, of);
  weights = b.call("aten.softmax.int", scores, {b.arg(0), b.integer(-1), b.b.getUnitAttr()},
                   scores.getType());
  Value heads = b.transpose(matmul(b, weights, parts[2]), 1, 2);
  return b.linear(b.reshape(heads, shapeOf(of.query)), of.projection.weight, of.projection.bias);
}

/// Replaces the results of `aten._native_multi_head_attention`, the second of which is undefined unless weights are asked for; false: it
/// has arguments that are not known here.
bool expandAttention(CallOp call) {
  ArrayRef<Attribute> args = call.getArgs().getValue();
  Attention of{getTensor(call, args[0], 3), getTensor(call, args[1], 3),
               getTensor(call, args[2], 3)};
  auto needsWeights = dyn_cast<BoolAttr>(args[10]), average = dyn_cast<BoolAttr>(args[11]);
  if (!needsWeights || !average || !of.read(call, 3, 9, 12) ||
      (!needsWeights.getValue() && !call.getResult(1).use_empty()))
    return false;
  CallBuilder b(OpBuilder(call), call);
  Value weights;
  b.replace(0, attend(b, of, weights));
  if (!needsWeights.getValue())
    return true;
  if (average.getValue()) {
    SmallVector<Expr> shape = shapeOf(weights);
    shape.erase(shape.begin() + 1);
    weights = b.call(
        "aten.mean.dim", weights,
        {b.arg(0), b.b.getArrayAttr(b.integer(1)), b.b.getBoolAttr(false), b.b.getUnitAttr()},
        shape);
  }
  b.replace(1, weights);
  return true;
}

Value expand(CallBuilder &b, const Layer &layer) {
  auto norm = [&](Value x, const Linear &of) {
    return b.call("aten.layer_norm.default", {x, of.weight, of.bias},
                  {b.arg(0), b.sizes(Expr(layer.attention.features)), b.arg(1), b.arg(2),
                   b.real(layer.epsilon), b.b.getBoolAttr(true)},
                  x.getType());
  };
  auto feedForward = [&](Value x) {
    Value hidden = b.linear(x, layer.forward[0].weight, layer.forward[0].bias);
    hidden = layer.useGelu ? b.call("aten.gelu.default", hidden,
                                    {b.arg(0), b.b.getStringAttr("none")}, hidden.getType())
                           : b.unary("aten.relu.default", hidden);
    return b.linear(hidden, layer.forward[1].weight, layer.forward[1].bias);
  };
  Attention attention = layer.attention;
  Value x = attention.query, weights;
  if (layer.normFirst) {
    attention.query = attention.key = attention.value = norm(x, layer.norms[0]);
    x = b.add(x, attend(b, attention, weights));
    return b.add(x, feedForward(norm(x, layer.norms[1])));
  }
  x = norm(b.add(x, attend(b, attention, weights)), layer.norms[0]);
  return norm(b.add(x, feedForward(x)), layer.norms[1]);
}

struct ExpandEncoderLayer : kiln::impl::TorchExpandEncoderLayerBase<ExpandEncoderLayer> {
  void runOnOperation() override {
    getOperation().walk([](CallOp call) {
      // Lowering refuses calls that are left.
      if (call.getTarget() == attentionTarget && expandAttention(call))
        return call.erase();
      if (call.getTarget() != layerTarget)
        return;
      if (std::optional<Layer> layer = Layer::read(call)) {
        CallBuilder b(OpBuilder(call), call);
        b.replace(0, expand(b, *layer));
        call.erase();
      }
    });
  }
};

} // namespace
