// Tensors made from numbers.
#include "Pointwise/ComplexFunctions.h"
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

static bool isStrided(Call &call) {
  auto layout = call.args.has("layout") ? call.args.layout("layout") : std::nullopt;
  return !layout || *layout == torch::Layout::Strided;
}

//===-- Constants -----------------------------------------------------------------------------===//

/// The declared shape, everywhere the same number. Memory that eager mode leaves uninitialised is
/// 0.
static LogicalResult fill(Call &call, const torch::Scalar &value) {
  if (!isStrided(call))
    return call.refuse("a layout other than strided");
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    return call.number(body, value, call.resultType());
  }));
}

static LogicalResult lowerZeros(Call &call) { return fill(call, int64_t(0)); }
static LogicalResult lowerOnes(Call &call) { return fill(call, int64_t(1)); }
static LogicalResult lowerFull(Call &call) { return fill(call, call.args.scalar("fill_value")); }
static LogicalResult lowerScalarTensor(Call &call) { return fill(call, call.args.scalar(0)); }

static LogicalResult lowerFill(Call &call) { // fill.Scalar, fill.Tensor: in self's dtype
  Operand value = call.operand(1);
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    return call.read(body, value, call.resultType());
  }));
}

//===-- Sequences -----------------------------------------------------------------------------===//

/// start + i * step. Integers are computed in i64, floats in f64 as ATen does.
static LogicalResult sequence(Call &call, const torch::Scalar &start, const torch::Scalar &step) {
  if (!isStrided(call))
    return call.refuse("a layout other than strided");
  Exprs shape = call.resultShape();
  Type type = call.resultType();
  if (shape.size() != 1 || isComplex(type) || isBool(type))
    return call.refuse("this dtype");
  std::optional<Expr> first = torch::asExpr(start), delta = torch::asExpr(step);
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    if (first && delta)
      return body.index(*first + body.dim(0) * *delta);
    // Integer dtypes drop the fractions of start and step first.
    Type wide = isFloat(type) ? Type(body.b().getF64Type()) : body.b().getI64Type();
    Element i = convert(body.index(body.dim(0)), wide);
    return call.number(body, start, wide) + i * call.number(body, step, wide);
  }));
}

static LogicalResult lowerArange(Call &call) {
  torch::Scalar start = int64_t(0), step = int64_t(1);
  if (call.args.has("start"))
    start = call.args.scalar("start");
  if (call.args.has("step"))
    step = call.args.scalar("step");
  return sequence(call, start, step);
}

/// 0, 1, … over n * d; without `half`, what is behind the middle are the negative ones.
static LogicalResult frequencies(Call &call, bool half) {
  Type type = call.resultType(), wide = opmath(type);
  double n = call.constantNumber("n"), spacing = call.constantNumber("d");
  Exprs shape = call.resultShape();
  if (!isStrided(call) || !isFloat(type) || shape.size() != 1)
    return call.refuse("this dtype or layout");
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Expr i = body.dim(0);
    Element number = body.index(i);
    if (!half) {
      Element isNegative = ~body.inside({i}, {(shape[0] + 1).floorDiv(2)});
      number = select(isNegative, number - body.index(shape[0]), number);
    }
    // The numbers are of the result's dtype before they are scaled.
    return convert(convert(number, type), wide) * (1 / (n * spacing));
  }));
}

static LogicalResult lowerIota(Call &call) { // prims.iota(length, start, step)
  return sequence(call, call.args.scalar("start"), call.args.scalar("step"));
}

/// From start to end inclusive, each a number or a 0-d tensor; the second half counts back from the
/// end, as ATen does. `finish` is applied to each, with its type.
static LogicalResult linearSpace(Call &call, Type wide,
                                 function_ref<Element(BodyBuilder &, Element)> finish) {
  if (isBool(call.resultType()) || !isStrided(call))
    return call.refuse("this dtype or layout");
  auto end = [&](unsigned key) -> torch::Scalar {
    if (Value tensor = call.args.tensor(key))
      return tensor;
    return call.args.scalar(key);
  };
  torch::Scalar start = end(0), stop = end(1);
  Exprs shape = call.resultShape();
  Type type = call.resultType();
  return call.set(call.kernels.map(shape, type, [&](BodyBuilder &body) {
    auto bound = [&](const torch::Scalar &number) { // integers drop the fraction first
      return convert(call.number(body, number, isInt(type) ? type : wide), wide);
    };
    Element first = bound(start), last = bound(stop);
    Element steps = convert(body.index(shape[0]), wide);
    Element index = body.index(body.dim(0)), i = convert(index, wide);
    Element step = (last - first) / (steps - 1.0);
    Element back = last - step * (steps - i - 1.0);
    Element value = select(index < body.index(shape[0].floorDiv(2)), first + step * i, back);
    return finish(body, select(steps == steps.constant(1), first, value));
  }));
}

