// Attention and feed-forward network of `torch.nn.TransformerEncoderLayer`, which inference calls as one operator
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

namespace {

/// The arguments of `aten._transformer_encoder_layer_fwd`.
struct Layer {
  struct Linear {
    Value weight, bias; // [rows, columns], [rows]
  };

  Value source; // [batch, length, features]
  Linear qkv, projection, norms[2], forward[2];
  int64_t features = 0, heads = 0;
  bool useGelu = false, normFirst = false;
  double epsilon = 0;
  Value mask = {}; // of any dtype, other than zero where a score does not count; may be null
  int64_t maskKind = 0;

  enum {
    MaskOfScores,
    MaskOfKeys,
    MaskOfAll
  }; // [length, length], [batch, length], both with heads

  static std::optional<Layer> read(CallOp call);
};

std::optional<Layer> Layer::read(CallOp call) {
  ArrayRef<Attribute> args = call.getArgs().getValue();
  auto integer = [&](unsigned i) { return dyn_cast<IntegerAttr>(args[i]); };
  auto linear = [&](unsigned i, unsigned rank) {
    return Linear{getTensor(call, args[i], rank), getTensor(call, args[i + 1], 1)};
  };
  Layer layer{.source = getTensor(call, args[0], 3),
              .qkv = linear(3, 2),
              .projection = linear(5, 2),
              .norms = {linear(10, 1), linear(12, 1)},
              .forward = {linear(14, 2), linear(16, 2)}};
  auto useGelu = dyn_cast<BoolAttr>(args[7]), normFirst = dyn_cast<BoolAttr>(args[8]);
  auto epsilon = dyn_cast<FloatAttr>(args[9]);
  for (Linear one : {layer.qkv, layer.projection, layer.norms[0], layer.norms[1], layer.forward[0],
                     layer.forward[1]})
    if (!one.weight || !one.bias)
      return std::nullopt;
  if (!layer.source || !integer(1) || !integer(2) || !useGelu || !normFirst || !epsilon)
    return std::nullopt;
  layer.features = integer(1).getInt();
  layer.heads = integer(2).getInt();
  layer.useGelu = useGelu.getValue();
  layer.normFirst = normFirst.getValue();
  layer.epsilon = epsilon.getValueAsDouble();
  if (layer.heads <= 0 || layer.features <= 0 || layer.features % layer.heads != 0 ||
      shapeOf(layer.source)[2] != Expr(layer.features) ||
      shapeOf(layer.qkv.weight)[0] != Expr(3 * layer.features))
    return std::nullopt;
  if (auto mask = dyn_cast<ArgAttr>(args[18])) {
    layer.mask = call->getOperand(mask.getIndex());
    auto type = dyn_cast<RankedTensorType>(layer.mask.getType());
    if (!integer(19) || !type)
      return std::nullopt;
    layer.maskKind = integer(19).getInt();
    bool fits = layer.maskKind == MaskOfAll
                    ? type.getRank() == 4
                    : type.getRank() == 2 && layer.maskKind >= 0 && layer.maskKind < MaskOfAll;
    if (!fits)
      return std::nullopt;
  }
  return layer;
}

/// [batch, length, features] -> [batch, heads, length, features of a head]
Value splitHeads(CallBuilder &b, Value x, const Layer &layer) {
  SmallVector<Expr> shape = shapeOf(x);
  Value split = b.reshape(x, {shape[0], shape[1], layer.heads, layer.features / layer.heads});
  return b.transpose(split, 1, 2);
}

Value matmul(CallBuilder &b, Value x, Value y) {
  SmallVector<Expr> shape = shapeOf(x);
  shape.back() = shapeOf(y).back();
  return b.call("aten.matmul.default", {x, y}, {b.arg(0), b.arg(1)}, shape);
}

/// A row of scores none of which counts gives NaN, as it does there.
Value maskScores(CallBuilder &b, Value scores, const Layer &layer) {
  SmallVector<Expr> shape = shapeOf(layer.mask);
  Value mask = layer.mask;
  if (!elementOf(mask).isInteger(1))
    mask = b.call("aten.ne.Scalar", mask, {b.arg(0), b.integer(0)},
                  sym::getTensorType(shape, b.b.getI1Type()));
  if (layer.maskKind == Layer::MaskOfKeys)
    mask = b.reshape(mask, {shape[0], 1, 1, shape[1]});
  return b.call("aten.masked_fill.Scalar", {scores, mask}, {b.arg(0), b.arg(1), b.real(-INFINITY)},
                scores.getType());
}

Value attend(CallBuilder &b, Value x, const Layer &layer) {
  Value qkv = b.linear(x, layer.qkv.weight, layer.qkv.bias);
  auto part = [&](int64_t i) { return splitHeads(b, b.part(qkv, i, layer.features), layer); };
  int64_t featuresOfHead = layer.features / layer.heads;
  double scale = 1 / std::sqrt(static_cast<double>(featuresOfHead));
  Value query = part(0);
  query = b.call("aten.mul.Scalar", query, {b.arg(0), b.real(scale)}, query.getType());
  Value scores = matmul(b, query, b.transpose(part(1), 2, 3));
  if (layer.mask)
    scores = maskScores(b, scores, layer);
  Value weights = b.call("aten.softmax.int", scores, {b.arg(0), b.integer(-1), b.b.getUnitAttr()},
                         scores.getType());
  Value heads = b.transpose(matmul(b, weights, part(2)), 1, 2);
  return b.linear(b.reshape(heads, shapeOf(x)), layer.projection.weight, layer.projection.bias);
}

Value expand(CallBuilder &b, const Layer &layer) {
  auto norm = [&](Value x, const Layer::Linear &of) {
    return b.call("aten.layer_norm.default", {x, of.weight, of.bias},
                  {b.arg(0), b.sizes(Expr(layer.features)), b.arg(1), b.arg(2),
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
  Value x = layer.source;
  if (layer.normFirst) {
    x = b.add(x, attend(b, norm(x, layer.norms[0]), layer));
    return b.add(x, feedForward(norm(x, layer.norms[1])));
  }
  x = norm(b.add(x, attend(b, x, layer)), layer.norms[0]);
  return norm(b.add(x, feedForward(x)), layer.norms[1]);
}

struct ExpandEncoderLayer : kiln::impl::TorchExpandEncoderLayerBase<ExpandEncoderLayer> {
  void runOnOperation() override {
    getOperation().walk([](CallOp call) {
      if (call.getTarget() != "aten._transformer_encoder_layer_fwd.default")
        return;
      if (std::optional<Layer> layer = Layer::read(call)) {
        CallBuilder b(OpBuilder(call), call);
        b.replace(0, expand(b, *layer));
        call.erase();
      } // else lowering refuses it
    });
  }
};

} // namespace
