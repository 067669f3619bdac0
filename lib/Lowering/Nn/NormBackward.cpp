// Gradients of normalisations, from the moments that the forward call saved.
#include "Core/ReducedDims.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// Input and gradient as rows [rows, columns] of which each was normalised, [rows] moments, and
/// [channels, each] parameters: column k belongs to channel k / each, and row r to the channels
/// from (r mod groups) * columns / each on.
struct Rows {
  Value x, gradient, mean, rstd, weight;
  Expr rows, columns, groups, each;
  Type wide;

  Expr channel(Expr row, Expr column) const {
    return row.mod(groups) * columns.floorDiv(each) + column.floorDiv(each);
  }
  Element normalized(BodyBuilder &body, Expr row, Expr column) const {
    auto read = [&](Value tensor, ArrayRef<Expr> at) {
      return convert(body.read(tensor, at), wide);
    };
    return (read(x, {row, column}) - read(mean, {row})) * read(rstd, {row});
  }
  /// The gradient of what the input was normalised to.
  Element scaled(BodyBuilder &body, Expr row, Expr column) const {
    Element g = convert(body.read(gradient, Exprs{row, column}), wide);
    return weight ? g * convert(body.read(weight, Exprs{channel(row, column)}), wide) : g;
  }
};
} // namespace

static Value inputGradient(Call &call, const Rows &r) {
  return call.kernels.map({r.rows, r.columns}, call.resultType(0), [&](BodyBuilder &body) {
    Expr row = body.dim(0), column = body.dim(1);
    auto mean = [&](function_ref<Element(BodyBuilder &, Expr)> read) {
      Element sum = preciseSum(body, {r.columns}, r.wide, [&](BodyBuilder &inner) {
        return read(inner, inner.dim(inner.numDims() - 1));
      });
      return convert(sum / countAs(body, r.columns, sum.type()), r.wide);
    };
    Element ofGradient =
        mean([&](BodyBuilder &inner, Expr at) { return r.scaled(inner, row, at); });
    Element ofProduct = mean([&](BodyBuilder &inner, Expr at) {
      return r.scaled(inner, row, at) * r.normalized(inner, row, at);
    });
    Element g = r.scaled(body, row, column) - ofGradient;
    Element rstd = convert(body.read(r.rstd, Exprs{row}), r.wide);
    return convert((g - r.normalized(body, row, column) * ofProduct) * rstd, call.resultType(0));
  });
}

/// The gradient of the weight, or of the bias, [groups * columns / each].
static Value parameterGradient(Call &call, const Rows &r, unsigned result) {
  Type type = call.resultType(result);
  const sym::Assumptions &known = call.kernels.known();
  Expr ofGroup = known.simplify(r.columns.floorDiv(r.each));
  Expr batch = known.simplify(r.rows.floorDiv(r.groups));
  return call.kernels.map({r.groups, ofGroup}, type, [&](BodyBuilder &body) {
    Element sum = preciseSum(body, {batch, r.each}, r.wide, [&](BodyBuilder &inner) {
      Expr row = inner.dim(2) * r.groups + inner.dim(0);
      Expr column = inner.dim(1) * r.each + inner.dim(3);
      Element g = convert(inner.read(r.gradient, Exprs{row, column}), r.wide);
      return result == 1 ? g * r.normalized(inner, row, column) : g;
    });
    return convert(sum, type);
  });
}

static LogicalResult gradients(Call &call, Rows r) {
  Value input = call.tensor("input"), gradient = call.tensor("grad_out");
  Type type = elementType(input);
  SmallVector<bool> wanted = call.args.booleanList("output_mask");
  if (!isFloat(type) || elementType(gradient) != type || wanted.size() != 3)
    return call.refuse("these dtypes");
  if (!call.fits(shapeOf(input), shapeOf(gradient), "a gradient of another shape"))
    return call.refuse("a gradient of another shape");
  r.wide = opmath(type);
  r.x = call.kernels.reshape(input, {r.rows, r.columns});
  r.gradient = call.kernels.reshape(gradient, {r.rows, r.columns});
  r.mean = call.kernels.reshape(call.tensor("mean"), {r.rows});
  r.rstd = call.kernels.reshape(call.tensor("rstd"), {r.rows});
  if (Value weight = call.args.optTensor("weight"))
    r.weight = call.kernels.reshape(weight, {sym::product(shapeOf(weight))});
  SmallVector<Value> results(3);
  for (unsigned i = 0; i < 3; ++i) {
    if (!wanted[i] || call.isUnused(i))
      continue;
    Value result = i == 0 ? inputGradient(call, r) : parameterGradient(call, r, i);
    results[i] = call.kernels.reshape(result, call.resultShape(i));
  }
  return call.set(results);
}

static LogicalResult lowerLayerNormBackward(Call &call) {
  Exprs shape = shapeOf(call.tensor("input")),
        normalized = call.args.symIntList("normalized_shape");
  if (normalized.size() > shape.size() ||
      !call.fits(ArrayRef(shape).take_back(normalized.size()), normalized,
                 "normalized_shape is not the input's shape"))
    return call.refuse("normalized_shape is not the input's shape");
  Rows r;
  r.rows = sym::product(ArrayRef(shape).drop_back(normalized.size()));
  r.columns = sym::product(normalized);
  r.groups = r.each = 1;
  return gradients(call, r);
}

static LogicalResult lowerGroupNormBackward(Call &call) {
  Exprs shape = shapeOf(call.tensor("input"));
  int64_t groups = call.args.integer("group");
  if (shape.size() < 2 || groups <= 0)
    return call.refuse("no channels, or no groups");
  const sym::Assumptions &known = call.kernels.known();
  Expr ofGroup = known.simplify(shape[1].floorDiv(groups));
  if (!call.fits(ofGroup * groups, shape[1], "channels that the groups do not divide"))
    return call.refuse("channels that the groups do not divide");
  Rows r;
  r.groups = groups;
  r.each = sym::product(ArrayRef(shape).drop_front(2));
  r.rows = shape[0] * groups;
  r.columns = ofGroup * r.each;
  return gradients(call, r);
}

void lowering::registerNormBackward(LoweringTable &table) {
  table.add("aten.native_layer_norm_backward.default", lowerLayerNormBackward);
  table.add("aten.native_group_norm_backward.default", lowerGroupNormBackward);
}
