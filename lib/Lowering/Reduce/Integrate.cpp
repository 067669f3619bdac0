// Integrals and derivatives of samples along a dim.
#include "kiln/Lowering/Lowering.h"
#include "kiln/Lowering/Promotion.h"

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
  if (rankOf(s.y) == 0 || isBool(elementType(s.y)) || (s.x && isBool(elementType(s.x)))) {
    call.kernels.fail("a 0-d tensor or this dtype");
    return std::nullopt;
  }
  s.shape = shapeOf(s.y);
  Expr count = s.shape[s.dim];
  if (s.x) {
    auto shape = call.kernels.broadcastShapes({s.y, s.x});
    int64_t xDim = rankOf(s.x) == 1 ? 0 : s.dim - rankOf(s.y) + rankOf(s.x);
    if (xDim < 0 || !call.kernels.isSame(shapeOf(s.x)[xDim], count) ||
        (rankOf(s.x) != 1 && (!shape || shape->size() != s.shape.size()))) {
      call.kernels.fail("positions of another shape");
      return std::nullopt;
    }
    if (rankOf(s.x) != 1)
      s.shape = *shape;
  }
  s.shape[s.dim] = call.kernels.known().simplify(Expr::max(count - 1, Expr(0)));
  return s;
}

/// Integers as they are, floats in the type that they are computed in.
static Element readSample(BodyBuilder &body, Value tensor, const Indices &at) {
  Element x = body.read(tensor, at);
  return convert(x, opmath(x.type()));
}

/// y[at] + y[at + 1]; integers wrap around.
static Element heightsAt(BodyBuilder &body, const Samples &s, const Exprs &at) {
  auto read = [&](int64_t ahead) {
    Exprs own(at);
    for (auto [i, size] : llvm::enumerate(shapeOf(s.y)))
      if (size.isConstant(1) && !s.shape[i].isConstant(1))
        own[i] = 0;
    own[s.dim] = at[s.dim] + ahead;
    return readSample(body, s.y, indicesOf(own));
  };
  return read(0) + read(1);
}

/// x[at + 1] - x[at].
static Element widthAt(BodyBuilder &body, const Samples &s, const Exprs &at) {
  Exprs sizes = shapeOf(s.x);
  bool isVector = sizes.size() == 1;
  auto read = [&](int64_t ahead) {
    Exprs own = isVector ? Exprs{at[s.dim]} : Exprs(ArrayRef(at).take_back(sizes.size()));
    int64_t dim = isVector ? 0 : s.dim - static_cast<int64_t>(at.size() - sizes.size());
    for (auto [i, size] : llvm::enumerate(sizes))
      if (size.isConstant(1))
        own[i] = 0;
    own[dim] = at[s.dim] + ahead;
    return readSample(body, s.x, indicesOf(own));
  };
  return read(1) - read(0);
}

/// The type that samples of `type` are added up in.
static Type sumTypeOf(Type type) {
  return isInt(type) ? Type(IntegerType::get(type.getContext(), 64)) : opmath(type);
}

/// Twice the area between x[at] and x[at + 1]. Integers are multiplied in their own type.
static Element doubleArea(BodyBuilder &body, const Samples &s, const Exprs &at) {
  Type type = opmath(promoteTypes(elementType(s.y), elementType(s.x)));
  Element area = convert(heightsAt(body, s, at), type) * convert(widthAt(body, s, at), type);
  return convert(area, sumTypeOf(type));
}

static Element sumOfAreas(BodyBuilder &body, const Samples &s, unsigned rowDims, Type wide) {
  Type type = sumTypeOf(promoteTypes(elementType(s.y), elementType(s.x)));
  Element sum = body.sum({s.shape[s.dim]}, type, [&](BodyBuilder &inner) {
    Exprs at = inner.dims(0, rowDims);
    at.insert(at.begin() + s.dim, inner.dim(rowDims));
    return doubleArea(inner, s, at);
  });
  return convert(sum, wide) / 2.0;
}

/// (sum(y) - (first + last) / 2) * dx, 0 of no samples.
static Element evenlySpaced(Call &call, BodyBuilder &body, const Samples &s, Type wide) {
  Expr count = shapeOf(s.y)[s.dim];
  unsigned rowDims = s.shape.size() - 1;
  Type type = opmath(elementType(s.y)), sumType = sumTypeOf(type);
  Element sum = body.sum({count}, sumType, [&](BodyBuilder &inner) {
    Exprs at = inner.dims(0, rowDims);
    at.insert(at.begin() + s.dim, inner.dim(rowDims));
    return convert(readSample(inner, s.y, indicesOf(at)), sumType);
  });
  auto edge = [&](Expr place) {
    Exprs at = body.dims(0, rowDims);
    at.insert(at.begin() + s.dim, place);
    return convert(body.readPadded(s.y, at, body.constant(elementType(s.y), 0)), type);
  };
  Element edges = convert(edge(0) + edge(count - 1), wide) * 0.5;
  return (convert(sum, wide) - edges) * call.number(body, s.dx, wide);
}

