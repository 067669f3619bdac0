// Integrals and derivatives of samples along a dim.
#include "kiln/Lowering/Lowering.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

//===-- Trapezoids ----------------------------------------------------------------------------===//

namespace {
/// Samples `y` along `dim` and how far they are apart: positions `x`, or `dx`.
struct Samples {
  Value y, x;
  torch::Scalar dx = int64_t(1);
  int64_t dim;
  Exprs shape; // of y broadcast to x, but for `dim`, where it is the number of intervals
};
} // namespace

/// Arguments of trapezoid.x (y, x) and trapezoid.dx (y, dx).
static std::optional<Samples> samples(Call &call) {
  Samples s;
  s.y = call.tensor(0);
  s.dim = call.dim("dim", rankOf(s.y));
  if (call.args.has("x"))
    s.x = call.tensor(1);
  else
    s.dx = call.args.scalar("dx");
  if (rankOf(s.y) == 0 || isBool(elementType(s.y))) {
    call.kernels.fail("a 0-d tensor or this dtype");
    return std::nullopt;
  }
  s.shape = shapeOf(s.y);
  Expr count = s.shape[s.dim];
  if (s.x && rankOf(s.x) != 1) {
    auto shape = call.kernels.broadcastShapes({s.y, s.x});
    if (!shape || shape->size() != s.shape.size() || rankOf(s.x) != rankOf(s.y)) {
      call.kernels.fail("positions of another shape");
      return std::nullopt;
    }
    s.shape = *shape;
    count = s.shape[s.dim];
  }
  s.shape[s.dim] = call.kernels.known().simplify(Expr::max(count - 1, Expr(0)));
  return s;
}

/// The area between samples at `at` and the next ones, of type `type`.
static Element trapezoidArea(Call &call, BodyBuilder &body, const Samples &s, ArrayRef<Expr> at,
                             Type type) {
  Exprs next(at);
  next[s.dim] = next[s.dim] + 1;
  auto read = [&](Value tensor, ArrayRef<Expr> index) {
    Exprs own(index);
    for (auto [i, size] : llvm::enumerate(shapeOf(tensor)))
      if (size.isConstant(1) && !s.shape[i].isConstant(1) && static_cast<int64_t>(i) != s.dim)
        own[i] = 0;
    return convert(body.read(tensor, own), type);
  };
  Element heights = read(s.y, at) + read(s.y, next);
  if (!s.x)
    return heights * (call.number(body, s.dx, type) * 0.5);
  Element width = rankOf(s.x) == 1 ? convert(body.read(s.x, Exprs{next[s.dim]}), type) -
                                         convert(body.read(s.x, Exprs{at[s.dim]}), type)
                                   : read(s.x, next) - read(s.x, at);
  return width * heights * 0.5;
}

static LogicalResult lowerTrapezoid(Call &call) {
  auto s = samples(call);
  if (!s)
    return failure();
  Type wide = opmath(call.resultType());
  Exprs rows = s->shape;
  rows.erase(rows.begin() + s->dim);
  return call.set(call.kernels.map(rows, call.resultType(), [&](BodyBuilder &body) {
    return body.sum({s->shape[s->dim]}, wide, [&](BodyBuilder &inner) {
      Exprs at = inner.dims(0, rows.size());
      at.insert(at.begin() + s->dim, inner.dim(rows.size()));
      return trapezoidArea(call, inner, *s, at, wide);
    });
  }));
}

static LogicalResult lowerCumulativeTrapezoid(Call &call) {
  auto s = samples(call);
  if (!s)
    return failure();
  Type type = call.resultType(), wide = opmath(type);
  using Elements = BodyBuilder::Elements;
  auto init = [&](BodyBuilder &body) { return Elements{body.constant(wide, 0)}; };
  auto body = [&](BodyBuilder &inner) {
    return Elements{trapezoidArea(call, inner, *s, inner.dims(0, s->shape.size()), wide)};
  };
  auto step = [&](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] + b[0]}; };
  return call.set(call.kernels.scan({s->shape, s->dim, init, body, step}, type).front());
}

//===-- Gradients -----------------------------------------------------------------------------===//