static LogicalResult lowerLinspace(Call &call) {
  Type type = call.resultType();
  Type wide = isInt(type) ? Type(Float64Type::get(type.getContext())) : opmath(type);
  return linearSpace(call, wide, [](BodyBuilder &, Element x) { return x; });
}

/// The base to the power of what linspace gives; integers are computed in single precision.
static LogicalResult lowerLogspace(Call &call) {
  Type type = call.resultType(), f64 = Float64Type::get(type.getContext());
  if (isComplex(type)) {
    double base = call.args.number("base");
    return linearSpace(call, type, [&](BodyBuilder &body, Element x) {
      return complexes::pow(body.constant(type, base), x);
    });
  }
  double base = call.args.number("base");
  Type wide = isInt(type) ? Type(Float32Type::get(type.getContext())) : opmath(type);
  return linearSpace(call, wide, [&](BodyBuilder &body, Element x) {
    return convert(pow(body.constant(f64, base), convert(x, f64)), wide);
  });
}

//===-- Triangles -----------------------------------------------------------------------------===//

static LogicalResult lowerEye(Call &call) {
  if (!isStrided(call))
    return call.refuse("a layout other than strided");
  return call.set(call.kernels.map(call.resultShape(), call.resultType(), [&](BodyBuilder &body) {
    return convert(body.index(body.dim(0)) == body.index(body.dim(1)), call.resultType());
  }));
}

/// Zero above (tril) or below (triu) the given diagonal of each matrix.
static Lowering triangle(bool lower) {
  return [lower](Call &call) -> LogicalResult {
    Value self = call.tensor(0);
    Type type = elementType(self);
    int64_t rank = rankOf(self);
    if (rank < 2)
      return call.refuse("needs a matrix");
    Expr diagonal = call.args.symInt("diagonal");
    return call.set(call.kernels.map(shapeOf(self), type, [&](BodyBuilder &body) {
      Element row = body.index(body.dim(rank - 2) + diagonal);
      Element column = body.index(body.dim(rank - 1));
      Element keep = lower ? column <= row : column >= row;
      return select(keep, body.broadcast(self), body.constant(type, 0));
    }));
  };
}

void lowering::registerCreation(LoweringTable &table) {
  table.add({"aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
             "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default",
             "aten.empty_strided.default", "aten.new_empty_strided.default",
             "aten.empty_permuted.default", "aten.zero.default"},
            lowerZeros);
  table.add({"aten.ones.default", "aten.ones_like.default", "aten.new_ones.default"}, lowerOnes);
  table.add({"aten.full.default", "aten.full_like.default", "aten.new_full.default"}, lowerFull);
  table.add("aten.scalar_tensor.default", lowerScalarTensor);
  table.add({"aten.fill.Scalar", "aten.fill.Tensor"}, lowerFill);
  table.add({"aten.arange.default", "aten.arange.start", "aten.arange.start_step",
             "aten.range.default", "aten.range.step"},
            lowerArange); // a range has its end
  table.add("aten.fft_fftfreq.default", [](Call &call) { return frequencies(call, false); });
  table.add("aten.fft_rfftfreq.default", [](Call &call) { return frequencies(call, true); });
  table.add("prims.iota.default", lowerIota);
  for (StringRef overload : {".default", ".Tensor_Tensor", ".Tensor_Scalar", ".Scalar_Tensor"}) {
    table.add(("aten.linspace" + overload).str(), lowerLinspace);
    table.add(("aten.logspace" + overload).str(), lowerLogspace);
  }
  table.add({"aten.eye.default", "aten.eye.m"}, lowerEye);
  table.add("aten.tril.default", triangle(true));
  table.add("aten.triu.default", triangle(false));
}