static LogicalResult lowerTrapezoid(Call &call) {
  auto s = samples(call);
  if (!s)
    return failure();
  Exprs rows = s->shape;
  rows.erase(rows.begin() + s->dim);
  if (shapeOf(s->y)[s->dim].isConstant(0)) // of y's own dtype
    return call.set(call.kernels.full(rows, call.resultType(), 0));
  Type wide = opmath(call.resultType());
  return call.set(call.kernels.map(rows, call.resultType(), [&](BodyBuilder &body) {
    return convert(s->x ? sumOfAreas(body, *s, rows.size(), wide)
                        : evenlySpaced(call, body, *s, wide),
                   call.resultType());
  }));
}

static LogicalResult lowerCumulativeTrapezoid(Call &call) {
  auto s = samples(call);
  if (!s)
    return failure();
  Type type = call.resultType(), wide = opmath(type);
  using Elements = BodyBuilder::Elements;
  Type sumType = s->x ? sumTypeOf(promoteTypes(elementType(s->y), elementType(s->x))) : wide;
  auto init = [&](BodyBuilder &body) { return Elements{body.constant(sumType, 0)}; };
  auto body = [&](BodyBuilder &inner) {
    Exprs at = inner.dims(0, s->shape.size());
    if (s->x)
      return Elements{doubleArea(inner, *s, at)};
    Element heights = convert(heightsAt(inner, *s, at), wide);
    return Elements{heights * (call.number(inner, s->dx, wide) * 0.5)};
  };
  auto step = [&](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] + b[0]}; };
  auto finish = [&](ArrayRef<Element> sum) {
    return Elements{s->x ? convert(convert(sum[0], wide) / 2.0, type) : convert(sum[0], type)};
  };
  return call.set(call.kernels.scan({s->shape, s->dim, init, body, step, finish}, type).front());
}

//===-- Gradients -----------------------------------------------------------------------------===//

/// The derivative along `dim` from the neighbours on both sides and, at the edges, from the two or
/// three (`edgeOrder`) elements there. `positions` is null for samples `spacing` apart. Differences
/// of integers wrap around.
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
      return readSample(body, self, own);
    };
    auto widened = [&](Element x) { return convert(x, wide); };
    auto clamped = [&](int64_t ahead) {
      return minimum(maximum(index(ahead), one.constant(0)), last);
    };
    Element a = sample(clamped(0)), b = sample(clamped(1)), c = sample(clamped(2));
    Element left, inner, right;
    auto chosen = [&] { return select(isFirst, left, select(isLast, right, inner)); };
    if (!positions) {
      Element step = call.number(body, spacing, wide);
      inner = widened(c - a) / (step * 2.0);
      left = widened(b - a) / step;
      right = widened(c - b) / step;
      if (edgeOrder == 2) {
        Element twice = widened(b * b.constant(2));
        left = (widened(a) * -1.5 + twice - widened(c) * 0.5) / step;
        right = (widened(a) * 0.5 - twice + widened(c) * 1.5) / step;
      }
      return chosen();
    }
    auto position = [&](int64_t ahead) {
      return readSample(body, positions, Indices{clamped(ahead)});
    };
    Element ab = position(1) - position(0), bc = position(2) - position(1), sum = ab + bc;
    Element abSum = widened(ab * sum), abBc = widened(ab * bc), bcSum = widened(bc * sum);
    inner = widened(-bc) / abSum * widened(a) + widened(bc - ab) / abBc * widened(b) +
            widened(ab) / bcSum * widened(c);
    left = widened(b - a) / widened(ab);
    right = widened(c - b) / widened(bc);
    if (edgeOrder == 2) {
      left = -(widened(ab) * 2.0 + widened(bc)) / abSum * widened(a) +
             widened(sum) / abBc * widened(b) - widened(ab) / bcSum * widened(c);
      right = widened(bc) / abSum * widened(a) - widened(sum) / abBc * widened(b) +
              widened(sum + bc) / bcSum * widened(c);
    }
    return chosen();
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