/// The derivative along `dim` from the neighbours on both sides and, at the edges, from the two or
/// three (`edgeOrder`) elements there. `positions` is null for samples `spacing` apart.
static Value derivative(Call &call, Value self, int64_t dim, Value positions,
                        const torch::Scalar &spacing, int64_t edgeOrder, Type type) {
  Exprs shape = shapeOf(self);
  Type wide = opmath(type);
  Expr size = shape[dim];
  return call.kernels.map(shape, type, [&](BodyBuilder &body) {
    Element here = body.index(body.dim(dim)), last = body.index(size - 1);
    Element isFirst = here == here.constant(0), isLast = here == last;
    Element one = here.constant(1);
    // The three samples that count: around this one, moved inside at the edges.
    Element base = select(isFirst, here, select(isLast, here - 2.0, here - one));
    auto index = [&](int64_t ahead) { return base + here.constant(ahead); };
    auto sample = [&](Element at) {
      Indices own = indicesOf(body.ownDims());
      own[dim] = maximum(at, at.constant(0));
      return convert(body.read(self, own), wide);
    };
    auto clamped = [&](int64_t ahead) {
      return minimum(maximum(index(ahead), one.constant(0)), last);
    };
    Element a = sample(clamped(0)), b = sample(clamped(1)), c = sample(clamped(2));
    Element ab, bc; // distances
    if (positions) {
      auto position = [&](int64_t ahead) {
        return convert(body.read(positions, Indices{clamped(ahead)}), wide);
      };
      ab = position(1) - position(0);
      bc = position(2) - position(1);
    } else {
      ab = bc = call.number(body, spacing, wide);
    }
    Element inner;
    if (positions) {
      Element weightA = -bc / (ab * (ab + bc)), weightB = (bc - ab) / (ab * bc);
      Element weightC = ab / (bc * (ab + bc));
      inner = weightA * a + weightB * b + weightC * c;
    } else {
      inner = (c - a) / (ab * 2.0);
    }
    Element left, right;
    if (edgeOrder == 1) {
      left = (b - a) / ab;
      right = (c - b) / bc;
    } else {
      Element sum = ab + bc;
      left = -(ab * 2.0 + bc) / (ab * sum) * a + sum / (ab * bc) * b - ab / (bc * sum) * c;
      right = bc / (ab * sum) * a - sum / (ab * bc) * b + (ab + bc * 2.0) / (bc * sum) * c;
    }
    return select(isFirst, left, select(isLast, right, inner));
  });
}

static LogicalResult lowerGradient(Call &call) {
  Value self = call.tensor(0);
  Type type = elementType(self);
  int64_t rank = rankOf(self), order = call.args.integer("edge_order");
  if (isBool(type) || (order != 1 && order != 2))
    return call.refuse("this dtype or edge order");
  SmallVector<int64_t> dims;
  if (auto one = call.args.optInteger("dim"))
    dims = {*one};
  else
    dims = call.args.optIntList("dim").value_or(SmallVector<int64_t>());
  if (dims.empty())
    dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<Value> positions, results;
  SmallVector<torch::Scalar> spacings;
  if (call.args.has("spacing") && !call.args.isNone("spacing")) {
    if (call.args.schema()->name.contains("tensorarray"))
      positions = call.args.tensorList("spacing");
    else if (call.args.isList("spacing"))
      spacings = call.args.scalarList("spacing");
    else
      spacings.assign(dims.size(), call.args.scalar("spacing"));
  } else {
    spacings.assign(dims.size(), int64_t(1));
  }
  if ((positions.empty() ? spacings.size() : positions.size()) != dims.size() ||
      call.numResults() != dims.size())
    return call.refuse("as many spacings as dims are needed");
  for (auto [i, dim] : llvm::enumerate(dims)) {
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
      return call.refuse("a dim is out of range");
    call.require(shapeOf(self)[dim] - order - 1, "a gradient of too few elements");
    Value at = positions.empty() ? Value() : positions[i];
    if (at && rankOf(at) != 1)
      return call.refuse("positions that are no vector");
    results.push_back(derivative(call, self, dim, at,
                                 positions.empty() ? spacings[i] : torch::Scalar(int64_t(1)), order,
                                 call.resultType(i)));
  }
  return call.set(results);
}

void lowering::registerIntegrate(LoweringTable &table) {
  table.add({"aten.trapezoid.x", "aten.trapezoid.dx", "aten.trapz.x", "aten.trapz.dx"},
            lowerTrapezoid);
  table.add({"aten.cumulative_trapezoid.x", "aten.cumulative_trapezoid.dx"},
            lowerCumulativeTrapezoid);
  table.add({"aten.gradient.scalarint", "aten.gradient.scalararray", "aten.gradient.array",
             "aten.gradient.scalarrayint", "aten.gradient.scalarrayarray",
             "aten.gradient.tensorarrayint", "aten.gradient.tensorarray"},
            lowerGradient);
}
